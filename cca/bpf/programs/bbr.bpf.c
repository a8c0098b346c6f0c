// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * The core as BPF programs, which the kernel calls as a tcp_congestion_ops. Whether they are bbr2 or bbr3 is data: the
 * loader sets the name and the constants.
 *
 * The state of a socket is in a map of socket storage. A socket that gets none is given to Reno, whose name it then
 * shows.
 */
#include "kernel.h"
#include "../../core/bbr.c"
#include "shared.h"

/* Maps by their names, which the loader looks for. */
struct bbr_control bbr_control SEC(".data.control");
struct bbr_counts bbr_counts SEC(".data.counts");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bbr);
} bbr_sockets SEC(".maps");

static u32 bbr_random_below(u32 ceiling)
{
	return (u64)bpf_get_prandom_u32() * ceiling >> 32;
}

static __always_inline u32 bbr_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* The values of the transport that the core needs in addition to an ACK. */
static __always_inline void bbr_describe(const struct tcp_sock *tp, struct bbr_ack *ack)
{
	ack->now_us = tp->tcp_mstamp;
	ack->delivered = tp->delivered;
	ack->delivered_ce = tp->delivered_ce;
	ack->lost = tp->lost;
	ack->inflight = bbr_packets_in_flight(tp);
	ack->snd_nxt = tp->snd_nxt;
	ack->mss = tp->mss_cache;
	ack->srtt_us = tp->srtt_us >> 3;
	ack->is_cwnd_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

static __always_inline u8 bbr_recovery_of(const struct tcp_sock *tp)
{
	switch (BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state)) {
	case TCP_CA_Recovery:
		return BBR_FAST_RECOVERY;
	case TCP_CA_Loss:
		return BBR_RTO_RECOVERY;
	default:
		return BBR_NO_RECOVERY;
	}
}

/* Time until the packet that is to be sent next may leave. */
static __always_inline u32 bbr_pacing_queue_us(const struct tcp_sock *tp)
{
	u64 departure = tp->tcp_wstamp_ns, now = tp->tcp_clock_cache;
	u64 ahead_ns = departure > now ? departure - now : 0;

	return (ahead_ns < NSEC_PER_SEC ? ahead_ns : NSEC_PER_SEC) / NSEC_PER_USEC;
}

static __always_inline void bbr_apply(struct tcp_sock *tp, const struct bbr *bbr)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u64 most = sk->sk_max_pacing_rate;

	tp->snd_cwnd = bbr_min(bbr->cwnd, tp->snd_cwnd_clamp);
	sk->sk_pacing_rate = bbr->pacing_rate < most ? bbr->pacing_rate : most;
}

static __always_inline s32 bbr_short(long value)
{
	return value < INT_MAX ? value : INT_MAX;
}

/* An ACK. `may_limit`: the kernel lets a program write app_limited. */
static __noinline int bbr_ack(struct tcp_sock *tp, const struct rate_sample *rs, bool may_limit)
{
	struct bbr *bbr = bpf_sk_storage_get(&bbr_sockets, tp, NULL, 0);
	struct bbr_ack ack;

	if (!bbr)
		return 0;
	bbr_describe(tp, &ack);
	ack.prior_inflight = rs->prior_in_flight;
	ack.newly_acked = rs->acked_sacked;
	ack.rs_delivered = rs->delivered;
	ack.interval_us = bbr_short(rs->interval_us);
	ack.prior_delivered = rs->prior_delivered;
	ack.rtt_us = bbr_short(rs->rtt_us);
	ack.last_end_seq = rs->last_end_seq;
	ack.pacing_queue_us = bbr_pacing_queue_us(tp);
	ack.is_app_limited = rs->is_app_limited;
	ack.is_retransmission = rs->is_retrans;
	ack.is_ack_delayed = rs->is_ack_delayed;
	ack.has_sack = BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok) != 0;
	ack.recovery = bbr_recovery_of(tp);

	bbr->cwnd = tp->snd_cwnd;
	bbr_on_ack(bbr, &bbr_control.constants, &ack);
	bbr_apply(tp, bbr);
	if (may_limit && bbr->mark_app_limited)
		tp->app_limited = bbr_max(tp->delivered + bbr_packets_in_flight(tp), 1);
	return 0;
}

/* cong_control from Linux 6.10 on */
SEC("struct_ops")
int bbr_ack_with_flag(u64 *arguments)
{
	return bbr_ack((struct tcp_sock *)arguments[0], (const struct rate_sample *)arguments[3], true);
}

