// SPDX-License-Identifier: Apache-2.0
/* Decodes link layer, IP and TCP headers, and reads nothing beyond the captured bytes. */
#include "packet.h"

#include <pcap/dlt.h>
#include <string.h>

#define PROTOCOL_TCP 6
#define PAYLOAD_MAX (1U << 30) /* no window is larger */

#ifndef DLT_LINUX_SLL2
#define DLT_LINUX_SLL2 276
#endif

/* The rest of a frame: `captured` bytes at `at`, and `length` on the wire. */
struct rest {
	const uint8_t *at;
	uint32_t captured, length;
};

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

/* Moves past a header; returns false if it was not captured whole. */
static bool skip(struct rest *rest, uint32_t bytes)
{
	if (rest->captured < bytes || rest->length < bytes)
		return false;
	rest->at += bytes;
	rest->captured -= bytes;
	rest->length -= bytes;
	return true;
}

bool packet_link_known(int link)
{
	switch (link) {
	case DLT_EN10MB:
	case DLT_LINUX_SLL:
	case DLT_LINUX_SLL2:
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
	case DLT_NULL:
	case DLT_LOOP:
		return true;
	default:
		return false;
	}
}

static void parse_options(struct packet *packet, const uint8_t *at, const uint8_t *end)
{
	while (at < end && *at != 0) {
		uint32_t length;

		if (*at == 1) {
			at++;
			continue;
		}
		if (end - at < 2)
			return;
		length = at[1];
		if (length < 2 || length > end - at)
			return;
		switch (*at) {
		case 2:
			if (length == 4) {
				packet->has_mss = true;
				packet->mss = get16(at + 2);
			}
			break;
		case 3:
			if (length == 3) {
				packet->has_window_scale = true;
				/* RFC 7323, 2.3: a larger shift counts as 14 */
				packet->window_scale = at[2] > 14 ? 14 : at[2];
			}
			break;
		case 4:
			packet->sack_permitted = length == 2;
			break;
		case 5:
			if (length % 8 != 2)
				break;
			for (uint32_t i = 2; i < length && packet->sack_count < SACK_BLOCKS_MAX; i += 8) {
				packet->sack[packet->sack_count].left = get32(at + i);
				packet->sack[packet->sack_count].right = get32(at + i + 4);
				packet->sack_count++;
			}
			break;
		case 8:
			if (length == 10) {
				packet->has_timestamps = true;
				packet->ts_value = get32(at + 2);
				packet->ts_echo = get32(at + 6);
			}
			break;
		}
		at += length;
	}
}

static enum verdict decode_tcp(struct packet *packet, struct rest rest)
{
	uint32_t header, captured;

	if (rest.length < 20)
		return VERDICT_MALFORMED;
	if (rest.captured < 20)
		return VERDICT_CUT;
	header = (uint32_t)(rest.at[12] >> 4) * 4;
	if (header < 20 || header > rest.length || rest.length - header > PAYLOAD_MAX)
		return VERDICT_MALFORMED;
	packet->source.port = get16(rest.at);
	packet->destination.port = get16(rest.at + 2);
	packet->sequence = get32(rest.at + 4);
	packet->acknowledgment = get32(rest.at + 8);
	packet->flags = rest.at[13];
	packet->window = get16(rest.at + 14);
	packet->payload = rest.length - header;
	captured = rest.captured < header ? rest.captured : header;
	packet->missing = rest.length - (rest.captured < header ? header : rest.captured);
	parse_options(packet, rest.at + 20, rest.at + captured);
	return VERDICT_TCP;
}

static enum verdict decode_ip4(struct packet *packet, struct rest rest)
{
	uint32_t header, length, fragment;

	if (rest.captured < 20)
		return VERDICT_CUT;
	header = (rest.at[0] & 15) * 4U;
	length = get16(rest.at + 2);
	if (rest.at[0] >> 4 != 4 || header < 20)
		return VERDICT_MALFORMED;
	if (rest.at[9] != PROTOCOL_TCP)
		return VERDICT_OTHER;
	/* A sender's own capture of a segment that its network card will cut (TSO, BIG TCP) */
	if (length == 0)
		length = rest.length;
	if (length < header)
		return VERDICT_MALFORMED;
	fragment = get16(rest.at + 6) & 0x3fff; /* more fragments, and the offset */
	if (fragment)
		return VERDICT_FRAGMENT;
	packet->version = 4;
	packet->ecn = rest.at[1] & 3;
	memcpy(packet->source.address, rest.at + 12, 4);
	memcpy(packet->destination.address, rest.at + 16, 4);
	rest.length = length; /* without the padding that Ethernet may have added */
	if (rest.captured > length)
		rest.captured = length;
	if (!skip(&rest, header))
		return VERDICT_CUT;
	return decode_tcp(packet, rest);
}

/* Returns the length that a jumbo payload option (RFC 2675) gives, or 0. */
static uint32_t jumbo_length(const uint8_t *at, uint32_t length)
{
	for (uint32_t i = 2; i + 1 < length; i += at[i] == 0 ? 1 : 2U + at[i + 1]) {
		if (at[i] == 0xc2 && at[i + 1] == 4 && i + 6 <= length)
			return get32(at + i + 2);
	}
	return 0;
}

