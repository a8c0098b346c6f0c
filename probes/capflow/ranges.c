// SPDX-License-Identifier: Apache-2.0
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Returns the first range that ends at or after a place, and so the first that can touch one that begins there. */
static uint32_t first_touching(const struct ranges *ranges, uint64_t place)
{
	uint32_t low = 0, high = ranges->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->all[middle].end < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void insert(struct ranges *ranges, uint32_t at, uint64_t begin, uint64_t end)
{
	if (ranges->count == RANGES_MAX) {
		/* The lowest hole has had the longest time to be filled */
		ranges->forgotten++;
		if (at == 0) {
			ranges->all[0].begin = begin;
			return;
		}
		if (at == 1) {
			ranges->all[0].end = end;
			return;
		}
		ranges->all[1].begin = ranges->all[0].begin;
		memmove(ranges->all, ranges->all + 1, (at - 1) * sizeof(*ranges->all));
		ranges->all[at - 1] = (struct range){ begin, end };
		return;
	}
	if (ranges->count == ranges->room) {
		ranges->room = ranges->room ? ranges->room * 2 : 2;
		ranges->all = resize(ranges->all, ranges->room, sizeof(*ranges->all));
	}
	memmove(ranges->all + at + 1, ranges->all + at, (ranges->count - at) * sizeof(*ranges->all));
	ranges->all[at] = (struct range){ begin, end };
	ranges->count++;
}

uint64_t ranges_add(struct ranges *ranges, uint64_t begin, uint64_t end)
{
	uint64_t known = 0, length = end - begin;
	struct range *into, *last = ranges->count ? &ranges->all[ranges->count - 1] : NULL;
	uint32_t at, next;

	if (last && last->end == begin) { /* the case of nearly every packet */
		last->end = end;
		return length;
	}
	at = first_touching(ranges, begin);
	if (at == ranges->count || ranges->all[at].begin > end) {
		insert(ranges, at, begin, end);
		return length;
	}
	/* Grow this one over all that the new range touches */
	into = &ranges->all[at];
	for (next = at; next < ranges->count && ranges->all[next].begin <= end; next++) {
		uint64_t from = ranges->all[next].begin > begin ? ranges->all[next].begin : begin;
		uint64_t to = ranges->all[next].end < end ? ranges->all[next].end : end;

		known += to - from;
	}
	if (begin < into->begin)
		into->begin = begin;
	into->end = ranges->all[next - 1].end > end ? ranges->all[next - 1].end : end;
	memmove(into + 1, ranges->all + next, (ranges->count - next) * sizeof(*ranges->all));
	ranges->count -= next - at - 1;
	return length - known;
}

void ranges_free(struct ranges *ranges)
{
	free(ranges->all);
	memset(ranges, 0, sizeof(*ranges));
}
