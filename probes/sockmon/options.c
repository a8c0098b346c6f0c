/* The command line: getopt_long() reads it, one function a kind of value checks it. */
#include "fail.h"
#include "sockmon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = {
	.rate_hz = 100,
	.slow_hz = 10,
	.discover_hz = 5,
	.filter = {
		.local_ports = { 0, UINT16_MAX },
		.remote_ports = { 0, UINT16_MAX },
		.any_ports = { 0, UINT16_MAX },
	},
};

static const char usage[] =
	"Usage: ccmix-sockmon WHAT... [OPTION]...\n"
	"\n"
	"Samples what the kernel knows of TCP sockets, queues, links, counters and processors, on absolute deadlines and\n"
	"without starting a process, and writes a binary stream that ccmix turns into tables (probes/sockmon/README.md).\n"
	"It ends with a last sample on SIGTERM and SIGINT.\n"
	"\n"
	"What to record; each may be given more than once, and NETNS is a name as of 'ip netns':\n"
	"  -s, --sockets[=NETNS]       TCP sockets that have a peer, here or in a network namespace\n"
	"  -q, --queue=[NETNS/]DEVICE  the qdiscs of a device\n"
	"  -l, --link=[NETNS/]DEVICE   the counters of a device\n"
	"  -n, --counters[=NETNS]      SNMP and TcpExt counters, and the machine's softnet backlog\n"
	"  -c, --cpu[=LIST]            cores: all, or as in 0,4-7\n"
	"  -p, --pid=PID               the processor time of a process\n"
	"  -t, --tree=PID              that of a process and of all that descend from it\n"
	"\n"
	"Which sockets (all conditions must hold; PORTS is 5201 or 5201-5210):\n"
	"      --local=ADDRESS[/BITS]  --remote=ADDRESS[/BITS], up to 8 times: any of them\n"
	"      --local-port=PORTS      --remote-port=PORTS\n"
	"      --port=PORTS            at either end\n"
	"      --cgroup=FOLDER         made by a process of this cgroup v2, as in /sys/fs/cgroup/test.slice; not by one of a\n"
	"                              cgroup below it. Sockets that no search saw are left out, as nobody knows theirs\n"
	"\n"
	"How often, in Hz:\n"
	"  -r, --rate=HZ               sockets, queues and links; 0.1 to 1000, by default 100\n"
	"      --slow-rate=HZ          counters, cores and processes; by default 10\n"
	"      --discover-rate=HZ      new sockets and qdiscs are looked for; by default 5. Sockets that live for less than\n"
	"                              that leave their final counters, where the kernel tells of their end\n"
	"\n"
	"How long, and where to:\n"
	"  -d, --duration=SECONDS      end by itself\n"
	"  -e, --until-eof             end when standard input does, as when an SSH connection breaks\n"
	"  -o, --output=FILE           instead of standard output\n"
	"  -h, --help\n"
	"\n"
	"Exit status: 0 recorded, 1 failed, 2 wrong options. Destroy events and other namespaces need CAP_NET_ADMIN and\n"
	"CAP_SYS_ADMIN; the rest any user may read.\n"
	"\n"
	"  ccmix-sockmon --sockets --port=5201 --rate=1000 --cpu --counters --until-eof -o run.sockmon\n"
	"  ccmix-sockmon --sockets=h1 --queue=router/eth1 --rate=1000 --duration=60 -o run.sockmon\n";

enum { LOCAL = 256, REMOTE, LOCAL_PORT, REMOTE_PORT, PORT, CGROUP, SLOW_RATE, DISCOVER_RATE };

