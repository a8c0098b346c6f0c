// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* The state machine: STARTUP, DRAIN, PROBE_BW, PROBE_RTT. [v2] 4.3; [v3] 5.3. */

/* EnterStartup(): [v2] 4.3.1.1; [v3] 5.3.1.1. The gains of all states are in bbr_update_gains(). */
static void bbr_enter_startup(struct bbr *bbr)
{
	bbr->state = BBR_STARTUP;
}

/* EnterDrain(): [v2] 4.3.2; [v3] 5.3.2 */
static void bbr_enter_drain(struct bbr *bbr)
{
	bbr->state = BBR_DRAIN;
	bbr->drain_start_round = bbr->round_count;
}

/*
 * What losses say of the safe volume at the end of STARTUP: the BDP for BBRv2; for BBRv3 what was delivered in the last
 * round, if that is more ([v3] 5.3.1.3; [G]).
 */
static u32 bbr_inflight_hi_after_startup(const struct bbr *bbr, const struct bbr_constants *k)
{
	u32 bdp = bbr_bdp_multiple(bbr, bbr->max_bw, BBR_UNIT);

	return bbr_max(bbr_version(k) == 3 ? bbr_max(bdp, bbr->inflight_latest) : bdp, k->cwnd_min_target);
}

/* CheckStartupHighLoss(): [v2] 4.3.1.3; [v3] 5.3.1.3 */
static bbr_seldom void bbr_check_startup_high_loss(struct bbr *bbr, const struct bbr_constants *k,
						   const struct bbr_ack *ack)
{
	bool enough = bbr->losses_in_round >= k->s.full_loss_cnt || (!ack->has_sack && bbr->losses_in_round);

	if (!bbr->full_bw_reached && enough && ack->recovery == BBR_FAST_RECOVERY &&
	    bbr_is_inflight_too_high(bbr, k, ack)) {
		bbr->undo_state = BBR_STARTUP;
		bbr->full_bw_reached = true;
		bbr->full_bw_now = true;
		bbr->inflight_hi = bbr_inflight_hi_after_startup(bbr, k);
	}
	bbr->losses_in_round = 0;
}

/* CheckStartupDone(): [v2] 4.3.1.1; [v3] 5.3.1.1 */
static void bbr_check_startup_done(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (bbr->loss_round_start)
		bbr_check_startup_high_loss(bbr, k, ack);
	if (bbr->state == BBR_STARTUP && bbr->full_bw_reached)
		bbr_enter_drain(bbr);
}

/* PickProbeWait(): [v2] 4.3.3.5.3; [v3] 5.3.3.8.3 */
static void bbr_pick_probe_wait(struct bbr *bbr, const struct bbr_constants *k)
{
	bbr->rounds_since_probe_up = bbr_random_below(k->s.bw_probe_rand_rounds);
	bbr->bw_probe_wait_us = (u64)k->s.bw_probe_base_us + bbr_random_below(k->s.bw_probe_rand_us);
}

/* StartProbeBW_DOWN(): [v2] 4.3.3.6; [v3] 5.3.3.9 */
static bbr_rarely void bbr_start_probe_bw_down(struct bbr *bbr, const struct bbr_constants *k,
					       const struct bbr_ack *ack)
{
	bbr_reset_congestion_signals(bbr);
	bbr->probe_up_acked_per_inc = BBR_INFINITE;
	bbr_pick_probe_wait(bbr, k);
	bbr->cycle_stamp_us = ack->now_us;
	bbr->ack_phase = BBR_ACKS_PROBE_STOPPING;
	bbr_start_round(bbr, ack);
	bbr->state = BBR_PROBE_BW_DOWN;
	bbr->cycle_count++;
}

static void bbr_start_probe_bw_cruise(struct bbr *bbr)
{
	bbr->state = BBR_PROBE_BW_CRUISE;
}

