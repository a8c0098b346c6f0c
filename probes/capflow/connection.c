// SPDX-License-Identifier: Apache-2.0
/* Counts what each packet adds to its connection. README.md defines the terms. */
#include "connection.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* No window is larger than 2^30, so what is farther from the highest number seen is not of this connection. */
#define FAR (1U << 30)

struct connection *connection_create(const struct packet *packet, uint64_t number)
{
	struct connection *connection = create(1, sizeof(*connection));

	connection->number = number;
	connection->version = packet->version;
	connection->ends[0] = packet->source;
	connection->ends[1] = packet->destination;
	connection->sides[0].rtt_handshake_ns = connection->sides[1].rtt_handshake_ns = -1;
	return connection;
}

static void forget_waiting(struct side *side)
{
	outstanding_free(&side->outstanding);
	stamps_free(&side->stamps);
}

void connection_free(struct connection *connection)
{
	for (int i = 0; i < 2; i++) {
		forget_waiting(&connection->sides[i]);
		ranges_free(&connection->sides[i].seen);
	}
	free(connection);
}

/*
 * Lays a sequence or acknowledgment number out in 64 bits, near the highest one seen; false if it is far from it, and
 * from the last one that was. So one wild packet does no harm, and counting goes on after a gap of gigabytes.
 */
static bool unwrap(struct space *space, struct stray *stray, uint32_t number, uint64_t *place)
{
	uint32_t ahead;

	if (!space->known) {
		space->known = true;
		space->highest = (1ULL << 32) + number;
	}
	ahead = number - (uint32_t)space->highest;
	if (ahead <= FAR) {
		*place = space->highest + ahead;
	} else if (ahead >= 0U - FAR) {
		*place = space->highest - (0U - ahead);
	} else if (stray->any && number - stray->at <= FAR) {
		*place = space->highest + ahead;
	} else {
		stray->any = true;
		stray->at = number;
		return false;
	}
	stray->any = false;
	if (*place > space->highest)
		space->highest = *place;
	return true;
}

bool connection_scales(const struct connection *connection)
{
	const struct side *a = &connection->sides[0], *b = &connection->sides[1];

	return (a->has_window_scale && b->has_window_scale) || a->scale_agreed || b->scale_agreed;
}

bool connection_is_over(const struct connection *connection, int direction, const struct packet *packet)
{
	const struct side *side = &connection->sides[direction];

	if (side->syn_packets)
		return packet->sequence != side->isn;
	if (side->packets) /* its SYN may come late by reordering */
		return packet->sequence + 1 != side->first_sequence;
	return side->acked_known && (uint32_t)side->acked != packet->sequence + 1;
}

static uint64_t flight(const struct side *side)
{
	uint64_t from = side->acked > side->first ? side->acked : side->first;

	return side->data_end > from ? side->data_end - from : 0;
}

static void note_flight(struct side *side)
{
	uint64_t bytes;

	if (!side->acked_known || !side->data_known)
		return;
	bytes = flight(side);
	if (bytes > side->flight_max)
		side->flight_max = bytes;
	if (!side->now.flight_known || bytes > side->now.flight_max)
		side->now.flight_max = bytes;
	side->now.flight_last = bytes;
	side->now.flight_known = true;
}

static void count_packet(struct side *side, struct side *other, const struct packet *packet)
{
	struct interval *now = &side->now;

	if (side->packets && packet->time_ns - side->last_ns > side->idle_max_ns)
		side->idle_max_ns = packet->time_ns - side->last_ns;
	if (!side->packets) {
		side->first_ns = packet->time_ns;
		side->first_sequence = packet->sequence;
	}
	side->last_ns = packet->time_ns;
	side->packets++;
	now->packets++;
	side->rst_packets += !!(packet->flags & FLAG_RST);
	side->fin_packets += !!(packet->flags & FLAG_FIN);
	side->ack_packets += !!(packet->flags & FLAG_ACK);
	side->pure_acks += !packet->payload &&
			   (packet->flags & (FLAG_ACK | FLAG_SYN | FLAG_FIN | FLAG_RST)) == FLAG_ACK;
	side->timestamps |= packet->has_timestamps;
	if (packet->ecn != ECN_NONE) {
		side->ect_packets++;
		now->ect_packets++;
	}
	if (packet->ecn == ECN_CE) {
		side->ce_packets++;
		now->ce_packets++;
	}
	if (!(packet->flags & FLAG_SYN)) { /* there these flags negotiate */
		side->ece_packets += !!(packet->flags & FLAG_ECE);
		other->now.ece_packets += !!(packet->flags & FLAG_ECE);
		side->cwr_packets += !!(packet->flags & FLAG_CWR);
		now->cwr_packets += !!(packet->flags & FLAG_CWR);
	}
}

