// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <time.h>

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

int64_t mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}