static bbr_rarely void bbr_start_probe_bw_refill(struct bbr *bbr, const struct bbr_ack *ack)
{
	bbr_reset_lower_bounds(bbr);
	bbr->bw_probe_up_rounds = 0;
	bbr->bw_probe_up_acked = 0;
	bbr->prev_probe_precautionary = false;
	bbr->ack_phase = BBR_ACKS_REFILLING;
	bbr_start_round(bbr, ack);
	bbr->state = BBR_PROBE_BW_REFILL;
}

/* RaiseInflightHiSlope(): [v2] 4.3.3.6; RaiseInflightLongtermSlope(): [v3] 5.3.3.9 */
static void bbr_raise_inflight_hi_slope(struct bbr *bbr)
{
	bbr->probe_up_acked_per_inc = bbr_max(bbr->cwnd >> bbr->bw_probe_up_rounds, 1);
	bbr->bw_probe_up_rounds = bbr_min(bbr->bw_probe_up_rounds + 1, 30);
}

/* StartProbeBW_UP(): [v2] 4.3.3.6, which starts the phase's clock; [v3] 5.3.3.9, which starts to look for a plateau */
static bbr_rarely void bbr_start_probe_bw_up(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr->ack_phase = BBR_ACKS_PROBE_STARTING;
	bbr_start_round(bbr, ack);
	if (bbr_version(k) == 2) {
		bbr->cycle_stamp_us = ack->now_us;
	} else {
		bbr_reset_full_bw(bbr);
		bbr->full_bw = ack->bw;
	}
	bbr->state = BBR_PROBE_BW_UP;
	bbr_raise_inflight_hi_slope(bbr);
}

/* ProbeInflightHiUpward(): [v2] 4.3.3.6; ProbeInflightLongtermUpward(): [v3] 5.3.3.9 */
static void bbr_probe_inflight_hi_upward(struct bbr *bbr, const struct bbr_ack *ack)
{
	u32 delta;

	if (!ack->is_cwnd_limited || bbr->cwnd < bbr->inflight_hi)
		return;
	bbr->bw_probe_up_acked += ack->newly_acked;
	if (bbr->bw_probe_up_acked >= bbr->probe_up_acked_per_inc) {
		delta = bbr->bw_probe_up_acked / bbr->probe_up_acked_per_inc;
		bbr->bw_probe_up_acked -= delta * bbr->probe_up_acked_per_inc;
		bbr->inflight_hi = bbr_min(bbr->inflight_hi, BBR_INFINITE - 1 - delta) + delta;
	}
	if (bbr->round_start)
		bbr_raise_inflight_hi_slope(bbr);
}

/*
 * AdaptUpperBounds(): [v2] 4.3.3.6; AdaptLongTermModel(): [v3] 5.3.3.9. Returns whether it decided a transition. In [v2]
 * an ACK with too many losses ends a probe here, in [v3] a lost packet does.
 */
static bool bbr_adapt_upper_bounds(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (bbr->ack_phase == BBR_ACKS_PROBE_STARTING && bbr->round_start)
		bbr->ack_phase = BBR_ACKS_PROBE_FEEDBACK;
	if (bbr->ack_phase == BBR_ACKS_PROBE_STOPPING && bbr->round_start) {
		bbr->is_bw_probe_sample = false;
		bbr->ack_phase = BBR_ACKS_INIT;
		if (bbr_is_in_probe_bw(bbr) && !ack->is_app_limited)
			bbr_advance_max_bw_filter(bbr);
		if (bbr_is_in_probe_bw(bbr) && bbr->prev_probe_precautionary && !bbr->prev_probe_too_high) {
			bbr_start_probe_bw_refill(bbr, ack);
			return true;
		}
	}
	if (bbr_is_inflight_too_high(bbr, k, ack)) {
		if (bbr_version(k) == 2 && bbr->is_bw_probe_sample)
			bbr_handle_inflight_too_high(bbr, k, ack, ack->tx_in_flight);
		return false;
	}
	if (bbr->inflight_hi == BBR_INFINITE || !ack->bw)
		return false;
	if (ack->tx_in_flight > bbr->inflight_hi)
		bbr->inflight_hi = ack->tx_in_flight;
	if (bbr->state == BBR_PROBE_BW_UP)
		bbr_probe_inflight_hi_upward(bbr, ack);
	return false;
}

