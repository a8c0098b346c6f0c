/*
 * The stream's writer: records are made in a buffer, which is written now and then, after a sample.
 */
#ifndef CCMIX_STREAM_H
#define CCMIX_STREAM_H

#include "format.h"

#include <stdbool.h>
#include <stddef.h>

void stream_open(const char *path, const char *text);

/* A record of one struct. */
void stream_put(enum record_type type, const void *body, size_t bytes);
void stream_text(enum record_type type, const char *text);

/*
 * A sample: begin with room for so many rows, add rows, end. Nothing is left of one without rows.
 */
void sample_begin(enum record_type type, size_t most_rows, size_t row_bytes, size_t info_bytes);
void *sample_row(void);	/* zeroed; NULL where there is no more room */
void sample_end(void);

/* Writes what there is, if it is time, or at once. */
void stream_flush(bool now);

#endif
