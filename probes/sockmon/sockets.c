// SPDX-License-Identifier: Apache-2.0
/*
 * TCP sockets over NETLINK_SOCK_DIAG. A dump costs with the size of the kernel's hash table, so it
 * only finds new sockets; each known one is asked for by itself, many in one system call. Where the
 * table is small for the number of sockets, a dump has their values for less. BPF programs, where the
 * probe is started with them, have the values of most sockets for less still.
 * Destroy events bring the final counters of all, also of sockets that lived for less than the time
 * between two dumps.
 */
#include "bbr_file.h"
#include "cgroup.h"
#include "clock.h"
#include "fail.h"
#include "filter.h"
#include "known.h"
#include "memory.h"
#include "netlink.h"
#include "netns.h"
#include "recorders.h"
#include "report.h"
#include "stream.h"
#include "values.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* requests in one system call: few enough that their answers stay in the cache */
#define BATCH 16
/*
 * As many chains of the kernel's table cost no more to walk than a request for a single socket costs
 * above its part of a dump: measured 1.2 to 1.9 times as many (README.md).
 */
#define CHAINS_PER_SOCKET 256
#define CLOCK_NS 10000		/* times that differ by less are the same: in virtual time each reading costs */
#define LEAVING_NS 1000000000ull	/* how long to wait for a gone socket's destroy event */
#define INFO_BYTES 512		/* more than any kernel has; this year's is 280 */
#define EXTENSION(number) (1 << ((number) - 1))
/* what a sample has of a socket */
#define SAMPLED (EXTENSION(INET_DIAG_INFO) | EXTENSION(INET_DIAG_VEGASINFO) | \
		 EXTENSION(INET_DIAG_CONG) | EXTENSION(INET_DIAG_SKMEMINFO))

/* The states of sockets that have a peer and are not mini sockets: not listening, not in TIME_WAIT. */
#define STATES (1 << TCP_ESTABLISHED | 1 << TCP_SYN_SENT | 1 << TCP_SYN_RECV | \
		1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2 | 1 << TCP_CLOSE_WAIT | \
		1 << TCP_LAST_ACK | 1 << TCP_CLOSING)

/* CCAs with a file of their sockets' states */
static const char *const bbr_ccas[] = { "bbr2", "bbr3" };
#define BBR_FILES (sizeof(bbr_ccas) / sizeof(*bbr_ccas))

struct target {
	const char *netns;
	uint32_t number;
	int fd, events;		/* events: -1 if they are refused */
	uint32_t chains;	/* of the kernel's table; 0 if it is not known */
	uint64_t dump_ns, requests_ns;	/* of the last search, and of the last requests for all */
	size_t first_row;	/* of this sample */
	struct known_sockets sockets;
	struct bbr_file bbr_files[BBR_FILES];
};

struct bbr_reading {
	struct target *target;
	uint8_t file;
	struct row_bbr_info *info;	/* of those whose file has it */
	size_t info_count;
};

static struct target *targets;
static int target_count;
static struct filter filter;
static size_t info_bytes;
static bool has_programs;
/* what they say in this sample */
static const struct socket_values *written;
static size_t written_count;
static uint32_t next_id;

static uint64_t cookie_of(const struct inet_diag_sockid *id)
{
	return (uint64_t)id->idiag_cookie[1] << 32 | id->idiag_cookie[0];
}

static bool is_ours(const struct inet_diag_msg *m)
{
	return m->id.idiag_dport &&
	       filter_matches(&filter, m->idiag_family, m->id.idiag_src, m->id.idiag_dst,
			      ntohs(m->id.idiag_sport), ntohs(m->id.idiag_dport));
}

