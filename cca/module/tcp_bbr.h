/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The core as a tcp_congestion_ops. tcp_bbr2.c and tcp_bbr3.c include this, each with a core of its own.
 *
 * The socket has 104 bytes for a congestion control, too few: they hold a pointer to a block that init allocates. If it
 * gets none, the socket falls back to Reno, whose name it then shows.
 */
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sock_diag.h>
#include <linux/version.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

static u32 bbr_random_below(u32 ceiling);
#include "../core/bbr.c"

static u32 bbr_random_below(u32 ceiling)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	return prandom_u32_max(ceiling);
#else
	return get_random_u32_below(ceiling);
#endif
}

static void *bbr_allocate(size_t bytes)
{
	return kmalloc(bytes, GFP_ATOMIC | __GFP_NOWARN);
}

static void bbr_free(void *memory)
{
	kfree(memory);
}

struct bbr_block {
	struct list_head list;
	struct sock *sk;
	struct bbr bbr;
};

/* The state of a socket, in its 104 bytes. */
struct bbr_private {
	struct bbr_block *block;
	const struct bbr_sent *expected;	/* what the next ACK will look for: only to be fetched */
};

static struct bbr_settings bbr_settings;
static struct bbr_constants bbr_constants;

static LIST_HEAD(bbr_blocks);
static DEFINE_SPINLOCK(bbr_blocks_lock);
static struct kmem_cache *bbr_block_cache;
static unsigned int bbr_max_sockets;	/* 0: no limit */
static unsigned int bbr_sockets;
static unsigned int bbr_fallbacks;

static struct tcp_congestion_ops bbr_fallback_ops;

/* NULL until init, which comes after the ACK of the SYN: by then there have been an ACK, and maybe losses. */
static struct bbr_block *bbr_block_of(const struct sock *sk)
{
	return ((struct bbr_private *)inet_csk_ca(sk))->block;
}

#include "tcp_bbr_parameters.h"
#include "tcp_bbr_proc.h"

/* The transport's state that the core needs in addition to an ACK. */
static void bbr_describe(const struct sock *sk, struct bbr_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ack->now_us = tp->tcp_mstamp;
	ack->delivered = tp->delivered;
	ack->delivered_ce = tp->delivered_ce;
	ack->lost = tp->lost;
	ack->inflight = tcp_packets_in_flight(tp);
	ack->snd_nxt = tp->snd_nxt;
	ack->mss = tp->mss_cache;
	ack->srtt_us = tp->srtt_us >> 3;
	ack->is_cwnd_limited = tp->is_cwnd_limited;
}

static u8 bbr_recovery_of(const struct sock *sk)
{
	switch (inet_csk(sk)->icsk_ca_state) {
	case TCP_CA_Recovery:
		return BBR_FAST_RECOVERY;
	case TCP_CA_Loss:
		return BBR_RTO_RECOVERY;
	default:
		return BBR_NO_RECOVERY;
	}
}

/* Time until the packet that is to be sent next may leave. */
static u32 bbr_pacing_queue_us(const struct tcp_sock *tp)
{
	u64 ahead_ns = tp->tcp_wstamp_ns > tp->tcp_clock_cache ? tp->tcp_wstamp_ns - tp->tcp_clock_cache : 0;

	return min_t(u64, ahead_ns, NSEC_PER_SEC) / NSEC_PER_USEC;
}

static __always_inline void bbr_apply(struct sock *sk, const struct bbr *bbr)
{
	struct tcp_sock *tp = tcp_sk(sk);
	unsigned long rate = min_t(u64, bbr->pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));

	tcp_snd_cwnd_set(tp, min(bbr->cwnd, tp->snd_cwnd_clamp));
	WRITE_ONCE(sk->sk_pacing_rate, rate);
}

