/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_RANGES_H
#define CAPFLOW_RANGES_H

#include <stdint.h>

#define RANGES_MAX 1024

struct range {
	uint64_t begin, end; /* end is the first that is not in it */
};

/* The parts of a sequence space that were seen: sorted, apart from each other, at most RANGES_MAX. */
struct ranges {
	struct range *all;
	uint32_t count, room;
	uint64_t forgotten; /* holes that were closed, the lowest first, because there were too many */
};

/* Adds begin to end; returns how many of its bytes had not been there. */
uint64_t ranges_add(struct ranges *ranges, uint64_t begin, uint64_t end);

void ranges_free(struct ranges *ranges);

#endif
