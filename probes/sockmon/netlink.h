/* Requests to the kernel and its answers, many in a system call. */
#ifndef CCMIX_NETLINK_H
#define CCMIX_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A socket of a netlink protocol in a network namespace; fails with words about `what`. */
int netlink_open(const char *netns, int protocol, const char *what);

typedef void (*netlink_handler)(const struct nlmsghdr *message, void *argument);

/*
 * Sends requests that lie one after the other, and hands over their `count` answers (errors too).
 */
void netlink_exchange(int fd, const void *requests, size_t bytes, unsigned int count,
		      netlink_handler handler,
		      void *argument);

/* Sends a dump's request and hands over its messages; returns 0, or the kernel's error number. */
int netlink_dump(int fd, const void *request, size_t bytes, netlink_handler handler,
		 void *argument);

/*
 * Hands over what has come to a socket that listens, without waiting; counts what the kernel
 * dropped.
 */
void netlink_drain(int fd, netlink_handler handler, void *argument);

/* The attributes of a message, by type; `body` is the size of the struct before them. */
void netlink_attributes(const struct nlmsghdr *message, size_t body, const struct rtattr **found,
			unsigned int types);
void netlink_nested(const struct rtattr *nest, const struct rtattr **found, unsigned int types);

/* Copies as much of an attribute as there is, and as fits. */
size_t netlink_copy(const struct rtattr *attribute, void *into, size_t bytes);

#endif
