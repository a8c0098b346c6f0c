/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RTT_H
#define RTT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define TRAIN_MOST 64
#define PAYLOAD_LEAST 16 /* what names a question */
#define PAYLOAD_MOST 8972 /* in an IPv4 packet of 9000 bytes */

struct options {
	struct sockaddr_storage address;
	socklen_t address_size;
	uint16_t port; /* of TCP; 0: ICMP */
	int64_t rate_hz;
	int64_t train;        /* questions that are sent at once */
	int64_t payload_bytes; /* of an ICMP echo */
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
	/* Returns a file for poll(2) to wait on; ends the program if this host can't ask in this way. */
	int (*open)(const struct options *options);
	/* Sends the question, whose times are set. */
	void (*ask)(const struct options *options, struct question *question);
	/* Takes all answers that are there. */
	void (*listen)(const struct questions *questions);
	/* Frees what belongs to a question that is over. */
	void (*forget)(struct question *question);
};

extern const struct way icmp_way, tcp_way;

/* Ends the program where an option is wrong, or was --help. */
struct options options_read(int count, char **arguments);

#endif