static void bbr_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr_private *private = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_ack ack;
	struct bbr *bbr;

	if (unlikely(!private->block))
		return;
	bbr = &private->block->bbr;
	bbr_expect_ack(bbr, &bbr_constants, private->expected);
	bbr_describe(sk, &ack);
	ack.prior_inflight = rs->prior_in_flight;
	ack.newly_acked = rs->acked_sacked;
	ack.rs_delivered = rs->delivered;
	ack.interval_us = min_t(long, rs->interval_us, INT_MAX);
	ack.prior_delivered = rs->prior_delivered;
	ack.rtt_us = min_t(long, rs->rtt_us, INT_MAX);
	ack.last_end_seq = rs->last_end_seq;
	ack.pacing_queue_us = bbr_pacing_queue_us(tp);
	ack.is_app_limited = rs->is_app_limited;
	ack.is_retransmission = rs->is_retrans;
	ack.is_ack_delayed = rs->is_ack_delayed;
	ack.has_sack = tcp_is_sack(tp);
	ack.recovery = bbr_recovery_of(sk);

	bbr->cwnd = tcp_snd_cwnd(tp);
	bbr_on_ack(bbr, &bbr_constants, &ack);
	bbr_apply(sk, bbr);
	private->expected = bbr_expected_sent(bbr);
	if (bbr->mark_app_limited)
		tp->app_limited = (tp->delivered + tcp_packets_in_flight(tp)) ?: 1;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
static void bbr_cong_control(struct sock *sk, const struct rate_sample *rs)
{
	bbr_ack(sk, rs);
}
#else
static void bbr_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	bbr_ack(sk, rs);
}
#endif

static void bbr_tx_start(struct sock *sk)
{
	struct bbr_block *block = bbr_block_of(sk);
	struct bbr_ack now = {};

	if (!block || !tcp_sk(sk)->app_limited)
		return;
	bbr_describe(sk, &now);
	block->bbr.cwnd = tcp_snd_cwnd(tcp_sk(sk));
	bbr_on_restart_from_idle(&block->bbr, &bbr_constants, &now);
	bbr_apply(sk, &block->bbr);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
static void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		bbr_tx_start(sk);
}
#endif