static uint32_t put_identity(const struct target *t, const struct inet_diag_msg *m, const char *cca)
{
	struct id_socket identity = {
		.id = next_id++,
		.target = t->number,
		.cookie = cookie_of(&m->id),
		.mono_ns = mono_ns(),
		.family = m->idiag_family,
		.local_port = ntohs(m->id.idiag_sport),
		.remote_port = ntohs(m->id.idiag_dport),
		.ifindex = m->id.idiag_if,
		.uid = m->idiag_uid,
		.inode = m->idiag_inode,
	};
	size_t bytes = m->idiag_family == AF_INET ? 4 : 16;

	memcpy(identity.local, m->id.idiag_src, bytes);
	memcpy(identity.remote, m->id.idiag_dst, bytes);
	memcpy(identity.cca, cca, sizeof(identity.cca));
	stream_put(RECORD_SOCKET, &identity, sizeof(identity));
	return identity.id;
}

static void set_cca(struct known *known, const char *cca)
{
	memcpy(known->cca, cca, sizeof(known->cca));
	for (known->bbr_file = 0; known->bbr_file < BBR_FILES; known->bbr_file++)
		if (!strcmp(cca, bbr_ccas[known->bbr_file]))
			break;
}

static void add(struct target *t, const struct inet_diag_msg *m, const char *cca)
{
	struct known known = { .cookie = cookie_of(&m->id), .id = put_identity(t, m, cca) };
	struct request request = {
		.header = {
			.nlmsg_len = sizeof(struct request),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.body = {
			.sdiag_family = m->idiag_family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_ext = SAMPLED,
			.idiag_states = STATES,
			.id = m->id,
		},
	};

	set_cca(&known, cca);
	known_add(&t->sockets, &known, &request);
	if (has_programs)
		values_want(known.cookie);
	report_add(REPORT_SOCKETS_FOUND, 1);
}

static void leave(struct target *t, const struct known *known)
{
	struct leaving leaving = { .cookie = known->cookie, .id = known->id };

	if (t->events < 0) {
		report_add(REPORT_SOCKETS_VANISHED, 1);
		return;
	}
	leaving.since_ns = mono_ns();
	leaving_add(&t->sockets, &leaving);
}

/* Copies the CCA's own state; its attribute's type is that of the CCA. */
static void copy_cca_state(struct row_socket *row, const struct rtattr **a)
{
	static const struct {
		int type;
		uint8_t has;
	} kinds[] = {
		{ INET_DIAG_VEGASINFO, HAS_VEGAS },
		{ INET_DIAG_DCTCPINFO, HAS_DCTCP },
		{ INET_DIAG_BBRINFO, HAS_BBR },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (a[kinds[i].type]) {
			row->has |= kinds[i].has;
			netlink_copy(a[kinds[i].type], row->cca_state, sizeof(row->cca_state));
		}
	}
}

static void fill_row(struct row_socket *row, uint32_t id, const struct inet_diag_msg *m,
		     const struct rtattr **a)
{
	row->id = id;
	row->state = m->idiag_state;
	row->timer = m->idiag_timer;
	row->timer_retransmits = m->idiag_retrans;
	row->timer_expires_ms = m->idiag_expires;
	row->recv_queue_bytes = m->idiag_rqueue;
	row->send_queue_bytes = m->idiag_wqueue;
	if (a[INET_DIAG_SKMEMINFO]) {
		row->has |= HAS_MEMORY;
		netlink_copy(a[INET_DIAG_SKMEMINFO], row->memory, sizeof(row->memory));
	}
	copy_cca_state(row, a);
	netlink_copy(a[INET_DIAG_INFO], row + 1, info_bytes);
}

static void fill_row_by_bpf(struct row_socket *row, uint32_t id, const struct socket_values *values)
{
	row->id = id;
	row->state = values->state;
	row->timer = values->timer;
	row->timer_retransmits = values->timer_retransmits;
	row->timer_expires_ms = values->timer_expires_ms;
	row->recv_queue_bytes = values->recv_queue_bytes;
	row->send_queue_bytes = values->send_queue_bytes;
	row->has = HAS_MEMORY | (values->has_bbr ? HAS_BBR : 0);
	memcpy(row->memory, values->memory, sizeof(row->memory));
	memcpy(row->cca_state, values->cca_state, sizeof(row->cca_state));
	memcpy(row + 1, &values->info, sizeof(values->info));
}

/* Returns the part of an answer that has the socket's identity, or NULL if it is not such an answer. */
static const struct inet_diag_msg *diag_of(const struct nlmsghdr *message, uint16_t type)
{
	if (message->nlmsg_type != type ||
	    message->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
		return NULL;
	return NLMSG_DATA(message);
}

static void get_cca(const struct rtattr **a, char *cca)
{
	memset(cca, 0, 16);
	if (a[INET_DIAG_CONG])
		netlink_copy(a[INET_DIAG_CONG], cca, 15);
}

static void take_values(struct target *t, uint32_t at, const struct inet_diag_msg *m,
			const struct rtattr **a)
{
	struct known *known = &t->sockets.known[at];
	char cca[16];

	get_cca(a, cca);
	if (memcmp(cca, known->cca, sizeof(cca))) {
		/* it goes on under another identity, from this row on */
		set_cca(known, cca);
		known->id = put_identity(t, m, cca);
	}
	fill_row(sample_row_at(t->first_row + at), known->id, m, a);
	known->answered = true;
}

/* Takes what BPF programs have written of a target's sockets; one that has changed its CCA will be asked for. */
static void take_written(struct target *t)
{
	for (size_t i = 0; i < written_count; i++) {
		const struct socket_values *values = &written[i];
		uint32_t at = known_find(&t->sockets, values->cookie);
		struct known *known = at == KNOWN_NONE ? NULL : &t->sockets.known[at];

		if (!known || values->version != SOCKET_VALUES_VERSION ||
		    memcmp(values->cca, known->cca, sizeof(known->cca)))
			continue;
		fill_row_by_bpf(sample_row_at(t->first_row + at), known->id, values);
		known->answered = true;
		report_add(REPORT_ROWS_BY_BPF, 1);
	}
}

static void on_answer(const struct nlmsghdr *message, void *argument)
{
	const struct inet_diag_msg *m = diag_of(message, SOCK_DIAG_BY_FAMILY);
	const struct rtattr *a[INET_DIAG_MAX + 1];
	struct target *t = argument;
	uint32_t at = message->nlmsg_seq;
	struct known *known;

	if (at >= t->sockets.count)
		return;
	known = &t->sockets.known[at];
	if (!m) {
		known->gone = true;
		return;
	}
	netlink_attributes(message, sizeof(*m), a, INET_DIAG_MAX + 1);
	/* without counters it is a mini socket, in TIME_WAIT */
	known->gone = !a[INET_DIAG_INFO] || cookie_of(&m->id) != known->cookie;
	if (!known->gone)
		take_values(t, at, m, a);
}

/* Asks for known sockets that have not answered in this sample. */
static void ask(struct target *t)
{
	for (uint32_t at = 0; at < t->sockets.count;) {
		uint32_t count = 0;

		while (count < BATCH && at + count < t->sockets.count && !t->sockets.known[at + count].answered)
			count++;
		if (count)
			netlink_exchange(t->fd, &t->sockets.requests[at], count * sizeof(struct request),
					 count, on_answer, t);
		at += count ? count : 1;
	}
}

/*
 * Passes all sockets that match the filter to the handler. One walk through the kernel's table finds
 * those of IPv4 and IPv6: the older kind of request, unlike inet_diag_req_v2, is of no family.
 */
static int list(struct target *t, uint8_t extensions, netlink_handler handler)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req body;
		struct rtattr attribute;
		uint8_t code[BYTECODE_BYTES];
	} dump = {
		.header = {
			.nlmsg_type = TCPDIAG_GETSOCK,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		},
		.body = {
			.idiag_ext = extensions,
			.idiag_states = STATES,
		},
	};
	size_t bytes = NLMSG_LENGTH(sizeof(dump.body));
	size_t code = filter_bytecode(&filter, dump.code);

	if (code) {
		dump.attribute.rta_type = INET_DIAG_REQ_BYTECODE;
		dump.attribute.rta_len = (unsigned short)RTA_LENGTH(code);
		bytes += RTA_SPACE(code);
	}
	dump.header.nlmsg_len = (uint32_t)bytes;
	return netlink_dump(t->fd, &dump, bytes, handler, t);
}

