// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* Congestion signals and the bounds that they set. [v2] 4.5.6; [v3] 5.5.10 and 5.5.11. */

static bbr_rarely void bbr_start_probe_bw_down(struct bbr *bbr, const struct bbr_constants *k,
					       const struct bbr_ack *ack);
static bbr_rarely void bbr_start_probe_bw_refill(struct bbr *bbr, const struct bbr_ack *ack);
static void bbr_enter_startup(struct bbr *bbr);

/*
 * SaveCwnd() and RestoreCwnd(): [v2] 4.6.4.4; [v3] 5.6.4.4. A timeout cuts cwnd before the next ACK, whose losses save
 * it again: by then in_recovery must be set.
 */
static void bbr_save_cwnd(struct bbr *bbr)
{
	if (!bbr->in_recovery && bbr->state != BBR_PROBE_RTT)
		bbr->prior_cwnd = bbr->cwnd;
	else
		bbr->prior_cwnd = bbr_max(bbr->prior_cwnd, bbr->cwnd);
}

static void bbr_restore_cwnd(struct bbr *bbr)
{
	bbr->cwnd = bbr_max(bbr->cwnd, bbr->prior_cwnd);
}

/* ResetCongestionSignals(): [v2] 4.5.6.3; [v3] 5.5.10.3 */
static void bbr_reset_congestion_signals(struct bbr *bbr)
{
	bbr->is_loss_in_round = false;
	bbr->is_ecn_in_round = false;
	bbr->losses_in_round = 0;
	bbr->bw_latest = 0;
	bbr->inflight_latest = 0;
}

/* ResetLowerBounds(): [v2] 4.5.6.3; ResetShortTermModel(): [v3] 5.5.10.3 */
static void bbr_reset_lower_bounds(struct bbr *bbr)
{
	bbr->bw_lo = BBR_INFINITE;
	bbr->inflight_lo = BBR_INFINITE;
}

/* SaveStateUponLoss(): [v3] 5.5.11.1 */
static void bbr_save_state_upon_loss(struct bbr *bbr)
{
	bbr_save_cwnd(bbr);
	bbr->undo_state = BBR_STATES;
	bbr->undo_bw_lo = bbr->bw_lo;
	bbr->undo_inflight_lo = bbr->inflight_lo;
	bbr->undo_inflight_hi = bbr->inflight_hi;
}

static void bbr_on_enter_recovery(struct bbr *bbr)
{
	bbr_save_state_upon_loss(bbr);
	bbr->in_recovery = true;
}

static void bbr_on_spurious_recovery(struct bbr *bbr, const struct bbr_ack *now)
{
	bbr_restore_cwnd(bbr);
	bbr->is_loss_in_round = false;
	bbr_reset_full_bw(bbr);
	bbr->bw_lo = bbr_max(bbr->bw_lo, bbr->undo_bw_lo);
	bbr->inflight_lo = bbr_max(bbr->inflight_lo, bbr->undo_inflight_lo);
	bbr->inflight_hi = bbr_max(bbr->inflight_hi, bbr->undo_inflight_hi);
	if (bbr->undo_state == BBR_STARTUP && bbr->state != BBR_STARTUP) {
		bbr->full_bw_reached = false;
		if (bbr->state != BBR_PROBE_RTT)
			bbr_enter_startup(bbr);
	} else if (bbr->undo_state == BBR_PROBE_BW_UP && bbr->state != BBR_PROBE_BW_UP) {
		if (bbr->state != BBR_PROBE_RTT)
			bbr_start_probe_bw_refill(bbr, now);
	}
	bbr->undo_state = BBR_STATES;
}

/* NoteLoss(): [v3] 5.5.10.2. In [v2] 4.5.6.3 UpdateCongestionSignals() sets is_loss_in_round and saves nothing. */
static void bbr_note_loss(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (!bbr->is_loss_in_round && bbr_version(k) == 3) {
		bbr->loss_round_delivered = ack->delivered;
		bbr_save_state_upon_loss(bbr);
	}
	bbr->is_loss_in_round = true;
	bbr->losses_in_round++;
}

