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

char LICENSE[] SEC("license") = "Dual BSD/GPL";
