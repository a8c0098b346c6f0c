// SPDX-License-Identifier: Apache-2.0
/* Reads the blocks of a pcapng file (draft-ietf-opsawg-pcapng): sections, interfaces and packets. */
#include "pcapng.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define BLOCK_MAX (1U << 26)  /* bytes; a packet has at most 2^18 */
#define INTERFACES_MAX 65536U /* of a section */
#define LINKTYPE_RAW 101

enum { INTERFACE = 1, OBSOLETE_PACKET = 2, SIMPLE_PACKET = 3, ENHANCED_PACKET = 6, SECTION = 0x0a0d0d0a };
enum { OPTION_END = 0, OPTION_RESOLUTION = 9, OPTION_OFFSET = 14 };

struct interface {
	int link; /* libpcap's DLT_* */
	uint32_t snap; /* 0: unlimited */
	uint64_t units; /* of its time stamps in a second */
	int64_t offset_s;
};

struct pcapng {
	FILE *file;
	bool swapped; /* the section has the other byte order */
	struct interface *interfaces;
	uint32_t interface_count;
	uint8_t *body; /* of the block */
	uint32_t room;
	volatile sig_atomic_t broken;
};

static int problem_of(char problem[PCAP_ERRBUF_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));

static int problem_of(char problem[PCAP_ERRBUF_SIZE], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(problem, PCAP_ERRBUF_SIZE, format, arguments);
	va_end(arguments);
	return -1;
}

static uint16_t get16(const struct pcapng *pcapng, const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return pcapng->swapped ? __builtin_bswap16(value) : value;
}

static uint32_t get32(const struct pcapng *pcapng, const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return pcapng->swapped ? __builtin_bswap32(value) : value;
}

static uint64_t get64(const struct pcapng *pcapng, const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return pcapng->swapped ? __builtin_bswap64(value) : value;
}

/* Reads a block without its first 8 bytes and its last length. Returns 1, or 0 at the end, or -1. */
static int read_block(struct pcapng *pcapng, uint32_t *type, uint32_t *length, char problem[PCAP_ERRBUF_SIZE])
{
	uint8_t head[12], tail[4];
	size_t got = fread(head, 1, sizeof(head), pcapng->file);
	uint32_t total;

	if (!got && !ferror(pcapng->file))
		return 0;
	if (got < sizeof(head))
		return problem_of(problem, "the file ends within a block");
	*type = get32(pcapng, head);
	if (*type == SECTION) {
		pcapng->swapped = false;
		pcapng->swapped = get32(pcapng, head + 8) == 0x4d3c2b1a;
		if (get32(pcapng, head + 8) != 0x1a2b3c4d)
			return problem_of(problem, "a section has no byte order");
	}
	total = get32(pcapng, head + 4);
	if (total < 12 || total % 4 || total > BLOCK_MAX)
		return problem_of(problem, "a block has %u bytes", total);
	*length = total - 12;
	if (pcapng->room < total)
		pcapng->body = resize(pcapng->body, pcapng->room = total, 1);
	/* The last 4 bytes of the head are the first of the body, or, if it is empty, the last length */
	memcpy(pcapng->body, head + 8, 4);
	memcpy(tail, head + 8, 4);
	if (*length) {
		size_t rest = *length; /* the body's other bytes, and the last length */

		if (fread(pcapng->body + 4, 1, rest, pcapng->file) < rest)
			return problem_of(problem, "the file ends within a block");
		memcpy(tail, pcapng->body + *length, 4);
	}
	if (get32(pcapng, tail) != total)
		return problem_of(problem, "the two lengths of a block differ");
	return 1;
}

static int read_resolution(struct interface *interface, uint8_t value, char problem[PCAP_ERRBUF_SIZE])
{
	uint8_t exponent = value & 127;

	if (exponent > (value & 128 ? 63 : 19))
		return problem_of(problem, "time stamps have an unknown resolution");
	interface->units = value & 128 ? 1ULL << exponent : 1;
	for (; !(value & 128) && exponent; exponent--)
		interface->units *= 10;
	return 1;
}

