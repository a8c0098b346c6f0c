// SPDX-License-Identifier: Apache-2.0
/* Passes libpcap's packets to the flows. */
#include "reader.h"

#include <string.h>

#include "packet.h"

/* Seconds that fit in nanoseconds; a capture may say anything. */
#define SECONDS_MAX 9000000000LL

static int64_t time_of(const struct pcap_pkthdr *header)
{
	int64_t seconds = header->ts.tv_sec, ns = header->ts.tv_usec; /* nanoseconds, as was asked for */

	if (seconds < 0)
		return 0;
	if (seconds > SECONDS_MAX)
		seconds = SECONDS_MAX;
	return seconds * 1000000000 + (ns < 0 || ns > 999999999 ? 0 : ns);
}

static bool is_wanted(const struct options *options, const struct packet *packet)
{
	if (options->port && packet->source.port != options->port && packet->destination.port != options->port)
		return false;
	return !options->host_version ||
	       (options->host_version == packet->version &&
		(!memcmp(options->host, packet->source.address, 16) ||
		 !memcmp(options->host, packet->destination.address, 16)));
}

bool reader_run(pcap_t *pcap, const struct options *options, struct flows *flows, struct capture *capture,
		char problem[PCAP_ERRBUF_SIZE])
{
	int link = pcap_datalink(pcap), got;
	struct pcap_pkthdr *header;
	const u_char *data;
	struct packet packet;
	int64_t before_ns = 0;

	memset(capture, 0, sizeof(*capture));
	while ((got = pcap_next_ex(pcap, &header, &data)) == 1) {
		int64_t time_ns = time_of(header);
		enum verdict verdict = packet_decode(&packet, link, data, header->caplen, header->len);

		if (!capture->packets || time_ns < capture->first_ns)
			capture->first_ns = time_ns;
		if (time_ns > capture->last_ns)
			capture->last_ns = time_ns;
		capture->backwards += time_ns < before_ns;
		before_ns = time_ns;
		capture->packets++;
		capture->verdicts[verdict]++;
		if (verdict != VERDICT_TCP)
			continue;
		if (!is_wanted(options, &packet)) {
			capture->filtered++;
			continue;
		}
		packet.time_ns = time_ns;
		flows_add(flows, &packet);
	}
	if (got == PCAP_ERROR_BREAK) /* the end of the file, or a signal */
		return true;
	strncpy(problem, pcap_geterr(pcap), PCAP_ERRBUF_SIZE - 1);
	problem[PCAP_ERRBUF_SIZE - 1] = '\0';
	return false;
}
