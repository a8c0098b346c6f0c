// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "option_table.h"

#define PLACE(member) .place = offsetof(struct options, member)

static struct options chosen = {
	.filter = {
		.local_ports = { 0, UINT16_MAX },
		.remote_ports = { 0, UINT16_MAX },
		.any_ports = { 0, UINT16_MAX },
	},
};

/* Reads "N" or "N-M" up to `most`, and moves *value behind it. */
static bool read_range(const char **value, unsigned long most, unsigned long *low,
		       unsigned long *high)
{
	char *end;

	if (**value < '0' || **value > '9')
		return false;
	*low = *high = strtoul(*value, &end, 10);
	if (*end == '-') {
		if (end[1] < '0' || end[1] > '9')
			return false;
		*high = strtoul(end + 1, &end, 10);
	}
	*value = end;
	return *low <= *high && *high <= most;
}

static void read_ports(const struct option_row *option, const char *value, void *into)
{
	struct ports *ports = (void *)((char *)into + option->place);
	const char *at = value;
	unsigned long low, high;

	if (!read_range(&at, UINT16_MAX, &low, &high) || *at)
		option_refuse(option, value, "a port or a range of ports, as in 5201-5210");
	ports->low = (uint16_t)low;
	ports->high = (uint16_t)high;
}

static void parse_host(const struct option_row *option, const char *value, struct host *host)
{
	const char *slash = strchr(value, '/');
	char address[64] = "";
	unsigned long bits;
	size_t bytes = slash ? (size_t)(slash - value) : strlen(value);

	if (bytes < sizeof(address))
		memcpy(address, value, bytes);
	if (inet_pton(AF_INET, address, host->address) == 1)
		host->family = AF_INET;
	else if (inet_pton(AF_INET6, address, host->address) == 1)
		host->family = AF_INET6;
	else
		option_refuse(option, value, "an IPv4 or IPv6 address, as in 10.0.0.1 or 2001:db8::/64");
	host->prefix = host->family == AF_INET ? 32 : 128;
	if (slash) {
		const char *at = slash + 1;

		if (!read_range(&at, host->prefix, &bits, &bits) || *at)
			option_refuse(option, value, "a prefix length no longer than the address");
		host->prefix = (unsigned int)bits;
	}
}

static void read_local(const struct option_row *option, const char *value, void *into)
{
	struct options *options = into;

	parse_host(option, value, &options->filter.local);
}

static void read_remote(const struct option_row *option, const char *value, void *into)
{
	struct filter *filter = &((struct options *)into)->filter;

	if (filter->remote_count == MAX_REMOTES)
		fail(STATUS_USAGE, "--%s is given more than %d times", option->name, MAX_REMOTES);
	parse_host(option, value, &filter->remotes[filter->remote_count++]);
}

static void parse_name(const struct option_row *option, const char *value, const char *name,
		       size_t bytes, char *copy)
{
	if (!bytes || bytes >= NAME_BYTES || !strncmp(name, ".", bytes) ||
	    !strncmp(name, "..", bytes) || memchr(name, '/', bytes) || memchr(name, '\n', bytes))
		option_refuse(option, value,
			      "a name, or a network namespace's and a device's with '/' between them");
	memcpy(copy, name, bytes);
	copy[bytes] = 0;
}

/* Makes room for one more, and returns its place. */
static int add_target(const struct option_row *option, int *count)
{
	if (*count == MAX_TARGETS)
		fail(STATUS_USAGE, "--%s is given more than %d times", option->name, MAX_TARGETS);
	return (*count)++;
}

static void read_sockets(const struct option_row *option, const char *value, void *into)
{
	struct options *options = into;
	char *netns = options->sockets[add_target(option, &options->socket_count)];

	if (value)
		parse_name(option, value, value, strlen(value), netns);
}

static void read_counters(const struct option_row *option, const char *value, void *into)
{
	struct options *options = into;
	char *netns = options->counters[add_target(option, &options->counter_count)];

	if (value)
		parse_name(option, value, value, strlen(value), netns);
}

/* Returns the device's place among those that other options named, or a new one. */
static struct device_name *read_device(const struct option_row *option, const char *value,
				       struct options *options)
{
	const char *slash = strchr(value, '/'), *name = slash ? slash + 1 : value;
	struct device_name device = { 0 };

