// SPDX-License-Identifier: Apache-2.0
#include "outstanding.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Sequence numbers and time stamps wrap; these are right for distances below 2^31. */
static bool before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static struct sent *sent_at(const struct outstanding *out, uint32_t index)
{
	return &out->all[(out->first + index) & (out->room - 1)];
}

/* A full ring gets twice the room, its first element moved to the start. */
static void *widen(void *all, uint32_t *first, uint32_t count, uint32_t *room, size_t size)
{
	uint32_t wider = *room ? *room * 2 : 8;
	uint32_t tail = *room - *first; /* elements up to the end of the old ring */
	char *new = resize(NULL, wider, size);

	if (count) {
		memcpy(new, (char *)all + *first * size, tail * size);
		memcpy(new + tail * size, all, (count - tail) * size);
	}
	free(all);
	*first = 0;
	*room = wider;
	return new;
}

void outstanding_send(struct outstanding *out, uint32_t begin, uint32_t end, int64_t time_ns)
{
	uint32_t order = out->transmissions++;

	if (out->count == SEGMENTS_MAX) {
		out->untracked++;
		return;
	}
	if (out->count == out->room)
		out->all = widen(out->all, &out->first, out->count, &out->room, sizeof(*out->all));
	*sent_at(out, out->count++) = (struct sent){ time_ns, begin, end, 0, order, order };
}

uint32_t outstanding_repeat(struct outstanding *out, uint32_t begin, uint32_t end, int64_t time_ns,
			    struct samples *waits)
{
	uint32_t low = 0, high = out->count, most = 0, order = out->transmissions++;

	while (low < high) { /* the first that ends after begin */
		uint32_t middle = low + (high - low) / 2;

		if (before(begin, sent_at(out, middle)->end))
			high = middle;
		else
			low = middle + 1;
	}
	/* Into a hole: the ACK of what lies above has waited for this */
	if (low < out->count && !before(sent_at(out, low)->begin, end))
		sent_at(out, low)->last = order;
	for (; low < out->count && before(sent_at(out, low)->begin, end); low++) {
		struct sent *sent = sent_at(out, low);

		if (time_ns >= sent->time_ns)
			samples_add(waits, time_ns - sent->time_ns);
		sent->time_ns = time_ns;
		sent->last = order;
		if (++sent->retransmitted > most)
			most = sent->retransmitted;
	}
	return most;
}

int64_t outstanding_acknowledge(struct outstanding *out, uint32_t acknowledgment, int64_t time_ns)
{
	int64_t rtt_ns = -1;
	uint32_t last = 0; /* transmission of all that this ACK covers */

	for (bool any = false; out->count && !before(acknowledgment, sent_at(out, 0)->end); any = true) {
		const struct sent *sent = sent_at(out, 0);

		if (!any || before(last, sent->last))
			last = sent->last;
		/* Else the ACK may be that of a second transmission, or have waited for something older to be sent again */
		if (sent->end == acknowledgment && last == sent->order)
			rtt_ns = time_ns - sent->time_ns;
		out->first = (out->first + 1) & (out->room - 1);
		out->count--;
	}
	return rtt_ns;
}

void outstanding_free(struct outstanding *out)
{
	free(out->all);
	out->all = NULL;
	out->first = out->count = out->room = 0;
}

void stamps_send(struct stamps *stamps, uint32_t value, int64_t time_ns)
{
	if (stamps->any && !before(stamps->newest, value))
		return;
	stamps->any = true;
	stamps->newest = value;
	if (stamps->count == STAMPS_MAX)
		return;
	if (stamps->count == stamps->room)
		stamps->all = widen(stamps->all, &stamps->first, stamps->count, &stamps->room, sizeof(*stamps->all));
	stamps->all[(stamps->first + stamps->count++) & (stamps->room - 1)] = (struct stamp){ time_ns, value };
}

int64_t stamps_echo(struct stamps *stamps, uint32_t value, int64_t time_ns)
{
	while (stamps->count) {
		const struct stamp *stamp = &stamps->all[stamps->first];

		if (before(value, stamp->value))
			return -1;
		stamps->first = (stamps->first + 1) & (stamps->room - 1);
		stamps->count--;
		if (stamp->value == value)
			return time_ns - stamp->time_ns;
	}
	return -1;
}

void stamps_free(struct stamps *stamps)
{
	free(stamps->all);
	memset(stamps, 0, sizeof(*stamps));
}
