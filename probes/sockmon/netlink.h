/* SPDX-License-Identifier: Apache-2.0 */
/* Sends requests to the kernel and takes its answers, many in a system call. */
#ifndef CCMIX_NETLINK_H
#define CCMIX_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens a socket of a netlink protocol in a network namespace; if that fails, ends the program with
 * an error about `what`.
 */
int netlink_open(const char *netns, int protocol, const char *what);

typedef void (*netlink_handler)(const struct nlmsghdr *message, void *argument);

/*
 * Sends requests that lie one after the other, and passes their `count` answers (also errors) to the
 * handler.
 */
void netlink_exchange(int fd, const void *requests, size_t bytes, unsigned int count,
		      netlink_handler handler,
		      void *argument);

/* Sends a dump's request and passes its messages to the handler; returns 0, or the kernel's error number. */
int netlink_dump(int fd, const void *request, size_t bytes, netlink_handler handler,
		 void *argument);

/*
 * Passes the messages that have come to a listening socket to the handler, without waiting; counts
 * how often the kernel dropped some.
 */
void netlink_drain(int fd, netlink_handler handler, void *argument);

/* Lists the attributes of a message by type; `body` is the size of the struct before them. */
void netlink_attributes(const struct nlmsghdr *message, size_t body, const struct rtattr **by_type,
			unsigned int types);
void netlink_nested(const struct rtattr *nest, const struct rtattr **by_type, unsigned int types);

/* Copies as much of an attribute as there is, and as fits. */
size_t netlink_copy(const struct rtattr *attribute, void *into, size_t bytes);

#endif
