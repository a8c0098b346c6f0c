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
#include "source.h"

static struct source *volatile reading; /* NULL: the capture is read */
static volatile sig_atomic_t asked_to_end;

/* Ctrl-C ends tcpdump and this program at once; the packets that were read count. */
static void end_reading(int signal)
{
	(void)signal;
	asked_to_end = 1;
	if (reading)
		source_break(reading);
}

static void listen_for_end(void)
{
	/* Without SA_RESTART, so that a read ends; the second signal ends the program */
	struct sigaction action = { .sa_handler = end_reading, .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static struct source *open_capture(const char *file, const char *name)
{
	FILE *content = strcmp(file, "-") ? fopen(file, "r") : stdin;
	char problem[PCAP_ERRBUF_SIZE] = "";
	struct source *source;

	if (!content)
		fail(STATUS_USAGE, "%s: %s", name, strerror(errno));
	source = source_open(content, problem);
	if (!source)
		fail(STATUS_USAGE, "%s: %s", name, problem);
	return source;
}

/* Says which packets are of a link type that is not decoded; without any others, there are no results. */
static void tell_unknown_links(const struct capture *capture, const char *name)
{
	const char *link = pcap_datalink_val_to_description_or_dlt(capture->unknown_link);

	if (capture->unknown_links && capture->unknown_links == capture->packets)
		fail(STATUS_USAGE, "%s: packets of the link type %s can't be read", name, link);
	if (capture->unknown_links)
		complain("%s: %llu packets of link types that can't be read, such as %s, are left out", name,
			 (unsigned long long)capture->unknown_links, link);
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
	char problem[PCAP_ERRBUF_SIZE] = "";
	const char *name;
	struct outputs outputs;
	struct capture capture;
	struct flows flows;
	struct source *source;
	bool whole;

	signal(SIGPIPE, SIG_IGN); /* so that write() reports it as an error */
	listen_for_end();
	name = strcmp(options.file, "-") ? options.file : "standard input";
	reading = source = open_capture(options.file, name);
	outputs = (struct outputs){
		.series = open_output(options.series),
		.json = open_output(options.json),
		.text = open_output(options.text),
		.interval_ns = options.interval_ns,
		.most_connections = (uint64_t)options.most_connections,
	};
	flows_open(&flows, &outputs);
	whole = reader_run(source, &options, &flows, &capture, problem) || asked_to_end;
	tell_unknown_links(&capture, name);
	flows_close(&flows, &capture);
	close_output(outputs.series, options.series);
	close_output(outputs.json, options.json);
	close_output(outputs.text, options.text);
	reading = NULL;
	source_close(source);
	if (!whole)
		fail(STATUS_CUT, "%s: the capture is cut or damaged after %llu packets, which count: %s", name,
		     (unsigned long long)capture.packets, problem);
	return STATUS_GOOD;
}
