// SPDX-License-Identifier: Apache-2.0
/*
 * Queues and links over rtnetlink. The kernel dumps all qdiscs of all devices of a namespace, so a
 * dump is for finding them; then each is asked for by itself, with the link's counters in the same
 * system call.
 */
#include "fail.h"
#include "memory.h"
#include "netlink.h"
#include "netns.h"
#include "recorders.h"
#include "report.h"
#include "stream.h"

#include <linux/gen_stats.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_QDISCS 256		/* of a device: mq has one for each of the card's queues */

struct qdisc {
	uint32_t id, handle, parent;
	char kind[16];
	bool seen;
	uint32_t least_backlog;	/* since the last sample */
};

struct qdisc_request {
	struct nlmsghdr header;
	struct tcmsg body;
};

struct link_request {
	struct nlmsghdr header;
	struct if_stats_msg body;
};

struct device {
	const struct device_name *name;
	uint32_t number;
	int fd, ifindex;
	/* has qdiscs that can't be asked for by themselves: mq's, which have no handle */
	bool dumps;
	bool stale;
	unsigned int count;
	struct qdisc qdiscs[MAX_QDISCS];
	struct qdisc_request requests[MAX_QDISCS];
};

static struct device *devices;
static int device_count;
static uint32_t next_id;

static bool has_kind(const struct qdisc *q, const struct rtattr **a)
{
	return a[TCA_KIND] && !strncmp(q->kind, RTA_DATA(a[TCA_KIND]), sizeof(q->kind) - 1);
}

static struct qdisc *find(struct device *d, const struct tcmsg *m, const struct rtattr **a)
{
	for (unsigned int i = 0; i < d->count; i++) {
		struct qdisc *q = &d->qdiscs[i];

		if (q->handle == m->tcm_handle && q->parent == m->tcm_parent && has_kind(q, a))
			return q;
	}
	return NULL;
}

/* The answer to a request by handle lacks the parent, but has the number of the request. */
static struct qdisc *find_asked(struct device *d, uint32_t number, const struct tcmsg *m,
				const struct rtattr **a)
{
	struct qdisc *q = &d->qdiscs[number];

	return number < d->count && q->handle == m->tcm_handle && has_kind(q, a) ? q : NULL;
}

/* Returns whether the message is a whole one, of a qdisc of the device; then its attributes are in `a`. */
static bool is_qdisc(const struct device *d, const struct nlmsghdr *message,
		     const struct rtattr **a)
{
	const struct tcmsg *m = NLMSG_DATA(message);

	if (message->nlmsg_type != RTM_NEWQDISC || message->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
	    m->tcm_ifindex != d->ifindex)
		return false;
	netlink_attributes(message, sizeof(*m), a, TCA_MAX + 1);
	return true;
}

static void on_dumped(const struct nlmsghdr *message, void *argument)
{
	const struct tcmsg *m = NLMSG_DATA(message);
	const struct rtattr *a[TCA_MAX + 1];
	struct id_queue identity = { 0 };
	struct device *d = argument;
	struct qdisc *q;

	if (!is_qdisc(d, message, a))
		return;
	q = find(d, m, a);
	if (q) {
		q->seen = true;
		return;
	}
	if (d->count == MAX_QDISCS || !a[TCA_KIND])
		return;
	q = &d->qdiscs[d->count++];
	*q = (struct qdisc){ .id = next_id++, .handle = m->tcm_handle, .parent = m->tcm_parent,
		.seen = true };
	netlink_copy(a[TCA_KIND], q->kind, sizeof(q->kind) - 1);
	identity = (struct id_queue){ .id = q->id, .device = d->number, .handle = q->handle,
		.parent = q->parent };
	memcpy(identity.kind, q->kind, sizeof(identity.kind));
	stream_put(RECORD_QUEUE, &identity, sizeof(identity));
}