static void count_data(struct side *side, const struct packet *packet)
{
	if (!side->data_packets)
		side->first_data_ns = packet->time_ns;
	side->last_data_ns = packet->time_ns;
	side->data_packets++;
	side->bytes += packet->payload;
	side->now.data_packets++;
	side->now.bytes += packet->payload;
	side->pushed_packets += !!(packet->flags & FLAG_PSH);
	side->urgent_packets += !!(packet->flags & FLAG_URG);
	if (packet->payload > side->segment_max)
		side->segment_max = packet->payload;
	if (!side->segment_min || packet->payload < side->segment_min)
		side->segment_min = packet->payload;
	if (packet->missing) {
		side->cut_packets++;
		side->cut_bytes += packet->missing;
	}
}

/* Returns whether it is a keep-alive or a probe: one byte or none, just below what is acknowledged. */
static bool asks(const struct side *side, const struct packet *packet, uint64_t place)
{
	return packet->payload <= 1 && !(packet->flags & (FLAG_SYN | FLAG_FIN | FLAG_RST)) && side->data_known &&
	       side->acked_known && side->acked >= side->data_end && place + 1 == side->data_end;
}

static void add_syn(struct side *side, const struct packet *packet, uint64_t place)
{
	if (side->syn_packets++)
		side->retransmitted_syn_fin_packets++;
	side->isn = packet->sequence;
	if (!side->data_known || place + 1 < side->first)
		side->first = place + 1;
	if (!side->data_known)
		side->data_end = place + 1;
	side->data_known = true;
	if (!side->acked_known && !side->acked) /* so that the first ACK counts what it acknowledges */
		side->acked = place + 1;
	if (packet->has_mss) {
		side->has_mss = true;
		side->mss = packet->mss;
	}
	if (packet->has_window_scale) {
		side->has_window_scale = true;
		side->window_scale = packet->window_scale;
		side->scale_agreed = packet->flags & FLAG_ACK; /* an answer to the other's offer */
	}
	side->sack_permitted |= packet->sack_permitted;
}

/* Counts data from begin to end: how much of it is new, old and out of order. */
static void add_data(struct side *side, uint64_t begin, uint64_t end)
{
	struct interval *now = &side->now;
	uint64_t new, old, late, above = 0;

	if (!side->data_known) {
		side->data_known = true;
		side->first = begin;
		side->data_end = begin;
	}
	if (end > side->data_end)
		above = end - (begin > side->data_end ? begin : side->data_end);
	new = ranges_add(&side->seen, begin, end);
	old = end - begin - new;
	late = new - above;
	side->unique_bytes += new;
	if (old) {
		side->retransmitted_packets++;
		side->retransmitted_bytes += old;
		now->retransmitted_packets++;
		now->retransmitted_bytes += old;
	} else if (!(side->acked_known && side->acked > side->first)) {
		side->initial_window_packets++;
		side->initial_window_bytes += end - begin;
	}
	if (late) {
		side->out_of_order_packets++;
		side->out_of_order_bytes += late;
		now->out_of_order_packets++;
		now->out_of_order_bytes += late;
	}
	if (begin < side->first)
		side->first = begin;
	if (end > side->data_end)
		side->data_end = end;
}

/* Notes the times from which RTTs are taken; a capture of one direction has no ACKs that could take them. */
static void add_waiting(struct side *side, const struct side *other, const struct packet *packet, uint64_t begin,
			uint64_t end, bool first_time)
{
	if (!other->packets && side->packets > 256) {
		forget_waiting(side);
		return;
	}
	if (first_time) {
		outstanding_send(&side->outstanding, (uint32_t)begin, (uint32_t)end, packet->time_ns);
	} else {
		uint32_t times = outstanding_repeat(&side->outstanding, (uint32_t)begin, (uint32_t)end,
						    packet->time_ns, &side->waits);

		if (times > side->retransmitted_most)
			side->retransmitted_most = times;
	}
	if (packet->has_timestamps)
		stamps_send(&side->stamps, packet->ts_value, packet->time_ns);
}

static void add_sequence(struct side *side, const struct side *other, const struct packet *packet)
{
	bool syn = packet->flags & FLAG_SYN, fin = packet->flags & FLAG_FIN;
	uint64_t place, begin, end, highest;

	if (!unwrap(&side->space, &side->stray_data, packet->sequence, &place)) {
		side->stray_packets++;
		return;
	}
	if (asks(side, packet, place)) {
		if (other->window_any && !other->window_last)
			side->zero_window_probes++;
		else
			side->keep_alives++;
		return;
	}
	begin = place + syn;
	end = begin + packet->payload;
	if (end + fin == place) /* nothing that takes sequence numbers */
		return;
	if (packet->payload && other->window_any && !other->window_last)
		side->zero_window_probes++;
	highest = side->data_known ? side->data_end + (side->fin_known && side->fin == side->data_end) : place;
	if (syn)
		add_syn(side, packet, place);
	if (packet->payload)
		add_data(side, begin, end);
	if (fin) {
		if (side->fin_known && side->fin == end && !packet->payload)
			side->retransmitted_syn_fin_packets++;
		if (!side->data_known) {
			side->data_known = true;
			side->first = side->data_end = end;
		}
		side->fin_known = true;
		side->fin = end;
	}
	if (end + fin > side->space.highest)
		side->space.highest = end + fin;
	add_waiting(side, other, packet, place, end + fin, place >= highest && (!syn || side->syn_packets == 1));
}

