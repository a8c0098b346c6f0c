// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* Writes a struct bbr_status for each socket that has state: the loader attaches it to the map of one CCA. */
#include "kernel.h"
#include "../../core/bbr.h"
#include "shared.h"

enum { AF_INET6 = 10 };

SEC("iter/bpf_sk_storage_map")
int bbr_write_status(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct bbr_status status = {};
	struct sock *sk = context->sk;
	struct bbr *bbr = context->value;
	struct tcp_sock *tp;

	if (!sk || !bbr)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	status.cookie = bpf_get_socket_cookie(sk);
	status.netns = sk->__sk_common.skc_net.net->ns.inum;
	status.family = sk->__sk_common.skc_family;
	if (status.family == AF_INET6) {
		bpf_core_read(status.local_address, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(status.remote_address, 16, &sk->__sk_common.skc_v6_daddr);
	} else {
		bpf_core_read(status.local_address, 4, &sk->__sk_common.skc_rcv_saddr);
		bpf_core_read(status.remote_address, 4, &sk->__sk_common.skc_daddr);
	}
	status.local_port = sk->__sk_common.skc_num;
	status.remote_port = sk->__sk_common.skc_dport;
	status.mss = tp->mss_cache;
	status.phase = bbr->state;
	status.cycle = bbr->cycle_count;
	status.bw = bbr->bw;
	status.bw_lo = bbr->bw_lo;
	status.inflight_hi = bbr->inflight_hi;
	status.inflight_lo = bbr->inflight_lo;
	status.min_rtt_us = bbr->min_rtt_us;
	status.pacing_gain = bbr->pacing_gain;
	status.cwnd_gain = bbr->cwnd_gain;
	bpf_seq_write(context->meta->seq, &status, sizeof(status));
	return 0;
}

static const char phases[BBR_STATES][16] = {
	[BBR_STARTUP] = "startup",
	[BBR_DRAIN] = "drain",
	[BBR_PROBE_BW_DOWN] = "probe_bw_down",
	[BBR_PROBE_BW_CRUISE] = "probe_bw_cruise",
	[BBR_PROBE_BW_REFILL] = "probe_bw_refill",
	[BBR_PROBE_BW_UP] = "probe_bw_up",
	[BBR_PROBE_RTT] = "probe_rtt",
};

/* A value, or "-" if it is not set. */
static void print_bound(struct seq_file *seq, u32 bound, u64 value)
{
	if (bound == BBR_INFINITE)
		BPF_SEQ_PRINTF(seq, " -");
	else
		BPF_SEQ_PRINTF(seq, " %llu", value);
}

/*
 * Writes the text of the module's /proc/net/tcp_bbr2, but of all network namespaces; nothing if no socket has state. Each
 * line ends with the members of struct tcp_bbr_info, which the kernel has only for the module.
 */
SEC("iter/bpf_sk_storage_map")
int bbr_print_state(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct seq_file *seq = context->meta->seq;
	struct sock *sk = context->sk;
	struct bbr *bbr = context->value;
	struct tcp_sock *tp;
	u32 phase, bw_lo, min_rtt_us;

	if (!sk || !bbr)
		return 0;
	if (context->meta->seq_num == 0)
		BPF_SEQ_PRINTF(seq, "cookie phase cycle bw_lo_bps inflight_hi_packets inflight_lo_packets "
				    "bw_bytes_per_s min_rtt_us pacing_gain cwnd_gain\n");
	tp = bpf_skc_to_tcp_sock(sk);
	phase = bbr->state;
	if (!tp || phase >= BBR_STATES)
		return 0;
	bw_lo = bbr->bw_lo;
	min_rtt_us = bbr->min_rtt_us;
	BPF_SEQ_PRINTF(seq, "%llu %s %u", bpf_get_socket_cookie(sk), phases[phase], bbr->cycle_count);
	print_bound(seq, bw_lo, (u64)bw_lo * tp->mss_cache * 8000000 >> BBR_BW_SCALE);
	print_bound(seq, bbr->inflight_hi, bbr->inflight_hi);
	print_bound(seq, bbr->inflight_lo, bbr->inflight_lo);
	BPF_SEQ_PRINTF(seq, " %llu", (u64)bbr->bw * tp->mss_cache * 1000000 >> BBR_BW_SCALE);
	print_bound(seq, min_rtt_us, min_rtt_us);
	BPF_SEQ_PRINTF(seq, " %u %u\n", bbr->pacing_gain, bbr->cwnd_gain);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