/* IsRenoCoexistenceProbeTime(): [v2] 4.3.3.5.3; [v3] 5.3.3.8.3 */
static bool bbr_is_reno_coexistence_probe_time(const struct bbr *bbr, const struct bbr_constants *k)
{
	return bbr->rounds_since_probe_up >= bbr_min(bbr_target_inflight(bbr), k->bw_probe_max_rounds);
}

/* CheckTimeToProbeBW(): [v2] 4.3.3.5.3; IsTimeToProbeBW(): [v3] 5.3.3.8.3 */
static bool bbr_check_time_to_probe_bw(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (ack->now_us <= bbr->cycle_stamp_us + bbr->bw_probe_wait_us &&
	    !bbr_is_reno_coexistence_probe_time(bbr, k))
		return false;
	bbr_start_probe_bw_refill(bbr, ack);
	return true;
}

/*
 * CheckTimeToCruise(): [v2] 4.3.3.6; IsTimeToCruise(): [v3] 5.3.3.9. With cruise_prior_inflight, what was in flight
 * before the ACK counts, since the ACK's packets are replaced at once. It and cruise_quanta are ours, see cca/README.md.
 */
static bool bbr_is_time_to_cruise(const struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	u32 inflight = bbr_in_network(bbr, k, ack, k->s.cruise_prior_inflight ? ack->prior_inflight : ack->inflight);

	return inflight <= bbr_inflight_with_headroom(bbr, k) &&
	       inflight <= bbr_inflight(bbr, k, bbr->max_bw, BBR_UNIT) + k->cruise_quanta * bbr->send_quantum;
}

/* [v2] 4.3.3.6: PROBE_BW up lasts min_rtt at least, and until its gain has put a queue into the path. */
static bool bbr2_is_time_to_go_down(const struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	return ack->now_us > bbr->cycle_stamp_us + bbr->min_rtt_us &&
	       bbr_in_network(bbr, k, ack, ack->inflight) >
		       bbr_inflight(bbr, k, bbr->max_bw, k->s.pacing_gain[BBR_GAIN_UP]);
}

/* [v3] 5.3.3.9: PROBE_BW up lasts until bandwidth grows no more although inflight_hi lets it. */
static bool bbr3_is_time_to_go_down(struct bbr *bbr, const struct bbr_ack *ack)
{
	if (ack->is_cwnd_limited && bbr->cwnd >= bbr->inflight_hi) {
		bbr_reset_full_bw(bbr);
		bbr->full_bw = ack->bw;
		return false;
	}
	return bbr->full_bw_now;
}

/* IsTimeToGoDown(), with precautionary bandwidth probing: [v3] 5.3.3.6, 5.3.3.9 */
static bool bbr_is_time_to_go_down(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (k->precautionary_probe && bbr->prev_probe_too_high && ack->inflight >= bbr->inflight_hi) {
		bbr->prev_probe_precautionary = true;
		return true;
	}
	return bbr_version(k) == 2 ? bbr2_is_time_to_go_down(bbr, k, ack) : bbr3_is_time_to_go_down(bbr, ack);
}

/* UpdateProbeBWCyclePhase(): [v2] 4.3.3.6; [v3] 5.3.3.9 */
static void bbr_update_probe_bw_cycle_phase(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (!bbr->full_bw_reached || bbr_adapt_upper_bounds(bbr, k, ack))
		return;
	switch (bbr->state) {
	case BBR_PROBE_BW_DOWN:
		if (!bbr_check_time_to_probe_bw(bbr, k, ack) && bbr_is_time_to_cruise(bbr, k, ack))
			bbr_start_probe_bw_cruise(bbr);
		break;
	case BBR_PROBE_BW_CRUISE:
		bbr_check_time_to_probe_bw(bbr, k, ack);
		break;
	case BBR_PROBE_BW_REFILL:
		if (bbr->round_start) {
			bbr->is_bw_probe_sample = true;
			bbr_start_probe_bw_up(bbr, k, ack);
		}
		break;
	case BBR_PROBE_BW_UP:
		if (bbr_is_time_to_go_down(bbr, k, ack)) {
			bbr->prev_probe_too_high = false;
			bbr_start_probe_bw_down(bbr, k, ack);
		}
		break;
	}
}