static u32 bbr_ssthresh(struct sock *sk)
{
	struct bbr_block *block = bbr_block_of(sk);

	if (block) {
		block->bbr.cwnd = tcp_snd_cwnd(tcp_sk(sk));
		bbr_on_enter_recovery(&block->bbr);
	}
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 bbr_undo_cwnd(struct sock *sk)
{
	struct bbr_block *block = bbr_block_of(sk);
	struct bbr_ack now = {};

	if (!block)
		return tcp_snd_cwnd(tcp_sk(sk));
	bbr_describe(sk, &now);
	block->bbr.cwnd = tcp_snd_cwnd(tcp_sk(sk));
	bbr_on_spurious_recovery(&block->bbr, &now);
	return block->bbr.cwnd;
}

static u32 bbr_min_tso_segs(struct sock *sk)
{
	return READ_ONCE(sk->sk_pacing_rate) < bbr_constants.min_tso_rate_bytes ? 1 : 2;
}

/* Three times cwnd: cwnd may double while lost packets are sent again. */
static u32 bbr_sndbuf_expand(struct sock *sk)
{
	return 3;
}

static size_t bbr_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct bbr_block *block = bbr_block_of(sk);
	const struct bbr *bbr;
	u64 bytes;

	if (!block || !(ext & (1 << (INET_DIAG_BBRINFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	bbr = &block->bbr;
	bytes = (u64)READ_ONCE(bbr->bw) * tcp_sk(sk)->mss_cache * USEC_PER_SEC >> BBR_BW_SCALE;
	memset(&info->bbr, 0, sizeof(info->bbr));
	info->bbr.bbr_bw_lo = lower_32_bits(bytes);
	info->bbr.bbr_bw_hi = upper_32_bits(bytes);
	info->bbr.bbr_min_rtt = READ_ONCE(bbr->min_rtt_us);
	info->bbr.bbr_pacing_gain = READ_ONCE(bbr->pacing_gain);
	info->bbr.bbr_cwnd_gain = READ_ONCE(bbr->cwnd_gain);
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

/* Lists the block, and returns whether there is one and max_sockets allows it; else counts a fallback. */
static bool bbr_list(struct bbr_block *block)
{
	bool listed;

	spin_lock_bh(&bbr_blocks_lock);
	listed = block && (!bbr_max_sockets || bbr_sockets < bbr_max_sockets);
	if (listed) {
		list_add_tail(&block->list, &bbr_blocks);
		bbr_sockets++;
	} else {
		bbr_fallbacks++;
	}
	spin_unlock_bh(&bbr_blocks_lock);
	return listed;
}

/* Returns the state of a socket, or NULL if there is no memory for it or max_sockets is reached. */
static struct bbr_block *bbr_create_block(struct sock *sk)
{
	struct bbr_block *block = kmem_cache_alloc(bbr_block_cache, GFP_ATOMIC | __GFP_NOWARN);
	struct bbr_ack now = {};

	if (block) {
		block->sk = sk;
		bbr_describe(sk, &now);
		bbr_init(&block->bbr, &bbr_constants, &now, tcp_snd_cwnd(tcp_sk(sk)));
	}
	if (bbr_list(block))
		return block;
	if (block)
		kmem_cache_free(bbr_block_cache, block);
	return NULL;
}

static void bbr_sock_init(struct sock *sk)
{
	struct bbr_private *private = inet_csk_ca(sk);

	private->block = bbr_create_block(sk);
	if (!private->block) {
		inet_csk(sk)->icsk_ca_ops = &bbr_fallback_ops;
		pr_warn_ratelimited("tcp_" BBR_NAME ": no state for a socket, which uses %s instead\n",
				    bbr_fallback_ops.name);
		return;
	}
	WRITE_ONCE(tcp_sk(sk)->snd_ssthresh, TCP_INFINITE_SSTHRESH);
	bbr_apply(sk, &private->block->bbr);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static void bbr_sock_release(struct sock *sk)
{
	struct bbr_private *private = inet_csk_ca(sk);

	spin_lock_bh(&bbr_blocks_lock);
	list_del(&private->block->list);
	bbr_sockets--;
	spin_unlock_bh(&bbr_blocks_lock);
	bbr_release(&private->block->bbr);
	kmem_cache_free(bbr_block_cache, private->block);
	private->block = NULL;
}

static struct tcp_congestion_ops bbr_ops __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= BBR_NAME,
	.owner		= THIS_MODULE,
	.init		= bbr_sock_init,
	.release	= bbr_sock_release,
	.cong_control	= bbr_cong_control,
	.ssthresh	= bbr_ssthresh,
	.undo_cwnd	= bbr_undo_cwnd,
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
	.cwnd_event	= bbr_cwnd_event,
#else
	.cwnd_event_tx_start = bbr_tx_start,
#endif
	.min_tso_segs	= bbr_min_tso_segs,
	.sndbuf_expand	= bbr_sndbuf_expand,
	.get_info	= bbr_get_info,
};

static struct tcp_congestion_ops bbr_fallback_ops __read_mostly = {
	.name		= BBR_NAME "-reno",
	.owner		= THIS_MODULE,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
};

static int __init bbr_register(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct bbr_private) > ICSK_CA_PRIV_SIZE);
	error = bbr_init_settings();
	if (error)
		return error;
	bbr_block_cache = kmem_cache_create("tcp_" BBR_NAME, sizeof(struct bbr_block), __alignof__(struct bbr_block), 0, NULL);
	if (!bbr_block_cache)
		return -ENOMEM;
	error = register_pernet_subsys(&bbr_proc_ops);
	if (error)
		goto destroy_cache;
	error = tcp_register_congestion_control(&bbr_ops);
	if (error)
		goto unregister_proc;
	return 0;

unregister_proc:
	unregister_pernet_subsys(&bbr_proc_ops);
destroy_cache:
	kmem_cache_destroy(bbr_block_cache);
	return error;
}

static void __exit bbr_unregister(void)
{
	tcp_unregister_congestion_control(&bbr_ops);
	unregister_pernet_subsys(&bbr_proc_ops);
	kmem_cache_destroy(bbr_block_cache);
}

module_init(bbr_register);
module_exit(bbr_unregister);
MODULE_AUTHOR("ccmix");
MODULE_LICENSE("Dual BSD/GPL");
