/* SPDX-License-Identifier: Apache-2.0 */
/* The running kernel's type information (BTF) on struct tcp_congestion_ops. */
#ifndef KERNEL_TYPES_H
#define KERNEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>

/* Where the value of a struct_ops map has what: in bytes from its beginning. */
struct ops_layout {
	size_t size, name, init;
	bool has_tx_start;		/* it has the hook cwnd_event_tx_start */
	bool has_flag;			/* cong_control has the arguments ack and flag */
};

/* Returns false if the kernel has no type information, or no congestion control by BPF. */
bool find_ops_layout(struct ops_layout *layout);

#endif
