// SPDX-License-Identifier: Apache-2.0
/* Memory, or the end. */
#include "error.h"

#include <stdlib.h>

void *resize(void *array, size_t count, size_t size)
{
	void *new = reallocarray(array, count, size);

	if (!new)
		fail(STATUS_FAILED, "out of memory");
	return new;
}

void *create(size_t size)
{
	void *new = calloc(1, size);

	if (!new)
		fail(STATUS_FAILED, "out of memory");
	return new;
}
