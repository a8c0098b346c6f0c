/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_CONNECTION_H
#define CAPFLOW_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "outstanding.h"
#include "packet.h"
#include "ranges.h"
#include "samples.h"

/* Counts of a direction in one interval; README.md defines each. */
struct interval {
	/* This way */
	uint64_t packets, data_packets, bytes;
	uint64_t retransmitted_packets, retransmitted_bytes;
	uint64_t out_of_order_packets, out_of_order_bytes;
	uint64_t ect_packets, ce_packets, cwr_packets;
	/* Back, about what went this way */
	uint64_t acked_bytes, duplicate_acks, sack_packets, sack_blocks, ece_packets;
	bool window_known, flight_known;
	uint64_t window_min, window_last;
	uint64_t flight_max, flight_last;
	struct samples rtt_acks, rtt_stamps;
};

/* A 32-bit sequence space laid out in 64 bits. */
struct space {
	bool known;
	uint64_t highest;
};

/* A number far from all others of its space; it counts when a second one is near it. */
struct stray {
	bool any;
	uint32_t at;
};

/* One direction: what one end sends, and what the other end acknowledges of it. */
struct side {
	/* Sequence numbers */
	struct space space;
	struct stray stray_data, stray_ack;
	bool data_known, acked_known, fin_known;
	uint64_t first;    /* of the first byte seen, after the SYN */
	uint64_t data_end; /* after the last byte seen */
	uint64_t fin;      /* the place of the FIN */
	uint64_t acked;    /* the highest cumulative ACK of the other side */
	uint32_t isn;      /* if syn_packets */
	uint32_t first_sequence; /* of the first packet */
	struct ranges seen;
	struct outstanding outstanding;
	struct stamps stamps;

	/* What this side sent */
	int64_t first_ns, last_ns, idle_max_ns, first_data_ns, last_data_ns;
	uint64_t packets, ack_packets, pure_acks, rst_packets, syn_packets, fin_packets, pushed_packets, urgent_packets;
	uint64_t data_packets, bytes, unique_bytes, retransmitted_packets, retransmitted_bytes;
	uint64_t retransmitted_syn_fin_packets, out_of_order_packets, out_of_order_bytes;
	uint64_t zero_window_probes, keep_alives, stray_packets;
	uint64_t segment_max, segment_min;
	uint64_t initial_window_bytes, initial_window_packets;
	uint64_t cut_packets, cut_bytes;
	uint64_t ect_packets, ce_packets, ece_packets, cwr_packets;
	uint64_t sack_packets, dsack_packets, sack_blocks, sack_blocks_max;
	bool has_mss, has_window_scale, scale_agreed, sack_permitted, timestamps;
	uint16_t mss;
	uint8_t window_scale;

	/* What this side advertised */
	bool window_any;
	uint64_t window_last, window_min, window_max, window_count, window_zero;
	double window_sum;

	/* What came back about it */
	uint64_t acked_bytes, duplicate_acks, triple_duplicate_acks;
	uint32_t duplicate_run;
	uint64_t flight_max;
	uint32_t retransmitted_most;
	struct samples rtt_acks, rtt_stamps, waits;
	int64_t rtt_handshake_ns; /* -1: none */

	struct interval now;
};

struct connection {
	struct connection *next;         /* in its slot of the table */
	struct connection *older, *newer; /* in the order of their first packets */
	uint64_t number;                  /* from 1, in the order of their first packets */
	uint8_t version;
	struct endpoint ends[2];
	struct side sides[2]; /* 0: what ends[0], the sender of the first packet seen, sends */
	int64_t interval_ns;  /* when the open interval began */
};

/* Returns a new connection; the caller still has to count its first packet. */
struct connection *connection_create(const struct packet *packet, uint64_t number);

void connection_free(struct connection *connection);

/* Returns whether a packet with a SYN begins another connection between the same ends and ports. */
bool connection_is_over(const struct connection *connection, int direction, const struct packet *packet);

/* Counts a packet; the caller has closed the interval if the packet begins another one. */
void connection_add(struct connection *connection, int direction, const struct packet *packet);

/* Returns whether windows are scaled, as far as the capture shows. */
bool connection_scales(const struct connection *connection);

#endif
