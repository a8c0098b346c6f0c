// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* The network path model: rounds, bandwidth, aggregation, volumes of data. [v2] 4.5; [v3] 5.5. */

static bool bbr_is_in_probe_bw(const struct bbr *bbr)
{
	return bbr->state >= BBR_PROBE_BW_DOWN && bbr->state <= BBR_PROBE_BW_UP;
}

/* [v2] 4.5.6.3; [v3] 5.5.10.3 */
static bool bbr_is_probing_bw(const struct bbr *bbr)
{
	return bbr->state == BBR_STARTUP || bbr->state == BBR_PROBE_BW_REFILL || bbr->state == BBR_PROBE_BW_UP;
}

/* BDPMultiple(): [v2] 4.6.4.2; [v3] 5.6.4.2. Rounds up. */
static u32 bbr_bdp_multiple(const struct bbr *bbr, u32 bw, u32 gain)
{
	u64 bdp;	/* in 1/256 packet */

	if (bbr_rare(bbr->min_rtt_us == BBR_INFINITE))
		return bbr->initial_cwnd;
	bdp = (u64)bw * bbr->min_rtt_us >> (BBR_BW_SCALE - 8);
	bdp = (bdp * gain + 0xffff) >> 16;
	return bdp < 1U << 30 ? bdp : 1U << 30;
}

/* QuantizationBudget(): [v2] 4.6.4.2; [v3] 5.6.4.2 */
static u32 bbr_quantization_budget(const struct bbr *bbr, const struct bbr_constants *k, u32 inflight)
{
	inflight = bbr_max(inflight, 3 * bbr->send_quantum);	/* offload_budget: [v2] 4.5.4; [v3] 5.5.8.1 */
	inflight = bbr_max(inflight, k->cwnd_min_target);
	if (bbr->state == BBR_PROBE_BW_UP)
		inflight += 2;
	return inflight;
}

/* Inflight(): [v2] 4.6.4.2; [v3] 5.6.4.2 */
static u32 bbr_inflight(const struct bbr *bbr, const struct bbr_constants *k, u32 bw, u32 gain)
{
	return bbr_quantization_budget(bbr, k, bbr_bdp_multiple(bbr, bw, gain));
}

/*
 * Packets in flight, less what the pacing holds back, unless pacing_in_flight is set. Linux hands packets with a later
 * departure time to the queueing discipline and counts them as in flight; the network has not seen them.
 */
static u32 bbr_in_network(const struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack, u32 inflight)
{
	u64 held_back = (u64)bbr->bw * ack->pacing_queue_us >> BBR_BW_SCALE;

	if (k->s.pacing_in_flight)
		return inflight;
	return held_back < inflight ? inflight - held_back : 0;
}

/* InflightWithHeadroom(): [v2] 4.3.3.6; [v3] 5.3.3.9 */
static u32 bbr_inflight_with_headroom(const struct bbr *bbr, const struct bbr_constants *k)
{
	u32 headroom;

	if (bbr->inflight_hi == BBR_INFINITE)
		return BBR_INFINITE;
	headroom = bbr_max(1, (u64)bbr->inflight_hi * k->inflight_headroom / BBR_UNIT);
	return bbr_max(bbr->inflight_hi > headroom ? bbr->inflight_hi - headroom : 0, k->cwnd_min_target);
}

/* TargetInflight(): [v2] 4.3.3.5.3; [v3] 5.3.3.8.3 */
static u32 bbr_target_inflight(const struct bbr *bbr)
{
	return bbr_min(bbr_bdp_multiple(bbr, bbr->bw, BBR_UNIT), bbr->cwnd);
}

/* StartRound(): [v2] 4.5.1; [v3] 5.5.1 */
static void bbr_start_round(struct bbr *bbr, const struct bbr_ack *ack)
{
	bbr->next_round_delivered = ack->delivered;
}

/* UpdateRound(): [v2] 4.5.1; [v3] 5.5.1 */
static void bbr_update_round(struct bbr *bbr, const struct bbr_ack *ack)
{
	bbr->round_start = ack->bw && !bbr_before(ack->prior_delivered, bbr->next_round_delivered);
	if (!bbr->round_start)
		return;
	bbr_start_round(bbr, ack);
	bbr->round_count++;
	bbr->rounds_since_probe_up++;
	bbr->packet_conservation = false;
}

/* UpdateMaxBw(): [v2] 4.5.2.4; [v3] 5.5.5 */
static void bbr_update_max_bw(struct bbr *bbr, const struct bbr_ack *ack)
{
	bbr_update_round(bbr, ack);
	if (ack->bw > bbr->max_bw_filter[1] && (ack->bw >= bbr->max_bw || !ack->is_app_limited)) {
		bbr->max_bw_filter[1] = ack->bw;
		bbr->max_bw = bbr_max(bbr->max_bw_filter[0], ack->bw);
	}
}

/*
 * AdvanceMaxBwFilter(): [v2] 4.5.2.5; [v3] 5.5.6. The window is two cycles long. A cycle without samples does not count,
 * so that the estimate never becomes zero.
 */
