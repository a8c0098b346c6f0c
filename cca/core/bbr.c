// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * BBRv2 and BBRv3: what happens at each event. [v2] 4.2; [v3] 5.2.
 *
 * This file includes the others: a program includes it and nothing else, and so has a core of its own without a global
 * name. BPF programs and modules need that.
 */
#include "bbr.h"
#include "bbr_constants.c"
#include "bbr_model.c"
#include "bbr_congestion.c"
#include "bbr_phases.c"
#include "bbr_control.c"

static void bbr_init(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *now, u32 cwnd)
{
	memset(bbr, 0, offsetof(struct bbr, ring));
	bbr_ring_init(&bbr->ring, now->delivered, now->lost, now->inflight);
	bbr->cwnd = cwnd;
	bbr->initial_cwnd = cwnd;
	bbr->min_rtt_us = now->srtt_us ? now->srtt_us : BBR_INFINITE;
	bbr->min_rtt_stamp_us = now->now_us;
	bbr->probe_rtt_min_delay_us = bbr->min_rtt_us;
	bbr->probe_rtt_min_stamp_us = now->now_us;
	bbr->extra_acked_interval_start_us = now->now_us;
	bbr->inflight_hi = BBR_INFINITE;
	bbr->probe_up_acked_per_inc = BBR_INFINITE;
	bbr->undo_state = BBR_STATES;
	bbr->ack_phase = BBR_ACKS_INIT;
	bbr->next_round_delivered = now->delivered;
	bbr->loss_round_delivered = now->delivered;
	bbr->last_lost = now->lost;
	bbr->last_delivered_ce = now->delivered_ce;
	bbr->ecn_round_delivered = now->delivered;
	bbr->ecn_round_ce = now->delivered_ce;
	bbr_reset_congestion_signals(bbr);
	bbr_reset_lower_bounds(bbr);
	bbr_reset_full_bw(bbr);
	bbr_enter_startup(bbr);
	bbr_update_gains(bbr, k);
	bbr_init_pacing_rate(bbr, k, now);
}

static void bbr_release(struct bbr *bbr)
{
	bbr_ring_free(&bbr->ring);
}

static void bbr_expect_ack(const struct bbr *bbr, const struct bbr_constants *k, const struct bbr_sent *sent)
{
	u32 offset;

	for (offset = offsetof(struct bbr, round_count); offset < offsetof(struct bbr, ring.first); offset += BBR_CACHE_LINE)
		bbr_prefetch((const char *)bbr + offset);
	bbr_prefetch(k);
	bbr_prefetch(sent);
}

static const struct bbr_sent *bbr_expected_sent(struct bbr *bbr)
{
	return bbr_ring_entry(&bbr->ring, bbr->ring.found + 1);
}

/* BBRv3 with ECN: adds the marks that counted as losses to C.lost. They stay in it when ecn_enable changes. */
static void bbr_count_marks_as_losses(struct bbr *bbr, const struct bbr_constants *k, struct bbr_ack *ack)
{
	if (k->ecn_as_loss)
		bbr->marks_lost += ack->delivered_ce - bbr->last_delivered_ce;
	bbr->last_delivered_ce = ack->delivered_ce;
	ack->lost += bbr->marks_lost;
}

/*
 * Completes RS: what the drafts keep with each packet comes from the ring. Without a rate sample RS says what was in
 * flight before the ACK, and what the ACK marked lost.
 */
static void bbr_complete_sample(struct bbr *bbr, const struct bbr_constants *k, struct bbr_ack *ack)
{
	const struct bbr_sent *sent;
	u32 sent_later, bw;

	if (bbr_version(k) == 3)
		bbr_count_marks_as_losses(bbr, k, ack);
	ack->newly_lost = ack->lost - bbr->last_lost;
	bbr->last_lost = ack->lost;
	ack->bw = 0;
	ack->rs_lost = ack->newly_lost;
	ack->tx_in_flight = ack->prior_inflight;

	bbr_ring_complete(&bbr->ring, ack->snd_nxt, ack->prior_inflight);
	if (ack->rs_delivered > 0 && ack->interval_us > 0) {
		bw = bbr_divide((u64)ack->rs_delivered << BBR_BW_SCALE, ack->interval_us);
		ack->bw = bbr_max(bw, 1);
		sent = bbr_ring_find(&bbr->ring, ack->prior_delivered);
		ack->rs_lost = ack->lost - sent->lost;
		ack->tx_in_flight = sent->in_flight;
		if (sent->snd_nxt != ack->last_end_seq && sent->rise && !ack->is_retransmission) {
			sent_later = (sent->snd_nxt - ack->last_end_seq) / ack->mss;
			ack->tx_in_flight -= bbr_min(sent_later, sent->rise);
		}
	}
	bbr_ring_begin(&bbr->ring, ack->delivered, ack->lost, ack->inflight);
}

/* UpdateModelAndState(): [v2] 4.2.3; [v3] 5.2.3 */
static void bbr_update_model_and_state(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr_update_latest_delivery_signals(bbr, ack);
	bbr_update_congestion_signals(bbr, k, ack);
	bbr_update_ack_aggregation(bbr, k, ack);
	bbr_check_full_bw_reached(bbr, k, ack);
	bbr_check_startup_done(bbr, k, ack);
	bbr_check_drain_done(bbr, k, ack);
	bbr_update_probe_bw_cycle_phase(bbr, k, ack);
	bbr_update_min_rtt(bbr, k, ack);
	bbr_check_probe_rtt(bbr, k, ack);
	bbr_advance_latest_delivery_signals(bbr, ack);
	bbr_bound_bw_for_model(bbr);
}

static void bbr_on_ack(struct bbr *bbr, const struct bbr_constants *k, struct bbr_ack *ack)
{
	bbr->mark_app_limited = false;
	bbr_complete_sample(bbr, k, ack);
	if (ack->newly_lost)
		bbr_handle_lost_packets(bbr, k, ack);
	bbr_update_model_and_state(bbr, k, ack);
	bbr_update_gains(bbr, k);
	if (bbr->bw)
		bbr_set_pacing_rate_with_gain(bbr, k, ack, bbr->pacing_gain);
	bbr_set_cwnd(bbr, k, ack);
}

static void bbr_on_restart_from_idle(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *now)
{
	bbr->idle_restart = true;
	bbr->extra_acked_interval_start_us = now->now_us;
	bbr->extra_acked_delivered = 0;
	if (bbr_is_in_probe_bw(bbr))
		bbr_set_pacing_rate_with_gain(bbr, k, now, BBR_UNIT);
	else if (bbr->state == BBR_PROBE_RTT)
		bbr_check_probe_rtt_done(bbr, k, now);
}
