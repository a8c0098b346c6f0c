/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The data in flight, and the data lost so far, at the time when a packet was sent.
 *
 * The drafts keep this with each packet (P.tx_in_flight, P.lost), for which mainline's TCP has no room. The ring has an
 * entry for each ACK instead: all packets that are sent between two ACKs know the same C.delivered, by which the rate
 * sample of their ACK finds the entry again. When more is in flight than the ring has entries for, one entry stands for
 * several ACKs. Among packets that were sent at once, the sequence number tells them apart.
 *
 * The ring begins with BBR_RING_FIRST entries, which are part of the state: a small ring stays in the processor's cache.
 * It doubles when the packets in flight need more entries, up to BBR_RING_MOST. Without memory for that it keeps its
 * size, an entry stands for more ACKs from then on, and the next time that the ring is full it asks for memory again. A
 * program that cannot allocate memory, such as one in BPF, defines BBR_RING_FIRST as BBR_RING_MOST. Others supply
 *	static void *bbr_allocate(size_t bytes);	NULL: there is no memory
 *	static void bbr_free(void *memory);
 */
#ifndef BBR_RING_H
#define BBR_RING_H

#define BBR_RING_MOST 256	/* both are powers of two */
#ifndef BBR_RING_FIRST
#define BBR_RING_FIRST 16
#endif
#define BBR_RING_GROWS (BBR_RING_FIRST < BBR_RING_MOST)

#define BBR_SENT_IN_FLIGHT_MAX ((1U << 20) - 1)	/* TCP's largest window has 2^30 bytes */
#define BBR_SENT_RISE_MAX ((1U << 12) - 1)

struct bbr_sent {
	u32 delivered;		/* C.delivered while these packets were sent */
	u32 lost;		/* C.lost at that time */
	u32 snd_nxt;		/* when the last of them had been sent */
	u32 in_flight : 20;	/* then, too */
	u32 rise : 12;		/* of what was in flight, from before the first of them was sent; at most its maximum */
};

struct bbr_ring {
	u32 newest;		/* number of the entry of the packets that are being sent now */
	u32 found;		/* number of the entry that was found last: searches go on from there */

	/* The newest entry before its first packet. Its end is known at the next ACK, which writes it into the ring. */
	u32 delivered;
	u32 lost;
	u32 in_flight;

#if BBR_RING_GROWS
	u16 size;		/* entries there is room for */
	u8 share;		/* an entry stands for in_flight >> share packets at least, so that the ring suffices */
	struct bbr_sent *entries;
#endif
	struct bbr_sent first[BBR_RING_FIRST];
};

/* Half of a ring of this size is for what is in flight, the other half for packets that are acknowledged late. */
static inline u32 bbr_ring_share(u32 size)
{
	return __builtin_ctz(size / 2);
}

#if BBR_RING_GROWS

static void *bbr_allocate(size_t bytes);
static void bbr_free(void *memory);

static inline u32 bbr_ring_size(const struct bbr_ring *ring)
{
	return ring->size;
}

static inline u32 bbr_ring_present_share(const struct bbr_ring *ring)
{
	return ring->share;
}

static inline struct bbr_sent *bbr_ring_entry(struct bbr_ring *ring, u32 number)
{
	return &ring->entries[number & (ring->size - 1U)];
}

static inline void bbr_ring_init_storage(struct bbr_ring *ring)
{
	ring->size = BBR_RING_FIRST;
	ring->share = bbr_ring_share(BBR_RING_MOST);
	ring->entries = ring->first;
}

static inline void bbr_ring_free(struct bbr_ring *ring)
{
	if (ring->entries != ring->first)
		bbr_free(ring->entries);
}

/* Doubles a full ring, or makes do with its size. */
static bbr_rarely void bbr_ring_grow(struct bbr_ring *ring)
{
	u32 size = 2 * ring->size, i;
	struct bbr_sent *entries;

	if (size > BBR_RING_MOST)
		return;
	entries = bbr_allocate(size * sizeof(*entries));
	if (!entries) {
		ring->share = bbr_ring_share(ring->size);
		return;
	}
	for (i = 0; i < ring->size; i++)
		entries[(ring->newest - i) & (size - 1)] = *bbr_ring_entry(ring, ring->newest - i);
	bbr_ring_free(ring);
	ring->entries = entries;
	ring->size = size;
	ring->share = bbr_ring_share(BBR_RING_MOST);
}