static void bbr_advance_max_bw_filter(struct bbr *bbr)
{
	if (!bbr->max_bw_filter[1])
		return;
	bbr->max_bw_filter[0] = bbr->max_bw_filter[1];
	bbr->max_bw_filter[1] = 0;
	bbr->max_bw = bbr->max_bw_filter[0];
}

/*
 * UpdateACKAggregation(): [v2] 4.5.5; [v3] 5.5.9. The window of 10 rounds consists of two halves, so that it is 5 to 10
 * rounds long; [v3] wants one round in STARTUP.
 */
static void bbr_update_ack_aggregation(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	u64 expected = (u64)bbr->bw * (ack->now_us - bbr->extra_acked_interval_start_us) >> BBR_BW_SCALE;
	u32 slot_rounds = bbr_version(k) == 3 && !bbr->full_bw_reached ? 1 : k->extra_acked_slot_rounds;
	u32 extra;

	if (bbr->round_start && bbr->round_count - bbr->extra_acked_slot_start >= slot_rounds) {
		bbr->extra_acked_filter[0] = bbr->full_bw_reached ? bbr->extra_acked_filter[1] : 0;
		bbr->extra_acked_filter[1] = 0;
		bbr->extra_acked_slot_start = bbr->round_count;
		bbr->extra_acked = bbr->extra_acked_filter[0];
	}
	if (bbr->extra_acked_delivered <= expected) {
		bbr->extra_acked_delivered = 0;
		bbr->extra_acked_interval_start_us = ack->now_us;
		expected = 0;
	}
	bbr->extra_acked_delivered += ack->newly_acked;
	extra = bbr_min(bbr->extra_acked_delivered - (u32)expected, bbr->cwnd);
	if (extra > bbr->extra_acked_filter[1]) {
		bbr->extra_acked_filter[1] = extra;
		bbr->extra_acked = bbr_max(bbr->extra_acked_filter[0], extra);
	}
}

/* ResetFullBW(): [v3] 5.3.1.2; in [v2] 4.3.1.2 part of InitFullPipe() */
static void bbr_reset_full_bw(struct bbr *bbr)
{
	bbr->full_bw = 0;
	bbr->full_bw_count = 0;
	bbr->full_bw_now = false;
}

/*
 * CheckFullBWReached(): [v3] 5.3.1.2, and CheckStartupFullBandwidth(): [v2] 4.3.1.2. BBRv2 looks at max_bw, once in the
 * life of a connection; BBRv3 at the sample, and again in each PROBE_BW up.
 */
static void bbr_check_full_bw_reached(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	u32 bw = bbr_version(k) == 2 ? bbr->max_bw : ack->bw;

	if (!bbr->round_start || ack->is_app_limited)
		return;
	if (bbr_version(k) == 2 ? bbr->full_bw_reached : bbr->full_bw_now)
		return;
	if (bw >= (u64)bbr->full_bw * k->s.full_bw_thresh / BBR_UNIT) {
		bbr_reset_full_bw(bbr);
		bbr->full_bw = bw;
		return;
	}
	bbr->full_bw_count++;
	bbr->full_bw_now = bbr->full_bw_count >= k->s.full_bw_cnt;
	if (bbr->full_bw_now)
		bbr->full_bw_reached = true;
}

/*
 * Whether an RTT refreshes probe_rtt_min_delay. With refresh_equal_rtt, the least RTT once more does so while the flow
 * keeps its own queue short: in PROBE_BW down, and as long as losses bound it. The reference's BBRv2 shows this, see
 * cca/README.md.
 */
static bool bbr_is_low_rtt(const struct bbr *bbr, const struct bbr_constants *k, u32 rtt_us)
{
	return rtt_us < bbr->probe_rtt_min_delay_us ||
	       (k->refresh_equal_rtt && rtt_us == bbr->probe_rtt_min_delay_us &&
		(bbr->state == BBR_PROBE_BW_DOWN || bbr->inflight_lo != BBR_INFINITE));
}

/* UpdateMinRTT(): [v2] 4.3.4.4; [v3] 5.3.4.3. An expired estimate is not replaced by the RTT of a delayed ACK. */
static void bbr_update_min_rtt(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr->probe_rtt_expired = ack->now_us > bbr->probe_rtt_min_stamp_us + k->probe_rtt_win_us;
	if (ack->rtt_us >= 0 &&
	    (bbr_is_low_rtt(bbr, k, ack->rtt_us) || (bbr->probe_rtt_expired && !ack->is_ack_delayed))) {
		bbr->probe_rtt_min_delay_us = bbr_max(ack->rtt_us, 1);
		bbr->probe_rtt_min_stamp_us = ack->now_us;
	}
	if (bbr->probe_rtt_min_delay_us < bbr->min_rtt_us ||
	    ack->now_us > bbr->min_rtt_stamp_us + k->min_rtt_win_us) {
		bbr->min_rtt_us = bbr->probe_rtt_min_delay_us;
		bbr->min_rtt_stamp_us = bbr->probe_rtt_min_stamp_us;
	}
}
