/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * What was in flight, and what was lost so far, when a packet was sent.
 *
 * The drafts keep this with each packet (P.tx_in_flight, P.lost), for which mainline's TCP has no room. The ring has an
 * entry for each ACK instead: all packets that are sent between two ACKs know the same C.delivered, by which the rate
 * sample of their ACK finds the entry again. When more is in flight than the ring has entries for, one entry stands for
 * several ACKs. Among packets that were sent at once, the sequence number tells them apart.
 */
#ifndef BBR_RING_H
#define BBR_RING_H

#define BBR_RING_SIZE 256	/* a power of two */

struct bbr_sent {
	u32 delivered;		/* C.delivered while these packets were sent */
	u32 lost;		/* C.lost at that time */
	u32 in_flight_before;	/* when the first of them had not been sent */
	u32 in_flight;		/* when the last of them had been sent */
	u32 snd_nxt;		/* then, too */
};

struct bbr_ring {
	u32 newest;		/* number of the entry of the packets that are being sent now */
	u32 found;		/* number of the entry that was found last: searches go on from there */
	struct bbr_sent entries[BBR_RING_SIZE];
};

static inline struct bbr_sent *bbr_ring_entry(struct bbr_ring *ring, u32 number)
{
	return &ring->entries[number % BBR_RING_SIZE];
}

static inline void bbr_ring_reset(struct bbr_ring *ring, u32 delivered, u32 lost, u32 snd_nxt, u32 in_flight)
{
	ring->newest = 0;
	ring->found = 0;
	ring->entries[0] = (struct bbr_sent){ delivered, lost, in_flight, in_flight, snd_nxt };
}

/* Completes the newest entry upon an ACK, with what was sent and in flight just before the ACK. */
static inline void bbr_ring_complete(struct bbr_ring *ring, u32 snd_nxt, u32 prior_in_flight)
{
	struct bbr_sent *entry = bbr_ring_entry(ring, ring->newest);

	entry->snd_nxt = snd_nxt;
	entry->in_flight = prior_in_flight;
}

/* Begins an entry for what is sent after an ACK, unless the newest still stands for it. */
static inline void bbr_ring_begin(struct bbr_ring *ring, u32 delivered, u32 lost, u32 in_flight)
{
	struct bbr_sent *entry = bbr_ring_entry(ring, ring->newest);

	if (delivered - entry->delivered <= in_flight / (BBR_RING_SIZE / 2))
		return;
	ring->newest++;
	if (ring->newest - ring->found >= BBR_RING_SIZE)
		ring->found = ring->newest - BBR_RING_SIZE + 1;
	entry = bbr_ring_entry(ring, ring->newest);
	entry->delivered = delivered;
	entry->lost = lost;
	entry->in_flight_before = in_flight;
}

/*
 * Returns the entry of packets that were sent when `delivered` packets were: the newest with no larger count. Packets are
 * mostly acknowledged in the order of sending, so the entry follows soon after the last one found.
 */
static inline const struct bbr_sent *bbr_ring_find(struct bbr_ring *ring, u32 delivered)
{
	u32 i;	/* counts to a limit, which the verifier of BPF programs wants to see */

	for (i = 0; i < BBR_RING_SIZE && ring->found != ring->newest &&
	     !bbr_before(delivered, bbr_ring_entry(ring, ring->found + 1)->delivered); i++)
		ring->found++;
	for (i = 0; i < BBR_RING_SIZE && bbr_rare(bbr_before(delivered, bbr_ring_entry(ring, ring->found)->delivered)) &&
	     ring->found && ring->newest - ring->found < BBR_RING_SIZE - 1; i++)
		ring->found--;
	return bbr_ring_entry(ring, ring->found);
}

#endif
