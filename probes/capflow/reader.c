// SPDX-License-Identifier: Apache-2.0
/* Passes the packets of a capture to the flows. */
#include "reader.h"

#include <string.h>

#include "packet.h"

static bool is_wanted(const struct options *options, const struct packet *packet)
{
	if (options->port && packet->source.port != options->port && packet->destination.port != options->port)
		return false;
	return !options->host_version ||
	       (options->host_version == packet->version &&
		(!memcmp(options->host, packet->source.address, 16) ||
		 !memcmp(options->host, packet->destination.address, 16)));
}

bool reader_run(struct source *source, const struct options *options, struct flows *flows, struct capture *capture,
		char problem[PCAP_ERRBUF_SIZE])
{
	struct packet packet;
	struct frame frame;
	int64_t before_ns = 0;
	int got;

	memset(capture, 0, sizeof(*capture));
	while ((got = source_next(source, &frame, problem)) == 1) {
		enum verdict verdict = packet_decode(&packet, frame.link, frame.data, frame.captured, frame.length);

		if (!capture->packets || frame.time_ns < capture->first_ns)
			capture->first_ns = frame.time_ns;
		if (frame.time_ns > capture->last_ns)
			capture->last_ns = frame.time_ns;
		capture->backwards += frame.time_ns < before_ns;
		before_ns = frame.time_ns;
		capture->packets++;
		capture->verdicts[verdict]++;
		if (!packet_link_known(frame.link)) {
			capture->unknown_links++;
			capture->unknown_link = frame.link;
		}
		if (verdict != VERDICT_TCP)
			continue;
		if (!is_wanted(options, &packet)) {
			capture->filtered++;
			continue;
		}
		packet.time_ns = frame.time_ns;
		flows_add(flows, &packet);
	}
	return got == 0;
}
