// SPDX-License-Identifier: Apache-2.0
/* The probe's loop: everything is sampled by one thread on absolute deadlines. */
#include "clock.h"
#include "fail.h"
#include "options.h"
#include "recorders.h"
#include "report.h"
#include "stream.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define EOF_NS 100000000ull	/* how often standard input is looked at while a deadline is far */
#define SCAN_PER_S 20000	/* entries of /proc: so that at 1 kHz a sample is not late for it */

static volatile sig_atomic_t stopped, started;

#define SAME_NS 10000		/* samples that are due at times nearer than this are one */
#define LATE_NS 1000000		/* later than planned: JITTER_S in harness/ccmix/analysis/measured.py */

/* When samples are due, by CLOCK_MONOTONIC: every interval from `grid_ns`, in both directions, and at moments. */
struct schedule {
	uint64_t start_ns;	/* 0: not given, or over */
	uint64_t grid_ns, interval_ns;
	uint64_t moments_ns[MAX_MOMENTS];
	int moment_count;
};

/* Something that is due at a rate of its own. */
struct periodic {
	uint64_t next_ns, period_ns;
};

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void start(int signal)
{
	(void)signal;
	started = 1;
}

static void catch_signals(void)
{
	struct sigaction ends = { .sa_handler = stop }, starts = { .sa_handler = start };

	sigaction(SIGTERM, &ends, NULL);
	sigaction(SIGINT, &ends, NULL);
	sigaction(SIGUSR1, &starts, NULL);
	signal(SIGPIPE, SIG_IGN);	/* so that write() reports it as an error */
}

/* Discards what comes on standard input; returns whether it has ended. */
static bool input_ended(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char text[512];

	if (poll(&input, 1, 0) <= 0)
		return false;
	return read(STDIN_FILENO, text, sizeof(text)) <= 0;
}