	if (slash)
		parse_name(option, value, value, (size_t)(slash - value), device.netns);
	parse_name(option, value, name, strlen(name), device.name);
	for (int n = 0; n < options->device_count; n++) {
		struct device_name *other = &options->devices[n];

		if (!strcmp(other->netns, device.netns) && !strcmp(other->name, device.name))
			return other;
	}
	options->devices[add_target(option, &options->device_count)] = device;
	return &options->devices[options->device_count - 1];
}

static void read_queue(const struct option_row *option, const char *value, void *into)
{
	read_device(option, value, into)->queue = true;
}

static void read_watch(const struct option_row *option, const char *value, void *into)
{
	struct device_name *device = read_device(option, value, into);

	device->queue = device->watch = true;
}

static void read_link(const struct option_row *option, const char *value, void *into)
{
	read_device(option, value, into)->link = true;
}

static void read_cores(const struct option_row *option, const char *value, void *into)
{
	static const char expected[] = "'all' or a list of cores, as in 0,4-7";
	struct options *options = into;
	const char *at = value;
	unsigned long low, high;

	options->cpu = true;
	if (!value || !strcmp(value, "all")) {
		memset(options->cores, 0xff, sizeof(options->cores));
		return;
	}
	do {
		if (!read_range(&at, MAX_CORES - 1, &low, &high))
			option_refuse(option, value, expected);
		for (; low <= high; low++)
			options->cores[low / 8] |= (uint8_t)(1 << low % 8);
	} while (*at++ == ',');
	if (at[-1])
		option_refuse(option, value, expected);
}

static void parse_pid(const struct option_row *option, const char *value, bool tree,
		      struct options *options)
{
	const char *at = value;
	unsigned long pid, same;
	int n;

	if (!read_range(&at, 1 << 22, &pid, &same) || *at || !pid)
		option_refuse(option, value, "a process's number");
	n = add_target(option, &options->pid_count);
	options->pids[n].pid = (int)pid;
	options->pids[n].tree = tree;
}

static void read_pid(const struct option_row *option, const char *value, void *into)
{
	parse_pid(option, value, false, into);
}

static void read_tree(const struct option_row *option, const char *value, void *into)
{
	parse_pid(option, value, true, into);
}

static void read_moment(const struct option_row *option, const char *value, void *into)
{
	struct options *options = into;
	char *end;
	double seconds = strtod(value, &end);

	if (options->moment_count == MAX_MOMENTS)
		fail(STATUS_USAGE, "--%s is given more than %d times", option->name, MAX_MOMENTS);
	if (end == value || *end || !(seconds >= option->least && seconds <= option->most))
		option_refuse(option, value, "a time in seconds since 1970");
	options->moments_s[options->moment_count++] = seconds;
}

