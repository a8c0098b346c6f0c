// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * Writes what NETLINK_SOCK_DIAG says of TCP sockets, many in a system call. A program marks the sockets whose cookies are in
 * a map; the other one, an iterator over those that are marked, writes a struct socket_values for each. Where it can't know
 * what the kernel would say of a socket, it leaves the socket out.
 */
#include "kernel.h"
#include "socket_values.h"

enum { TCP_SYN_RECV = 3, TCP_CLOSE = 7, TCP_LISTEN = 10, STATES = 12 };
enum { TIMER_RETRANSMISSION = 1, TIMER_KEEPALIVE = 2, TIMER_PROBE = 4, TIMER_DELAYED_ACK = 5 };
enum { PENDING_RETRANSMISSION = 1, PENDING_PROBE = 3, PENDING_LOSS_PROBE = 5, PENDING_REORDERING = 6, ACK_TIMER = 2 };
enum { CHRONO_BUSY = 1, CHRONO_RWND_LIMITED, CHRONO_SNDBUF_LIMITED };
enum { ECN_RFC3168 = 1, ECN_SEEN = 8, ECN_ACCURATE = 16 };
enum { METRICS_FLAGS = 3, RTAX_RTO_MIN = 13 };
enum { BBR_BANDWIDTH_SCALE = 24 };

struct tcp_congestion_ops {
	void *get_info;
	char name[16];
} __attribute__((preserve_access_index));

struct tcp_info {
	u32 tcpi_rto;
} __attribute__((preserve_access_index));

struct tcp_info___ecn_mode {
	u32 tcpi_ecn_mode : 2;
} __attribute__((preserve_access_index));

/* The state of BBRv1, whose module a kernel may lack, or have in another version */
struct bbr___v1 {
	u32 min_rtt_us;
	struct minmax bw;
	u32 lt_use_bw : 1;
	u32 lt_bw;
	u32 pacing_gain : 10;
	u32 cwnd_gain : 10;
} __attribute__((preserve_access_index));

/* The kernel's jiffies in a second, a divisor of 1000; the loader sets it. */
const volatile u32 ticks_per_s = 1000;

/* Cookies of sockets to mark */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, u64);
	__type(value, u8);
} wanted SEC(".maps");

