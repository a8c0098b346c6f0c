/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_FLOWS_H
#define CAPFLOW_FLOWS_H

#include <stdint.h>
#include <stdio.h>

#include "capture.h"
#include "connection.h"
#include "packet.h"

/* Where results go; each may be NULL. */
struct outputs {
	FILE *series, *json, *text;
	int64_t interval_ns;
	uint64_t most_connections;
};

/* The connections of a capture that are still open, and those that no other has replaced. */
struct flows {
	struct outputs outputs;
	struct connection **slots;
	uint64_t slot_count; /* a power of 2 */
	uint64_t count, created, written;
	struct connection *oldest, *newest;
	struct connection *last; /* the one that had the last packet */
	struct others others;
};

void flows_open(struct flows *flows, const struct outputs *outputs);

/* Gives a packet to its connection. */
void flows_add(struct flows *flows, const struct packet *packet);

/* Writes the connections that are left, and the end of each output. */
void flows_close(struct flows *flows, const struct capture *capture);

#endif
