/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_PACKET_H
#define CAPFLOW_PACKET_H

#include <stdbool.h>
#include <stdint.h>

enum { FLAG_FIN = 1, FLAG_SYN = 2, FLAG_RST = 4, FLAG_PSH = 8, FLAG_ACK = 16, FLAG_URG = 32, FLAG_ECE = 64,
       FLAG_CWR = 128 };
enum { ECN_NONE = 0, ECN_ECT1 = 1, ECN_ECT0 = 2, ECN_CE = 3 };

#define SACK_BLOCKS_MAX 4

/* One end of a connection; IPv4 addresses use the first 4 bytes, the others are 0. */
struct endpoint {
	uint8_t address[16];
	uint16_t port;
};

/* A TCP segment as it was on the wire, even if less of it was captured. */
struct packet {
	int64_t time_ns;
	uint8_t version; /* of IP: 4 or 6 */
	uint8_t ecn;
	uint8_t flags;
	struct endpoint source, destination;
	uint32_t sequence, acknowledgment;
	uint32_t window;   /* as in the header, without the scale */
	uint32_t payload;  /* bytes */
	uint32_t missing;  /* bytes of the payload that were not captured */
	bool has_mss, has_window_scale, has_timestamps, sack_permitted;
	uint16_t mss;
	uint8_t window_scale;
	uint32_t ts_value, ts_echo;
	uint8_t sack_count;
	struct {
		uint32_t left, right;
	} sack[SACK_BLOCKS_MAX];
};

enum verdict {
	VERDICT_TCP,
	VERDICT_OTHER,     /* not TCP over IP */
	VERDICT_FRAGMENT,  /* a part of a TCP packet that IP has cut */
	VERDICT_CUT,       /* captured too short to hold the TCP header */
	VERDICT_MALFORMED, /* lengths that contradict each other */
	VERDICTS,
};

/* Returns whether packets of this link type (libpcap's DLT_*) can be decoded. */
bool packet_link_known(int link);

/* Decodes a frame of `length` bytes of which `captured` are at data; fills all but the time. */
enum verdict packet_decode(struct packet *packet, int link, const uint8_t *data, uint32_t captured, uint32_t length);

#endif