#else

static inline u32 bbr_ring_size(const struct bbr_ring *ring)
{
	(void)ring;
	return BBR_RING_MOST;
}

static inline u32 bbr_ring_present_share(const struct bbr_ring *ring)
{
	(void)ring;
	return bbr_ring_share(BBR_RING_MOST);
}

static inline struct bbr_sent *bbr_ring_entry(struct bbr_ring *ring, u32 number)
{
	return &ring->first[number % BBR_RING_MOST];
}

static inline void bbr_ring_init_storage(struct bbr_ring *ring)
{
	(void)ring;
}

static inline void bbr_ring_free(struct bbr_ring *ring)
{
	(void)ring;
}

static inline void bbr_ring_grow(struct bbr_ring *ring)
{
	(void)ring;
}

#endif

static inline void bbr_ring_init(struct bbr_ring *ring, u32 delivered, u32 lost, u32 in_flight)
{
	ring->newest = 0;
	ring->found = 0;
	ring->delivered = delivered;
	ring->lost = lost;
	ring->in_flight = in_flight;
	bbr_ring_init_storage(ring);
}

/* Completes the newest entry upon an ACK, with what was sent and in flight just before the ACK. */
static inline void bbr_ring_complete(struct bbr_ring *ring, u32 snd_nxt, u32 prior_in_flight)
{
	u32 rise = prior_in_flight > ring->in_flight ? prior_in_flight - ring->in_flight : 0;

	*bbr_ring_entry(ring, ring->newest) = (struct bbr_sent){
		.delivered = ring->delivered,
		.lost = ring->lost,
		.snd_nxt = snd_nxt,
		.in_flight = bbr_min(prior_in_flight, BBR_SENT_IN_FLIGHT_MAX),
		.rise = bbr_min(rise, BBR_SENT_RISE_MAX),
	};
}

/* Begins an entry for what is sent after an ACK, unless the newest still stands for it. */
static inline void bbr_ring_begin(struct bbr_ring *ring, u32 delivered, u32 lost, u32 in_flight)
{
	if (delivered - ring->delivered <= in_flight >> bbr_ring_present_share(ring))
		return;
	if (bbr_rare(ring->newest + 1 - ring->found >= bbr_ring_size(ring)))
		bbr_ring_grow(ring);
	ring->newest++;
	if (bbr_rare(ring->newest - ring->found >= bbr_ring_size(ring)))
		ring->found = ring->newest - bbr_ring_size(ring) + 1;
	ring->delivered = delivered;
	ring->lost = lost;
	ring->in_flight = in_flight;
}

/* Goes back to the entry of packets that are acknowledged later than others that were sent after them. */
static bbr_rarely void bbr_ring_search_back(struct bbr_ring *ring, u32 delivered)
{
	u32 i;

	for (i = 0; i < BBR_RING_MOST && bbr_before(delivered, bbr_ring_entry(ring, ring->found)->delivered); i++) {
		if (!ring->found)
			return;
		if (ring->newest - ring->found >= bbr_ring_size(ring) - 1) {
			bbr_ring_grow(ring);	/* this entry is lost, the next such one shall not be */
			return;
		}
		ring->found--;
	}
}

/*
 * Returns the entry of packets that were sent when `delivered` packets were: the newest with no larger count. Packets are
 * mostly acknowledged in the order of sending, so the entry follows soon after the last one found.
 */
static inline const struct bbr_sent *bbr_ring_find(struct bbr_ring *ring, u32 delivered)
{
	u32 i;	/* counts to a limit, which the verifier of BPF programs wants to see */

	for (i = 0; i < BBR_RING_MOST && ring->found != ring->newest &&
	     !bbr_before(delivered, bbr_ring_entry(ring, ring->found + 1)->delivered); i++)
		ring->found++;
	if (bbr_rare(bbr_before(delivered, bbr_ring_entry(ring, ring->found)->delivered)))
		bbr_ring_search_back(ring, delivered);
	return bbr_ring_entry(ring, ring->found);
}

#endif
