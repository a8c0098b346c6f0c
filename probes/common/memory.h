/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, or the end of the program: neither function returns NULL. */
#ifndef COMMON_MEMORY_H
#define COMMON_MEMORY_H

#include <stddef.h>

/* Returns an array of `count` elements of `size` zero bytes each. */
void *create(size_t count, size_t size);

/* Changes the length of an array (NULL: there is none yet) as realloc() does. */
void *resize(void *array, size_t count, size_t size);

#endif