static const struct option_row rows[] = {
	{ .help = "What to record; each may be given more than once. NETNS is a name of 'ip netns':" },
	{ 's', "sockets", "[=NETNS]", NULL, "TCP sockets that have a peer, here or in a network namespace",
	  .parse = read_sockets },
	{ 'q', "queue", "=[NETNS/]DEVICE", NULL, "the qdiscs of a device", .parse = read_queue },
	{ 0, "watch", "=[NETNS/]DEVICE", NULL,
	  "its qdiscs, and the least backlog of its root qdisc between two samples", .parse = read_watch },
	{ 'l', "link", "=[NETNS/]DEVICE", NULL, "the counters of a device", .parse = read_link },
	{ 'n', "counters", "[=NETNS]", NULL,
	  "SNMP and TcpExt counters, and the machine's softnet backlog", .parse = read_counters },
	{ 'c', "cpu", "[=LIST]", NULL, "the time of cores: all, or as in 0,4-7", .parse = read_cores },
	{ 'p', "pid", "=PID", NULL, "the processor time of a process", .parse = read_pid },
	{ 't', "tree", "=PID", NULL,
	  "the processor time of a process and of all that descend from it", .parse = read_tree },
	{ 0, "threads", NULL, NULL, "with --tree: also the processor time of each thread of these",
	  .parse = option_flag, PLACE(threads) },

	{ .help = "Which sockets; all conditions must hold. PORTS is 5201 or 5201-5210:" },
	{ 0, "local", "=ADDRESS[/BITS]", NULL, "the local address", .parse = read_local },
	{ 0, "remote", "=ADDRESS[/BITS]", NULL, "the peer's address; given up to 8 times: one of them",
	  .parse = read_remote },
	{ 0, "local-port", "=PORTS", NULL, "the local port",
	  .parse = read_ports, PLACE(filter.local_ports) },
	{ 0, "remote-port", "=PORTS", NULL, "the peer's port",
	  .parse = read_ports, PLACE(filter.remote_ports) },
	{ 0, "port", "=PORTS", NULL, "the port at either end",
	  .parse = read_ports, PLACE(filter.any_ports) },
	{ 0, "cgroup", "=FOLDER", NULL,
	  "made by a process of this cgroup v2, as in /sys/fs/cgroup/test.slice, but not of a cgroup "
	  "below it; sockets that no search saw are left out, as their cgroup is not known",
	  .parse = option_text, PLACE(cgroup) },

	{ .help = "How often, in Hz:" },
	{ 'r', "rate", "=HZ", "100", "sockets, queues and links",
	  .parse = option_number, PLACE(rate_hz), .least = 0.0001, .most = 1000 },
	{ 0, "slow-rate", "=HZ", "10", "counters, cores and processes",
	  .parse = option_number, PLACE(slow_hz), .least = 0.0001, .most = 1000 },
	{ 0, "discover-rate", "=HZ", "5",
	  "search for new sockets and qdiscs; sockets that live for less than the time between two "
	  "searches leave their final counters, where the kernel reports their end",
	  .parse = option_number, PLACE(discover_hz), .least = 0.0001, .most = 1000 },
	{ 0, "watch-rate", "=HZ", "2000", "backlogs of --watch, besides those of samples",
	  .parse = option_number, PLACE(watch_hz), .least = 0.0001, .most = 10000 },
	{ 0, "grid", "=SECONDS", NULL,
	  "count the times of samples from this one, in seconds since 1970, in both directions",
	  .parse = option_number, PLACE(grid_s), .least = 0, .most = 1e10 },
	{ 0, "start", "=SECONDS", NULL,
	  "what is sampled should start then; if SIGUSR1 comes later, --grid and --also are as much later",
	  .parse = option_number, PLACE(start_s), .least = 0, .most = 1e10 },
	{ 0, "also", "=SECONDS", NULL,
	  "search, and sample, at this time too, in seconds since 1970; given up to 8 times",
	  .parse = read_moment, .least = 0, .most = 1e10 },

	{ .help = "How long, and where to:" },
	{ 'd', "duration", "=SECONDS", NULL, "end by itself",
	  .parse = option_number, PLACE(duration_s), .least = 0.001, .most = 1e8 },
	{ 'e', "until-eof", NULL, NULL, "end when standard input does, as when an SSH connection breaks",
	  .parse = option_flag, PLACE(until_eof) },
	{ 'o', "output", "=FILE", NULL, "write to FILE instead of standard output",
	  .parse = option_text, PLACE(output) },
};

static const struct option_table table = {
	.usage = "WHAT... [OPTION]...",
	.about = "Samples the kernel's state of TCP sockets, queues, links, counters and processors, on absolute\n"
		 "deadlines and without starting a process, and writes a binary stream that ccmix turns into\n"
		 "tables (probes/sockmon/README.md). It ends with a last sample on SIGTERM and SIGINT.\n",
	.notes = "Exit status: 0 recorded, 1 failed, 2 wrong options. Destroy events and other namespaces need\n"
		 "CAP_NET_ADMIN and CAP_SYS_ADMIN; any user may read the rest.\n"
		 "\n"
		 "  ccmix-sockmon --sockets --port=5201 --rate=1000 --cpu --counters --until-eof -o run.sockmon\n"
		 "  ccmix-sockmon --sockets=h1 --queue=router/eth1 --rate=1000 --duration=60 -o run.sockmon\n",
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

const struct options *options_read(int count, char **arguments)
{
	options_parse(&table, count, arguments, &chosen);
	if (!chosen.socket_count && !chosen.device_count && !chosen.counter_count && !chosen.cpu &&
	    !chosen.pid_count)
		fail(STATUS_USAGE,
		     "nothing to record: give --sockets, --queue, --link, --counters, --cpu, --pid "
		     "or --tree; see --help");
	return &chosen;
}
