/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_SAMPLES_H
#define CAPFLOW_SAMPLES_H

#include <math.h>
#include <stdint.h>

/* The number, extremes and mean of durations, and by Welford's algorithm their deviation. */
struct samples {
	uint64_t count;
	int64_t min_ns, max_ns;
	double mean_ns, squares;
};

static inline void samples_add(struct samples *samples, int64_t ns)
{
	double off = (double)ns - samples->mean_ns;

	if (!samples->count || ns < samples->min_ns)
		samples->min_ns = ns;
	if (!samples->count || ns > samples->max_ns)
		samples->max_ns = ns;
	samples->count++;
	samples->mean_ns += off / (double)samples->count;
	samples->squares += off * ((double)ns - samples->mean_ns);
}

static inline double samples_deviation_ns(const struct samples *samples)
{
	return samples->count > 1 ? sqrt(samples->squares / (double)(samples->count - 1)) : NAN;
}

#endif
