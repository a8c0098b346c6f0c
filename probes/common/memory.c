// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <stdlib.h>

#include "fail.h"

static void *there(void *memory, size_t count, size_t size)
{
	if (!memory)
		fail(STATUS_FAILED, "out of memory: %zu times %zu bytes", count, size);
	return memory;
}

void *create(size_t count, size_t size)
{
	return there(calloc(count, size), count, size);
}

void *resize(void *array, size_t count, size_t size)
{
	return there(reallocarray(array, count, size), count, size);
}
