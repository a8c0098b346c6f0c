// SPDX-License-Identifier: Apache-2.0
#include "known.h"

#include "memory.h"

#include <string.h>

#define FIRST_ROOM 256

void known_init(struct known_sockets *sockets)
{
	*sockets = (struct known_sockets){ 0 };
	memset(sockets->buckets, 0xff, sizeof(sockets->buckets));
}

static uint32_t bucket_of(uint64_t cookie)
{
	return (uint32_t)(cookie * 0x9e3779b97f4a7c15ull >> 52);
}

uint32_t known_find(const struct known_sockets *sockets, uint64_t cookie)
{
	uint32_t at = sockets->buckets[bucket_of(cookie)];

	while (at != KNOWN_NONE && sockets->known[at].cookie != cookie)
		at = sockets->known[at].next;
	return at;
}

static void link_known(struct known_sockets *sockets, uint32_t at)
{
	uint32_t *bucket = &sockets->buckets[bucket_of(sockets->known[at].cookie)];

	sockets->known[at].next = *bucket;
	*bucket = at;
}

static void unlink_known(struct known_sockets *sockets, uint32_t at)
{
	uint32_t *link = &sockets->buckets[bucket_of(sockets->known[at].cookie)];

	while (*link != at)
		link = &sockets->known[*link].next;
	*link = sockets->known[at].next;
}

static void put(struct known_sockets *sockets, uint32_t at, const struct known *known,
		const struct request *request)
{
	sockets->known[at] = *known;
	sockets->requests[at] = *request;
	sockets->requests[at].header.nlmsg_seq = at;
	link_known(sockets, at);
}

void known_add(struct known_sockets *sockets, const struct known *known, const struct request *request)
{
	if (sockets->count == sockets->room) {
		sockets->room = sockets->room ? 2 * sockets->room : FIRST_ROOM;
		sockets->known = resize(sockets->known, sockets->room, sizeof(*sockets->known));
		sockets->requests = resize(sockets->requests, sockets->room,
					   sizeof(*sockets->requests));
	}
	put(sockets, sockets->count++, known, request);
}

void known_drop(struct known_sockets *sockets, uint32_t at)
{
	uint32_t last = --sockets->count;

	unlink_known(sockets, at);
	if (at == last)
		return;
	unlink_known(sockets, last);
	put(sockets, at, &sockets->known[last], &sockets->requests[last]);
}

struct leaving *leaving_find(const struct known_sockets *sockets, uint64_t cookie)
{
	for (uint32_t i = 0; i < sockets->leaving_count; i++)
		if (sockets->leaving[i].cookie == cookie)
			return &sockets->leaving[i];
	return NULL;
}

void leaving_add(struct known_sockets *sockets, const struct leaving *leaving)
{
	if (sockets->leaving_count == sockets->leaving_room) {
		sockets->leaving_room = sockets->leaving_room ? 2 * sockets->leaving_room : FIRST_ROOM;
		sockets->leaving = resize(sockets->leaving, sockets->leaving_room,
					  sizeof(*sockets->leaving));
	}
	sockets->leaving[sockets->leaving_count++] = *leaving;
}

void leaving_drop(struct known_sockets *sockets, struct leaving *leaving)
{
	*leaving = sockets->leaving[--sockets->leaving_count];
}

uint32_t leaving_drop_older(struct known_sockets *sockets, uint64_t now_ns, uint64_t age_ns)
{
	uint32_t kept = 0, dropped;

	for (uint32_t i = 0; i < sockets->leaving_count; i++)
		if (now_ns - sockets->leaving[i].since_ns < age_ns)
			sockets->leaving[kept++] = sockets->leaving[i];
	dropped = sockets->leaving_count - kept;
	sockets->leaving_count = kept;
	return dropped;
}
