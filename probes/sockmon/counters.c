// SPDX-License-Identifier: Apache-2.0
/*
 * Counters of a network namespace, from /proc/net/snmp and /proc/net/netstat, and of the machine's
 * backlogs.
 */
#include "fail.h"
#include "memory.h"
#include "netns.h"
#include "recorders.h"
#include "stream.h"
#include "text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WANTED 64
#define SOFTNET_COLUMNS 3

/* In the order of the files; a counter that the kernel lacks is left out. */
static const char *const wanted[] = {
	"Ip.InReceives", "Ip.InDiscards", "Ip.OutRequests", "Ip.OutDiscards", "Ip.ReasmFails",
	"Ip.FragCreates", "Icmp.OutMsgs", "Tcp.ActiveOpens", "Tcp.PassiveOpens", "Tcp.AttemptFails",
	"Tcp.EstabResets", "Tcp.CurrEstab", "Tcp.InSegs", "Tcp.OutSegs", "Tcp.RetransSegs",
	"Tcp.InErrs", "Tcp.OutRsts", "Udp.InDatagrams", "Udp.OutDatagrams", "Udp.RcvbufErrors",
	"Udp.SndbufErrors", "TcpExt.PruneCalled", "TcpExt.RcvPruned", "TcpExt.OfoPruned",
	"TcpExt.TW", "TcpExt.DelayedACKs", "TcpExt.ListenOverflows", "TcpExt.ListenDrops",
	"TcpExt.TCPSackRecovery", "TcpExt.TCPSACKReorder", "TcpExt.TCPLostRetransmit",
	"TcpExt.TCPFastRetrans", "TcpExt.TCPSlowStartRetrans", "TcpExt.TCPTimeouts",
	"TcpExt.TCPLossProbes", "TcpExt.TCPLossProbeRecovery", "TcpExt.TCPBacklogCoalesce",
	"TcpExt.TCPDSACKRecv", "TcpExt.TCPAbortOnMemory", "TcpExt.TCPMemoryPressures",
	"TcpExt.TCPMemoryPressuresChrono", "TcpExt.TCPSpuriousRTOs", "TcpExt.TCPBacklogDrop",
	"TcpExt.TCPRcvCollapsed", "TcpExt.TCPOFOQueue", "TcpExt.TCPOFODrop", "TcpExt.TCPRcvQDrop",
	"TcpExt.TCPRetransFail", "TcpExt.TCPWantZeroWindowAdv", "TcpExt.TCPToZeroWindowAdv",
	"TcpExt.TCPAutoCorking", "TcpExt.TCPSynRetrans", "TcpExt.TCPDelivered",
	"TcpExt.TCPDeliveredCE", "TcpExt.TCPHystartTrainDetect", "TcpExt.TCPHystartDelayDetect",
	"TcpExt.TCPZeroWindowDrop", "IpExt.InCEPkts", "IpExt.InECT0Pkts", "IpExt.InECT1Pkts",
	"IpExt.InNoECTPkts",
};

/* /proc/net/softnet_stat: one line a core, hexadecimal, columns 0 to 2. */
static const char *const softnet_names[SOFTNET_COLUMNS] = {
	"Softnet.processed", "Softnet.dropped", "Softnet.time_squeeze",
};

struct wanted {
	uint32_t id;
	int line, column;	/* of the file: its line of numbers, and the number there */
};

struct file {
	int fd;
	int count;
	struct wanted wanted[MAX_WANTED];
};

struct target {
	struct file files[2];	/* snmp, netstat */
};

static struct target *targets;
static int target_count;
static int softnet = -1;
static uint32_t softnet_id, softnet_cores, next_id;

static int open_file(void *path)
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

static uint32_t put_identity(const char *name, int target, int core)
{
	struct id_counter identity = { .id = next_id++, .target = (uint32_t)target, .core = core };

	memcpy(identity.name, name, strnlen(name, sizeof(identity.name) - 1));
	stream_put(RECORD_COUNTER, &identity, sizeof(identity));
	return identity.id;
}

