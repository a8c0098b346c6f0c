/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * /proc/net/tcp_bbr2 and /proc/net/tcp_bbr3: the state for which struct tcp_bbr_info has no fields, one line for each
 * socket of the network namespace. `cookie` is sock_diag's.
 */
static const char *const bbr_phase_names[BBR_STATES] = {
	[BBR_STARTUP] = "startup",
	[BBR_DRAIN] = "drain",
	[BBR_PROBE_BW_DOWN] = "probe_bw_down",
	[BBR_PROBE_BW_CRUISE] = "probe_bw_cruise",
	[BBR_PROBE_BW_REFILL] = "probe_bw_refill",
	[BBR_PROBE_BW_UP] = "probe_bw_up",
	[BBR_PROBE_RTT] = "probe_rtt",
};

static void *bbr_proc_start(struct seq_file *seq, loff_t *position)
{
	spin_lock_bh(&bbr_blocks_lock);
	return seq_list_start_head(&bbr_blocks, *position);
}

static void *bbr_proc_next(struct seq_file *seq, void *element, loff_t *position)
{
	return seq_list_next(element, &bbr_blocks, position);
}

static void bbr_proc_stop(struct seq_file *seq, void *element)
{
	spin_unlock_bh(&bbr_blocks_lock);
}

/* A bound, or "-" if it is not set. */
static void bbr_proc_bound(struct seq_file *seq, u32 bound, u64 value)
{
	if (bound == BBR_INFINITE)
		seq_puts(seq, " -");
	else
		seq_printf(seq, " %llu", value);
}

static int bbr_proc_show(struct seq_file *seq, void *element)
{
	const struct bbr_block *block = list_entry(element, struct bbr_block, list);
	const struct bbr *bbr = &block->bbr;
	u32 bw_lo, inflight_hi, inflight_lo, cookie[2];

	if (element == &bbr_blocks) {
		seq_puts(seq, "cookie phase cycle bw_lo_bps inflight_hi_packets inflight_lo_packets\n");
		return 0;
	}
	if (!net_eq(sock_net(block->sk), seq_file_net(seq)))
		return 0;
	bw_lo = READ_ONCE(bbr->bw_lo);
	inflight_hi = READ_ONCE(bbr->inflight_hi);
	inflight_lo = READ_ONCE(bbr->inflight_lo);
	sock_diag_save_cookie(block->sk, cookie);
	seq_printf(seq, "%llu %s %u", (u64)cookie[1] << 32 | cookie[0], bbr_phase_names[READ_ONCE(bbr->state)],
		   READ_ONCE(bbr->cycle_count));
	bbr_proc_bound(seq, bw_lo, (u64)bw_lo * tcp_sk(block->sk)->mss_cache * (USEC_PER_SEC * 8) >> BBR_BW_SCALE);
	bbr_proc_bound(seq, inflight_hi, inflight_hi);
	bbr_proc_bound(seq, inflight_lo, inflight_lo);
	seq_putc(seq, '\n');
	return 0;
}

static const struct seq_operations bbr_proc_seq_ops = {
	.start	= bbr_proc_start,
	.next	= bbr_proc_next,
	.stop	= bbr_proc_stop,
	.show	= bbr_proc_show,
};

static int __net_init bbr_proc_init(struct net *net)
{
	if (!proc_create_net("tcp_" BBR_NAME, 0444, net->proc_net, &bbr_proc_seq_ops, sizeof(struct seq_net_private)))
		return -ENOMEM;
	return 0;
}

static void __net_exit bbr_proc_exit(struct net *net)
{
	remove_proc_entry("tcp_" BBR_NAME, net->proc_net);
}

static struct pernet_operations bbr_proc_ops = {
	.init	= bbr_proc_init,
	.exit	= bbr_proc_exit,
};
