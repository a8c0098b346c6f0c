/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * BBRv2 and BBRv3: the interface of the core, and its state.
 *
 * The names are those of the drafts, in the kernel's spelling. [v2] 4.2 is section 4.2 of
 * draft-cardwell-iccrg-bbr-congestion-control-02, [v3] 5.2 section 5.2 of draft-ietf-ccwg-bbr-06. Here,
 * inflight_hi, inflight_lo and bw_lo have their names of [v2]. [v3] calls them inflight_longterm, inflight_shortterm
 * and bw_shortterm.
 *
 * Units: data is in packets of one SMSS, time in microseconds, and bandwidth in packets per microsecond times 2^24.
 */
#ifndef BBR_H
#define BBR_H

#include "bbr_platform.h"
#include "bbr_constants.h"
#include "bbr_ring.h"

#define BBR_BW_SCALE 24
#define BBR_BW_UNIT (1 << BBR_BW_SCALE)
#define BBR_INFINITE (~0U)

/* [v3] 2.14: what ACKs mean for the probing of bandwidth. */
enum bbr_ack_phase {
	BBR_ACKS_INIT,
	BBR_ACKS_REFILLING,
	BBR_ACKS_PROBE_STARTING,
	BBR_ACKS_PROBE_FEEDBACK,
	BBR_ACKS_PROBE_STOPPING
};

enum bbr_recovery { BBR_NO_RECOVERY, BBR_FAST_RECOVERY, BBR_RTO_RECOVERY };

/* The transport's input at an ACK: C and RS of the drafts. The core adds the last three members. */
struct bbr_ack {
	u64 now_us;
	u32 delivered;			/* C.delivered */
	u32 delivered_ce;		/* of these, with a CE mark */
	u32 lost;			/* C.lost */
	u32 inflight;			/* C.inflight, after this ACK */
	u32 prior_inflight;		/* before this ACK */
	u32 newly_acked;		/* RS.newly_acked */
	s32 rs_delivered;		/* RS.delivered; negative: there is no rate sample */
	s32 interval_us;		/* RS.interval; not positive: there is no rate sample */
	u32 prior_delivered;		/* RS.prior_delivered */
	s32 rtt_us;			/* RS.rtt; negative: there is none */
	u32 snd_nxt;			/* next sequence number */
	u32 last_end_seq;		/* end of the packet that was sent last of those that are acknowledged */
	u32 mss;			/* bytes in a packet */
	u32 pacing_queue_us;		/* time until the pacing lets the next packet go */
	u32 srtt_us;			/* C.srtt; 0: there is none */
	bool is_app_limited;		/* RS.is_app_limited */
	bool is_retransmission;		/* the sample is of a retransmission */
	bool is_ack_delayed;		/* the RTT may be one of a delayed ACK */
	bool is_cwnd_limited;		/* C.is_cwnd_limited */
	bool has_sack;			/* C.has_selective_acks */
	u8 recovery;			/* enum bbr_recovery */
	u32 newly_lost;			/* RS.newly_lost, since the last ACK */
	u32 rs_lost;			/* RS.lost */
	u32 tx_in_flight;		/* RS.tx_in_flight */
	u32 bw;				/* RS.delivery_rate; 0: there is no rate sample */
};

/*
 * The state of a connection. First comes what few ACKs need. Then come, each in lines of the processor's cache of its own,
 * what is needed about once in a round, and what most ACKs need.
 */
struct bbr {
	u8 undo_state;			/* enum bbr_state; BBR_STATES: none */
	bool prev_probe_precautionary;
	bool probe_rtt_round_done;
	u32 drain_start_round;
	u32 cycle_count;		/* PROBE_BW cycles begun */
	u64 probe_rtt_done_stamp_us;	/* 0: not set */

	u32 prior_cwnd;
	u32 undo_bw_lo;
	u32 undo_inflight_lo;
	u32 undo_inflight_hi;

	/* BBRv2 with ECN */
	u32 ecn_alpha;			/* share of marked packets, in 1/256 */
	u32 ecn_round_delivered;
	u32 ecn_round_ce;

	u32 round_count BBR_CACHE_ALIGNED;
	u32 losses_in_round;		/* ACKs that marked packets lost */
	bool is_loss_in_round;
	bool is_ecn_in_round;
	bool is_bw_probe_sample;
	bool full_bw_now;
	u8 full_bw_count;
	u8 bw_probe_up_rounds;
	u32 full_bw;
	u32 initial_cwnd;
	u32 bw_probe_up_acked;
	u32 probe_up_acked_per_inc;
	u32 extra_acked_slot_start;	/* round at which the latest slot began */