static void on_listed(const struct nlmsghdr *message, void *argument)
{
	const struct inet_diag_msg *m = diag_of(message, TCPDIAG_GETSOCK);
	const struct rtattr *a[INET_DIAG_MAX + 1];
	struct target *t = argument;
	uint32_t at;

	if (!m)
		return;
	at = known_find(&t->sockets, cookie_of(&m->id));
	if (at == KNOWN_NONE)		/* the next search finds it */
		return;
	netlink_attributes(message, sizeof(*m), a, INET_DIAG_MAX + 1);
	if (a[INET_DIAG_INFO])
		take_values(t, at, m, a);
}

/* Returns whether the kernel's table is so small that a dump can cost less than requests. */
static bool table_is_small(const struct target *t)
{
	return t->chains && t->sockets.count >= t->chains / CHAINS_PER_SOCKET;
}

static void sweep(struct target *t)
{
	for (uint32_t i = t->sockets.count; i-- > 0;) {
		if (t->sockets.known[i].gone) {
			leave(t, &t->sockets.known[i]);
			known_drop(&t->sockets, i);
		}
	}
}

/*
 * Gets the values of all known sockets by a dump or by requests. The times count where the table has
 * many other sockets, which make a dump slow. Sockets that a dump or BPF programs miss are asked for.
 */
