// SPDX-License-Identifier: Apache-2.0
/*
 * libFuzzer's entry. Bits of the first byte ask for summaries, and for the rest to be read as a capture file, or
 * (the faster way to deep places) as frames of a link type, each after 8 bytes: captured and wire length, and how much
 * time has passed.
 */
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flows.h"
#include "packet.h"
#include "reader.h"
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int links[] = { DLT_EN10MB, DLT_RAW, DLT_LINUX_SLL, DLT_LINUX_SLL2, DLT_NULL, DLT_LOOP };

static FILE *nowhere;

/* Checks what must hold for each connection, whatever came in. */
static void check(const struct flows *flows)
{
	for (const struct connection *c = flows->oldest; c; c = c->newer) {
		for (int i = 0; i < 2; i++) {
			const struct side *side = &c->sides[i];
			uint64_t seen = 0;

			for (uint32_t at = 0; at < side->seen.count; at++) {
				const struct range *range = &side->seen.all[at];

				seen += range->end - range->begin;
				if (range->begin >= range->end || (at && range->begin <= range[-1].end))
					abort();
			}
			if (!side->seen.forgotten && seen != side->unique_bytes)
				abort();
			if (side->unique_bytes + side->retransmitted_bytes > side->bytes)
				abort();
			if (side->seen.count > RANGES_MAX || side->outstanding.count > SEGMENTS_MAX ||
			    side->stamps.count > STAMPS_MAX)
				abort();
			if (side->retransmitted_packets > side->data_packets)
				abort();
		}
	}
}

static void run_frames(struct flows *flows, struct capture *capture, int link, const uint8_t *data, size_t size)
{
	int64_t time_ns = 1700000000000000000;
	struct packet packet;

	while (size >= 8) {
		uint32_t captured = data[0], length = (uint32_t)data[1] << 8 | data[2];
		uint8_t *frame;

		time_ns += ((int64_t)data[3] - 16) * (1LL << (data[4] & 31));
		if (data[5] & 1)
			length <<= 12;
		data += 8;
		size -= 8;
		if (captured > size)
			captured = (uint32_t)size;
		/* Copy it, so that AddressSanitizer sees a read past its end */
		frame = malloc(captured ? captured : 1);
		memcpy(frame, data, captured);
		capture->packets++;
		if (packet_decode(&packet, link, frame, captured, length) == VERDICT_TCP) {
			packet.time_ns = time_ns;
			flows_add(flows, &packet);
		}
		free(frame);
		data += captured;
		size -= captured;
	}
}

static void run_file(struct flows *flows, struct capture *capture, const uint8_t *data, size_t size)
{
	static const struct options options;
	char problem[PCAP_ERRBUF_SIZE];
	FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
	struct source *source = file ? source_open(file, problem) : NULL;

	if (!source)
		return;
	reader_run(source, &options, flows, capture, problem);
	source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outputs outputs = { .interval_ns = 10000000 };
	struct capture capture = { 0 };
	struct flows flows;

	if (!size)
		return 0;
	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	outputs.series = nowhere;
	if (data[0] & 128) /* slow */
		outputs.json = outputs.text = nowhere;
	flows_open(&flows, &outputs);
	if (data[0] & 1)
		run_file(&flows, &capture, data + 1, size - 1);
	else
		run_frames(&flows, &capture, links[(data[0] >> 1 & 31) % (sizeof(links) / sizeof(links[0]))], data + 1,
			   size - 1);
	check(&flows);
	flows_close(&flows, &capture);
	return 0;
}
