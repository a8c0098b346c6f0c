// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * The kernel's own bbr behind BPF programs that do nothing but call it, under the name bench_bbr: so the kernel counts
 * the time of its hooks in the same way as that of bbr2 and bbr3.
 */
#include "kernel.h"

typedef int bbr_hook(u64 *arguments);

struct tcp_congestion_ops {
	bbr_hook *init;
	bbr_hook *cong_control;
	bbr_hook *ssthresh;
	bbr_hook *undo_cwnd;
	bbr_hook *cwnd_event;
	bbr_hook *min_tso_segs;
	bbr_hook *sndbuf_expand;
	bbr_hook *set_state;
	char name[16];
};

enum tcp_ca_event { CA_EVENT_FIRST };

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs) __ksym;
extern u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern u32 bbr_undo_cwnd(struct sock *sk) __ksym;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern u32 bbr_ssthresh(struct sock *sk) __ksym;
extern u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, u8 new_state) __ksym;

SEC("struct_ops")
int bench_init(u64 *arguments)
{
	bbr_init((struct sock *)arguments[0]);
	return 0;
}

SEC("struct_ops")
int bench_ack(u64 *arguments)
{
	bbr_main((struct sock *)arguments[0], arguments[1], arguments[2], (const struct rate_sample *)arguments[3]);
	return 0;
}

SEC("struct_ops")
int bench_ssthresh(u64 *arguments)
{
	return bbr_ssthresh((struct sock *)arguments[0]);
}

SEC("struct_ops")
int bench_undo_cwnd(u64 *arguments)
{
	return bbr_undo_cwnd((struct sock *)arguments[0]);
}

SEC("struct_ops")
int bench_cwnd_event(u64 *arguments)
{
	bbr_cwnd_event((struct sock *)arguments[0], arguments[1]);
	return 0;
}

SEC("struct_ops")
int bench_min_tso_segs(u64 *arguments)
{
	return bbr_min_tso_segs((struct sock *)arguments[0]);
}

SEC("struct_ops")
int bench_sndbuf_expand(u64 *arguments)
{
	return bbr_sndbuf_expand((struct sock *)arguments[0]);
}

SEC("struct_ops")
int bench_set_state(u64 *arguments)
{
	bbr_set_state((struct sock *)arguments[0], arguments[1]);
	return 0;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bench_ops = {
	.init = bench_init,
	.cong_control = bench_ack,
	.ssthresh = bench_ssthresh,
	.undo_cwnd = bench_undo_cwnd,
	.cwnd_event = bench_cwnd_event,
	.min_tso_segs = bench_min_tso_segs,
	.sndbuf_expand = bench_sndbuf_expand,
	.set_state = bench_set_state,
	.name = "bench_bbr",
};

char LICENSE[] SEC("license") = "GPL";
