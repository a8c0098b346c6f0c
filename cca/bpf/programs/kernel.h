/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The parts of the kernel's types that the programs need. The loader finds each member in the running kernel's own types by its
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
typedef __s64 s64;
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

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	atomic_t refs;
} refcount_t;

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct timer_list {
	struct hlist_node entry;
	unsigned long expires;
};

struct dst_entry {
	unsigned long _metrics;
};

struct sock_common {
	unsigned int skc_hash;
	volatile unsigned char skc_state;
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
	int sk_rcvbuf;
	int sk_sndbuf;
	int sk_forward_alloc;
	int sk_wmem_queued;
	atomic_t sk_omem_alloc;
	atomic_t sk_drops;
	refcount_t sk_wmem_alloc;
	struct {
		atomic_t rmem_alloc;
		int len;
	} sk_backlog;
	struct dst_entry *sk_dst_cache;
	struct numa_drop_counters *sk_drop_counters;
	struct timer_list sk_timer;
};

/* in kernels later than Linux 6.18 */
struct sock___timers {
	struct timer_list tcp_retransmit_timer;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct timer_list icsk_retransmit_timer;
	struct timer_list icsk_delack_timer;
	u32 icsk_rto;
	u32 icsk_rto_min;
	u32 icsk_delack_max;
	u32 icsk_pmtu_cookie;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	__u8 icsk_pending;
	__u8 icsk_backoff;
	__u8 icsk_probes_out;
	struct {
		__u8 pending;
		u32 ato : 8;
		u32 lrcvtime;
		u16 rcv_mss;
	} icsk_ack;
	u64 icsk_ca_priv[13];
};

/* in kernels later than Linux 6.18 */
struct inet_connection_sock___timers {
	struct timer_list icsk_keepalive_timer;
};

struct minmax_sample {
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	u16 tstamp_ok : 1;
	u16 wscale_ok : 1;
	u16 sack_ok : 3;
	u16 snd_wscale : 4;
	u16 rcv_wscale : 4;
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
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_retrans;
	u64 bytes_sent;
	u32 chrono_start;
	u32 chrono_stat[3];
	u32 copied_seq;
	u32 data_segs_in;
	u32 data_segs_out;
	u32 delivered_ecn_bytes[3];
	u32 dsack_dups;
	u32 lsndtime;
	u32 mdev_us;
	u32 plb_rehash;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 rcv_nxt;
	u32 rcv_ooopack;
	u32 rcv_ssthresh;
	u32 rcv_tstamp;
	u32 rcv_wnd;
	u32 received_ce;
	u32 received_ecn_bytes[3];
	u32 reord_seen;
	u32 reordering;
	u32 rto_stamp;
	u32 segs_in;
	u32 segs_out;
	u32 snd_una;
	u32 snd_wnd;
	u32 total_retrans;
	u32 total_rto_time;
	u32 write_seq;
	u16 advmss;
	u16 timeout_rehash;
	u16 total_rto;
	u16 total_rto_recoveries;
	u8 accecn_fail_mode : 4;
	u8 chrono_type;
	u8 ecn_flags;
	u8 fastopen_client_fail : 2;
	u8 rate_app_limited : 1;
	u8 saw_accecn_opt : 2;
	u8 syn_data_acked : 1;
	u8 syn_fastopen_child : 1;
	u8 tcp_usec_ts : 1;
	struct minmax rtt_min;
	struct {
		u32 rtt_us;
	} rcv_rtt_est;
	struct {
		int space;
	} rcvq_space;
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

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

#endif
