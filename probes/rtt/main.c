// SPDX-License-Identifier: Apache-2.0
/* ccmix-rtt asks on absolute deadlines, and writes how long the answers took. README.md defines the output. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "clock.h"
#include "fail.h"
#include "memory.h"
#include "rtt.h"

static volatile sig_atomic_t asked_to_end;

static void end(int signal)
{
	(void)signal;
	asked_to_end = 1;
}

/* The state of the probe: questions `first` to `next` - 1 are open, or were asked after an open one. Those of a train
 * have consecutive numbers and one deadline.
 */
struct run {
	const struct options *options;
	const struct way *way;
	struct questions questions;
	int64_t begin_ns; /* monotonic: the deadline of question 0 */
	int64_t first, next;
	int64_t count; /* of questions; 0: no end */
};

static int64_t deadline_ns(const struct run *run, int64_t sequence)
{
	int64_t number = sequence / run->options->train, rate_hz = run->options->rate_hz;

	return run->begin_ns + number / rate_hz * SECOND_NS + number % rate_hz * SECOND_NS / rate_hz;
}

static bool asks_more(const struct run *run)
{
	return !asked_to_end && (!run->count || run->next < run->count);
}

static void write_line(const struct question *question)
{
	printf("%lld.%09lld,%lld,", (long long)(question->wall_ns / SECOND_NS), (long long)(question->wall_ns % SECOND_NS),
	       (long long)question->sequence);
	if (question->rtt_ns >= 0)
		printf("%lld.%09lld", (long long)(question->rtt_ns / SECOND_NS), (long long)(question->rtt_ns % SECOND_NS));
	if (putchar('\n') == EOF)
		fail_errno("the output can't be written");
}

/* Writes, in their order, questions that are over; `first` is then the oldest that is open. */
static void settle(struct run *run)
{
	int64_t now_ns = mono_ns();

	for (; run->first < run->next; run->first++) {
		struct question *question = question_at(&run->questions, run->first);

		if (question->sequence != run->first) /* its deadline was missed: it was not sent */
			continue;
		if (!question->over && now_ns - question->monotonic_ns < run->options->timeout_ns)
			return;
		question->over = true;
		run->way->forget(question);
		write_line(question);
	}
}

static void ask_next(struct run *run)
{
	struct question *question = question_at(&run->questions, run->next);

	*question = (struct question){ .sequence = run->next, .rtt_ns = -1, .fd = -1 };
	question->wall_ns = wall_ns();
	question->monotonic_ns = mono_ns();
	run->way->ask(run->options, question);
	run->next++;
}

/* Asks what is due; of several deadlines that have passed, only the last can still be met. */
static void ask(struct run *run)
{
	int64_t now_ns = mono_ns(), train = run->options->train;

	if (!asks_more(run) || now_ns < deadline_ns(run, run->next))
		return;
	while (deadline_ns(run, run->next + train) <= now_ns)
		run->next += train;
	if (!asks_more(run))
		return;
	for (int64_t i = 0; i < train; i++)
		ask_next(run);
}

static void wait(const struct run *run, int fd, const sigset_t *signals)
{
	struct pollfd poll = { .fd = fd, .events = POLLIN };
	int64_t until_ns = INT64_MAX, rest_ns;
	struct timespec rest;

	if (asks_more(run))
		until_ns = deadline_ns(run, run->next);
	if (run->first < run->next) {
		int64_t lost_ns = question_at(&run->questions, run->first)->monotonic_ns + run->options->timeout_ns;

		if (lost_ns < until_ns)
			until_ns = lost_ns;
	}
	rest_ns = until_ns - mono_ns();
	if (rest_ns < 0)
		rest_ns = 0;
	rest = (struct timespec){ rest_ns / SECOND_NS, rest_ns % SECOND_NS };
	ppoll(&poll, 1, &rest, signals);
}

/* Blocks SIGINT and SIGTERM but while the program waits. */
static void listen_for_end(sigset_t *waiting)
{
	struct sigaction action = { .sa_handler = end };
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, waiting);
	sigdelset(waiting, SIGINT);
	sigdelset(waiting, SIGTERM);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int main(int count, char **arguments)
{
	struct options options = options_read(count, arguments);
	struct run run = { .options = &options, .way = options.port ? &tcp_way : &icmp_way };
	sigset_t waiting;
	int64_t most;
	int fd;

	listen_for_end(&waiting);
	prctl(PR_SET_TIMERSLACK, 1UL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	most = (options.timeout_ns / 1000 * options.rate_hz / 1000000 + 2) * options.train;
	for (run.questions.room = 16; run.questions.room <= most;)
		run.questions.room *= 2;
	run.questions.all = create((size_t)run.questions.room, sizeof(*run.questions.all));
	for (int64_t i = 0; i < run.questions.room; i++)
		run.questions.all[i] = (struct question){ .sequence = -1, .over = true, .fd = -1 };
	run.count = options.duration_ns / 1000 * options.rate_hz / 1000000;
	if (options.duration_ns && !run.count)
		run.count = 1;
	run.count *= options.train;
	fd = run.way->open(&options);
	puts("time_s,sequence,rtt_s");
	run.begin_ns = mono_ns();
	while (asks_more(&run) || (!asked_to_end && run.first < run.next)) {
		run.way->listen(&run.questions);
		settle(&run);
		ask(&run);
		if (asks_more(&run) || run.first < run.next)
			wait(&run, fd, &waiting);
	}
	run.way->listen(&run.questions);
	settle(&run);
	if (fclose(stdout) == EOF)
		fail_errno("the output can't be written");
	free(run.questions.all);
	return STATUS_GOOD;
}
