/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorders. Each opens what the options ask for, and then writes samples into the stream when the
 * loop in main.c calls it; a recorder that was asked for nothing does nothing.
 */
#ifndef SOCKMON_RECORDERS_H
#define SOCKMON_RECORDERS_H

#include "options.h"

/* At the full rate */
void sockets_open(const struct options *options);
void sockets_sample(void);
void sockets_discover(void);	/* searches for new sockets, and takes the destroy events that came */
void sockets_last_events(void);	/* waits for the destroy events of the last sockets */

void devices_open(const struct options *options);
void devices_sample(void);
void devices_discover(void);	/* searches for new qdiscs */
void devices_watch(void);	/* reads the backlogs that are watched, between samples */

/* At the slow rate */
void counters_open(const struct options *options);
void counters_sample(void);

void cpu_open(const struct options *options);
void cpu_sample(void);

void processes_open(const struct options *options);
void processes_sample(void);
void processes_scan(unsigned int entries);	/* reads the next entries of /proc, for the trees */

#endif
