/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of sockets by BPF programs, of all sockets in one system call. `ccmix-cca watch` loads the
 * programs, and starts the probe with their descriptors in the environment (cca/bpf/README.md).
 */
#ifndef SOCKMON_VALUES_H
#define SOCKMON_VALUES_H

#include "socket_values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether there are programs, and the kernel's tcp_info, which is this long, is the one that they fill in. */
bool values_open(size_t info_bytes);

/* Notes a socket that values_mark() is to look for. */
void values_want(uint64_t cookie);

/*
 * Marks the wanted sockets of a network namespace, so that values_read() has them until they close. A
 * walk through the kernel's table, unless none is wanted.
 */
void values_mark(const char *netns);

/*
 * Reads the values of the marked sockets of all network namespaces, into an array that the next call
 * reuses; returns how many. It may lack some, whatever their state.
 */
size_t values_read(const struct socket_values **values);

#endif
