// SPDX-License-Identifier: Apache-2.0
/* The one place that checks options. */
#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "error.h"

#define INTERVAL_DEFAULT_NS 100000000LL
#define INTERVAL_MIN_S 0.01
#define INTERVAL_MAX_S 86400.0

static const char usage[] =
	"usage: ccmix-capflow [options] FILE|-\n"
	"\n"
	"Turns a capture (pcap or pcapng; - is standard input) into a series per TCP connection and direction,\n"
	"and a summary of each connection.\n"
	"\n"
	"  --series[=FILE]        write the series as CSV, to FILE or standard output\n"
	"  --summary-json[=FILE]  write the summary as JSON\n"
	"  --summary[=FILE]       write the summary as text; this is what is done where nothing is asked for\n"
	"  --interval TIME        of the series: 10ms to 1d, such as 100ms (the default) or 1s\n"
	"  --host ADDRESS         only connections with this end\n"
	"  --port PORT            only connections with this port at either end\n"
	"  --version\n"
	"  --help\n";

enum { OPTION_SERIES = 256, OPTION_JSON, OPTION_TEXT, OPTION_INTERVAL, OPTION_HOST, OPTION_PORT, OPTION_VERSION,
       OPTION_HELP };

static const struct option list[] = {
	{ "series", optional_argument, NULL, OPTION_SERIES },
	{ "summary-json", optional_argument, NULL, OPTION_JSON },
	{ "summary", optional_argument, NULL, OPTION_TEXT },
	{ "interval", required_argument, NULL, OPTION_INTERVAL },
	{ "host", required_argument, NULL, OPTION_HOST },
	{ "port", required_argument, NULL, OPTION_PORT },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ 0 },
};

static int64_t read_interval(const char *text)
{
	double seconds = duration_s(text);

	if (!(seconds >= INTERVAL_MIN_S && seconds <= INTERVAL_MAX_S))
		fail(STATUS_USAGE, "--interval '%s': give a time from 10ms to 1d, such as 100ms", text);
	return (int64_t)llround(seconds * 1e6) * 1000;
}

static void read_host(struct options *options, const char *text)
{
	if (inet_pton(AF_INET, text, options->host) == 1)
		options->host_version = 4;
	else if (inet_pton(AF_INET6, text, options->host) == 1)
		options->host_version = 6;
	else
		fail(STATUS_USAGE, "--host '%s': give an IPv4 or IPv6 address", text);
}

static uint16_t read_port(const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 1 || value > 65535)
		fail(STATUS_USAGE, "--port '%s': give a number from 1 to 65535", text);
	return (uint16_t)value;
}

static void check_outputs(struct options *options)
{
	const char *outputs[] = { options->series, options->json, options->text };
	int standard = 0;

	for (int i = 0; i < 3; i++)
		standard += outputs[i] && !strcmp(outputs[i], "-");
	if (standard > 1)
		fail(STATUS_USAGE, "only one result can go to standard output: give the others a file, as in --series=FILE");
	if (!options->series && !options->json && !options->text)
		options->text = "-";
}

struct options options_read(int count, char **arguments)
{
	struct options options = { .interval_ns = INTERVAL_DEFAULT_NS };
	int option;

	opterr = 0;
	while ((option = getopt_long(count, arguments, ":", list, NULL)) != -1) {
		switch (option) {
		case OPTION_SERIES:
			options.series = optarg ? optarg : "-";
			break;
		case OPTION_JSON:
			options.json = optarg ? optarg : "-";
			break;
		case OPTION_TEXT:
			options.text = optarg ? optarg : "-";
			break;
		case OPTION_INTERVAL:
			options.interval_ns = read_interval(optarg);
			break;
		case OPTION_HOST:
			read_host(&options, optarg);
			break;
		case OPTION_PORT:
			options.port = read_port(optarg);
			break;
		case OPTION_VERSION:
			puts("ccmix-capflow 1");
			exit(STATUS_GOOD);
		case OPTION_HELP:
			fputs(usage, stdout);
			exit(STATUS_GOOD);
		case ':':
			fail(STATUS_USAGE, "%s needs a value", arguments[optind - 1]);
		default:
			fail(STATUS_USAGE, "no option %s: see --help", arguments[optind - 1]);
		}
	}
	if (optind + 1 != count)
		fail(STATUS_USAGE, "give one capture, or - for standard input: see --help");
	options.file = arguments[optind];
	check_outputs(&options);
	return options;
}
