// SPDX-License-Identifier: Apache-2.0
/* The time of each core, from /proc/stat, and its frequency, where /sys has it. */
#include "fail.h"
#include "memory.h"
#include "recorders.h"
#include "stream.h"
#include "text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int stat_fd = -1;
static int *frequencies;	/* by core; -1 if there is none */
static size_t cores;
static const uint8_t *chosen;	/* a bit for each core; NULL: cores are not recorded */

static bool is_chosen(unsigned long core)
{
	return core < MAX_CORES && chosen[core / 8] >> core % 8 & 1;
}

static uint32_t frequency_khz(size_t core)
{
	char text[32];
	ssize_t got;

	if (core >= cores || frequencies[core] < 0)
		return 0;
	got = pread(frequencies[core], text, sizeof(text) - 1, 0);
	if (got <= 0)
		return 0;
	text[got] = 0;
	return (uint32_t)strtoul(text, NULL, 10);
}

void cpu_sample(void)
{
	char *at;

	if (!chosen)
		return;
	sample_begin(RECORD_CPU, cores, sizeof(struct row_cpu), 0);
	at = read_text(stat_fd);
	for (; at && !strncmp(at, "cpu", 3); at = strchr(at, '\n') + 1) {
		struct row_cpu *row;
		unsigned long core;

		at += 3;
		if (*at == ' ')
			continue;	/* the sum over cores */
		core = strtoul(at, &at, 10);
		row = is_chosen(core) ? sample_row() : NULL;
		if (!row)
			continue;
		row->core = (uint32_t)core;
		row->frequency_khz = frequency_khz(core);
		for (int i = 0; i < 10; i++)
			row->ticks[i] = next_number(&at);
	}
	sample_end();
}

void cpu_open(const struct options *options)
{
	if (!options->cpu)
		return;
	chosen = options->cores;
	stat_fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	if (stat_fd < 0)
		fail_errno("/proc/stat");
	cores = (size_t)sysconf(_SC_NPROCESSORS_CONF);
	frequencies = resize(NULL, cores, sizeof(*frequencies));
	for (size_t core = 0; core < cores; core++) {
		char path[96];

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%zu/cpufreq/scaling_cur_freq", core);
		frequencies[core] = is_chosen(core) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	}
}