/* Returns whether the first block lies below the cumulative ACK, or within the second block (RFC 2883). */
static bool is_dsack(const struct packet *packet)
{
	if ((int32_t)(packet->sack[0].right - packet->acknowledgment) <= 0)
		return true;
	return packet->sack_count > 1 && (int32_t)(packet->sack[0].left - packet->sack[1].left) >= 0 &&
	       (int32_t)(packet->sack[0].right - packet->sack[1].right) <= 0;
}

static void add_sack(struct side *side, struct side *other, const struct packet *packet)
{
	side->sack_packets++;
	side->sack_blocks += packet->sack_count;
	if (packet->sack_count > side->sack_blocks_max)
		side->sack_blocks_max = packet->sack_count;
	side->dsack_packets += is_dsack(packet);
	other->now.sack_packets++;
	other->now.sack_blocks += packet->sack_count;
}

static uint64_t add_window(const struct connection *connection, struct side *side, struct side *other,
			   const struct packet *packet)
{
	uint64_t window = packet->window;

	if (packet->flags & FLAG_SYN) { /* never scaled, and not yet in use */
		if (!side->window_any)
			side->window_last = window;
		return window;
	}
	if (connection_scales(connection))
		window <<= side->window_scale;
	if (!side->window_any || window < side->window_min)
		side->window_min = window;
	if (window > side->window_max)
		side->window_max = window;
	side->window_any = true;
	side->window_count++;
	side->window_zero += !window;
	side->window_sum += (double)window;
	side->window_last = window;
	if (!other->now.window_known || window < other->now.window_min)
		other->now.window_min = window;
	other->now.window_known = true;
	other->now.window_last = window;
	return window;
}

/* Counts a duplicate ACK (RFC 5681): no data, the same ACK and window as before, while data is outstanding. */
static void add_duplicate(struct side *data)
{
	data->duplicate_acks++;
	data->now.duplicate_acks++;
	if (++data->duplicate_run == 3)
		data->triple_duplicate_acks++;
}

/* `data` is the side whose bytes this packet of the other side acknowledges. */
static void add_acknowledgment(struct side *data, const struct packet *packet, bool same_window)
{
	uint64_t place, advance;
	int64_t rtt_ns;
	bool handshake;

	if (!unwrap(&data->space, &data->stray_ack, packet->acknowledgment, &place))
		return;
	if (data->acked_known && place == data->acked && same_window && !packet->payload &&
	    !(packet->flags & (FLAG_SYN | FLAG_FIN)) && (!data->data_known || data->data_end > place)) {
		add_duplicate(data);
		return;
	}
	if (data->acked_known && place < data->acked)
		return;
	if (!data->acked_known || place > data->acked) {
		data->duplicate_run = 0;
		/* Without the SYN, what the first ACK acknowledges is not known */
		advance = data->acked && place > data->acked ? place - data->acked : 0;
		if (advance && data->fin_known && data->acked <= data->fin && place > data->fin)
			advance--;
		data->acked_bytes += advance;
		data->now.acked_bytes += advance;
		data->acked = place;
	}
	handshake = !data->acked_known && data->syn_packets == 1 && packet->acknowledgment == data->isn + 1;
	data->acked_known = true;
	rtt_ns = outstanding_acknowledge(&data->outstanding, packet->acknowledgment, packet->time_ns);
	if (rtt_ns >= 0) {
		samples_add(&data->rtt_acks, rtt_ns);
		samples_add(&data->now.rtt_acks, rtt_ns);
		if (handshake)
			data->rtt_handshake_ns = rtt_ns;
	}
}

static void add_echo(struct side *data, const struct packet *packet)
{
	int64_t rtt_ns = stamps_echo(&data->stamps, packet->ts_echo, packet->time_ns);

	if (rtt_ns >= 0) {
		samples_add(&data->rtt_stamps, rtt_ns);
		samples_add(&data->now.rtt_stamps, rtt_ns);
	}
}

void connection_add(struct connection *connection, int direction, const struct packet *packet)
{
	struct side *side = &connection->sides[direction], *other = &connection->sides[!direction];
	uint64_t window_before = side->window_last;
	bool any_before = side->window_any;

	count_packet(side, other, packet);
	if (packet->payload)
		count_data(side, packet);
	if (packet->flags & FLAG_RST) { /* its numbers need not be those of the connection */
		forget_waiting(side);
		forget_waiting(other);
		return;
	}
	add_sequence(side, other, packet);
	if (packet->flags & FLAG_ACK) {
		uint64_t window = add_window(connection, side, other, packet);

		if (packet->sack_count)
			add_sack(side, other, packet);
		add_acknowledgment(other, packet, any_before && window == window_before);
		if (packet->has_timestamps)
			add_echo(other, packet);
	} else if (packet->flags & FLAG_SYN) {
		add_window(connection, side, other, packet);
	}
	note_flight(side);
	note_flight(other);
	if (side->fin_known && other->fin_known && side->acked > side->fin && other->acked > other->fin) {
		forget_waiting(side);
		forget_waiting(other);
	}
}
