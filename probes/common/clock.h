/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

#define SECOND_NS 1000000000LL

/* Returns the time of CLOCK_MONOTONIC in nanoseconds. */
int64_t mono_ns(void);

/* Returns the time since 1970 (CLOCK_REALTIME) in nanoseconds. */
int64_t wall_ns(void);

#endif
