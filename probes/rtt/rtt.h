/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RTT_H
#define RTT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fail.h"

#define SECOND_NS 1000000000LL

enum { STATUS_GOOD = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

struct options {
	struct sockaddr_storage address;
	socklen_t address_size;
	uint16_t port; /* of TCP; 0: ICMP */
	int64_t rate_hz;
	int64_t duration_ns; /* 0: until a signal */
	int64_t timeout_ns;
};

/* A question that was sent. */
struct question {
	int64_t sequence;
	int64_t monotonic_ns, wall_ns; /* when it was sent */
	int64_t rtt_ns;                /* -1: no answer */
	bool over;                     /* no answer can come */
	int fd;                        /* of TCP, -1: none */
};

/* The questions of the last `timeout`, by sequence number. */
struct questions {
	struct question *all;
	int64_t room; /* a power of 2 */
};

static inline struct question *question_at(const struct questions *questions, int64_t sequence)
{
	return &questions->all[sequence & (questions->room - 1)];
}

/* How to ask: ICMP echo, or TCP's SYN. */
struct way {
	/* Returns what poll(2) can wait on; ends the program where this host can't ask so. */
	int (*open)(const struct options *options);
	/* The times of the question are set. */
	void (*ask)(const struct options *options, struct question *question);
	/* Takes all answers that are there. */
	void (*listen)(const struct questions *questions);
	/* The question is over. */
	void (*forget)(struct question *question);
};

extern const struct way icmp_way, tcp_way;

/* Ends the program where an option is wrong, or was --help. */
struct options options_read(int count, char **arguments);

int64_t clock_ns(int clock);

#endif
