// SPDX-License-Identifier: Apache-2.0
/* Asks by ICMP echo, with a ping socket if net.ipv4.ping_group_range allows one to the user, otherwise a raw socket. */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "rtt.h"

/* As in linux/icmp.h, which can't be included together with netinet/ip_icmp.h */
#define ICMP_FILTER 1

#define HEADER_BYTES 8 /* of ICMP */

/* An echo, of either version. */
struct echo {
	uint8_t type, code;
	uint16_t checksum, identifier, number;
	uint64_t mark; /* a random number of this process */
	int64_t sequence;
};

_Static_assert(sizeof(struct echo) == HEADER_BYTES + PAYLOAD_LEAST, "the rest of a payload is zeros");

static int fd;
static bool raw, version6;
static uint64_t mark;

static void open_socket(int family, int protocol)
{
	fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	if (fd >= 0)
		return;
	fd = socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		fail(STATUS_FAILED, "no ICMP for this user: %s; allow its group by sysctl net.ipv4.ping_group_range, or use --tcp",
		     strerror(errno));
	raw = true;
}

/* Lets only answers through; a raw socket would otherwise wake for every ICMP message of the host. */
static void filter_raw(void)
{
	if (version6) {
		struct icmp6_filter filter;

		ICMP6_FILTER_SETBLOCKALL(&filter);
		ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &filter);
		setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof(filter));
	} else {
		uint32_t filter = ~(1U << ICMP_ECHOREPLY);

		setsockopt(fd, SOL_RAW, ICMP_FILTER, &filter, sizeof(filter));
	}
}

static int icmp_open(const struct options *options)
{
	const int on = 1, buffer = 1 << 20;

	version6 = options->address.ss_family == AF_INET6;
	open_socket(version6 ? AF_INET6 : AF_INET, version6 ? (int)IPPROTO_ICMPV6 : (int)IPPROTO_ICMP);
	if (raw)
		filter_raw();
	if (getrandom(&mark, sizeof(mark), 0) != sizeof(mark))
		fail_errno("no random number");
	/* The kernel stamps the answer, so that it does not matter when this process gets to run */
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	/* For a train of large packets: more than net.core.wmem_max, where the user may have it */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	if (connect(fd, (const struct sockaddr *)&options->address, options->address_size))
		fail_errno("no way to this address");
	return fd;
}

static uint16_t checksum(const void *data, size_t size)
{
	const uint16_t *halves = data;
	uint32_t sum = 0;

	for (size_t i = 0; i < size / 2; i++)
		sum += halves[i];
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)~(sum + (sum >> 16));
}

static void icmp_ask(const struct options *options, struct question *question)
{
	static uint8_t packet[HEADER_BYTES + PAYLOAD_MOST];
	struct echo echo = {
		.type = version6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO,
		.identifier = (uint16_t)mark,
		.number = htons((uint16_t)question->sequence),
		.mark = mark,
		.sequence = question->sequence,
	};
	size_t size = HEADER_BYTES + (size_t)options->payload_bytes;

	if (!version6) /* else the kernel does it; zeros change no checksum */
		echo.checksum = checksum(&echo, sizeof(echo));
	memcpy(packet, &echo, sizeof(echo));
	/* An error can be that of an earlier question: then this one may go. Else it is lost. */
	for (int tries = 0; tries < 2; tries++) {
		if (send(fd, packet, size, 0) >= 0)
			break;
	}
}

static int64_t arrival_ns(struct msghdr *message)
{
	for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
		if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec time;

			memcpy(&time, CMSG_DATA(control), sizeof(time));
			return time.tv_sec * SECOND_NS + time.tv_nsec;
		}
	}
	return -1;
}

static void take(const struct questions *questions, const uint8_t *data, size_t size, int64_t stamp_ns)
{
	struct question *question;
	struct echo echo;
	int64_t late_ns;

	if (raw && !version6) { /* with the IP header */
		size_t header = size ? (data[0] & 15) * 4U : 0;

		if (header < sizeof(struct ip) || header > size)
			return;
		data += header;
		size -= header;
	}
	if (size < sizeof(echo))
		return;
	memcpy(&echo, data, sizeof(echo));
	if (echo.type != (version6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY) || echo.mark != mark || echo.sequence < 0)
		return;
	question = question_at(questions, echo.sequence);
	if (question->sequence != echo.sequence || question->over)
		return;
	/* Take the kernel's stamp, unless the clock was set in between */
	late_ns = mono_ns() - question->monotonic_ns;
	question->rtt_ns = stamp_ns - question->wall_ns;
	if (question->rtt_ns < 0 || question->rtt_ns > late_ns)
		question->rtt_ns = late_ns;
	question->over = true;
}

static void icmp_listen(const struct questions *questions)
{
	for (;;) {
		uint8_t data[256], control[256];
		struct iovec part = { data, sizeof(data) };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
					  .msg_controllen = sizeof(control) };
		ssize_t size = recvmsg(fd, &message, 0);

		if (size >= 0)
			take(questions, data, (size_t)size, arrival_ns(&message));
		else if (errno == EAGAIN || errno == EINTR)
			return;
		/* else: an ICMP error of an earlier question, which a ping socket shows once */
	}
}

static void icmp_forget(struct question *question)
{
	(void)question;
}

const struct way icmp_way = { icmp_open, icmp_ask, icmp_listen, icmp_forget };
