// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <sys/resource.h>
#include <unistd.h>

static uint64_t values[REPORT_FIELDS];

static const char *const keys[REPORT_FIELDS] = {
	[REPORT_SAMPLES] = "samples",
	[REPORT_MISSED] = "missed",
	[REPORT_LONGEST_DELAY_NS] = "longest_delay_ns",
	[REPORT_LONGEST_SAMPLE_NS] = "longest_sample_ns",
	[REPORT_LONGEST_WRITE_NS] = "longest_write_ns",
	[REPORT_WRITES] = "writes",
	[REPORT_DUMPS] = "dumps",
	[REPORT_LONGEST_DUMP_NS] = "longest_dump_ns",
	[REPORT_INTERRUPTED_DUMPS] = "interrupted_dumps",
	[REPORT_EVENTS] = "events",
	[REPORT_LOST_REPLIES] = "lost_replies",
	[REPORT_LOST_EVENTS] = "lost_events",
	[REPORT_TRUNCATED] = "truncated",
	[REPORT_SOCKETS_FOUND] = "sockets_found",
	[REPORT_SOCKETS_CLOSED] = "sockets_closed",
	[REPORT_SOCKETS_VANISHED] = "sockets_vanished",
	[REPORT_DEVICE_ERRORS] = "device_errors",
	[REPORT_MEMORY_START_BYTES] = "memory_start_bytes",
	[REPORT_MEMORY_BYTES] = "memory_bytes",
	[REPORT_STREAM_BYTES] = "stream_bytes",
	[REPORT_ROWS_BY_BPF] = "rows_by_bpf",
};

void report_add(enum report_field field, uint64_t count)
{
	values[field] += count;
}

void report_largest(enum report_field field, uint64_t value)
{
	if (value > values[field])
		values[field] = value;
}

static uint64_t memory_bytes(void)
{
	unsigned long long size, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void report_memory_start(void)
{
	values[REPORT_MEMORY_START_BYTES] = memory_bytes();
}

void report_write(FILE *file)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	values[REPORT_MEMORY_BYTES] = memory_bytes();
	fprintf(file, "cpu_us=%llu\n",
		(unsigned long long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		(unsigned long long)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
	for (int field = 0; field < REPORT_FIELDS; field++)
		if (field != REPORT_ROWS_BY_BPF || values[field])
			fprintf(file, "%s=%llu\n", keys[field], (unsigned long long)values[field]);
}
