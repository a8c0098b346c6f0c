/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_ERROR_H
#define CAPFLOW_ERROR_H

#include <stddef.h>

#include "fail.h"

/* Exit statuses */
enum {
	STATUS_GOOD = 0,
	STATUS_CUT = 1,    /* the capture ends in an error; the results are of what stands before it */
	STATUS_USAGE = 2,  /* wrong options, or no capture: there are no results */
	STATUS_FAILED = 3, /* the results could not be written, or memory was too small */
};

/* realloc() of an array that never returns NULL. */
void *resize(void *array, size_t count, size_t size);

/* calloc() of one thing that never returns NULL. */
void *create(size_t size);

#endif
