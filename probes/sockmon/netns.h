/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOCKMON_NETNS_H
#define SOCKMON_NETNS_H

#define NAME_BYTES 64		/* of a network namespace's name; an empty one is the probe's own */

/* Runs open_it in a network namespace, comes back, and returns the result of open_it, with its errno. */
int open_in_netns(const char *netns, int (*open_it)(void *argument), void *argument);

#endif
