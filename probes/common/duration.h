/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_DURATION_H
#define COMMON_DURATION_H

#include <stddef.h>

/* Returns the seconds of a time such as 90s, 1.5m or 100ms (units ms, s, m, h, d); NaN where the text is none. */
double duration_s(const char *text);

/* Writes a time of whole milliseconds in the largest unit of which it is a multiple: 100ms, 90s, 1d. */
void duration_write(double seconds, char *text, size_t room);

#endif
