/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_FRAME_H
#define CAPFLOW_FRAME_H

#include <stdint.h>

/* A captured frame: `length` bytes on the wire, of which `captured` are at data until the next frame is read. */
struct frame {
	int64_t time_ns; /* since 1970 */
	int link;	 /* libpcap's DLT_* */
	uint32_t captured, length;
	const uint8_t *data;
};

#endif