static void get_values(struct target *t)
{
	int64_t begin_ns;

	take_written(t);
	if (has_programs || !table_is_small(t)) {
		ask(t);
		return;
	}
	if (t->dump_ns <= t->requests_ns + CLOCK_NS) {
		list(t, SAMPLED, on_listed);
		ask(t);
		return;
	}
	begin_ns = mono_ns();
	ask(t);
	t->requests_ns = mono_ns() - begin_ns;
}

/* Adds a row for each known socket, and drops those of sockets that don't answer. */
static void sample(struct target *t)
{
	t->first_row = sample_rows();
	for (uint32_t at = 0; at < t->sockets.count; at++) {
		sample_row();
		t->sockets.known[at].answered = t->sockets.known[at].has_bbr_state = false;
	}
	get_values(t);
	for (uint32_t at = t->sockets.count; at-- > 0;)
		if (!t->sockets.known[at].answered)
			sample_remove_row(t->first_row + at);
}

static void put_bbr_info(struct row_bbr_info *row, uint32_t id, const struct tcp_bbr_info *info)
{
	_Static_assert(sizeof(row->info) == sizeof(*info), "another struct tcp_bbr_info");
	row->id = id;
	memcpy(row->info, info, sizeof(row->info));
}

static void on_bbr_state(const struct bbr_state *state, void *argument)
{
	struct bbr_reading *reading = argument;
	struct target *t = reading->target;
	uint32_t at = known_find(&t->sockets, state->cookie);
	struct known *known = at == KNOWN_NONE ? NULL : &t->sockets.known[at];
	struct row_bbr *row;

	/* a socket may have changed its CCA since its values came */
	if (!known || !known->answered || known->has_bbr_state || known->bbr_file != reading->file)
		return;
	known->has_bbr_state = true;
	row = sample_row();
	row->id = known->id;
	row->phase = state->phase;
	row->bw_lo_bps = state->bw_lo_bps;
	row->inflight_hi_packets = state->inflight_hi_packets;
	row->inflight_lo_packets = state->inflight_lo_packets;
	row->cycle = state->cycle;
	if (state->has_info)
		put_bbr_info(&reading->info[reading->info_count++], known->id, &state->info);
}

/* Returns how many sockets of this sample have their state in a file of the target. */
static size_t count_bbr(const struct target *t, uint8_t file)
{
	size_t count = 0;

	for (uint32_t at = 0; at < t->sockets.count; at++)
		count += t->sockets.known[at].answered && t->sockets.known[at].bbr_file == file;
	return count;
}

static void sample_bbr_info(const struct bbr_reading *reading)
{
	if (!reading->info_count)
		return;
	sample_begin(RECORD_BBR_INFO, reading->info_count, sizeof(*reading->info), 0);
	for (size_t i = 0; i < reading->info_count; i++)
		memcpy(sample_row(), &reading->info[i], sizeof(reading->info[i]));
	sample_end();
}