/* cong_control before */
SEC("?struct_ops")
int bbr_ack_without_flag(u64 *arguments)
{
	return bbr_ack((struct tcp_sock *)arguments[0], (const struct rate_sample *)arguments[1], false);
}

static __noinline int bbr_restart(struct tcp_sock *tp)
{
	struct bbr *bbr = bpf_sk_storage_get(&bbr_sockets, tp, NULL, 0);
	struct bbr_ack now = {};

	if (!bbr || !tp->app_limited)
		return 0;
	bbr_describe(tp, &now);
	bbr->cwnd = tp->snd_cwnd;
	bbr_on_restart_from_idle(bbr, &bbr_control.constants, &now);
	bbr_apply(tp, bbr);
	return 0;
}

SEC("struct_ops")
int bbr_tx_start(u64 *arguments)
{
	return bbr_restart((struct tcp_sock *)arguments[0]);
}

SEC("struct_ops")
int bbr_cwnd_event(u64 *arguments)
{
	u32 event = arguments[1];

	return event == CA_EVENT_TX_START ? bbr_restart((struct tcp_sock *)arguments[0]) : 0;
}

SEC("struct_ops")
int bbr_ssthresh(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	struct bbr *bbr = bpf_sk_storage_get(&bbr_sockets, tp, NULL, 0);

	if (bbr) {
		bbr->cwnd = tp->snd_cwnd;
		bbr_on_enter_recovery(bbr);
	}
	return tp->snd_ssthresh;
}

SEC("struct_ops")
int bbr_undo_cwnd(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	struct bbr *bbr = bpf_sk_storage_get(&bbr_sockets, tp, NULL, 0);
	struct bbr_ack now = {};
	u32 cwnd = tp->snd_cwnd;	/* read once: else clang makes one load of both returns, which the verifier refuses */

	if (!bbr)
		return cwnd;
	bbr_describe(tp, &now);
	bbr->cwnd = cwnd;
	bbr_on_spurious_recovery(bbr, &now);
	return bbr->cwnd;
}

SEC("struct_ops")
int bbr_min_tso_segs(u64 *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];

	return sk->sk_pacing_rate < bbr_control.constants.min_tso_rate_bytes ? 1 : 2;
}

/* Three times cwnd: cwnd may double while lost packets are sent again. */
SEC("struct_ops")
int bbr_sndbuf_expand(u64 *arguments)
{
	return 3;
}

/* Returns the new state of a socket, or NULL if there is no memory for it or max_sockets is reached. */
static __always_inline struct bbr *bbr_create(struct tcp_sock *tp)
{
	u32 most = bbr_control.max_sockets;
	u32 before = __sync_fetch_and_add(&bbr_counts.sockets, 1);
	struct bbr *bbr = NULL;

	if (!most || before < most)
		bbr = bpf_sk_storage_get(&bbr_sockets, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!bbr)
		__sync_fetch_and_add(&bbr_counts.sockets, -1);
	return bbr;
}

SEC("struct_ops")
int bbr_sock_init(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct bbr *bbr = bbr_create(tp);
	struct bbr_ack now = {};
	char reno[] = "reno";

	if (!bbr) {
		__sync_fetch_and_add(&bbr_counts.fallbacks, 1);
		bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
		return 0;
	}
	bbr_describe(tp, &now);
	bbr_init(bbr, &bbr_control.constants, &now, tp->snd_cwnd);
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	bbr_apply(tp, bbr);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	return 0;
}

SEC("struct_ops")
int bbr_sock_release(u64 *arguments)
{
	struct tcp_sock *tp = (struct tcp_sock *)arguments[0];

	if (bpf_sk_storage_get(&bbr_sockets, tp, NULL, 0)) {
		__sync_fetch_and_add(&bbr_counts.sockets, -1);
		bpf_sk_storage_delete(&bbr_sockets, tp);
	}
	return 0;
}

SEC(".struct_ops")
struct tcp_congestion_ops bbr_ops = {
	.init = bbr_sock_init,
	.release = bbr_sock_release,
	.cong_control = bbr_ack_with_flag,
	.ssthresh = bbr_ssthresh,
	.undo_cwnd = bbr_undo_cwnd,
	.cwnd_event = bbr_cwnd_event,
	.cwnd_event_tx_start = bbr_tx_start,
	.min_tso_segs = bbr_min_tso_segs,
	.sndbuf_expand = bbr_sndbuf_expand,
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
