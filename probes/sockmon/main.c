/* The probe's loop: everything is sampled by one thread on absolute deadlines. */
#include "fail.h"
#include "sockmon.h"
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define EOF_NS 100000000ull	/* how often standard input is looked at while a deadline is far */
#define SCAN_PER_S 20000	/* entries of /proc: so that at 1 kHz a sample is not late for it */

struct report report;
static volatile sig_atomic_t stopped;

/* Something that is due less often than the samples. */
struct periodic {
	uint64_t next_ns, period_ns;
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t mono_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

uint64_t wall_ns(void)
{
	return now_ns(CLOCK_REALTIME);
}

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = stop };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);	/* so that it is an error like others */
}

/* Reads away what comes; returns whether standard input has ended. */
static bool input_ended(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char text[512];

	if (poll(&input, 1, 0) <= 0)
		return false;
	return read(STDIN_FILENO, text, sizeof(text)) <= 0;
}

static void sleep_until(uint64_t deadline_ns)
{
	uint64_t now = mono_ns();

	while (!stopped && now < deadline_ns) {
		uint64_t until = deadline_ns;
		struct timespec then;

		if (options.until_eof && until - now > EOF_NS)
			until = now + EOF_NS;
		then.tv_sec = (time_t)(until / 1000000000u);
		then.tv_nsec = (long)(until % 1000000000u);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
		if (options.until_eof && input_ended())
			stopped = 1;
		now = mono_ns();
	}
}

static void most(uint64_t *longest, uint64_t value)
{
	if (value > *longest)
		*longest = value;
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
	if (p->next_ns <= now)		/* what was missed is not made up for */
		p->next_ns = now + p->period_ns;
	return true;
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

static void run(void)
{
	const uint64_t interval_ns = (uint64_t)(1e9 / options.rate_hz);
	struct periodic slow = every(options.slow_hz), discovery = every(options.discover_hz);
	/* a dump for every sample comes before it: a new socket is in the sample that finds it */
	const bool discover_first = options.discover_hz >= options.rate_hz;
	uint64_t deadline_ns = mono_ns(), end_ns = UINT64_MAX;

	if (options.duration_s > 0)
		end_ns = deadline_ns + (uint64_t)(options.duration_s * 1e9);
	for (;;) {
		uint64_t begin_ns = mono_ns(), now;
		bool last;

		last = stopped || begin_ns >= end_ns;
		if (begin_ns > deadline_ns)
			most(&report.longest_delay_ns, begin_ns - deadline_ns);
		if (discover_first)
			discover();
		sockets_sample();
		devices_sample();
		if (last || is_due(&slow, begin_ns))
			sample_slowly();
		report.samples++;
		most(&report.longest_sample_ns, mono_ns() - begin_ns);
		if (last) {
			/* it is late for all but one of the deadlines before the end */
			begin_ns = earlier(begin_ns, end_ns);
			if (begin_ns > deadline_ns)
				report.missed += (begin_ns - deadline_ns) / interval_ns;
			return;
		}
		if (!discover_first && is_due(&discovery, begin_ns))
			discover();
		processes_scan((unsigned int)(SCAN_PER_S / options.rate_hz));
		stream_flush(false);
		if (report.samples == 1)
			report.memory_start_bytes = memory_bytes();
		now = earlier(mono_ns(), end_ns);
		deadline_ns += interval_ns;
		if (deadline_ns <= now) {
			uint64_t missed = (now - deadline_ns) / interval_ns + 1;

			report.missed += missed;
			deadline_ns += missed * interval_ns;
		}
		sleep_until(earlier(deadline_ns, end_ns));
		now = mono_ns();
		if ((stopped || now >= end_ns) && deadline_ns > now)
			deadline_ns = now;	/* a last sample, as soon as can be */
	}
}

/* Lines KEY=VALUE. */
static void add_line(char *text, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add_line(char *text, size_t room, const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, room - used, format, arguments);
	va_end(arguments);
}

static void write_header(void)
{
	static char text[65536];
	struct utsname system;

	uname(&system);
	add_line(text, sizeof(text),
		 "probe=ccmix-sockmon\nkernel=%s\nkernel_version=%s\nmachine=%s\nhost=%s\n",
		 system.release, system.version, system.machine, system.nodename);
	add_line(text, sizeof(text), "rate_hz=%g\nslow_rate_hz=%g\ndiscover_rate_hz=%g\n",
		 options.rate_hz, options.slow_hz,
		 options.discover_hz);
	add_line(text, sizeof(text), "ticks_per_s=%ld\npage_bytes=%ld\n", sysconf(_SC_CLK_TCK),
		 sysconf(_SC_PAGESIZE));
	for (int n = 0; n < options.socket_count; n++)
		add_line(text, sizeof(text), "sockets.%d=%s\n", n, options.sockets[n]);
	for (int n = 0; n < options.device_count; n++)
		add_line(text, sizeof(text), "device.%d=%s/%s\n", n, options.devices[n].netns,
			 options.devices[n].name);
	for (int n = 0; n < options.counter_count; n++)
		add_line(text, sizeof(text), "counters.%d=%s\n", n, options.counters[n]);
	stream_open(options.output, text);
}

static void write_report(void)
{
	char text[4096] = "";
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	report.memory_bytes = memory_bytes();
	add_line(text, sizeof(text), "cpu_us=%llu\n",
		 (unsigned long long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		 (unsigned long long)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
#define LINE(field) add_line(text, sizeof(text), #field "=%llu\n", (unsigned long long)report.field)
	LINE(samples);
	LINE(missed);
	LINE(longest_delay_ns);
	LINE(longest_sample_ns);
	LINE(longest_write_ns);
	LINE(writes);
	LINE(dumps);
	LINE(longest_dump_ns);
	LINE(interrupted_dumps);
	LINE(events);
	LINE(lost_replies);
	LINE(lost_events);
	LINE(truncated);
	LINE(sockets_found);
	LINE(sockets_closed);
	LINE(sockets_vanished);
	LINE(device_errors);
	LINE(memory_start_bytes);
	LINE(memory_bytes);
	LINE(stream_bytes);
#undef LINE
	stream_text(RECORD_REPORT, text);
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

int main(int argc, char **argv)
{
	read_options(argc, argv);
	catch_signals();
	allow_all_files();
	prctl(PR_SET_TIMERSLACK, 1);
	write_header();
	sockets_open();
	devices_open();
	counters_open();
	cpu_open();
	processes_open();
	run();
	sockets_last_events();
	stream_flush(true);	/* before the report, which says how long writing took */
	write_report();
	stream_flush(true);
	return 0;
}