static void sample_bbr(struct target *t, uint8_t file)
{
	struct bbr_reading reading = { .target = t, .file = file };
	size_t count = count_bbr(t, file);
	const char *problem;

	if (!count)
		return;
	reading.info = create(count, sizeof(*reading.info));
	sample_begin(RECORD_BBR, count, sizeof(struct row_bbr), 0);
	problem = bbr_file_read(&t->bbr_files[file], on_bbr_state, &reading);
	sample_end();
	sample_bbr_info(&reading);
	free(reading.info);
	if (problem) {
		complain("%s", problem);
		stream_text(RECORD_NOTE, problem);
	}
}

void sockets_sample(void)
{
	size_t all = 0;

	for (int n = 0; n < target_count; n++)
		all += targets[n].sockets.count;
	if (!all)
		return;
	sample_begin(RECORD_SOCKETS, all, sizeof(struct row_socket) + info_bytes, info_bytes);
	if (has_programs)
		written_count = values_read(&written);
	for (int n = 0; n < target_count; n++)
		sample(&targets[n]);
	sample_end();
	for (int n = 0; n < target_count; n++)
		for (uint8_t file = 0; file < BBR_FILES; file++)
			sample_bbr(&targets[n], file);
	for (int n = 0; n < target_count; n++)
		sweep(&targets[n]);
}

static void on_dumped(const struct nlmsghdr *message, void *argument)
{
	const struct inet_diag_msg *m = diag_of(message, TCPDIAG_GETSOCK);
	const struct rtattr *a[INET_DIAG_MAX + 1];
	struct target *t = argument;
	uint64_t cookie;
	char cca[16];

	if (!m)
		return;
	cookie = cookie_of(&m->id);
	if (!m->id.idiag_dport || known_find(&t->sockets, cookie) != KNOWN_NONE ||
	    leaving_find(&t->sockets, cookie))
		return;
	netlink_attributes(message, sizeof(*m), a, INET_DIAG_MAX + 1);
	get_cca(a, cca);
	if (cca[0])		/* a mini socket has none */
		add(t, m, cca);
}

static int discover(struct target *t)
{
	int64_t begin_ns;
	int refused;

	if (!table_is_small(t))
		return list(t, EXTENSION(INET_DIAG_CONG), on_dumped);
	begin_ns = mono_ns();
	refused = list(t, EXTENSION(INET_DIAG_CONG), on_dumped);
	t->dump_ns = mono_ns() - begin_ns;
	return refused;
}

/* The message of an event has the counters and the addresses, and nothing else. */
static void on_destroyed(const struct nlmsghdr *message, void *argument)
{
	const struct inet_diag_msg *m = diag_of(message, SOCK_DIAG_BY_FAMILY);
	const struct rtattr *a[INET_DIAG_MAX + 1];
	struct target *t = argument;
	struct leaving *leaving;
	char cca[16] = "";
	uint32_t at, id;

	if (!m)
		return;
	report_add(REPORT_EVENTS, 1);
	netlink_attributes(message, sizeof(*m), a, INET_DIAG_MAX + 1);
	if (!is_ours(m) || !a[INET_DIAG_INFO])
		return;
	at = known_find(&t->sockets, cookie_of(&m->id));
	leaving = leaving_find(&t->sockets, cookie_of(&m->id));
	if (at != KNOWN_NONE) {
		id = t->sockets.known[at].id;
		known_drop(&t->sockets, at);
	} else if (leaving) {
		id = leaving->id;
		leaving_drop(&t->sockets, leaving);
	} else if (filter.cgroup) {
		return;		/* its cgroup is not known any more */
	} else {
		id = put_identity(t, m, cca);
		report_add(REPORT_SOCKETS_FOUND, 1);
	}
	report_add(REPORT_SOCKETS_CLOSED, 1);
	sample_begin(RECORD_CLOSED, 1, sizeof(struct row_socket) + info_bytes, info_bytes);
	fill_row(sample_row(), id, m, a);
	sample_end();
}

