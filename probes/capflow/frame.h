/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_FRAME_H
#define CAPFLOW_FRAME_H

#include <stdint.h>

#define SECONDS_MAX 9000000000LL /* that fit in nanoseconds; a capture may say anything */

/* A captured frame: `length` bytes on the wire, of which `captured` are at data until the next frame is read. */
struct frame {
	int64_t time_ns; /* since 1970 */
	int link;	 /* libpcap's DLT_* */
	uint32_t captured, length;
	const uint8_t *data;
};

/* Returns a time in nanoseconds since 1970; at most SECONDS_MAX, and 0 if it is before 1970. */
static inline int64_t frame_time(__int128 seconds, int64_t ns)
{
	if (seconds < 0)
		return 0;
	return (int64_t)(seconds > SECONDS_MAX ? SECONDS_MAX : seconds) * 1000000000 + ns;
}

#endif
