// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* The control parameters: gains, pacing rate, send quantum, cwnd. [v2] 4.6; [v3] 5.6. */

#define BBR_QUANTUM_SHIFT 10		/* about 1 ms of the pacing rate */
#define BBR_QUANTUM_BYTES 65535

/* [v2] 4.6.1; [v3] 5.6.1 */
static void bbr_update_gains(struct bbr *bbr, const struct bbr_constants *k)
{
	const struct bbr_gains *gains = &k->gains[bbr->state % BBR_STATE_TABLE];

	bbr->pacing_gain = gains->pacing;
	bbr->cwnd_gain = gains->cwnd;
}

/* A bandwidth times a gain, in bytes per second, less the pacing margin; at least one packet per second. */
static u64 bbr_rate(const struct bbr_constants *k, u32 bw, u32 gain, u32 mss)
{
	u64 rate = (u64)bw * mss * gain / BBR_UNIT;

	/* pacing_scale is below 2^20: keep the product below 2^64 */
	if (bbr_rare(rate >> 44))
		rate = (rate >> BBR_BW_SCALE) * k->pacing_scale;
	else
		rate = rate * k->pacing_scale >> BBR_BW_SCALE;
	return rate > mss ? rate : mss;
}

/* SetSendQuantum(): [v2] 4.6.3; [v3] 5.6.3 */
static void bbr_set_send_quantum(struct bbr *bbr, const struct bbr_constants *k, u32 mss)
{
	u64 bytes = bbr->pacing_rate >> BBR_QUANTUM_SHIFT;
	u32 floor = bbr->pacing_rate < k->min_tso_rate_bytes ? 1 : 2;

	bbr->send_quantum = bbr_max((bytes < BBR_QUANTUM_BYTES ? (u32)bytes : BBR_QUANTUM_BYTES) / mss, floor);
}

/* InitPacingRate(): [v2] 4.6.2; [v3] 5.6.2 */
static bbr_rarely void bbr_init_pacing_rate(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	u32 rtt_us = ack->srtt_us ? ack->srtt_us : BBR_USEC_PER_MSEC;
	u64 bw = bbr_divide((u64)bbr->cwnd << BBR_BW_SCALE, rtt_us);

	bbr->has_seen_rtt = ack->srtt_us > 0;
	bbr->pacing_rate = bbr_rate(k, bw < BBR_INFINITE ? bw : BBR_INFINITE, k->s.startup_pacing_gain, ack->mss);
	bbr_set_send_quantum(bbr, k, ack->mss);
}

/* SetPacingRateWithGain(): [v2] 4.6.2; [v3] 5.6.2 */
static bbr_seldom void bbr_change_pacing_rate(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack,
					      u32 gain)
{
	u64 rate;

	bbr->paced_bw = bbr->bw;
	bbr->paced_gain = gain;
	bbr->paced_mss = ack->mss;
	rate = bbr_rate(k, bbr->bw, gain, ack->mss);
	if (bbr->full_bw_reached || rate > bbr->pacing_rate) {
		bbr->pacing_rate = rate;
		bbr_set_send_quantum(bbr, k, ack->mss);
	}
}

static inline void bbr_set_pacing_rate_with_gain(struct bbr *bbr, const struct bbr_constants *k,
						 const struct bbr_ack *ack, u32 gain)
{
	if (bbr_rare(!bbr->has_seen_rtt && ack->srtt_us))
		bbr_init_pacing_rate(bbr, k, ack);
	if (bbr->paced_bw != bbr->bw || bbr->paced_gain != gain || bbr->paced_mss != ack->mss)
		bbr_change_pacing_rate(bbr, k, ack, gain);
}

/* UpdateMaxInflight(): [v2] 4.6.4.2; [v3] 5.6.4.2 */
static void bbr_update_max_inflight(struct bbr *bbr, const struct bbr_constants *k)
{
	u32 inflight = bbr_bdp_multiple(bbr, bbr->bw, bbr->cwnd_gain);

	inflight += (u64)bbr->extra_acked * k->extra_acked_gain / BBR_UNIT;
	bbr->max_inflight = bbr_quantization_budget(bbr, k, inflight);
}

/*
 * Entering and leaving loss recovery: [v2] 4.6.4.4; [v3] 5.6.4.4. Of this, only the [v2] draft has packet conservation
 * and ModulateCwndForRecovery(). Returns whether packets are conserved.
 */
static bool bbr_modulate_cwnd_for_recovery(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bool entered = ack->recovery == BBR_FAST_RECOVERY && bbr->prior_recovery == BBR_NO_RECOVERY;

	if (bbr->in_recovery && ack->recovery == BBR_NO_RECOVERY) {
		bbr->packet_conservation = false;
		bbr_restore_cwnd(bbr);
	}
	bbr->in_recovery = ack->recovery != BBR_NO_RECOVERY;
	bbr->prior_recovery = ack->recovery;
	if (!k->packet_conservation)
		return false;
	if (ack->newly_lost)
		bbr->cwnd = bbr->cwnd > ack->newly_lost ? bbr->cwnd - ack->newly_lost : 1;
	if (entered) {
		bbr->packet_conservation = true;
		bbr->cwnd = ack->inflight + bbr_max(ack->newly_acked, 1);
		bbr_start_round(bbr, ack);
	}
	if (bbr->packet_conservation)
		bbr->cwnd = bbr_max(bbr->cwnd, ack->inflight + ack->newly_acked);
	return bbr->packet_conservation;
}

/* BoundCwndForModel(): [v2] 4.6.4.7; [v3] 5.6.4.7 */
static void bbr_bound_cwnd_for_model(struct bbr *bbr, const struct bbr_constants *k)
{
	u32 cap = BBR_INFINITE;

	if (bbr->state == BBR_PROBE_RTT || bbr->state == BBR_PROBE_BW_CRUISE)
		cap = bbr_inflight_with_headroom(bbr, k);
	else if (bbr_is_in_probe_bw(bbr))
		cap = bbr->inflight_hi;
	cap = bbr_max(bbr_min(cap, bbr->inflight_lo), k->cwnd_min_target);
	bbr->cwnd = bbr_min(bbr->cwnd, cap);
}

/* SetCwnd(): [v2] 4.6.4.6; [v3] 5.6.4.6 */
static void bbr_set_cwnd(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr_update_max_inflight(bbr, k);
	if (!bbr_modulate_cwnd_for_recovery(bbr, k, ack)) {
		if (bbr->full_bw_reached)
			bbr->cwnd = bbr_min(bbr->cwnd + ack->newly_acked, bbr->max_inflight);
		else if (bbr->cwnd < bbr->max_inflight || ack->delivered < bbr->initial_cwnd)
			bbr->cwnd += ack->newly_acked;
		bbr->cwnd = bbr_max(bbr->cwnd, k->cwnd_min_target);
	}
	if (bbr->state == BBR_PROBE_RTT)
		bbr->cwnd = bbr_min(bbr->cwnd, bbr_probe_rtt_cwnd(bbr, k));
	bbr_bound_cwnd_for_model(bbr, k);
}