static int dump(struct device *d, netlink_handler handler)
{
	struct qdisc_request all = {
		.header = {
			.nlmsg_len = sizeof(all),
			.nlmsg_type = RTM_GETQDISC,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.body = { .tcm_family = AF_UNSPEC, .tcm_ifindex = d->ifindex },
	};

	return netlink_dump(d->fd, &all, sizeof(all), handler, d);
}

static void make_requests(struct device *d)
{
	d->dumps = false;
	for (unsigned int i = 0; i < d->count; i++) {
		bool root = d->qdiscs[i].parent == TC_H_ROOT;

		d->dumps |= !root && !d->qdiscs[i].handle;
		d->requests[i] = (struct qdisc_request){
			.header = {
				.nlmsg_len = sizeof(struct qdisc_request),
				.nlmsg_type = RTM_GETQDISC,
				/* without the echo, kernels before 6.8 answer to listeners only */
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_ECHO,
				.nlmsg_seq = i,
			},
			.body = {
				.tcm_family = AF_UNSPEC,
				.tcm_ifindex = d->ifindex,
				.tcm_parent = root ? TC_H_ROOT : 0,
				.tcm_handle = d->qdiscs[i].handle,
			},
		};
	}
}

static void discover(struct device *d)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < d->count; i++)
		d->qdiscs[i].seen = false;
	dump(d, on_dumped);
	for (unsigned int i = 0; i < d->count; i++)
		if (d->qdiscs[i].seen)
			d->qdiscs[kept++] = d->qdiscs[i];
	d->count = kept;
	d->stale = false;
	make_requests(d);
}

void devices_discover(void)
{
	for (int n = 0; n < device_count; n++)
		if (devices[n].name->queue)
			discover(&devices[n]);
}

/* Notes a backlog; returns the least since the last sample. */
static uint32_t note_backlog(struct qdisc *q, uint32_t bytes)
{
	if (bytes < q->least_backlog)
		q->least_backlog = bytes;
	return q->least_backlog;
}

static void put_qdisc(struct qdisc *q, const struct rtattr *stats, bool watched)
{
	const struct rtattr *a[TCA_STATS_MAX + 1];
	struct gnet_stats_queue queue = { 0 };
	struct gnet_stats_basic basic = { 0 };
	struct row_queue *row = sample_row();

	if (!row)
		return;
	netlink_nested(stats, a, TCA_STATS_MAX + 1);
	if (a[TCA_STATS_QUEUE])
		netlink_copy(a[TCA_STATS_QUEUE], &queue, sizeof(queue));
	if (a[TCA_STATS_BASIC])
		netlink_copy(a[TCA_STATS_BASIC], &basic, sizeof(basic));
	row->id = q->id;
	row->bytes = basic.bytes;
	row->packets = basic.packets;
	if (a[TCA_STATS_PKT64])		/* only sent where 32 bits are too few */
		netlink_copy(a[TCA_STATS_PKT64], &row->packets, sizeof(row->packets));
	row->backlog_packets = queue.qlen;
	row->backlog_bytes = queue.backlog;
	row->drops = queue.drops;
	row->requeues = queue.requeues;
	row->overlimits = queue.overlimits;
	row->least_backlog_bytes = watched ? note_backlog(q, queue.backlog) : 0;
	q->least_backlog = queue.backlog;
	if (a[TCA_STATS_APP])
		row->xstats_bytes = (uint32_t)netlink_copy(a[TCA_STATS_APP], row->xstats,
							   sizeof(row->xstats));
}

static void on_qdisc(const struct nlmsghdr *message, void *argument)
{
	const struct rtattr *a[TCA_MAX + 1];
	struct device *d = argument;
	struct qdisc *q;

	if (message->nlmsg_type == NLMSG_ERROR) {
		report_add(REPORT_DEVICE_ERRORS, 1);
		d->stale = true;
		return;
	}
	if (!is_qdisc(d, message, a))
		return;
	if (d->dumps)
		q = find(d, NLMSG_DATA(message), a);
	else
		q = find_asked(d, message->nlmsg_seq, NLMSG_DATA(message), a);
	if (q && a[TCA_STATS2])
		put_qdisc(q, a[TCA_STATS2], d->name->watch && q->parent == TC_H_ROOT);
	else
		d->stale = true;	/* replaced by another under the same handle */
}