/* The hash of a socket's addresses and ports when it was marked: one that connects again has another one. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} marked SEC(".maps");

SEC("iter/tcp")
int mark_sockets(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common;
	struct tcp_sock *tp;
	u64 cookie;
	u32 *hash;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	cookie = bpf_get_socket_cookie(tp);
	if (!bpf_map_lookup_elem(&wanted, &cookie))
		return 0;
	hash = bpf_sk_storage_get(&marked, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (hash)
		*hash = common->skc_hash;
	return 0;
}

static u32 ticks_to_ms(u32 ticks)
{
	return ticks * (1000 / ticks_per_s);
}

static u32 ticks_to_us(u32 ticks)
{
	return ticks * (1000000 / ticks_per_s);
}

static bool is_pending(const struct timer_list *timer)
{
	return timer->entry.pprev;
}

static u32 expires_ms(const struct timer_list *timer, u64 now)
{
	s64 left = timer->expires - now;

	return left < 0 ? 0 : ticks_to_ms(left);
}

static void write_timer(struct socket_values *values, struct tcp_sock *tp, u64 now)
{
	struct inet_connection_sock *connection = &tp->inet_conn;
	struct sock *sk = &connection->icsk_inet.sk;
	struct inet_connection_sock___timers *later = (void *)connection;
	struct sock___timers *later_sk = (void *)sk;
	struct timer_list *retransmission, *keepalive;
	u8 pending = connection->icsk_pending;

	if (bpf_core_field_exists(later->icsk_keepalive_timer)) {
		retransmission = &later_sk->tcp_retransmit_timer;
		keepalive = &later->icsk_keepalive_timer;
	} else {
		retransmission = &connection->icsk_retransmit_timer;
		keepalive = &sk->sk_timer;
	}
	if (pending == PENDING_RETRANSMISSION || pending == PENDING_REORDERING || pending == PENDING_LOSS_PROBE) {
		values->timer = TIMER_RETRANSMISSION;
		values->timer_retransmits = connection->icsk_retransmits;
		values->timer_expires_ms = expires_ms(retransmission, now);
	} else if (pending == PENDING_PROBE) {
		values->timer = TIMER_PROBE;
		values->timer_retransmits = connection->icsk_probes_out;
		values->timer_expires_ms = expires_ms(retransmission, now);
	} else if (is_pending(keepalive)) {
		values->timer = TIMER_KEEPALIVE;
		values->timer_retransmits = connection->icsk_probes_out;
		values->timer_expires_ms = expires_ms(keepalive, now);
	} else if (connection->icsk_ack.pending & ACK_TIMER && is_pending(&connection->icsk_delack_timer)) {
		values->timer = TIMER_DELAYED_ACK;
		values->timer_expires_ms = expires_ms(&connection->icsk_delack_timer, now);
	}
}

static void write_memory(u32 *memory, const struct sock *sk)
{
	memory[0] = sk->sk_backlog.rmem_alloc.counter;
	memory[1] = sk->sk_rcvbuf;
	memory[2] = sk->sk_wmem_alloc.refs.counter - 1;
	memory[3] = sk->sk_sndbuf;
	memory[4] = sk->sk_forward_alloc;
	memory[5] = sk->sk_wmem_queued;
	memory[6] = sk->sk_omem_alloc.counter;
	memory[7] = sk->sk_backlog.len;
	memory[8] = sk->sk_drops.counter;
}

static u8 options_of(const struct tcp_sock *tp)
{
	u8 ecn = tp->ecn_flags, options = 0;

	if (BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok))
		options |= 1;
	if (BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok))
		options |= 2;
	if (BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok))
		options |= 4;
	if (ecn & (ECN_RFC3168 | ECN_ACCURATE))
		options |= 8;
	if (ecn & ECN_SEEN)
		options |= 16;
	if (BPF_CORE_READ_BITFIELD(tp, syn_data_acked))
		options |= 32;
	if (BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		options |= 64;
	if (BPF_CORE_READ_BITFIELD(tp, syn_fastopen_child))
		options |= 128;
	return options;
}

static void write_limits(struct values_info *info, const struct tcp_sock *tp, u32 now)
{
	u32 now_is = tp->chrono_type, since = now - tp->chrono_start;
	u32 busy = tp->chrono_stat[0], window = tp->chrono_stat[1], buffer = tp->chrono_stat[2];

	if (now_is == CHRONO_BUSY)
		busy += since;
	else if (now_is == CHRONO_RWND_LIMITED)
		window += since;
	else if (now_is == CHRONO_SNDBUF_LIMITED)
		buffer += since;
	info->rwnd_limited = (u64)window * (1000000 / ticks_per_s);
	info->sndbuf_limited = (u64)buffer * (1000000 / ticks_per_s);
	info->busy_time = (u64)busy * (1000000 / ticks_per_s) + info->rwnd_limited + info->sndbuf_limited;
}

/* The word at the end, which has other members in kernels later than Linux 6.18 */
static u32 accecn_of(const struct tcp_sock *tp)
{
	u32 fail = BPF_CORE_READ_BITFIELD(tp, accecn_fail_mode), seen = BPF_CORE_READ_BITFIELD(tp, saw_accecn_opt), mode = 0;
	u8 ecn = tp->ecn_flags;

	if (!bpf_core_field_exists(struct tcp_info___ecn_mode, tcpi_ecn_mode))
		return fail | seen << 16;
	if (ecn & ECN_RFC3168)
		mode = ecn & ECN_ACCURATE ? 3 : 1;
	else if (ecn & ECN_ACCURATE)
		mode = 2;
	return mode | seen << 2 | fail << 4;
}

