/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * What the programs need of the kernel's types. The loader finds each member in the running kernel's own types by its
 * name (CO-RE), so neither the order nor the members left out matter.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;

#define BBR_RING_FIRST 256	/* all entries: these programs can't allocate memory */

#define div_u64(dividend, divisor) ((u64)(dividend) / (u32)(divisor))
#define memset(to, byte, size) __builtin_memset(to, byte, size)

enum { INT_MAX = 2147483647 };
enum { NSEC_PER_USEC = 1000, NSEC_PER_SEC = 1000000000 };
enum { SOL_TCP = 6, TCP_CONGESTION = 13 };
enum { SK_PACING_NONE, SK_PACING_NEEDED };
enum { CA_EVENT_TX_START };
enum { TCP_CA_Recovery = 3, TCP_CA_Loss = 4 };
enum { TCP_INFINITE_SSTHRESH = 0x7fffffff };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	__u8 bytes[16];
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
};

struct tcp_options_received {
	u16 sack_ok : 3;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;
	u64 tcp_wstamp_ns;
	u64 tcp_clock_cache;
	u32 snd_nxt;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 srtt_us;
	u32 mss_cache;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 app_limited;
	u8 is_cwnd_limited : 1;
	struct tcp_options_received rx_opt;
};

struct rate_sample {
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	long rtt_us;
	u32 acked_sacked;
	u32 prior_in_flight;
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 seq_num;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

#endif