static enum verdict decode_ip6(struct packet *packet, struct rest rest)
{
	uint32_t length, header;
	uint8_t next;
	bool jumbo;

	if (rest.captured < 40)
		return VERDICT_CUT;
	if (rest.at[0] >> 4 != 6)
		return VERDICT_MALFORMED;
	length = get16(rest.at + 4);
	next = rest.at[6];
	packet->version = 6;
	packet->ecn = rest.at[1] >> 4 & 3;
	memcpy(packet->source.address, rest.at + 8, 16);
	memcpy(packet->destination.address, rest.at + 24, 16);
	jumbo = length == 0; /* the length is in a jumbo option, or it is the frame's as in IPv4 */
	if (!skip(&rest, 40))
		return VERDICT_CUT;
	if (!jumbo) {
		rest.length = length;
		if (rest.captured > length)
			rest.captured = length;
	}
	for (;;) {
		switch (next) {
		case PROTOCOL_TCP:
			return decode_tcp(packet, rest);
		case 0:   /* hop by hop */
		case 43:  /* routing */
		case 60:  /* destination */
		case 135: /* mobility */
		case 139: /* HIP */
		case 140: /* shim6 */
			if (rest.captured < 8)
				return VERDICT_CUT;
			header = 8 + rest.at[1] * 8U;
			break;
		case 51: /* authentication */
			if (rest.captured < 8)
				return VERDICT_CUT;
			header = 8 + rest.at[1] * 4U;
			break;
		case 44: /* fragment; one that is first and last at once is a whole packet */
			if (rest.captured < 8)
				return VERDICT_CUT;
			if (get16(rest.at + 2) & 0xfff9)
				return rest.at[0] == PROTOCOL_TCP ? VERDICT_FRAGMENT : VERDICT_OTHER;
			header = 8;
			break;
		default:
			return VERDICT_OTHER;
		}
		if (header > rest.length)
			return VERDICT_MALFORMED;
		if (header > rest.captured)
			return VERDICT_CUT;
		if (next == 0 && jumbo) {
			uint32_t given = jumbo_length(rest.at, header);

			if (given && given < header)
				return VERDICT_MALFORMED;
			if (given) {
				rest.length = given;
				if (rest.captured > given)
					rest.captured = given;
			}
		}
		next = rest.at[0];
		skip(&rest, header);
	}
}

static enum verdict decode_ip(struct packet *packet, struct rest rest)
{
	if (!rest.captured)
		return VERDICT_CUT;
	switch (rest.at[0] >> 4) {
	case 4:
		return decode_ip4(packet, rest);
	case 6:
		return decode_ip6(packet, rest);
	default:
		return VERDICT_OTHER;
	}
}

static enum verdict decode_type(struct packet *packet, uint32_t type, struct rest rest)
{
	while (type == 0x8100 || type == 0x88a8 || type == 0x9100) { /* VLAN and QinQ tags */
		if (rest.captured < 4)
			return VERDICT_CUT;
		type = get16(rest.at + 2);
		if (!skip(&rest, 4))
			return VERDICT_MALFORMED;
	}
	switch (type) {
	case 0x0800:
		return decode_ip4(packet, rest);
	case 0x86dd:
		return decode_ip6(packet, rest);
	default:
		return VERDICT_OTHER;
	}
}

/* Decodes a link layer header of `header` bytes with an Ethernet type at `type`. */
static enum verdict decode_link(struct packet *packet, struct rest rest, uint32_t header, uint32_t type)
{
	uint32_t value;

	if (rest.captured < header)
		return VERDICT_CUT;
	value = get16(rest.at + type);
	if (!skip(&rest, header))
		return VERDICT_MALFORMED;
	return decode_type(packet, value, rest);
}

/* Decodes BSD's loopback: an address family in the byte order of the capturing machine, or (LOOP) of the network. */
static enum verdict decode_loopback(struct packet *packet, struct rest rest)
{
	uint32_t family;

	if (rest.captured < 4)
		return VERDICT_CUT;
	family = get32(rest.at);
	if (family > 0xffff)
		family = __builtin_bswap32(family);
	if (!skip(&rest, 4))
		return VERDICT_MALFORMED;
	switch (family) {
	case 2:
		return decode_ip4(packet, rest);
	case 10: /* Linux, NetBSD and OpenBSD, FreeBSD, Darwin */
	case 24:
	case 28:
	case 30:
		return decode_ip6(packet, rest);
	default:
		return VERDICT_OTHER;
	}
}

enum verdict packet_decode(struct packet *packet, int link, const uint8_t *data, uint32_t captured, uint32_t length)
{
	/* Some writers give a length on the wire that is smaller than what they captured */
	struct rest rest = { data, captured, length < captured ? captured : length };

	memset(packet, 0, sizeof(*packet));
	switch (link) {
	case DLT_EN10MB:
		return decode_link(packet, rest, 14, 12);
	case DLT_LINUX_SLL:
		return decode_link(packet, rest, 16, 14);
	case DLT_LINUX_SLL2:
		return decode_link(packet, rest, 20, 0);
	case DLT_NULL:
	case DLT_LOOP:
		return decode_loopback(packet, rest);
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
		return decode_ip(packet, rest);
	default:
		return VERDICT_OTHER;
	}
}
