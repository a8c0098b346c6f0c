// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "option_table.h"

#define PLACE(member) .place = offsetof(struct options, member)

static void read_host(const struct option_row *option, const char *value, void *into)
{
	struct options *options = into;

	if (inet_pton(AF_INET, value, options->host) == 1)
		options->host_version = 4;
	else if (inet_pton(AF_INET6, value, options->host) == 1)
		options->host_version = 6;
	else
		option_refuse(option, value, "an IPv4 or IPv6 address");
}

static void write_version(const struct option_row *option, const char *value, void *into)
{
	(void)option;
	(void)value;
	(void)into;
	puts("ccmix-capflow 1");
	exit(STATUS_GOOD);
}

static const struct option_row rows[] = {
	{ 0, "series", "[=FILE]", NULL, "write the series as CSV, to FILE or standard output",
	  .parse = option_output, PLACE(series) },
	{ 0, "summary-json", "[=FILE]", NULL, "write the summary as JSON", .parse = option_output, PLACE(json) },
	{ 0, "summary", "[=FILE]", NULL, "write the summary as text; this is the default where no result is asked for",
	  .parse = option_output, PLACE(text) },
	{ 0, "interval", "=TIME", "100ms", "length of an interval of the series", .parse = option_time,
	  PLACE(interval_ns), .least = 0.001, .most = 86400 },
	{ 0, "host", "=ADDRESS", NULL, "read only connections with this address at either end", .parse = read_host },
	{ 0, "port", "=PORT", NULL, "read only connections with this port at either end",
	  .parse = option_port, PLACE(port) },
	{ 0, "connections", "=N", "100000", "most connections with results of their own; packets of later ones are counted together",
	  .parse = option_count, PLACE(most_connections), .least = 1, .most = 1e9 },
	{ 0, "version", NULL, NULL, "print the version", .parse = write_version },
};

static const struct option_table table = {
	.usage = "[OPTION]... FILE|-",
	.about = "Turns a capture (pcap or pcapng; - is standard input) into a series per TCP connection and direction,\n"
		 "and a summary of each connection.\n",
	.operand = "one capture, or - for standard input",
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

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
	struct options options = { 0 };

	options.file = options_parse(&table, count, arguments, &options);
	check_outputs(&options);
	return options;
}
