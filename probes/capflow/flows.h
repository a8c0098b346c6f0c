/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_FLOWS_H
#define CAPFLOW_FLOWS_H

#include <stdint.h>
#include <stdio.h>

#include "connection.h"
#include "packet.h"

/* What was in the capture. */
struct capture {
	uint64_t packets;
	uint64_t verdicts[VERDICTS];
	uint64_t filtered;  /* TCP, but not of the host or port that was asked for */
	uint64_t backwards; /* a time before that of the packet before */
	int64_t first_ns, last_ns;
};

/* Where results go; each may be NULL. */
struct outputs {
	FILE *series, *json, *text;
	int64_t interval_ns;
};

/* The connections of a capture that are still open, and those that no other has replaced. */
struct flows {
	struct outputs outputs;
	struct connection **slots;
	uint64_t slot_count; /* a power of 2 */
	uint64_t count, created, written;
	struct connection *oldest, *newest;
	struct connection *last; /* that had a packet */
};

void flows_open(struct flows *flows, const struct outputs *outputs);

/* Gives a packet to its connection. */
void flows_add(struct flows *flows, const struct packet *packet);

/* Writes what is left, and the end of each output. */
void flows_close(struct flows *flows, const struct capture *capture);

#endif
