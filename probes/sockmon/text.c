// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include "memory.h"

#include <stdbool.h>
#include <unistd.h>

static char *buffer;
static size_t room;

static char *read_all(int fd, bool once)
{
	size_t used = 0;

	for (;;) {
		ssize_t got;

		if (room - used < 4096) {
			room += 16384;
			buffer = resize(buffer, room, 1);
		}
		if (once)
			got = read(fd, buffer + used, room - used - 1);
		else
			got = pread(fd, buffer + used, room - used - 1, (off_t)used);
		if (got < 0)
			return NULL;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	buffer[used] = 0;
	return buffer;
}

char *read_text(int fd)
{
	return read_all(fd, false);
}

char *read_text_once(int fd)
{
	return read_all(fd, true);
}

uint64_t next_number(char **at)
{
	char *digit = *at;
	uint64_t value = 0;

	while (*digit == ' ' || *digit == '\t')
		digit++;
	/* only iowait of old kernels and Tcp's MaxConn can be below zero */
	if (*digit == '-')
		digit++;
	if (*digit < '0' || *digit > '9')
		return 0;
	while (*digit >= '0' && *digit <= '9')
		value = value * 10 + (uint64_t)(*digit++ - '0');
	*at = digit;
	return value;
}