static const struct option long_options[] = {
	{ "sockets", optional_argument, NULL, 's' },
	{ "queue", required_argument, NULL, 'q' },
	{ "link", required_argument, NULL, 'l' },
	{ "counters", optional_argument, NULL, 'n' },
	{ "cpu", optional_argument, NULL, 'c' },
	{ "pid", required_argument, NULL, 'p' },
	{ "tree", required_argument, NULL, 't' },
	{ "local", required_argument, NULL, LOCAL },
	{ "remote", required_argument, NULL, REMOTE },
	{ "local-port", required_argument, NULL, LOCAL_PORT },
	{ "remote-port", required_argument, NULL, REMOTE_PORT },
	{ "port", required_argument, NULL, PORT },
	{ "cgroup", required_argument, NULL, CGROUP },
	{ "rate", required_argument, NULL, 'r' },
	{ "slow-rate", required_argument, NULL, SLOW_RATE },
	{ "discover-rate", required_argument, NULL, DISCOVER_RATE },
	{ "duration", required_argument, NULL, 'd' },
	{ "until-eof", no_argument, NULL, 'e' },
	{ "output", required_argument, NULL, 'o' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static void wrong(const char *option, const char *value, const char *right)
{
	fail(EXIT_USAGE, "--%s=%s: %s is expected; see --help", option, value, right);
}

static double read_number(const char *option, const char *value, double least, double most)
{
	char right[64], *end;
	double number = strtod(value, &end);

	if (end != value && !*end && number >= least && number <= most)
		return number;
	snprintf(right, sizeof(right), "a number from %g to %g", least, most);
	wrong(option, value, right);
	return 0;
}

/* "N" or "N-M" up to `most`, and *value moves behind it. */
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

static void read_ports(const char *option, const char *value, struct ports *ports)
{
	const char *at = value;
	unsigned long low, high;

	if (!read_range(&at, UINT16_MAX, &low, &high) || *at)
		wrong(option, value, "a port or a range of ports, as in 5201-5210,");
	ports->low = (uint16_t)low;
	ports->high = (uint16_t)high;
}

static void read_host(const char *option, const char *value, struct host *host)
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
		wrong(option, value, "an IPv4 or IPv6 address, as in 10.0.0.1 or 2001:db8::/64,");
	host->prefix = host->family == AF_INET ? 32 : 128;
	if (slash) {
		const char *at = slash + 1;

		if (!read_range(&at, host->prefix, &bits, &bits) || *at)
			wrong(option, value, "a prefix length no longer than the address");
		host->prefix = (unsigned int)bits;
	}
}

static void read_remote(const char *option, const char *value, struct filter *filter)
{
	if (filter->remote_count == MAX_REMOTES)
		fail(EXIT_USAGE, "--%s is given more than %d times", option, MAX_REMOTES);
	read_host(option, value, &filter->remotes[filter->remote_count++]);
}

static void read_name(const char *option, const char *value, const char *name, size_t bytes,
		      char *into)
{
	if (!bytes || bytes >= NAME_BYTES || !strncmp(name, ".", bytes) ||
	    !strncmp(name, "..", bytes) ||
	    memchr(name, '/', bytes) || memchr(name, '\n', bytes))
		wrong(option, value,
		      "a name, or a network namespace's and a device's with '/' between them,");
	memcpy(into, name, bytes);
	into[bytes] = 0;
}

static void count_target(const char *option, int *count)
{
	if (*count == MAX_TARGETS)
		fail(EXIT_USAGE, "--%s is given more than %d times", option, MAX_TARGETS);
	(*count)++;
}

static void read_netns(const char *option, const char *value, char (*names)[NAME_BYTES], int *count)
{
	count_target(option, count);
	names[*count - 1][0] = 0;
	if (value)
		read_name(option, value, value, strlen(value), names[*count - 1]);
}

static void read_device(const char *option, const char *value, bool queue)
{
	const char *slash = strchr(value, '/'), *name = slash ? slash + 1 : value;
	struct device_name device = { 0 };
	int n = 0;

	if (slash)
		read_name(option, value, value, (size_t)(slash - value), device.netns);
	read_name(option, value, name, strlen(name), device.name);
	while (n < options.device_count && (strcmp(options.devices[n].netns, device.netns) ||
					    strcmp(options.devices[n].name, device.name)))
		n++;
	if (n == options.device_count) {
		count_target(option, &options.device_count);
		options.devices[n] = device;
	}
	if (queue)
		options.devices[n].queue = true;
	else
		options.devices[n].link = true;
}

static void read_cores(const char *option, const char *value)
{
	const unsigned long most = sizeof(options.cores) * 8 - 1;
	const char *at = value;
	unsigned long low, high;

	options.cpu = true;
	if (!value || !strcmp(value, "all")) {
		memset(options.cores, 0xff, sizeof(options.cores));
		return;
	}
	do {
		if (!read_range(&at, most, &low, &high))
			wrong(option, value, "'all' or a list of cores, as in 0,4-7,");
		for (; low <= high; low++)
			options.cores[low / 8] |= (uint8_t)(1 << low % 8);
	} while (*at++ == ',');
	if (at[-1])
		wrong(option, value, "'all' or a list of cores, as in 0,4-7,");
}

static void read_pid(const char *option, const char *value, bool tree)
{
	const char *at = value;
	unsigned long pid, same;

	if (!read_range(&at, 1 << 22, &pid, &same) || *at || !pid)
		wrong(option, value, "a process's number");
	count_target(option, &options.pid_count);
	options.pids[options.pid_count - 1].pid = (int)pid;
	options.pids[options.pid_count - 1].tree = tree;
}

static void read_option(int letter, const char *name, const char *value)
{
	struct filter *filter = &options.filter;

	switch (letter) {
	case 's': read_netns(name, value, options.sockets, &options.socket_count); break;
	case 'n': read_netns(name, value, options.counters, &options.counter_count); break;
	case 'q': read_device(name, value, true); break;
	case 'l': read_device(name, value, false); break;
	case 'c': read_cores(name, value); break;
	case 'p': read_pid(name, value, false); break;
	case 't': read_pid(name, value, true); break;
	case LOCAL: read_host(name, value, &filter->local); break;
	case REMOTE: read_remote(name, value, filter); break;
	case LOCAL_PORT: read_ports(name, value, &filter->local_ports); break;
	case REMOTE_PORT: read_ports(name, value, &filter->remote_ports); break;
	case PORT: read_ports(name, value, &filter->any_ports); break;
	case CGROUP: options.cgroup = value; break;
	case 'r': options.rate_hz = read_number(name, value, 0.1, 1000); break;
	case SLOW_RATE: options.slow_hz = read_number(name, value, 0.01, 1000); break;
	case DISCOVER_RATE: options.discover_hz = read_number(name, value, 0.01, 1000); break;
	case 'd': options.duration_s = read_number(name, value, 0.001, 1e8); break;
	case 'e': options.until_eof = true; break;
	case 'o': options.output = value; break;
	}
}

void read_options(int argc, char **argv)
{
	int letter;

	while ((letter = getopt_long(argc, argv, "s::q:l:n::c::p:t:r:d:eo:h", long_options,
				     NULL)) != -1) {
		const struct option *option = long_options;

		if (letter == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (letter == '?')
			exit(EXIT_USAGE);	/* getopt has said why */
		while (option->val != letter)
			option++;
		read_option(letter, option->name, optarg);
	}
	if (optind < argc)
		fail(EXIT_USAGE, "%s is no option; see --help", argv[optind]);
	if (!options.socket_count && !options.device_count && !options.counter_count &&
	    !options.cpu &&
	    !options.pid_count)
		fail(EXIT_USAGE,
		     "nothing to record: --sockets, --queue, --link, --counters, --cpu, --pid or --tree; "
		     "see --help");
}
