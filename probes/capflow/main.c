// SPDX-License-Identifier: Apache-2.0
/* ccmix-capflow turns a capture into series and summaries of its TCP connections. README.md defines them. */
#include <errno.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "flows.h"
#include "options.h"
#include "packet.h"
#include "reader.h"

static pcap_t *volatile reading; /* NULL: the capture is read */
static volatile sig_atomic_t asked_to_end;

/* Ctrl-C ends tcpdump and this program at once; the packets that were read count. */
static void end_reading(int signal)
{
	(void)signal;
	asked_to_end = 1;
	if (reading)
		pcap_breakloop(reading);
}

static void listen_for_end(void)
{
	/* Without SA_RESTART, so that a read ends; the second signal ends the program */
	struct sigaction action = { .sa_handler = end_reading, .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static pcap_t *open_capture(const char *file)
{
	char problem[PCAP_ERRBUF_SIZE] = "";
	pcap_t *pcap = pcap_open_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, problem);
	const char *name = strcmp(file, "-") ? file : "standard input";
	int link;

	if (!pcap && !strncmp(problem, file, strlen(file)))
		fail(STATUS_USAGE, "%s", problem); /* it names the file itself */
	if (!pcap)
		fail(STATUS_USAGE, "%s: %s", name, problem);
	link = pcap_datalink(pcap);
	if (!packet_link_known(link)) {
		const char *description = pcap_datalink_val_to_description_or_dlt(link);

		fail(STATUS_USAGE, "%s: packets of the link type %s can't be read", name, description);
	}
	return pcap;
}

static FILE *open_output(const char *file)
{
	FILE *output;

	if (!file)
		return NULL;
	if (!strcmp(file, "-"))
		return stdout;
	output = fopen(file, "w");
	if (!output)
		fail(STATUS_USAGE, "%s: %s", file, strerror(errno));
	return output;
}

static void close_output(FILE *output, const char *file)
{
	if (!output)
		return;
	if (ferror(output) | (fclose(output) == EOF))
		fail_errno("%s: not all could be written", strcmp(file, "-") ? file : "standard output");
}

int main(int count, char **arguments)
{
	struct options options = options_read(count, arguments);
	char problem[PCAP_ERRBUF_SIZE];
	struct outputs outputs;
	struct capture capture;
	struct flows flows;
	pcap_t *pcap;
	bool whole;

	signal(SIGPIPE, SIG_IGN); /* so that write() reports it as an error */
	listen_for_end();
	reading = pcap = open_capture(options.file);
	outputs = (struct outputs){
		.series = open_output(options.series),
		.json = open_output(options.json),
		.text = open_output(options.text),
		.interval_ns = options.interval_ns,
		.most_connections = (uint64_t)options.most_connections,
	};
	flows_open(&flows, &outputs);
	whole = reader_run(pcap, &options, &flows, &capture, problem) || asked_to_end;
	flows_close(&flows, &capture);
	close_output(outputs.series, options.series);
	close_output(outputs.json, options.json);
	close_output(outputs.text, options.text);
	reading = NULL;
	pcap_close(pcap);
	if (!whole)
		fail(STATUS_CUT, "%s: the capture is cut or damaged after %llu packets, which count: %s", options.file,
		     (unsigned long long)capture.packets, problem);
	return STATUS_GOOD;
}