static int add_interface(struct pcapng *pcapng, uint32_t length, char problem[PCAP_ERRBUF_SIZE])
{
	struct interface interface = { .units = 1000000 };
	uint32_t at = 8;

	if (length < 8)
		return problem_of(problem, "the description of an interface is too short");
	if (pcapng->interface_count == INTERFACES_MAX)
		return problem_of(problem, "there are more than %u interfaces", INTERFACES_MAX);
	interface.link = get16(pcapng, pcapng->body) == LINKTYPE_RAW ? DLT_RAW : get16(pcapng, pcapng->body);
	interface.snap = get32(pcapng, pcapng->body + 4);
	while (length - at >= 4) {
		uint32_t code = get16(pcapng, pcapng->body + at), bytes = get16(pcapng, pcapng->body + at + 2);
		const uint8_t *value = pcapng->body + at + 4;

		if (code == OPTION_END)
			break;
		if (bytes > length - at - 4)
			return problem_of(problem, "an option of an interface is too long");
		if (code == OPTION_RESOLUTION && bytes == 1 && read_resolution(&interface, *value, problem) < 0)
			return -1;
		if (code == OPTION_OFFSET && bytes == 8)
			interface.offset_s = (int64_t)get64(pcapng, value);
		bytes = (bytes + 3) & ~3U;
		if (bytes > length - at - 4)
			break;
		at += 4 + bytes;
	}
	pcapng->interfaces = resize(pcapng->interfaces, pcapng->interface_count + 1, sizeof(interface));
	pcapng->interfaces[pcapng->interface_count++] = interface;
	return 1;
}

static int64_t time_of(const struct interface *interface, uint64_t stamp)
{
	return frame_time((__int128)(stamp / interface->units) + interface->offset_s,
			  (int64_t)((unsigned __int128)(stamp % interface->units) * 1000000000 / interface->units));
}

static bool is_packet(uint32_t type)
{
	return type == OBSOLETE_PACKET || type == SIMPLE_PACKET || type == ENHANCED_PACKET;
}

/* Reads a packet of any of the three kinds of blocks. Returns 1, or -1. */
static int read_packet(struct pcapng *pcapng, uint32_t type, uint32_t length, struct frame *frame,
		       char problem[PCAP_ERRBUF_SIZE])
{
	const uint8_t *body = pcapng->body;
	const struct interface *interface;
	uint32_t header = type == SIMPLE_PACKET ? 4 : 20, number = 0;

	if (length < header)
		return problem_of(problem, "a packet's block is too short");
	if (type == ENHANCED_PACKET)
		number = get32(pcapng, body);
	else if (type == OBSOLETE_PACKET)
		number = get16(pcapng, body);
	if (number >= pcapng->interface_count)
		return problem_of(problem, "a packet's interface is not described");
	interface = &pcapng->interfaces[number];
	frame->link = interface->link;
	frame->data = body + header;
	if (type == SIMPLE_PACKET) {
		frame->time_ns = 0;
		frame->length = get32(pcapng, body);
		frame->captured = frame->length;
		if (interface->snap && frame->captured > interface->snap)
			frame->captured = interface->snap;
	} else {
		frame->time_ns = time_of(interface, (uint64_t)get32(pcapng, body + 4) << 32 | get32(pcapng, body + 8));
		frame->captured = get32(pcapng, body + 12);
		frame->length = get32(pcapng, body + 16);
	}
	if (frame->captured > length - header)
		return problem_of(problem, "a packet is longer than its block");
	return 1;
}

/* Reads a block, and what it says about the section or an interface. Returns 1, or 0 at the end, or -1. */
static int next_block(struct pcapng *pcapng, uint32_t *type, uint32_t *length, char problem[PCAP_ERRBUF_SIZE])
{
	int got = read_block(pcapng, type, length, problem);

	if (got == 1 && *type == SECTION)
		pcapng->interface_count = 0;
	if (got == 1 && *type == INTERFACE)
		return add_interface(pcapng, *length, problem);
	return got;
}

struct pcapng *pcapng_open(FILE *file, char problem[PCAP_ERRBUF_SIZE])
{
	struct pcapng *pcapng = create(1, sizeof(*pcapng));
	uint32_t type = SECTION, length;
	int got = 1;

	pcapng->file = file;
	while (got == 1 && !pcapng->interface_count && !is_packet(type))
		got = next_block(pcapng, &type, &length, problem);
	if (pcapng->interface_count)
		return pcapng;
	if (got != -1)
		problem_of(problem, "no interface is described");
	pcapng_close(pcapng);
	return NULL;
}

int pcapng_next(struct pcapng *pcapng, struct frame *frame, char problem[PCAP_ERRBUF_SIZE])
{
	uint32_t type = 0, length = 0;
	int got = 1;

	while (got == 1 && !pcapng->broken) {
		got = next_block(pcapng, &type, &length, problem);
		if (got == 1 && is_packet(type))
			return read_packet(pcapng, type, length, frame, problem);
	}
	return pcapng->broken ? 0 : got;
}

void pcapng_break(struct pcapng *pcapng)
{
	pcapng->broken = 1;
}

void pcapng_close(struct pcapng *pcapng)
{
	free(pcapng->interfaces);
	free(pcapng->body);
	free(pcapng);
}
