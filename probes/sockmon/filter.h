/* SPDX-License-Identifier: Apache-2.0 */
/* Which sockets are recorded: as the kernel's bytecode, and here for what the kernel does not filter. */
#ifndef SOCKMON_FILTER_H
#define SOCKMON_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_REMOTES 8
#define BYTECODE_BYTES 512

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
	struct host remotes[MAX_REMOTES];	/* one of them must match */
	int remote_count;
	struct ports local_ports, remote_ports, any_ports;
	uint64_t cgroup;	/* the kernel's number of it; 0 matches any */
};

/* Writes the bytecode, of at most BYTECODE_BYTES, and returns its length: 0 where all sockets match. */
size_t filter_bytecode(const struct filter *filter, uint8_t *code);

/* Returns whether a socket matches in all but its cgroup, which the caller can't know. */
bool filter_matches(const struct filter *filter, int family, const void *local, const void *remote,
		    uint16_t local_port, uint16_t remote_port);

#endif