	/* BBRv3 with ECN */
	u32 last_delivered_ce;		/* C.delivered_ce at the last ACK */
	u32 marks_lost;			/* marks that counted as lost packets */

	/* The output, which the transport reads after each call */
	u32 cwnd BBR_CACHE_ALIGNED;
	bool mark_app_limited;		/* [v3] 4.1.2.4: it shall do MarkConnectionAppLimited() */
	u8 state;			/* enum bbr_state */
	u8 ack_phase;			/* enum bbr_ack_phase */
	u8 prior_recovery;		/* enum bbr_recovery at the last ACK */
	u64 pacing_rate;		/* bytes per second */

	/* Samples and rounds */
	u32 last_lost;			/* C.lost at the last ACK */
	u32 bw_latest;
	u32 inflight_latest;
	u32 loss_round_delivered;
	u32 next_round_delivered;
	u32 rounds_since_probe_up;
	bool round_start;
	bool loss_round_start;
	bool full_bw_reached;
	bool idle_restart;
	bool has_seen_rtt;
	bool packet_conservation;
	bool prev_probe_too_high;
	bool probe_rtt_expired;

	/* Bounds and estimates */
	u32 max_bw_filter[2];		/* of the previous and of this PROBE_BW cycle */
	u32 max_bw;
	u32 bw_lo;
	u32 bw;
	u32 inflight_hi;
	u32 inflight_lo;
	u32 extra_acked_filter[2];	/* of the rounds before and of the latest */
	u32 extra_acked_delivered;
	u32 extra_acked;
	u32 max_inflight;
	u64 extra_acked_interval_start_us;

	u32 min_rtt_us;
	u32 probe_rtt_min_delay_us;
	u64 probe_rtt_min_stamp_us;
	u64 min_rtt_stamp_us;
	u64 cycle_stamp_us;
	u32 bw_probe_wait_us;

	/* The inputs of the pacing rate and the quantum, which are computed again when these change */
	u32 paced_bw;
	u32 paced_mss;
	u16 paced_gain;
	u16 pacing_gain;		/* in 1/256 */
	u16 cwnd_gain;			/* in 1/256 */
	bool in_recovery;		/* InLossRecovery(): since the event, which comes before the ACK that shows it */
	u32 send_quantum;

	struct bbr_ring ring;
};

_Static_assert(__builtin_offsetof(struct bbr, cwnd) - __builtin_offsetof(struct bbr, round_count) == BBR_CACHE_LINE,
	       "what is needed once in a round is too large");
_Static_assert(__builtin_offsetof(struct bbr, ring.first) - __builtin_offsetof(struct bbr, cwnd) <= 3 * BBR_CACHE_LINE,
	       "what most ACKs need is too large");

/* OnInit(): [v2] 4.2.1; [v3] 5.2.1. Of the ACK it takes what the transport knows without one, and the cwnd. */
static void bbr_init(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *now, u32 cwnd);

/* UpdateOnACK(): [v2] 4.2.3; [v3] 5.2.3. The transport has set bbr->cwnd to its cwnd before, as for each of these. */
static void bbr_on_ack(struct bbr *bbr, const struct bbr_constants *k, struct bbr_ack *ack);

/* OnTransmit() when nothing is in flight: [v2] 4.2.2, 4.4; [v3] 5.2.2, 5.4.1. */
static void bbr_on_restart_from_idle(struct bbr *bbr, const struct bbr_constants *k, const struct bbr_ack *now);

/* OnEnterFastRecovery() and OnEnterRTO(): [v2] 4.6.4.4; [v3] 5.6.4.4. */
static void bbr_on_enter_recovery(struct bbr *bbr);

/* HandleSpuriousLossDetection(): [v3] 5.5.11.2. */
static void bbr_on_spurious_recovery(struct bbr *bbr, const struct bbr_ack *now);

/* Gives back what the state has allocated, at the end of the connection. */
static void bbr_release(struct bbr *bbr);

/*
 * Has the processor fetch what bbr_on_ack() will need, while the caller describes the ACK. SENT is what
 * bbr_expected_sent() returned after the last ACK. The caller keeps it outside of the state, which is not there yet.
 */
static void bbr_expect_ack(const struct bbr *bbr, const struct bbr_constants *k, const struct bbr_sent *sent);
static const struct bbr_sent *bbr_expected_sent(struct bbr *bbr);

#endif
