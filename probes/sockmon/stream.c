// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include "clock.h"
#include "fail.h"
#include "memory.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_NS 100000000ull	/* a crash loses no more than this */
/* few enough to be in the cache still; larger buffers cost a third of all time */
#define FLUSH_BYTES (1u << 16)

static struct {
	int fd;
	char *buffer;
	size_t used, room;
	uint64_t flush_ns;
	/* the sample under construction */
	bool open;
	size_t begin;
	size_t rows, most_rows, row_bytes, info_bytes;
	uint64_t mono_ns, wall_ns;
	enum record_type type;
} stream;

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

static char *reserve(size_t bytes)
{
	if (stream.used + bytes > stream.room) {
		stream.room = 2 * (stream.used + bytes);
		stream.buffer = resize(stream.buffer, stream.room, 1);
	}
	return stream.buffer + stream.used;
}

void stream_open(const char *path, const char *text)
{
	struct stream_header header = {
		.byte_order = STREAM_BYTE_ORDER,
		.version = STREAM_VERSION,
		.start_mono_ns = mono_ns(),
		.start_wall_ns = wall_ns(),
		.text_bytes = (uint32_t)padded(strlen(text)),
	};
	char *at;

	stream.fd = STDOUT_FILENO;
	if (path) {
		stream.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (stream.fd < 0)
			fail_errno("%s", path);
	}
	memcpy(header.magic, STREAM_MAGIC, sizeof(header.magic));
	/* reserved and touched now, so that later samples are not late for it */
	reserve(2 * FLUSH_BYTES);
	memset(stream.buffer, 0, stream.room);
	at = reserve(sizeof(header) + header.text_bytes);
	memcpy(at, &header, sizeof(header));
	memset(at + sizeof(header), '\n', header.text_bytes);
	memcpy(at + sizeof(header), text, strlen(text));
	stream.used += sizeof(header) + header.text_bytes;
	stream_flush(true);
}

/* Moves the sample under construction on; it keeps the room that it has reserved. */
static char *make_room_before_sample(size_t bytes)
{
	char *at;

	reserve(bytes + (stream.most_rows - stream.rows) * stream.row_bytes + 8);
	at = stream.buffer + stream.begin;
	memmove(at + bytes, at, stream.used - stream.begin);
	stream.begin += bytes;
	return at;
}

void stream_put(enum record_type type, const void *body, size_t bytes)
{
	struct record record = { .bytes = (uint32_t)padded(sizeof(record) + bytes), .type = type };
	char *at = stream.open ? make_room_before_sample(record.bytes) : reserve(record.bytes);

	memset(at, 0, record.bytes);
	memcpy(at, &record, sizeof(record));
	memcpy(at + sizeof(record), body, bytes);
	stream.used += record.bytes;
}

void stream_text(enum record_type type, const char *text)
{
	stream_put(type, text, strlen(text));
}

void sample_begin(enum record_type type, size_t most_rows, size_t row_bytes, size_t info_bytes)
{
	reserve(sizeof(struct record) + sizeof(struct sample) + most_rows * row_bytes + 8);
	stream.open = true;
	stream.begin = stream.used;
	stream.used += sizeof(struct record) + sizeof(struct sample);
	stream.type = type;
	stream.rows = 0;
	stream.most_rows = most_rows;
	stream.row_bytes = row_bytes;
	stream.info_bytes = info_bytes;
	stream.mono_ns = mono_ns();
	stream.wall_ns = wall_ns();
}

void *sample_row(void)
{
	char *row = stream.buffer + stream.used;

	if (stream.rows == stream.most_rows)
		return NULL;
	memset(row, 0, stream.row_bytes);
	stream.rows++;
	stream.used += stream.row_bytes;
	return row;
}

size_t sample_rows(void)
{
	return stream.rows;
}

void *sample_row_at(size_t number)
{
	return stream.buffer + stream.begin + sizeof(struct record) + sizeof(struct sample) +
	       number * stream.row_bytes;
}

void sample_remove_row(size_t number)
{
	char *row = sample_row_at(number);

	stream.rows--;
	stream.used -= stream.row_bytes;
	memmove(row, row + stream.row_bytes, (stream.rows - number) * stream.row_bytes);
}

void sample_end(void)
{
	struct record record = { .type = stream.type };
	struct sample sample = {
		.mono_ns = stream.mono_ns,
		.wall_ns = stream.wall_ns,
		.rows = (uint32_t)stream.rows,
		.row_bytes = (uint32_t)stream.row_bytes,
		.info_bytes = (uint32_t)stream.info_bytes,
	};
	uint64_t took_ns = mono_ns() - stream.mono_ns;
	size_t end = padded(stream.used);

	stream.open = false;
	if (!stream.rows) {
		stream.used = stream.begin;
		return;
	}
	sample.took_ns = took_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)took_ns;
	memset(stream.buffer + stream.used, 0, end - stream.used);
	stream.used = end;
	record.bytes = (uint32_t)(end - stream.begin);
	memcpy(stream.buffer + stream.begin, &record, sizeof(record));
	memcpy(stream.buffer + stream.begin + sizeof(record), &sample, sizeof(sample));
}

void stream_flush(bool now)
{
	uint64_t begin_ns = mono_ns();
	size_t done = 0;

	if (!now && stream.used < FLUSH_BYTES && begin_ns < stream.flush_ns)
		return;
	while (done < stream.used) {
		ssize_t wrote = write(stream.fd, stream.buffer + done, stream.used - done);

		if (wrote < 0 && errno != EINTR)
			fail_errno("the stream can't be written");
		if (wrote > 0)
			done += (size_t)wrote;
	}
	report_add(REPORT_STREAM_BYTES, stream.used);
	report_add(REPORT_WRITES, stream.used > 0);
	stream.used = 0;
	report_largest(REPORT_LONGEST_WRITE_NS, mono_ns() - begin_ns);
	stream.flush_ns = begin_ns + FLUSH_NS;
}
