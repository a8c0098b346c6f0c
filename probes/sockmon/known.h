/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets of a target that the probe knows, by their cookies, each with the request that asks for
 * it; and those that are gone, until their destroy events come.
 */
#ifndef SOCKMON_KNOWN_H
#define SOCKMON_KNOWN_H

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>

#define KNOWN_BUCKETS 4096
#define KNOWN_NONE UINT32_MAX

struct request {
	struct nlmsghdr header;	/* its nlmsg_seq is the socket's index */
	struct inet_diag_req_v2 body;
};

struct known {
	uint64_t cookie;
	uint32_t id;
	uint32_t next;		/* in its bucket */
	bool answered;		/* in this sample */
	bool has_bbr_state;	/* in this sample */
	bool gone;
	uint8_t bbr_file;	/* its CCA's; the number of files if it has none */
	char cca[16];
};

struct leaving {
	uint64_t cookie, since_ns;
	uint32_t id;
};

struct known_sockets {
	/* two arrays, so that requests lie one after the other as the kernel takes them */
	struct known *known;
	struct request *requests;
	uint32_t count, room;
	uint32_t buckets[KNOWN_BUCKETS];
	struct leaving *leaving;
	uint32_t leaving_count, leaving_room;
};

void known_init(struct known_sockets *sockets);

/* Returns the index of a socket, or KNOWN_NONE. */
uint32_t known_find(const struct known_sockets *sockets, uint64_t cookie);

void known_add(struct known_sockets *sockets, const struct known *known, const struct request *request);

/* Moves the last one into the place of the one that is dropped. */
void known_drop(struct known_sockets *sockets, uint32_t at);

/* Returns a socket that is gone, or NULL. */
struct leaving *leaving_find(const struct known_sockets *sockets, uint64_t cookie);

void leaving_add(struct known_sockets *sockets, const struct leaving *leaving);

void leaving_drop(struct known_sockets *sockets, struct leaving *leaving);

/* Drops those that were gone before a time, and returns how many they were. */
uint32_t leaving_drop_older(struct known_sockets *sockets, uint64_t now_ns, uint64_t age_ns);

#endif