/* BBRv2 with ECN: more than ecn_thresh of the sample's packets have a CE mark. See cca/README.md. */
static bool bbr_is_ecn_too_high(const struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	u32 marked, delivered;

	if (bbr_version(k) != 2 || !k->ecn_alpha)
		return false;
	marked = ack->delivered_ce - bbr->ecn_round_ce;
	delivered = ack->delivered - bbr->ecn_round_delivered;
	return delivered && (u64)marked * BBR_UNIT > (u64)delivered * k->s.ecn_thresh;
}

/* IsInflightTooHigh(): [v2] 4.5.6.2; [v3] 5.5.10.2 */
static bool bbr_is_inflight_too_high(const struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	if (!ack->rs_lost)
		return bbr_is_ecn_too_high(bbr, k, ack);
	if (!ack->has_sack && bbr_version(k) == 3)
		return true;
	return (u64)ack->rs_lost * BBR_UNIT > (u64)ack->tx_in_flight * k->s.loss_thresh ||
	       bbr_is_ecn_too_high(bbr, k, ack);
}

/* HandleInflightTooHigh(): [v2] 4.5.6.2; [v3] 5.5.10.2 */
static bbr_rarely void bbr_handle_inflight_too_high(struct bbr *bbr, const struct bbr_constants *k,
						    const struct bbr_ack *ack, u32 inflight)
{
	bbr->prev_probe_too_high = true;
	bbr->is_bw_probe_sample = false;
	if (!ack->is_app_limited)
		bbr->inflight_hi = bbr_max(inflight, (u64)bbr_target_inflight(bbr) * k->beta_kept / BBR_UNIT);
	if (bbr->state == BBR_PROBE_BW_UP) {
		bbr->undo_state = BBR_PROBE_BW_UP;
		bbr_start_probe_bw_down(bbr, k, ack);
	}
}

/*
 * InflightAtLoss(): [v3] 5.5.10.2; InflightHiFromLostPacket(): [v2] 4.5.6.2. The packets that this ACK marked lost are
 * taken for one burst, sent when the packet was that the ACK acknowledges.
 */
static u32 bbr_inflight_at_loss(const struct bbr_constants *k, const struct bbr_ack *ack)
{
	u32 size = bbr_min(ack->newly_lost, ack->tx_in_flight);
	u32 inflight_prev = ack->tx_in_flight - size;
	u32 lost_prev = ack->rs_lost > size ? ack->rs_lost - size : 0;
	u64 tolerated = (u64)inflight_prev * k->s.loss_thresh;
	u64 lost_prefix = 0;

	if (tolerated > (u64)lost_prev * BBR_UNIT)
		lost_prefix = bbr_divide(tolerated - (u64)lost_prev * BBR_UNIT, BBR_UNIT - k->s.loss_thresh);
	return inflight_prev + bbr_min(lost_prefix, size);
}

/* HandleLostPacket(), for all packets that this ACK marked lost: [v2] 4.5.6.2; [v3] 5.5.10.2 */
static bbr_rarely void bbr_handle_lost_packets(struct bbr *bbr, const struct bbr_constants *k,
					       const struct bbr_ack *ack)
{
	bbr_note_loss(bbr, k, ack);
	if (bbr->is_bw_probe_sample && bbr_is_inflight_too_high(bbr, k, ack))
		bbr_handle_inflight_too_high(bbr, k, ack, bbr_inflight_at_loss(k, ack));
}

/* UpdateLatestDeliverySignals(): [v2] 4.5.6.3; [v3] 5.5.10.3 */
static void bbr_update_latest_delivery_signals(struct bbr *bbr, const struct bbr_ack *ack)
{
	bbr->loss_round_start = false;
	if (!ack->bw)
		return;
	bbr->bw_latest = bbr_max(bbr->bw_latest, ack->bw);
	bbr->inflight_latest = bbr_max(bbr->inflight_latest, ack->rs_delivered);
	if (!bbr_before(ack->prior_delivered, bbr->loss_round_delivered)) {
		bbr->loss_round_delivered = ack->delivered;
		bbr->loss_round_start = true;
	}
}