static void sample_queues(void)
{
	size_t all = 0;

	for (int n = 0; n < device_count; n++)
		all += devices[n].count;
	if (!all)
		return;
	sample_begin(RECORD_QUEUES, all, sizeof(struct row_queue), 0);
	for (int n = 0; n < device_count; n++) {
		struct device *d = &devices[n];

		if (d->dumps)
			dump(d, on_qdisc);
		else if (d->count)
			netlink_exchange(d->fd, d->requests, d->count * sizeof(*d->requests),
					 d->count, on_qdisc, d);
	}
	sample_end();
	for (int n = 0; n < device_count; n++)
		if (devices[n].stale)
			discover(&devices[n]);
}

static void on_watched(const struct nlmsghdr *message, void *argument)
{
	const struct rtattr *a[TCA_MAX + 1], *of_stats[TCA_STATS_MAX + 1];
	struct device *d = argument;
	struct qdisc *q;
	struct gnet_stats_queue queue;

	if (!is_qdisc(d, message, a) || !a[TCA_STATS2])
		return;
	q = find_asked(d, message->nlmsg_seq, NLMSG_DATA(message), a);
	netlink_nested(a[TCA_STATS2], of_stats, TCA_STATS_MAX + 1);
	if (q && of_stats[TCA_STATS_QUEUE]) {
		netlink_copy(of_stats[TCA_STATS_QUEUE], &queue, sizeof(queue));
		note_backlog(q, queue.backlog);
	}
}

void devices_watch(void)
{
	for (int n = 0; n < device_count; n++) {
		struct device *d = &devices[n];

		for (unsigned int i = 0; d->name->watch && i < d->count; i++)
			if (d->qdiscs[i].parent == TC_H_ROOT)
				netlink_exchange(d->fd, &d->requests[i], sizeof(*d->requests), 1,
						 on_watched, d);
	}
}

static void on_link(const struct nlmsghdr *message, void *argument)
{
	const struct rtattr *a[IFLA_STATS_MAX + 1];
	struct device *d = argument;
	struct row_link *row;

	if (message->nlmsg_type != RTM_NEWSTATS ||
	    message->nlmsg_len < NLMSG_LENGTH(sizeof(struct if_stats_msg))) {
		report_add(REPORT_DEVICE_ERRORS, 1);
		return;
	}
	netlink_attributes(message, sizeof(struct if_stats_msg), a, IFLA_STATS_MAX + 1);
	row = a[IFLA_STATS_LINK_64] ? sample_row() : NULL;
	if (!row)
		return;
	row->device = d->number;
	row->known = (uint32_t)(netlink_copy(a[IFLA_STATS_LINK_64], row->counters,
					     sizeof(row->counters)) / 8);
}

static void sample_links(void)
{
	sample_begin(RECORD_LINKS, (size_t)device_count, sizeof(struct row_link), 0);
	for (int n = 0; n < device_count; n++) {
		struct device *d = &devices[n];
		struct link_request request = {
			.header = {
				.nlmsg_len = sizeof(request),
				.nlmsg_type = RTM_GETSTATS,
				.nlmsg_flags = NLM_F_REQUEST,
			},
			.body = {
				.ifindex = (uint32_t)d->ifindex,
				.filter_mask = IFLA_STATS_FILTER_BIT(IFLA_STATS_LINK_64),
			},
		};

		if (d->name->link)
			netlink_exchange(d->fd, &request, sizeof(request), 1, on_link, d);
	}
	sample_end();
}

void devices_sample(void)
{
	if (!device_count)
		return;
	sample_queues();
	sample_links();
}

static int get_ifindex(void *argument)
{
	const struct device *d = argument;
	unsigned int ifindex = if_nametoindex(d->name->name);

	return ifindex ? (int)ifindex : -1;
}

void devices_open(const struct options *options)
{
	if (!options->device_count)
		return;
	device_count = options->device_count;
	devices = create((size_t)device_count, sizeof(*devices));
	for (int n = 0; n < device_count; n++) {
		const struct device_name *name = &options->devices[n];
		struct device *d = &devices[n];

		d->name = name;
		d->number = (uint32_t)n;
		d->ifindex = open_in_netns(name->netns, get_ifindex, d);
		if (d->ifindex < 0)
			fail(STATUS_FAILED, "there is no device %s%s%s", name->name,
			     name->netns[0] ? " in network namespace " : "", name->netns);
		d->fd = netlink_open(name->netns, NETLINK_ROUTE, name->name);
	}
	devices_discover();
}
