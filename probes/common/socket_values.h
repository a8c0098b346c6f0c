/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause OR GPL-2.0-only */
/* The values of a socket that the BPF program cca/bpf/programs/sockets.bpf.c sends to ccmix-sockmon. */
#ifndef SOCKET_VALUES_H
#define SOCKET_VALUES_H

#include <linux/types.h>

/* struct tcp_info of Linux 6.18: each member has its name, without the prefix. Later kernels split the last word. */
struct values_info {
	__u8 state;
	__u8 ca_state;
	__u8 retransmits;
	__u8 probes;
	__u8 backoff;
	__u8 options;
	__u8 snd_wscale : 4;
	__u8 rcv_wscale : 4;
	__u8 delivery_rate_app_limited : 1;
	__u8 fastopen_client_fail : 2;
	__u32 rto;
	__u32 ato;
	__u32 snd_mss;
	__u32 rcv_mss;
	__u32 unacked;
	__u32 sacked;
	__u32 lost;
	__u32 retrans;
	__u32 fackets;
	__u32 last_data_sent;
	__u32 last_ack_sent;
	__u32 last_data_recv;
	__u32 last_ack_recv;
	__u32 pmtu;
	__u32 rcv_ssthresh;
	__u32 rtt;
	__u32 rttvar;
	__u32 snd_ssthresh;
	__u32 snd_cwnd;
	__u32 advmss;
	__u32 reordering;
	__u32 rcv_rtt;
	__u32 rcv_space;
	__u32 total_retrans;
	__u64 pacing_rate;
	__u64 max_pacing_rate;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 segs_out;
	__u32 segs_in;
	__u32 notsent_bytes;
	__u32 min_rtt;
	__u32 data_segs_in;
	__u32 data_segs_out;
	__u64 delivery_rate;
	__u64 busy_time;
	__u64 rwnd_limited;
	__u64 sndbuf_limited;
	__u32 delivered;
	__u32 delivered_ce;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 dsack_dups;
	__u32 reord_seen;
	__u32 rcv_ooopack;
	__u32 snd_wnd;
	__u32 rcv_wnd;
	__u32 rehash;
	__u16 total_rto;
	__u16 total_rto_recoveries;
	__u32 total_rto_time;
	__u32 received_ce;
	__u32 delivered_e1_bytes;
	__u32 delivered_e0_bytes;
	__u32 delivered_ce_bytes;
	__u32 received_e1_bytes;
	__u32 received_e0_bytes;
	__u32 received_ce_bytes;
	__u32 accecn;
};

#define SOCKET_VALUES_VERSION 1	/* another one whenever this struct changes */

struct socket_values {
	__u32 version;
	__u32 reserved;
	__u64 cookie;
	char cca[16];
	__u8 state;
	__u8 timer;
	__u8 timer_retransmits;
	__u8 has_bbr;			/* cca_state is struct tcp_bbr_info */
	__u32 timer_expires_ms;
	__u32 recv_queue_bytes;
	__u32 send_queue_bytes;
	__u32 memory[9];		/* enum SK_MEMINFO_* */
	__u32 cca_state[5];
	__u32 reserved_too;
	struct values_info info;
};

#endif