/* AdvanceLatestDeliverySignals(): [v2] 4.5.6.3; [v3] 5.5.10.3 */
static void bbr_advance_latest_delivery_signals(struct bbr *bbr, const struct bbr_ack *ack)
{
	if (!bbr->loss_round_start)
		return;
	bbr->bw_latest = ack->bw;
	bbr->inflight_latest = ack->rs_delivered;
}

/* BBRv2 with ECN: the moving average of the share of marked packets, once per round. See cca/README.md. */
static void bbr_update_ecn_alpha(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	u32 delivered = ack->delivered - bbr->ecn_round_delivered;
	u32 marked = ack->delivered_ce - bbr->ecn_round_ce;
	u32 share;

	if (bbr_version(k) != 2 || !k->ecn_alpha || !delivered)
		return;
	share = bbr_divide((u64)bbr_min(marked, delivered) * BBR_UNIT, delivered);
	bbr->ecn_alpha = (bbr->ecn_alpha * (BBR_UNIT - k->s.ecn_alpha_gain) + share * k->s.ecn_alpha_gain) / BBR_UNIT;
	bbr->is_ecn_in_round = marked > 0;
	bbr->ecn_round_delivered = ack->delivered;
	bbr->ecn_round_ce = ack->delivered_ce;
}

/*
 * AdaptLowerBoundsFromCongestion(): [v2] 4.5.6.3; [v3] 5.5.10.3, with InitLowerBounds() and LossLowerBounds(). Marks cut
 * BBRv2's inflight_lo only.
 */
static void bbr_adapt_lower_bounds(struct bbr *bbr, const struct bbr_constants *k)
{
	u32 cut;

	if (bbr_is_probing_bw(bbr) || !(bbr->is_loss_in_round || bbr->is_ecn_in_round))
		return;
	if (bbr->inflight_lo == BBR_INFINITE)
		bbr->inflight_lo = bbr->cwnd;
	if (bbr->is_ecn_in_round) {
		cut = bbr->ecn_alpha * k->s.ecn_factor / BBR_UNIT;
		bbr->inflight_lo = bbr_max(1, (u64)bbr->inflight_lo * (BBR_UNIT - cut) / BBR_UNIT);
	}
	if (bbr->is_loss_in_round) {
		if (bbr->bw_lo == BBR_INFINITE)
			bbr->bw_lo = bbr->max_bw;
		bbr->bw_lo = bbr_max(bbr->bw_latest, (u64)bbr->bw_lo * k->beta_kept / BBR_UNIT);
		bbr->bw_lo = bbr_max(bbr->bw_lo, 1);
		bbr->inflight_lo =
			bbr_max(bbr->inflight_latest, (u64)bbr->inflight_lo * k->beta_kept / BBR_UNIT);
	}
}

/* What UpdateCongestionSignals() does once per round. */
static bbr_seldom void bbr_end_loss_round(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr_update_ecn_alpha(bbr, k, ack);
	bbr_adapt_lower_bounds(bbr, k);
	bbr->is_loss_in_round = false;
	bbr->is_ecn_in_round = false;
}

/* UpdateCongestionSignals(): [v2] 4.5.6.3; [v3] 5.5.10.3 */
static void bbr_update_congestion_signals(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *ack)
{
	bbr_update_max_bw(bbr, ack);
	if (bbr->loss_round_start)
		bbr_end_loss_round(bbr, k, ack);
}

/* BoundBWForModel(): [v2] 4.5.6.3; [v3] 5.5.10.3. [v2] also has a bw_hi there, which it never sets. */
static void bbr_bound_bw_for_model(struct bbr *bbr)
{
	bbr->bw = bbr_min(bbr->max_bw, bbr->bw_lo);
}