static void write_info(struct values_info *info, const struct tcp_sock *tp, u32 now)
{
	const struct inet_connection_sock *connection = &tp->inet_conn;
	const struct sock *sk = &connection->icsk_inet.sk;
	u32 rate = tp->rate_delivered, interval_us = tp->rate_interval_us;
	s32 unsent = tp->write_seq - tp->snd_nxt;

	info->state = sk->__sk_common.skc_state;
	info->ca_state = BPF_CORE_READ_BITFIELD(connection, icsk_ca_state);
	info->retransmits = connection->icsk_retransmits;
	info->probes = connection->icsk_probes_out;
	info->backoff = connection->icsk_backoff;
	info->options = options_of(tp);
	if (info->options & 4) {
		info->snd_wscale = BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale);
		info->rcv_wscale = BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale);
	}
	info->delivery_rate_app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	info->fastopen_client_fail = BPF_CORE_READ_BITFIELD(tp, fastopen_client_fail);
	info->rto = ticks_to_us(connection->icsk_rto);
	info->ato = ticks_to_us(BPF_CORE_READ_BITFIELD(connection, icsk_ack.ato));
	info->snd_mss = tp->mss_cache;
	info->rcv_mss = connection->icsk_ack.rcv_mss;
	info->unacked = tp->packets_out;
	info->sacked = tp->sacked_out;
	info->lost = tp->lost_out;
	info->retrans = tp->retrans_out;
	info->last_data_sent = ticks_to_ms(now - tp->lsndtime);
	info->last_data_recv = ticks_to_ms(now - connection->icsk_ack.lrcvtime);
	info->last_ack_recv = ticks_to_ms(now - tp->rcv_tstamp);
	info->pmtu = connection->icsk_pmtu_cookie;
	info->rcv_ssthresh = tp->rcv_ssthresh;
	info->rtt = tp->srtt_us >> 3;
	info->rttvar = tp->mdev_us >> 2;
	info->snd_ssthresh = tp->snd_ssthresh;
	info->snd_cwnd = tp->snd_cwnd;
	info->advmss = tp->advmss;
	info->reordering = tp->reordering;
	info->rcv_rtt = tp->rcv_rtt_est.rtt_us >> 3;
	info->rcv_space = tp->rcvq_space.space;
	info->total_retrans = tp->total_retrans;
	info->pacing_rate = sk->sk_pacing_rate;
	info->max_pacing_rate = sk->sk_max_pacing_rate;
	info->bytes_acked = tp->bytes_acked;
	info->bytes_received = tp->bytes_received;
	info->segs_out = tp->segs_out;
	info->segs_in = tp->segs_in;
	info->notsent_bytes = unsent > 0 ? unsent : 0;
	info->min_rtt = tp->rtt_min.s[0].v;
	info->data_segs_in = tp->data_segs_in;
	info->data_segs_out = tp->data_segs_out;
	if (rate && interval_us)
		info->delivery_rate = (u64)rate * tp->mss_cache * 1000000 / interval_us;
	write_limits(info, tp, now);
	info->delivered = tp->delivered;
	info->delivered_ce = tp->delivered_ce;
	info->bytes_sent = tp->bytes_sent;
	info->bytes_retrans = tp->bytes_retrans;
	info->dsack_dups = tp->dsack_dups;
	info->reord_seen = tp->reord_seen;
	info->rcv_ooopack = tp->rcv_ooopack;
	info->snd_wnd = tp->snd_wnd;
	info->rcv_wnd = tp->rcv_wnd;
	info->rehash = tp->plb_rehash + tp->timeout_rehash;
	info->total_rto = tp->total_rto;
	info->total_rto_recoveries = tp->total_rto_recoveries;
	info->total_rto_time = tp->total_rto_time;
	if (tp->rto_stamp)
		info->total_rto_time += (u32)(bpf_ktime_get_ns() / 1000000) - tp->rto_stamp;
	info->received_ce = tp->received_ce;
	info->delivered_e1_bytes = tp->delivered_ecn_bytes[0];
	info->delivered_e0_bytes = tp->delivered_ecn_bytes[1];
	info->delivered_ce_bytes = tp->delivered_ecn_bytes[2];
	info->received_e1_bytes = tp->received_ecn_bytes[0];
	info->received_e0_bytes = tp->received_ecn_bytes[1];
	info->received_ce_bytes = tp->received_ecn_bytes[2];
	info->accecn = accecn_of(tp);
}

