/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* Shared by the programs in the kernel and the loader: the contents of maps, and the table of hooks. */
#ifndef SHARED_H
#define SHARED_H

/* The loader writes it and the programs read it. */
struct bbr_control {
	u64 build;			/* of which sources the programs were built: BBR_BUILD */
	u32 max_sockets;		/* most sockets that get state; 0: no limit */
	u32 draft;			/* 1: the defaults are those of the draft */
	struct bbr_constants constants;
};

/* The programs write it and the loader reads it. */
struct bbr_counts {
	u32 sockets;			/* that have state now */
	u32 fallbacks;			/* that got none so far, and use Reno */
};

/* The state of a socket, as the iterator writes it. */
struct bbr_status {
	u64 cookie;
	u32 netns;
	u32 family;
	u8 local_address[16];
	u8 remote_address[16];
	u16 local_port;
	u16 remote_port;		/* in network byte order */
	u32 mss;
	u32 phase;			/* enum bbr_state */
	u32 cycle;
	u32 bw;
	u32 bw_lo;			/* BBR_INFINITE: not set, and so for the next two */
	u32 inflight_hi;
	u32 inflight_lo;
	u32 min_rtt_us;			/* BBR_INFINITE: unknown */
	u32 pacing_gain;		/* in 1/256 */
	u32 cwnd_gain;			/* in 1/256 */
};

/*
 * The hooks, as the kernel's struct tcp_congestion_ops names them. libbpf fits them to the running kernel's struct. For
 * the loader a hook is a pointer to its struct bpf_program: it removes those that the kernel does not have.
 */
typedef int bbr_hook(u64 *arguments);

struct tcp_congestion_ops {
	bbr_hook *init;
	bbr_hook *release;
	bbr_hook *cong_control;
	bbr_hook *ssthresh;
	bbr_hook *undo_cwnd;
	bbr_hook *cwnd_event;		/* tells of a restart from idle up to Linux 7.1 */
	bbr_hook *cwnd_event_tx_start;	/* does so from then on */
	bbr_hook *min_tso_segs;
	bbr_hook *sndbuf_expand;
	char name[16];
};

#endif