static void take_events(struct target *t)
{
	if (t->events < 0)
		return;
	netlink_drain(t->events, on_destroyed, t);
	report_add(REPORT_SOCKETS_VANISHED, leaving_drop_older(&t->sockets, mono_ns(), LEAVING_NS));
}

static const char *advice(int refused)
{
	if (refused == ENOENT || refused == EOPNOTSUPP)
		return " (modprobe tcp_diag)";
	if (refused == EINVAL && filter.cgroup)
		return " (--cgroup needs Linux 5.9 with SOCK_CGROUP_DATA)";
	return "";
}

void sockets_discover(void)
{
	for (int n = 0; n < target_count; n++) {
		int refused;

		take_events(&targets[n]);
		refused = discover(&targets[n]);
		if (refused)
			fail(STATUS_FAILED, "the kernel refuses to list its TCP sockets: %s%s",
			     strerror(refused), advice(refused));
		if (has_programs)
			values_mark(targets[n].netns);
	}
}

/*
 * Waits, since a socket's event comes some milliseconds after its end: the kernel waits for all
 * readers, then for a worker.
 */
void sockets_last_events(void)
{
	for (int n = 0; n < target_count; n++)
		if (targets[n].events >= 0)
			usleep(n ? 0 : 50000);
	for (int n = 0; n < target_count; n++)
		take_events(&targets[n]);
}

static int open_events(const struct target *t)
{
	int groups[] = { SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY };
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	int fd = netlink_open(t->netns, NETLINK_SOCK_DIAG, "destroy events");
	char text[256];

	/* without a number of its own, a socket gets nothing that is for all */
	if (bind(fd, (void *)&address, sizeof(address)) < 0)
		fail_errno("the socket for destroy events");
	for (int i = 0; i < 2; i++) {
		if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i],
			       sizeof(groups[i])) == 0)
			continue;
		snprintf(text, sizeof(text),
			 "no destroy events: %s; short flows and final counters are not recorded",
			 strerror(errno));
		complain("%s", text);
		stream_text(RECORD_NOTE, text);
		close(fd);
		return -1;
	}
	return fd;
}

/* The tcp_info of getsockopt() is as long as the one that the kernel sends over netlink. */
static void learn_info_bytes(void)
{
	char info[INFO_BYTES];
	socklen_t bytes = sizeof(info);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) < 0)
		fail_errno("no TCP socket to ask for the length of tcp_info");
	close(fd);
	info_bytes = (bytes + 7u) & ~7u;
}

static int open_table_size(void *unused)
{
	(void)unused;
	return open("/proc/sys/net/ipv4/tcp_ehash_entries", O_RDONLY | O_CLOEXEC);
}

/* Returns the length of the kernel's table, or 0 before Linux 6.1. It is negative where namespaces share it. */
static uint32_t count_chains(const struct target *t)
{
	int fd = open_in_netns(t->netns, open_table_size, NULL);
	char text[32] = "";

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return (uint32_t)labs(atol(text));
}

void sockets_open(const struct options *options)
{
	if (!options->socket_count)
		return;
	learn_info_bytes();
	has_programs = values_open(info_bytes);
	filter = options->filter;
	if (options->cgroup)
		filter.cgroup = cgroup_id(options->cgroup);
	target_count = options->socket_count;
	targets = create((size_t)target_count, sizeof(*targets));
	for (int n = 0; n < target_count; n++) {
		struct target *t = &targets[n];

		*t = (struct target){ .netns = options->sockets[n], .number = (uint32_t)n };
		known_init(&t->sockets);
		t->fd = netlink_open(t->netns, NETLINK_SOCK_DIAG, "TCP sockets");
		t->events = open_events(t);
		t->chains = count_chains(t);
		for (size_t file = 0; file < BBR_FILES; file++)
			t->bbr_files[file] = (struct bbr_file){ .cca = bbr_ccas[file],
				.netns = t->netns, .iterator = bbr_iterator(bbr_ccas[file]) };
	}
	sockets_discover();
}
