// SPDX-License-Identifier: Apache-2.0
/* Asks by TCP: a SYN, and its answer SYN/ACK or RST. An accepted connection is reset at once, without any data. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "rtt.h"

static int set;

static int tcp_open(const struct options *options)
{
	struct rlimit files;

	(void)options;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	set = epoll_create1(EPOLL_CLOEXEC);
	if (set < 0)
		fail_errno("epoll");
	return set;
}

static void tcp_forget(struct question *question)
{
	if (question->fd >= 0)
		close(question->fd);
	question->fd = -1;
}

static void answered(struct question *question)
{
	question->rtt_ns = mono_ns() - question->monotonic_ns;
	question->over = true;
	tcp_forget(question);
}

static void tcp_ask(const struct options *options, struct question *question)
{
	const struct linger reset = { 1, 0 };
	struct epoll_event event = { .events = EPOLLOUT, .data.u64 = (uint64_t)question->sequence };
	int family = options->address.ss_family;

	question->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (question->fd < 0)
		return;
	setsockopt(question->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (!connect(question->fd, (const struct sockaddr *)&options->address, options->address_size) ||
	    errno == ECONNREFUSED) /* on loopback, at once */
		answered(question);
	else if (errno != EINPROGRESS || epoll_ctl(set, EPOLL_CTL_ADD, question->fd, &event))
		tcp_forget(question); /* lost */
}

static void tcp_listen(const struct questions *questions)
{
	struct epoll_event events[64];
	int count;

	while ((count = epoll_wait(set, events, 64, 0)) > 0) {
		for (int i = 0; i < count; i++) {
			struct question *question = question_at(questions, (int64_t)events[i].data.u64);
			socklen_t size = sizeof(int);
			int error = 0;

			getsockopt(question->fd, SOL_SOCKET, SO_ERROR, &error, &size);
			if (!error || error == ECONNREFUSED)
				answered(question);
			else
				tcp_forget(question); /* unreachable: no answer of the address */
		}
	}
}

const struct way tcp_way = { tcp_open, tcp_ask, tcp_listen, tcp_forget };