static void sleep_until(uint64_t deadline_ns, bool until_eof)
{
	uint64_t now = mono_ns();

	while (!stopped && !started && now < deadline_ns) {
		uint64_t until = deadline_ns;
		struct timespec then;

		if (until_eof && until - now > EOF_NS)
			until = now + EOF_NS;
		then.tv_sec = (time_t)(until / 1000000000u);
		then.tv_nsec = (long)(until % 1000000000u);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
		if (until_eof && input_ended())
			stopped = 1;
		now = mono_ns();
	}
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct periodic every(double hz)
{
	struct periodic p = { mono_ns(), (uint64_t)(1e9 / hz) };

	return p;
}

static bool is_due(struct periodic *p, uint64_t now)
{
	if (now < p->next_ns)
		return false;
	p->next_ns += p->period_ns;
	if (p->next_ns <= now)		/* periods that were missed are left out */
		p->next_ns = now + p->period_ns;
	return true;
}

static void sample_slowly(void)
{
	counters_sample();
	cpu_sample();
	processes_sample();
}

static void discover(void)
{
	sockets_discover();
	devices_discover();
}

static struct schedule plan(const struct options *options)
{
	const double wall_ahead_ns = (double)(wall_ns() - mono_ns());
	struct schedule plan = {
		.grid_ns = mono_ns(),
		.interval_ns = (uint64_t)(1e9 / options->rate_hz + 0.5),
		.moment_count = options->moment_count,
	};

	if (options->grid_s > 0)
		plan.grid_ns = (uint64_t)(options->grid_s * 1e9 - wall_ahead_ns);
	if (options->start_s > 0)
		plan.start_ns = (uint64_t)(options->start_s * 1e9 - wall_ahead_ns);
	for (int n = 0; n < options->moment_count; n++)
		plan.moments_ns[n] = (uint64_t)(options->moments_s[n] * 1e9 - wall_ahead_ns);
	return plan;
}

/*
 * The sampled traffic has started: if that is later than the time given by --start, all that follows is
 * as much later. Returns whether it is. A second start has no effect.
 */
static bool started_late(struct schedule *plan, uint64_t now)
{
	const uint64_t start_ns = plan->start_ns;

	started = 0;
	plan->start_ns = 0;
	if (!start_ns || now < start_ns + LATE_NS)
		return false;
	plan->grid_ns += now - start_ns;
	for (int n = 0; n < plan->moment_count; n++)
		plan->moments_ns[n] += now - start_ns;
	return true;
}

/* Returns when the first sample after a time is due; *is_moment says whether it is one besides the grid. */
static uint64_t next_due(const struct schedule *plan, uint64_t after_ns, bool *is_moment)
{
	uint64_t to_grid_ns, due_ns;

	after_ns += SAME_NS;
	to_grid_ns = plan->grid_ns > after_ns
		? (plan->grid_ns - after_ns) % plan->interval_ns
		: plan->interval_ns - (after_ns - plan->grid_ns) % plan->interval_ns;
	due_ns = after_ns + (to_grid_ns ? to_grid_ns : plan->interval_ns);
	*is_moment = false;
	for (int n = 0; n < plan->moment_count; n++) {
		if (plan->moments_ns[n] > after_ns && plan->moments_ns[n] < due_ns + SAME_NS) {
			due_ns = earlier(plan->moments_ns[n], due_ns);
			*is_moment = true;
		}
	}
	return due_ns;
}

/* Sleeps until a sample is due; meanwhile it searches, and reads backlogs, if that is due more often. */
static void wait_for_sample(uint64_t due_ns, struct periodic *discovery, struct periodic *watch,
			    bool until_eof)
{
	uint64_t next_ns;

	while (!stopped && !started && (next_ns = earlier(discovery->next_ns, watch->next_ns)) < due_ns) {
		sleep_until(next_ns, until_eof);
		if (is_due(watch, mono_ns()))
			devices_watch();
		if (is_due(discovery, mono_ns()))
			discover();
	}
	sleep_until(due_ns, until_eof);
}

static void run(const struct options *options)
{
	struct schedule schedule = plan(options);
	struct periodic slow = every(options->slow_hz), discovery = every(options->discover_hz);
	struct periodic watch = every(options->watch_hz);
	/* a dump for every sample comes before it, so that a new socket is in the sample that finds it */
	const bool discover_first = options->discover_hz >= options->rate_hz;
	struct periodic never = { .next_ns = UINT64_MAX };
	bool watches = false;
	uint64_t deadline_ns = mono_ns(), end_ns = UINT64_MAX;
	bool first = true, is_moment = false, late;

	for (int n = 0; n < options->device_count; n++)
		watches |= options->devices[n].watch;
	if (options->duration_s > 0)
		end_ns = deadline_ns + (uint64_t)(options->duration_s * 1e9);
	for (;;) {
		uint64_t begin_ns = mono_ns(), now;
		bool last;

		last = stopped || begin_ns >= end_ns;
		if (begin_ns > deadline_ns)
			report_largest(REPORT_LONGEST_DELAY_NS, begin_ns - deadline_ns);
		if (discover_first || is_moment)
			discover();
		sockets_sample();
		devices_sample();
		if (last || is_moment || is_due(&slow, begin_ns))
			sample_slowly();
		report_add(REPORT_SAMPLES, 1);
		report_largest(REPORT_LONGEST_SAMPLE_NS, (uint64_t)mono_ns() - begin_ns);
		if (last) {
			/* of the deadlines before the end this sample met one, and missed the others */
			begin_ns = earlier(begin_ns, end_ns);
			if (begin_ns > deadline_ns)
				report_add(REPORT_MISSED, (begin_ns - deadline_ns) / schedule.interval_ns);
			return;
		}
		if (!discover_first && is_due(&discovery, begin_ns))
			discover();
		processes_scan((unsigned int)(SCAN_PER_S / options->rate_hz));
		stream_flush(false);
		if (first) {
			report_memory_start();
			/* it is before the grid, whose first deadline may come too soon after it to be met */
			deadline_ns = options->grid_s > 0 ? (uint64_t)mono_ns() : deadline_ns;
		}
		first = false;
		now = earlier(mono_ns(), end_ns);
		for (;;) {
			deadline_ns = next_due(&schedule, deadline_ns, &is_moment);
			if (deadline_ns > now)
				break;
			report_add(REPORT_MISSED, 1);
		}
		do {
			wait_for_sample(earlier(deadline_ns, end_ns),
					options->discover_hz > options->rate_hz ? &discovery : &never,
					watches ? &watch : &never, options->until_eof);
			now = mono_ns();
			late = started && started_late(&schedule, now);
		} while (!late && !stopped && now < earlier(deadline_ns, end_ns));
		if ((late || stopped || now >= end_ns) && deadline_ns > now)
			deadline_ns = now;	/* take the first or the last sample at once */
		is_moment |= late;
	}
}

/* Opens the stream with its header, which has lines KEY=VALUE. */
static void write_header(const struct options *options)
{
	struct utsname system;
	char *text;
	size_t bytes;
	FILE *lines = open_memstream(&text, &bytes);

	if (!lines)
		fail_errno("the stream's header");
	uname(&system);
	fprintf(lines, "probe=ccmix-sockmon\nkernel=%s\nkernel_version=%s\nmachine=%s\nhost=%s\n",
		system.release, system.version, system.machine, system.nodename);
	fprintf(lines, "rate_hz=%g\nslow_rate_hz=%g\ndiscover_rate_hz=%g\n", options->rate_hz,
		options->slow_hz, options->discover_hz);
	fprintf(lines, "ticks_per_s=%ld\npage_bytes=%ld\n", sysconf(_SC_CLK_TCK),
		sysconf(_SC_PAGESIZE));
	for (int n = 0; n < options->socket_count; n++)
		fprintf(lines, "sockets.%d=%s\n", n, options->sockets[n]);
	for (int n = 0; n < options->device_count; n++)
		fprintf(lines, "device.%d=%s/%s\n", n, options->devices[n].netns,
			options->devices[n].name);
	for (int n = 0; n < options->counter_count; n++)
		fprintf(lines, "counters.%d=%s\n", n, options->counters[n]);
	fclose(lines);
	stream_open(options->output, text);
	free(text);
}

static void write_report(void)
{
	char *text;
	size_t bytes;
	FILE *lines = open_memstream(&text, &bytes);

	if (!lines)
		fail_errno("the probe's report");
	report_write(lines);
	fclose(lines);
	stream_text(RECORD_REPORT, text);
	free(text);
}

/* Each target has files of its own, and the customary limit is 1024. */
static void allow_all_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int count, char **arguments)
{
	const struct options *options = options_read(count, arguments);

	catch_signals();
	allow_all_files();
	prctl(PR_SET_TIMERSLACK, 1);
	write_header(options);
	sockets_open(options);
	devices_open(options);
	counters_open(options);
	cpu_open(options);
	processes_open(options);
	run(options);
	sockets_last_events();
	stream_flush(true);	/* before the report, which has the longest time of a write */
	write_report();
	stream_flush(true);
	return STATUS_GOOD;
}
