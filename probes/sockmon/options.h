/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the command line. */
#ifndef SOCKMON_OPTIONS_H
#define SOCKMON_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "filter.h"
#include "netns.h"

#define MAX_TARGETS 2048	/* a lab of 254 senders has 508 namespaces, and five devices for each sender */
#define MAX_CORES 8192
#define MAX_MOMENTS 8

/* A device, and the network namespace that it is in. */
struct device_name {
	char netns[NAME_BYTES];
	char name[NAME_BYTES];
	bool queue, link, watch;	/* which of its parts to record; watch: the least of its root qdisc's backlog */
};

struct options {
	double rate_hz, slow_hz, discover_hz, watch_hz;
	double duration_s;	/* 0: until a signal */
	double grid_s;		/* wall clock: deadlines are multiples of the interval from here; 0: from the start */
	double start_s;		/* wall clock: when SIGUSR1 is expected; 0: not at all */
	double moments_s[MAX_MOMENTS];	/* wall clock: samples besides those of the grid */
	int moment_count;
	bool until_eof;
	const char *output;	/* NULL: standard output */
	const char *cgroup;	/* a folder of cgroup v2; NULL: any */
	struct filter filter;
	int socket_count, device_count, counter_count, pid_count;
	char sockets[MAX_TARGETS][NAME_BYTES];	/* network namespaces */
	struct device_name devices[MAX_TARGETS];
	char counters[MAX_TARGETS][NAME_BYTES];	/* network namespaces */
	bool cpu;
	uint8_t cores[MAX_CORES / 8];	/* a bit for each */
	struct {
		int pid;
		bool tree;
	} pids[MAX_TARGETS];
	bool threads;		/* of the processes of a tree */
};

/* Returns the options; ends the program if one is wrong, or was --help. */
const struct options *options_read(int count, char **arguments);

#endif
