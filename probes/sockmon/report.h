/* SPDX-License-Identifier: Apache-2.0 */
/* How the probe itself did: counts and longest times. README.md defines each. */
#ifndef SOCKMON_REPORT_H
#define SOCKMON_REPORT_H

#include <stdint.h>
#include <stdio.h>

enum report_field {
	REPORT_SAMPLES,
	REPORT_MISSED,
	REPORT_LONGEST_DELAY_NS,
	REPORT_LONGEST_SAMPLE_NS,
	REPORT_LONGEST_WRITE_NS,
	REPORT_WRITES,
	REPORT_DUMPS,
	REPORT_LONGEST_DUMP_NS,
	REPORT_INTERRUPTED_DUMPS,
	REPORT_EVENTS,
	REPORT_LOST_REPLIES,
	REPORT_LOST_EVENTS,
	REPORT_TRUNCATED,
	REPORT_SOCKETS_FOUND,
	REPORT_SOCKETS_CLOSED,
	REPORT_SOCKETS_VANISHED,
	REPORT_DEVICE_ERRORS,
	REPORT_MEMORY_START_BYTES,
	REPORT_MEMORY_BYTES,
	REPORT_STREAM_BYTES,
	REPORT_ROWS_BY_BPF,
	REPORT_FIELDS,
};

/* Adds to a count. */
void report_add(enum report_field field, uint64_t count);

/* Keeps the value if it is the largest so far. */
void report_largest(enum report_field field, uint64_t value);

/* Notes the resident memory after the first sample. */
void report_memory_start(void);

/* Writes lines KEY=VALUE, with the memory and the processor time of now; of the values that only BPF has, if it is used. */
void report_write(FILE *file);

#endif
