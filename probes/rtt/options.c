// SPDX-License-Identifier: Apache-2.0
#include <netdb.h>
#include <string.h>

#include "clock.h"
#include "fail.h"
#include "option_table.h"
#include "rtt.h"

#define PLACE(member) .place = offsetof(struct options, member)
#define TIMEOUT_NS (2 * SECOND_NS)
/* The kernel sends a SYN again after a second, and the answer would not say to which it belongs. */
#define TCP_TIMEOUT_NS (900 * SECOND_NS / 1000)

static const struct option_row rows[] = {
	{ 0, "rate", "=HZ", "10", "questions, or trains, per second", .parse = option_count,
	  PLACE(rate_hz), .least = 1, .most = 1000 },
	{ 0, "train", "=COUNT", "1", "send so many questions at each deadline; not with --tcp", .parse = option_count,
	  PLACE(train), .least = 1, .most = TRAIN_MOST },
	{ 0, "size", "=BYTES", "16", "the payload of an ICMP echo; not with --tcp", .parse = option_count,
	  PLACE(payload_bytes), .least = PAYLOAD_LEAST, .most = PAYLOAD_MOST },
	{ 0, "duration", "=TIME", NULL, "end by itself; otherwise SIGINT or SIGTERM ends it", .parse = option_time,
	  PLACE(duration_ns), .least = 0.01, .most = 30 * 86400.0 },
	{ 0, "timeout", "=TIME", NULL,
	  "after this time a question counts as lost; with --tcp at most 900ms, which is the default then; else 2s",
	  .parse = option_time, PLACE(timeout_ns), .least = 0.01, .most = 10 },
	{ 0, "tcp", "=PORT", NULL, "ask by TCP (SYN, answered by SYN/ACK or RST) instead of by ICMP echo",
	  .parse = option_port, PLACE(port) },
};

static const struct option_table table = {
	.usage = "[OPTION]... ADDRESS",
	.about = "Asks an IPv4 or IPv6 address at a steady rate, and writes a line of CSV per question: when it was sent,\n"
		 "its number, and the round-trip time, which is empty if no answer came.\n",
	.operand = "one address",
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

static void read_address(struct options *options, const char *text)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
	struct addrinfo *numeric;

	if (getaddrinfo(text, NULL, &hints, &numeric))
		fail(STATUS_USAGE, "'%s': give an IPv4 or IPv6 address; see --help", text);
	memcpy(&options->address, numeric->ai_addr, numeric->ai_addrlen);
	options->address_size = numeric->ai_addrlen;
	freeaddrinfo(numeric);
	if (options->address.ss_family == AF_INET)
		((struct sockaddr_in *)&options->address)->sin_port = htons(options->port);
	else
		((struct sockaddr_in6 *)&options->address)->sin6_port = htons(options->port);
}

struct options options_read(int count, char **arguments)
{
	struct options options = { 0 };
	const char *address = options_parse(&table, count, arguments, &options);

	if (!options.timeout_ns)
		options.timeout_ns = options.port ? TCP_TIMEOUT_NS : TIMEOUT_NS;
	if (options.port && options.timeout_ns > TCP_TIMEOUT_NS)
		fail(STATUS_USAGE, "--timeout: give a time from 10ms to 900ms with --tcp; see --help");
	if (options.port && (options.train > 1 || options.payload_bytes > PAYLOAD_LEAST))
		fail(STATUS_USAGE, "--train, --size: only ICMP has them, so leave out --tcp; see --help");
	read_address(&options, address);
	return options;
}
