/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/net/tcp_bbr2 and tcp_bbr3: what struct tcp_bbr_info has no fields for. A header is followed by
 * a line for each socket of the network namespace:
 *
 *	cookie phase cycle bw_lo_bps inflight_hi_packets inflight_lo_packets
 *
 * A bound that is not set is '-'. Fields that a later version adds at the end of a line are skipped.
 *
 * A CCA that is a BPF program has no such file. `ccmix-cca watch` starts the probe with a BPF iterator,
 * whose descriptor is in the environment, and which gives the same text for all network namespaces, or
 * nothing if no socket has state. The kernel sends no struct tcp_bbr_info of such a socket, so header
 * and lines go on with its members, which have the same units; a minimum RTT that is not known is '-':
 *
 *	bw_bytes_per_s min_rtt_us pacing_gain cwnd_gain
 */
#ifndef SOCKMON_BBR_FILE_H
#define SOCKMON_BBR_FILE_H

#include "format.h"

#include <linux/inet_diag.h>
#include <stdbool.h>

struct bbr_state {
	uint64_t cookie;
	uint64_t bw_lo_bps;	/* BBR_NOT_SET: not set; so are the next ones, truncated to their length */
	uint32_t inflight_hi_packets;
	uint32_t inflight_lo_packets;
	uint32_t cycle;
	enum bbr_phase phase;
	bool has_info;
	struct tcp_bbr_info info;
};

typedef void (*bbr_handler)(const struct bbr_state *state, void *argument);

/* The file of one CCA in one network namespace; it is opened when it is first read, and stays open. */
struct bbr_file {
	const char *cca, *netns;
	int fd;
	int iterator;	/* of BPF; -1 if there is none */
	bool opened, complained;
};

/* Returns the BPF iterator that the environment has for a CCA, or -1. */
int bbr_iterator(const char *cca);

/* Passes the state of each socket to the handler. Returns the error, only once for a file, or NULL. */
const char *bbr_file_read(struct bbr_file *file, bbr_handler handler, void *argument);

/*
 * Passes each line of a file's text to the handler. Returns the number of the first line that is not
 * understood, from 1, or 0. Other lines count nevertheless, but none below an unknown header.
 */
unsigned long bbr_parse(const char *text, bbr_handler handler, void *argument);

#endif
