/*
 * What the parts of the probe share. Each recorder has a set-up and a sample(), called by the loop
 * in main.c.
 */
#ifndef CCMIX_SOCKMON_H
#define CCMIX_SOCKMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>

#define MAX_TARGETS 512		/* a lab of 200 senders has 400 namespaces */
#define MAX_REMOTES 8
#define NAME_BYTES 64

/* An address with a prefix; family AF_UNSPEC matches any. */
struct host {
	int family;
	unsigned int prefix;
	uint8_t address[16];
};

struct ports {
	uint16_t low, high;	/* 0 to 65535 matches any */
};

struct filter {
	struct host local;
	struct host remotes[MAX_REMOTES];	/* one of them */
	int remote_count;
	struct ports local_ports, remote_ports, any_ports;
	uint64_t cgroup;	/* the kernel's number of it; 0 matches any */
};

/* A device, and the network namespace that it is in; an empty name is the probe's own. */
struct device_name {
	char netns[NAME_BYTES];
	char name[NAME_BYTES];
	bool queue, link;
};

struct options {
	double rate_hz, slow_hz, discover_hz;
	double duration_s;	/* 0: until a signal */
	bool until_eof;
	const char *output;	/* NULL: standard output */
	const char *cgroup;	/* a folder of cgroup v2; NULL: any */
	struct filter filter;
	int socket_count, device_count, counter_count, pid_count;
	char sockets[MAX_TARGETS][NAME_BYTES];	/* network namespaces */
	struct device_name devices[MAX_TARGETS];
	char counters[MAX_TARGETS][NAME_BYTES];	/* network namespaces */
	bool cpu;
	uint8_t cores[8192 / 8];
	struct {
		int pid;
		bool tree;
	} pids[MAX_TARGETS];
};

extern struct options options;

void read_options(int argc, char **argv);

/* How the probe did; its counts are the final record. */
struct report {
	uint64_t samples, missed, longest_delay_ns, longest_sample_ns, longest_write_ns, writes;
	uint64_t dumps, longest_dump_ns, interrupted_dumps, events;
	uint64_t lost_replies, lost_events, truncated;
	uint64_t sockets_found, sockets_closed, sockets_vanished, device_errors;
	uint64_t memory_start_bytes, memory_bytes, stream_bytes;
};

extern struct report report;

uint64_t mono_ns(void);
uint64_t wall_ns(void);

/*
 * filter.c: the filter as the kernel's bytecode, and here for what the kernel doesn't filter; that
 * has no cgroup to compare.
 */
#define BYTECODE_BYTES 512
size_t filter_bytecode(const struct filter *filter, uint8_t *code);
bool filter_matches(const struct filter *filter, int family, const void *local, const void *remote,
		    uint16_t local_port, uint16_t remote_port);

/* cgroup.c: the kernel's number of a cgroup, from 1; fails where the folder is none of cgroup v2. */
uint64_t cgroup_id(const char *folder);

/* netns.c: run open_it in a network namespace, and come back. */
int open_in_netns(const char *netns, int (*open_it)(void *argument), void *argument);

/* sockets.c */
void sockets_open(void);
void sockets_sample(void);
void sockets_discover(void);	/* dumps, and what the destroy events brought */
void sockets_last_events(void);

/* devices.c */
void devices_open(void);
void devices_sample(void);
void devices_discover(void);

/* counters.c, cpu.c, processes.c: at the slow rate */
void counters_open(void);
void counters_sample(void);
void cpu_open(void);
void cpu_sample(void);
void processes_open(void);
void processes_sample(void);
void processes_scan(unsigned int entries);	/* the next entries of /proc, for the trees */

#endif
