/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream's writer makes records in a buffer, and writes the buffer now and then, after a sample.
 */
#ifndef CCMIX_STREAM_H
#define CCMIX_STREAM_H

#include "format.h"

#include <stdbool.h>
#include <stddef.h>

void stream_open(const char *path, const char *text);

/* Adds a record of one struct. */
void stream_put(enum record_type type, const void *body, size_t bytes);
void stream_text(enum record_type type, const char *text);

/*
 * A sample begins with room for so many rows; then come the rows, then its end. A sample without rows
 * is dropped.
 */
void sample_begin(enum record_type type, size_t most_rows, size_t row_bytes, size_t info_bytes);
void *sample_row(void);	/* zeroed; NULL if there is no more room */
size_t sample_rows(void);	/* how many there are */
/* A row by its number, from 0; it does not move until the next record or row is added. */
void *sample_row_at(size_t number);
void sample_remove_row(size_t number);	/* those behind it move up */
void sample_end(void);

/* Writes the buffer if it is time, or at once if `now`. */
void stream_flush(bool now);

#endif
