// SPDX-License-Identifier: Apache-2.0
#include "netlink.h"

#include "clock.h"
#include "fail.h"
#include "netns.h"
#include "report.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWERS 64		/* taken in one system call */
/* a socket's are below 1 KB, a qdisc's seldom above; no power of 2, for the cache's sake */
#define ANSWER_BYTES 4288
#define RECEIVE_BYTES (8 << 20)

static char answers[ANSWERS][ANSWER_BYTES] __attribute__((aligned(16)));
static char dump[65536] __attribute__((aligned(16)));
static struct iovec vectors[ANSWERS];
static struct mmsghdr headers[ANSWERS];

static int open_socket(void *protocol)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, *(int *)protocol);
}

int netlink_open(const char *netns, int protocol, const char *what)
{
	int fd = open_in_netns(netns, open_socket, &protocol), bytes = RECEIVE_BYTES, on = 1;

	if (fd < 0)
		fail_errno("no netlink socket for %s", what);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	for (int i = 0; i < ANSWERS; i++) {
		vectors[i] = (struct iovec){ answers[i], sizeof(answers[i]) };
		headers[i].msg_hdr = (struct msghdr){ .msg_iov = &vectors[i], .msg_iovlen = 1 };
	}
	return fd;
}

static void hand_over(const char *bytes, size_t length, netlink_handler handler, void *argument)
{
	unsigned int left = (unsigned int)length;
	const struct nlmsghdr *m = (const void *)bytes;

	for (; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left))
		handler(m, argument);
}

/* Up to `most` answers that are there already; returns how many, or -1. */
static int receive(int fd, unsigned int most, netlink_handler handler, void *argument)
{
	int got = recvmmsg(fd, headers, most < ANSWERS ? most : ANSWERS, MSG_DONTWAIT, NULL);

	for (int i = 0; i < got; i++) {
		if (headers[i].msg_hdr.msg_flags & MSG_TRUNC)
			report_add(REPORT_TRUNCATED, 1);
		else
			hand_over(answers[i], headers[i].msg_len, handler, argument);
	}
	return got;
}

/* The kernel answers within the system call that asks, so an answer that isn't there is lost. */
void netlink_exchange(int fd, const void *requests, size_t bytes, unsigned int count,
		      netlink_handler handler,
		      void *argument)
{
	unsigned int missing = count;

	if (send(fd, requests, bytes, 0) < 0) {
		report_add(REPORT_LOST_REPLIES, count);
		return;
	}
	while (missing) {
		int got = receive(fd, missing, handler, argument);

		if (got < 0 && (errno == EINTR || errno == ENOBUFS))
			continue;
		if (got <= 0)
			break;
		missing -= (unsigned int)got;
	}
	report_add(REPORT_LOST_REPLIES, missing);
}

int netlink_dump(int fd, const void *request, size_t bytes, netlink_handler handler, void *argument)
{
	int64_t begin_ns = mono_ns();
	const struct nlmsghdr *m;
	int error = 0;
	bool more = true;

	if (send(fd, request, bytes, 0) < 0)
		return errno;
	while (more) {
		ssize_t got = recv(fd, dump, sizeof(dump), 0);
		unsigned int left = got > 0 ? (unsigned int)got : 0;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return errno;
		for (m = (const void *)dump; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
			if (m->nlmsg_flags & NLM_F_DUMP_INTR)
				report_add(REPORT_INTERRUPTED_DUMPS, 1);
			if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) {
				/* both begin with an int; an old kernel's DONE may be without */
				if (m->nlmsg_len >= NLMSG_LENGTH(sizeof(int)))
					memcpy(&error, NLMSG_DATA(m), sizeof(error));
				more = false;
				break;
			}
			handler(m, argument);
		}
	}
	report_add(REPORT_DUMPS, 1);
	report_largest(REPORT_LONGEST_DUMP_NS, mono_ns() - begin_ns);
	return -error;
}

void netlink_drain(int fd, netlink_handler handler, void *argument)
{
	for (;;) {
		int got = receive(fd, ANSWERS, handler, argument);

		if (got < 0 && errno == ENOBUFS)
			report_add(REPORT_LOST_EVENTS, 1);
		else if (got < 0 && errno != EINTR)
			return;
	}
}

static void attributes(const struct rtattr *attribute, size_t bytes, const struct rtattr **by_type,
		       unsigned int types)
{
	unsigned int left = (unsigned int)bytes;

	memset(by_type, 0, types * sizeof(*by_type));
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		unsigned int type = attribute->rta_type & NLA_TYPE_MASK;

		if (type < types)
			by_type[type] = attribute;
	}
}

void netlink_attributes(const struct nlmsghdr *message, size_t body, const struct rtattr **by_type,
			unsigned int types)
{
	const char *begin = (const char *)NLMSG_DATA(message) + NLMSG_ALIGN(body);
	size_t before = NLMSG_LENGTH(NLMSG_ALIGN(body));

	attributes((const void *)begin,
		   message->nlmsg_len > before ? message->nlmsg_len - before : 0, by_type, types);
}

void netlink_nested(const struct rtattr *nest, const struct rtattr **by_type, unsigned int types)
{
	attributes(RTA_DATA(nest), RTA_PAYLOAD(nest), by_type, types);
}

size_t netlink_copy(const struct rtattr *attribute, void *into, size_t bytes)
{
	size_t there = RTA_PAYLOAD(attribute);

	if (there > bytes)
		there = bytes;
	memcpy(into, RTA_DATA(attribute), there);
	return there;
}
