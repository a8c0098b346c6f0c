/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_CAPTURE_H
#define CAPFLOW_CAPTURE_H

#include <stdint.h>

#include "packet.h"

/* Counts of all packets of a capture. */
struct capture {
	uint64_t packets;
	uint64_t verdicts[VERDICTS];
	uint64_t filtered;  /* TCP, but not of the host or port that was asked for */
	uint64_t backwards; /* a time before that of the packet before */
	uint64_t unknown_links; /* frames of a link type that is not decoded, the last of them unknown_link */
	int unknown_link;
	int64_t first_ns, last_ns;
};

/* The packets of connections beyond the maximum number that have results of their own. */
struct others {
	uint64_t packets, syn_packets, payload_bytes;
	int64_t first_ns, last_ns;
};

#endif