/* CheckDrain(): [v2] 4.3.2; CheckDrainDone(): [v3] 5.3.2 */
static void bbr_check_drain_done(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (bbr->state != BBR_DRAIN)
		return;
	if (bbr_in_network(bbr, k, ack, ack->inflight) <= bbr_inflight(bbr, k, bbr->max_bw, BBR_UNIT) ||
	    (k->s.drain_max_rounds && bbr->round_count - bbr->drain_start_round > k->s.drain_max_rounds))
		bbr_start_probe_bw_down(bbr, k, ack);
}

/* ProbeRTTCwnd(): [v2] 4.6.4.5; [v3] 5.6.4.5 */
static u32 bbr_probe_rtt_cwnd(const struct bbr *bbr, const struct bbr_constants *k)
{
	return bbr_max(bbr_bdp_multiple(bbr, bbr->bw, k->s.probe_rtt_cwnd_gain), k->cwnd_min_target);
}

/* ExitProbeRTT(): [v2] 4.3.4.5; [v3] 5.3.4.4 */
static void bbr_exit_probe_rtt(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr_reset_lower_bounds(bbr);
	if (bbr->full_bw_reached) {
		bbr_start_probe_bw_down(bbr, k, ack);
		bbr_start_probe_bw_cruise(bbr);
	} else {
		bbr_enter_startup(bbr);
	}
}

/* CheckProbeRTTDone(): [v2] 4.3.4.4; [v3] 5.3.4.3 */
static bbr_rarely void bbr_check_probe_rtt_done(struct bbr *bbr, const struct bbr_constants *k,
						const struct bbr_ack *ack)
{
	if (!bbr->probe_rtt_done_stamp_us || ack->now_us <= bbr->probe_rtt_done_stamp_us)
		return;
	bbr->probe_rtt_min_stamp_us = ack->now_us;
	bbr_restore_cwnd(bbr);
	bbr_exit_probe_rtt(bbr, k, ack);
}

/* HandleProbeRTT(): [v2] 4.3.4.4; [v3] 5.3.4.3 */
static bbr_rarely void bbr_handle_probe_rtt(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr->mark_app_limited = true;
	if (!bbr->probe_rtt_done_stamp_us) {
		if (ack->inflight > bbr_probe_rtt_cwnd(bbr, k))
			return;
		bbr->probe_rtt_done_stamp_us = ack->now_us + k->probe_rtt_mode_us;
		bbr->probe_rtt_round_done = false;
		bbr_start_round(bbr, ack);
		return;
	}
	if (bbr->round_start)
		bbr->probe_rtt_round_done = true;
	if (bbr->probe_rtt_round_done)
		bbr_check_probe_rtt_done(bbr, k, ack);
}

/* EnterProbeRTT(): [v2] 4.3.4.4; [v3] 5.3.4.3 */
static bbr_rarely void bbr_enter_probe_rtt(struct bbr *bbr, const struct bbr_ack *ack)
{
	bbr_save_cwnd(bbr);
	bbr->state = BBR_PROBE_RTT;
	bbr->probe_rtt_done_stamp_us = 0;
	bbr->ack_phase = BBR_ACKS_PROBE_STOPPING;
	bbr_start_round(bbr, ack);
}

/* CheckProbeRTT(): [v2] 4.3.4.4; [v3] 5.3.4.3 */
static void bbr_check_probe_rtt(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (bbr->probe_rtt_expired && bbr->state != BBR_PROBE_RTT && !bbr->idle_restart && k->probe_rtt_mode_us)
		bbr_enter_probe_rtt(bbr, ack);
	if (bbr->state == BBR_PROBE_RTT)
		bbr_handle_probe_rtt(bbr, k, ack);
	if (bbr->idle_restart && ack->rs_delivered > 0)
		bbr->idle_restart = false;
}
