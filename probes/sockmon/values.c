// SPDX-License-Identifier: Apache-2.0
#include "values.h"

#include "bpf.h"
#include "memory.h"
#include "netns.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROOM_FIRST (64 << 10)
#define READ_BYTES (32 << 10)	/* the kernel gives no more at once */

static struct {
	int mark, write, wanted;	/* descriptors: two iterators, and a map of cookies */
	uint64_t *cookies;		/* in that map */
	size_t cookie_count, cookie_room;
	char *buffer;
	size_t room;
} programs;

bool values_open(size_t info_bytes)
{
	const char *numbers = getenv("CCMIX_SOCKETS");

	return numbers && info_bytes == sizeof(struct values_info) &&
	       sscanf(numbers, "%d %d %d", &programs.mark, &programs.write, &programs.wanted) == 3;
}

void values_want(uint64_t cookie)
{
	if (programs.cookie_count == programs.cookie_room) {
		programs.cookie_room = programs.cookie_room ? 2 * programs.cookie_room : 256;
		programs.cookies = resize(programs.cookies, programs.cookie_room, sizeof(cookie));
	}
	programs.cookies[programs.cookie_count++] = cookie;
	bpf_put(programs.wanted, &cookie, &(uint8_t){ 1 });
}

static int iterate(void *link)
{
	return bpf_iterate(*(int *)link);
}

void values_mark(const char *netns)
{
	char nothing[8];
	int fd;

	if (!programs.cookie_count)
		return;
	fd = open_in_netns(netns, iterate, &programs.mark);
	if (fd >= 0) {
		while (read(fd, nothing, sizeof(nothing)) > 0)
			;
		close(fd);
	}
	while (programs.cookie_count)
		bpf_remove(programs.wanted, &programs.cookies[--programs.cookie_count]);
}

/* Reads all that an iterator gives; what an error cuts off is missing. */
static size_t read_all(int fd)
{
	size_t used = 0;
	ssize_t got;

	do {
		if (programs.room - used < READ_BYTES) {
			programs.room = programs.room ? 2 * programs.room : ROOM_FIRST;
			programs.buffer = resize(programs.buffer, programs.room, 1);
		}
		got = read(fd, programs.buffer + used, READ_BYTES);
		used += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	return used;
}

size_t values_read(const struct socket_values **values)
{
	int fd = bpf_iterate(programs.write);
	size_t bytes;

	if (fd < 0)
		return 0;
	bytes = read_all(fd);
	close(fd);
	*values = (const void *)programs.buffer;
	return bytes / sizeof(**values);
}