static bool is_wanted(const char *name)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		if (!strcmp(wanted[i], name))
			return true;
	return false;
}

/*
 * Notes where the wanted counters are. Lines come in pairs, names and numbers, and begin with the
 * group's name and a colon.
 */
static void learn(struct file *file, int target)
{
	char *text = read_text(file->fd), *line, *rest = text;

	for (int number = 0; (line = strsep(&rest, "\n")) && *line; number++) {
		char *group = strsep(&line, ":"), *column_name;

		if (number % 2 || !line)
			continue;
		for (int column = 0; (column_name = strsep(&line, " "));) {
			char name[128];

			if (!*column_name)
				continue;
			snprintf(name, sizeof(name), "%s.%s", group, column_name);
			if (is_wanted(name) && file->count < MAX_WANTED)
				file->wanted[file->count++] =
					(struct wanted){ put_identity(name, target, -1), number + 1,
						column };
			column++;
		}
	}
}

static void put(uint32_t id, uint64_t value)
{
	struct row_counter *row = sample_row();

	if (row) {
		row->id = id;
		row->value = value;
	}
}

static void read_file(const struct file *file)
{
	char *at = file->count ? read_text(file->fd) : NULL;
	int line = 0, column = 0;

	for (int i = 0; at && i < file->count; i++) {
		const struct wanted *w = &file->wanted[i];
		uint64_t value = 0;

		while (at && line < w->line) {
			at = strchr(at, '\n');
			at = at ? at + 1 : NULL;
			line++;
			column = -1;
		}
		if (at && column < 0) {
			at = strchr(at, ':');
			at = at ? at + 1 : NULL;
			column = 0;
		}
		if (!at)
			return;
		for (; column <= w->column; column++)
			value = next_number(&at);
		put(w->id, value);
	}
}

/*
 * A core that is offline has no line, so lines are counted, not numbered, unless the kernel numbers
 * them (column 12).
 */
static void read_softnet(void)
{
	char *at = read_text(softnet);

	for (uint32_t n = 0; at && *at && n < softnet_cores; n++) {
		for (uint32_t column = 0; column < SOFTNET_COLUMNS; column++)
			put(softnet_id + n * SOFTNET_COLUMNS + column, strtoull(at, &at, 16));
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
}

static void learn_softnet(void)
{
	char *at = read_text(softnet);

	softnet_id = next_id;
	for (; at && *at; softnet_cores++) {
		unsigned long columns[15] = { 0 };
		int column = 0;

		while (column < 15 && *at && *at != '\n') {
			columns[column++] = strtoul(at, &at, 16);
			while (*at == ' ')
				at++;
		}
		for (int i = 0; i < SOFTNET_COLUMNS; i++)
			put_identity(softnet_names[i], 0,
				     column > 12 ? (int)columns[12] : (int)softnet_cores);
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
}

void counters_sample(void)
{
	if (!target_count)
		return;
	sample_begin(RECORD_COUNTERS, next_id, sizeof(struct row_counter), 0);
	for (int n = 0; n < target_count; n++)
		for (int i = 0; i < 2; i++)
			read_file(&targets[n].files[i]);
	if (softnet >= 0)
		read_softnet();
	sample_end();
}

void counters_open(const struct options *options)
{
	static char *const paths[] = { "/proc/self/net/snmp", "/proc/self/net/netstat" };

	if (!options->counter_count)
		return;
	target_count = options->counter_count;
	targets = create((size_t)target_count, sizeof(*targets));
	for (int n = 0; n < target_count; n++) {
		for (int i = 0; i < 2; i++) {
			struct file *file = &targets[n].files[i];

			file->fd = open_in_netns(options->counters[n], open_file, paths[i]);
			if (file->fd < 0 || !read_text(file->fd))
				fail_errno("%s", paths[i]);
			learn(file, n);
		}
	}
	softnet = open("/proc/net/softnet_stat", O_RDONLY | O_CLOEXEC);
	if (softnet >= 0)
		learn_softnet();
}
