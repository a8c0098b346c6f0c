// SPDX-License-Identifier: Apache-2.0
/* The one place that checks options. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "rtt.h"

static const char usage[] =
	"usage: ccmix-rtt [options] ADDRESS\n"
	"\n"
	"Asks an IPv4 or IPv6 address at a steady rate, and writes a line of CSV per question: when it was sent, its\n"
	"number, and the round-trip time, empty where no answer came.\n"
	"\n"
	"  --rate HZ        1 to 1000; 10 by default\n"
	"  --duration TIME  such as 90s or 5m; by default until SIGINT or SIGTERM\n"
	"  --timeout TIME   after which a question is lost: 10ms to 10s, 2s by default; with --tcp to 900ms\n"
	"  --tcp PORT       ask by TCP: SYN, answered by SYN/ACK or RST; by default by ICMP echo\n"
	"  --help\n";

static int64_t read_time(const char *name, const char *text, double min_s, double max_s)
{
	double seconds = duration_s(text);

	if (!(seconds >= min_s && seconds <= max_s))
		fail(STATUS_USAGE, "%s '%s': give a time from %g s to %g s, such as 500ms", name, text, min_s, max_s);
	return (int64_t)llround(seconds * 1e9);
}

static long read_number(const char *name, const char *text, long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 1 || value > max)
		fail(STATUS_USAGE, "%s '%s': give a number from 1 to %ld", name, text, max);
	return value;
}

static void read_address(struct options *options, const char *text)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;

	if (getaddrinfo(text, NULL, &hints, &found))
		fail(STATUS_USAGE, "'%s': give an IPv4 or IPv6 address", text);
	memcpy(&options->address, found->ai_addr, found->ai_addrlen);
	options->address_size = found->ai_addrlen;
	freeaddrinfo(found);
	if (options->address.ss_family == AF_INET)
		((struct sockaddr_in *)&options->address)->sin_port = htons(options->port);
	else
		((struct sockaddr_in6 *)&options->address)->sin6_port = htons(options->port);
}

struct options options_read(int count, char **arguments)
{
	static const struct option list[] = {
		{ "rate", required_argument, NULL, 'r' },    { "duration", required_argument, NULL, 'd' },
		{ "timeout", required_argument, NULL, 't' }, { "tcp", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },          { 0 },
	};
	struct options options = { .rate_hz = 10 };
	const char *timeout = NULL;
	int option;

	opterr = 0;
	while ((option = getopt_long(count, arguments, ":", list, NULL)) != -1) {
		switch (option) {
		case 'r':
			options.rate_hz = read_number("--rate", optarg, 1000);
			break;
		case 'd':
			options.duration_ns = read_time("--duration", optarg, 0.01, 30 * 86400.0);
			break;
		case 't':
			timeout = optarg;
			break;
		case 'p':
			options.port = (uint16_t)read_number("--tcp", optarg, 65535);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(STATUS_GOOD);
		case ':':
			fail(STATUS_USAGE, "%s needs a value", arguments[optind - 1]);
		default:
			fail(STATUS_USAGE, "no option %s: see --help", arguments[optind - 1]);
		}
	}
	if (optind + 1 != count)
		fail(STATUS_USAGE, "give one address: see --help");
	/* The kernel sends a SYN again after a second: whose answer would then come? */
	options.timeout_ns = timeout ? read_time("--timeout", timeout, 0.01, options.port ? 0.9 : 10) :
			     options.port ? 900 * SECOND_NS / 1000 : 2 * SECOND_NS;
	read_address(&options, arguments[optind]);
	return options;
}