/* Whether the route sets the least RTO, from which the kernel makes the maximum of the delayed-ACK time */
static bool has_own_rto_min(const struct sock *sk)
{
	struct dst_entry *route = sk->sk_dst_cache;
	u32 locked = 0;

	if (!route)
		return false;
	if (bpf_probe_read_kernel(&locked, sizeof(locked), (void *)(route->_metrics & ~(unsigned long)METRICS_FLAGS)))
		return true;
	return locked & 1 << RTAX_RTO_MIN;
}

/* Whether this program knows all that the kernel says of the socket */
static bool is_known(struct tcp_sock *tp, u32 hash)
{
	struct inet_connection_sock *connection = &tp->inet_conn;
	struct sock *sk = &connection->icsk_inet.sk;
	u8 state = sk->__sk_common.skc_state;
	u32 ato = BPF_CORE_READ_BITFIELD(connection, icsk_ack.ato);

	if (state == TCP_CLOSE || state == TCP_LISTEN || state >= STATES || sk->__sk_common.skc_hash != hash)
		return false;
	if (bpf_core_field_exists(sk->sk_drop_counters) && sk->sk_drop_counters)
		return false;
	return ato < connection->icsk_delack_max && ato < connection->icsk_rto_min && !has_own_rto_min(sk);
}

/* Writes the state of BBRv1; returns false if the CCA is another one. */
static bool write_bbr(struct socket_values *values, struct tcp_sock *tp)
{
	struct bbr___v1 *bbr = (void *)&tp->inet_conn.icsk_ca_priv;
	u64 bandwidth;

	if (!bpf_core_field_exists(bbr->lt_bw) || !bpf_core_field_exists(bbr->lt_use_bw))
		return false;
	bandwidth = BPF_CORE_READ_BITFIELD_PROBED(bbr, lt_use_bw) ? BPF_CORE_READ(bbr, lt_bw) : BPF_CORE_READ(bbr, bw.s[0].v);
	bandwidth = bandwidth * tp->mss_cache * 1000000 >> BBR_BANDWIDTH_SCALE;
	values->has_bbr = true;
	values->cca_state[0] = bandwidth;
	values->cca_state[1] = bandwidth >> 32;
	values->cca_state[2] = BPF_CORE_READ(bbr, min_rtt_us);
	values->cca_state[3] = BPF_CORE_READ_BITFIELD_PROBED(bbr, pacing_gain);
	values->cca_state[4] = BPF_CORE_READ_BITFIELD_PROBED(bbr, cwnd_gain);
	return true;
}

static bool is_bbr(const char *cca)
{
	return cca[0] == 'b' && cca[1] == 'b' && cca[2] == 'r' && !cca[3];
}

SEC("iter/bpf_sk_storage_map")
int write_sockets(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct socket_values values = {};
	struct sock *sk = context->sk;
	u32 *hash = context->value;
	const struct tcp_congestion_ops *cca;
	struct tcp_sock *tp;
	u64 now;
	s32 unread;

	if (!sk || !hash)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_known(tp, *hash))
		return 0;
	cca = tp->inet_conn.icsk_ca_ops;
	if (!cca || bpf_core_read(values.cca, sizeof(values.cca), &cca->name))
		return 0;
	if (cca->get_info && (!is_bbr(values.cca) || !write_bbr(&values, tp)))
		return 0;
	now = bpf_jiffies64();
	values.version = SOCKET_VALUES_VERSION;
	values.cookie = bpf_get_socket_cookie(sk);
	values.state = sk->__sk_common.skc_state;
	write_timer(&values, tp, now);
	unread = tp->rcv_nxt - tp->copied_seq;
	values.recv_queue_bytes = unread > 0 ? unread : 0;
	values.send_queue_bytes = tp->write_seq - tp->snd_una;
	write_memory(values.memory, sk);
	write_info(&values.info, tp, now);
	bpf_seq_write(context->meta->seq, &values, sizeof(values));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
