/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_OUTSTANDING_H
#define CAPFLOW_OUTSTANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "samples.h"

/* Bounds per direction: segments and time stamps beyond them are counted, but not timed. */
#define SEGMENTS_MAX 32768
#define STAMPS_MAX 1024

/* A segment that waits for its ACK. */
struct sent {
	int64_t time_ns; /* of its last transmission */
	uint32_t begin, end;
	uint32_t retransmitted; /* times */
	uint32_t order, last;   /* of its first and its last transmission among all */
};

/* A ring of segments in the order of their sequence numbers. */
struct outstanding {
	struct sent *all;
	uint32_t first, count, room; /* room is a power of 2 */
	uint32_t transmissions;
	uint64_t untracked; /* segments for which there was no room */
};

/* Adds a segment of new data, above all before. */
void outstanding_send(struct outstanding *out, uint32_t begin, uint32_t end, int64_t time_ns);

/*
 * Notes a transmission below the highest sequence number, of old data or into a hole. Adds the time since the
 * transmission before to `waits`; returns how often the segment of it that was repeated most has been repeated.
 */
uint32_t outstanding_repeat(struct outstanding *out, uint32_t begin, uint32_t end, int64_t time_ns,
			    struct samples *waits);

/* Takes a cumulative ACK that advances; returns the RTT, or -1 where the ACK may be that of another transmission. */
int64_t outstanding_acknowledge(struct outstanding *out, uint32_t acknowledgment, int64_t time_ns);

void outstanding_free(struct outstanding *out);

/* A ring of the time stamps (RFC 7323) that were sent and have not come back. */
struct stamps {
	struct stamp {
		int64_t time_ns;
		uint32_t value;
	} *all;
	uint32_t first, count, room;
	bool any;
	uint32_t newest; /* the newest ever sent */
};

/* Notes when a value is sent for the first time. */
void stamps_send(struct stamps *stamps, uint32_t value, int64_t time_ns);

/* Takes a value that comes back; returns the RTT the first time that it does, else -1. */
int64_t stamps_echo(struct stamps *stamps, uint32_t value, int64_t time_ns);

void stamps_free(struct stamps *stamps);

#endif
