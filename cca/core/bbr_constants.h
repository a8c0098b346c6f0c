/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Constants of BBRv2 and BBRv3: what differs between the two as data.
 *
 * [v2] is draft-cardwell-iccrg-bbr-congestion-control-02, [v3] is draft-ietf-ccwg-bbr-06, [G] is section 2.5 of Gomez et
 * al. 2024, which lists the constants of the deployed BBRv2 if they differ from its draft.
 */
#ifndef BBR_CONSTANTS_H
#define BBR_CONSTANTS_H

#define BBR_UNIT 256	/* gains and shares are in 1/256 */

enum bbr_set { BBR2_DEPLOYED, BBR2_DRAFT, BBR3, BBR_SETS };

enum bbr_state {
	BBR_STARTUP,
	BBR_DRAIN,
	BBR_PROBE_BW_DOWN,
	BBR_PROBE_BW_CRUISE,
	BBR_PROBE_BW_REFILL,
	BBR_PROBE_BW_UP,
	BBR_PROBE_RTT,
	BBR_STATES
};

#define BBR_STATE_TABLE 8	/* A power of two above BBR_STATES: BPF's verifier sees that a state modulo it is in a table. */

/*
 * Every setting: its name, which is the module parameter's, its value in each of the sets above, its bounds, and what it
 * means. If the original harness has the setting, its name and unit are the same here.
 */
#define BBR_SETTINGS(SETTING)                                                                                          \
	/* Pacing gains, in 1/256: [v2] 2.5, 4.3.1 to 4.3.3; [v3] 2.5, 5.6.1; [G] */                                    \
	SETTING(startup_pacing_gain, 739, 709, 709, 256, 2048, "pacing gain in STARTUP, in 1/256")                      \
	SETTING(drain_gain, 88, 128, 128, 16, 256, "pacing gain in DRAIN, in 1/256")                                    \
	/* cwnd gains, in 1/256: [v2] 2.6, 4.6.1; [v3] 2.6, 5.6.1; [G] */                                               \
	SETTING(startup_cwnd_gain, 739, 512, 512, 256, 2048, "cwnd gain in STARTUP and DRAIN, in 1/256")                \
	SETTING(cwnd_gain, 512, 512, 512, 256, 2048, "cwnd gain in PROBE_BW, in 1/256")                                 \
	SETTING(up_cwnd_gain, 512, 512, 576, 256, 2048, "cwnd gain in PROBE_BW up, in 1/256")                           \
	SETTING(probe_rtt_cwnd_gain, 128, 128, 128, 16, 256, "cwnd gain in PROBE_RTT, in 1/256")                        \
	SETTING(cwnd_min_target, 4, 4, 4, 2, 64, "least cwnd, in packets (MinPipeCwnd)")                                \
	/* Leaving STARTUP: [v2] 4.3.1.2 and .3; [v3] 5.3.1.2 and .3; [G] */                                            \
	SETTING(full_bw_thresh, 320, 320, 320, 257, 1024, "growth of bandwidth that is no plateau, in 1/256")           \
	SETTING(full_bw_cnt, 3, 3, 3, 1, 100, "rounds of a plateau")                                                    \
	SETTING(full_loss_cnt, 8, 3, 6, 1, 1000, "losses in a round to leave STARTUP")                                  \
	/* Leaving DRAIN: [v3] 5.3.2 */                                                                                 \
	SETTING(drain_max_rounds, 0, 0, 3, 0, 1000, "rounds after which DRAIN ends anyhow, 0: never")                   \
	/* PROBE_BW: [v2] 4.3.3; [v3] 5.3.3 */                                                                          \
	SETTING(bw_probe_base_us, 2000000, 2000000, 2000000, 1000, 600000000, "least time between probes, in us")       \
	SETTING(bw_probe_rand_us, 1000000, 1000000, 1000000, 1, 600000000, "random part of that time, in us")           \
	SETTING(bw_probe_max_rounds, 63, 63, 63, 1, 10000, "most rounds between probes, for Reno")                      \
	SETTING(bw_probe_rand_rounds, 2, 2, 2, 1, 1000, "random part of those rounds")                                  \
	SETTING(precautionary_probe, 1, 0, 1, 0, 1, "1: stop a probe at inflight_hi if the last one went too high")     \
	SETTING(inflight_headroom, 38, 38, 38, 0, 256, "share of inflight_hi left free, in 1/256")                      \
	SETTING(cruise_quanta, 0, 0, 0, 0, 64, "quanta above 1 BDP at which PROBE_BW down may end")                     \
	SETTING(cruise_prior_inflight, 0, 0, 1, 0, 1, "1: what was in flight before an ACK ends PROBE_BW down")         \
	SETTING(pacing_in_flight, 0, 0, 0, 0, 1, "1: what the pacing holds back is in flight, as Linux counts it")      \
	/* Losses: [v2] 2.8, 4.5.6; [v3] 2.8, 5.5.10 */                                                                 \
	SETTING(loss_thresh, 5, 5, 5, 1, 255, "most tolerated losses in a round, in 1/256")                             \
	SETTING(beta, 77, 77, 77, 1, 255, "cut upon a round with losses, in 1/256")                                     \
	SETTING(packet_conservation, 0, 1, 0, 0, 1, "1: one packet per packet acked in a recovery's first round")       \
	/* min_rtt and PROBE_RTT: [v2] 2.14; [v3] 2.16 */                                                               \
	SETTING(min_rtt_win_sec, 10, 10, 10, 1, 3600, "window of min_rtt, in s")                                        \
	SETTING(probe_rtt_win_ms, 5000, 5000, 5000, 1, 3600000, "time between PROBE_RTTs, in ms")                       \
	SETTING(refresh_equal_rtt, 1, 0, 0, 0, 1, "1: the least RTT again may postpone PROBE_RTT")                      \
	SETTING(probe_rtt_mode_ms, 200, 200, 200, 0, 60000, "least duration of PROBE_RTT, in ms; 0: no PROBE_RTT")      \
	/* Aggregation and pacing: [v2] 4.5.5, 4.6.2, 4.6.3; [v3] 5.5.9, 5.6.2, 5.6.3 */                                \
	SETTING(extra_acked_gain, 256, 256, 256, 0, 1024, "share of extra_acked in cwnd, in 1/256")                     \
	SETTING(extra_acked_win_rtts, 10, 10, 10, 2, 255, "window of extra_acked, in rounds")                           \
	SETTING(pacing_margin_percent, 1, 1, 1, 0, 50, "percent by which pacing stays below bw")                        \
	SETTING(min_tso_rate, 1200000, 1200000, 0, 0, 2000000000, "bit/s below which a quantum is one packet")          \
	/* ECN: off, as deployed. The drafts define none; see cca/README.md */                                          \
	SETTING(ecn_enable, 0, 0, 0, 0, 1, "1: react to CE marks")                                                      \
	SETTING(ecn_alpha_gain, 16, 16, 16, 1, 256, "weight of the last round in BBRv2's ecn_alpha, in 1/256")          \
	SETTING(ecn_factor, 85, 85, 85, 0, 256, "cut of BBRv2 when all packets are marked, in 1/256")                   \
	SETTING(ecn_thresh, 128, 128, 128, 1, 256, "share of marked packets that ends BBRv2's probe, in 1/256")

/* The order of the elements of pacing_gain, the one setting that is a vector: [v2] 4.3.3; [v3] 5.3.3; [G] */
enum bbr_gain { BBR_GAIN_UP, BBR_GAIN_DOWN, BBR_GAIN_CRUISE, BBR_GAIN_REFILL, BBR_GAINS };

#define BBR_PACING_GAIN_MIN 16
#define BBR_PACING_GAIN_MAX 2048

struct bbr_settings {
#define BBR_FIELD(name, deployed, draft, v3, least, most, meaning) u32 name;
	BBR_SETTINGS(BBR_FIELD)
#undef BBR_FIELD
	u32 pacing_gain[BBR_GAINS];
};

struct bbr_gains {
	u16 pacing;			/* in 1/256 */
	u16 cwnd;			/* in 1/256 */
};

/* The settings as the algorithm uses them: computed once when a setting changes, and not for each ACK. */
struct bbr_constants {
	/* What most ACKs need, in one line of the processor's cache. Settings among it are in s, too. */
	struct bbr_gains gains[BBR_STATE_TABLE] BBR_CACHE_ALIGNED;
	u32 min_rtt_win_us;
	u32 probe_rtt_win_us;
	u32 min_tso_rate_bytes;		/* per second */
	u16 cwnd_min_target;
	u16 extra_acked_gain;
	u16 inflight_headroom;
	u16 bw_probe_max_rounds;
	u16 cruise_quanta;
	u8 extra_acked_slot_rounds;
	u8 refresh_equal_rtt;
	u8 precautionary_probe;
	u8 packet_conservation;
	u8 ecn_as_loss;			/* BBRv3: a CE mark counts as a lost packet */
	u8 ecn_alpha;			/* BBRv2: CE marks cut inflight_lo */

	u32 version;			/* 2 or 3: ask bbr_version() */
	u32 probe_rtt_mode_us;
	u32 beta_kept;			/* 1 - beta */
	u32 pacing_scale;		/* us per s, less the pacing margin */
	struct bbr_settings s;
};

_Static_assert(__builtin_offsetof(struct bbr_constants, version) <= BBR_CACHE_LINE, "what most ACKs need is too large");

/* A program that has only one version defines BBR_VERSION, and the compiler leaves out what the other one does. */
static inline u32 bbr_version(const struct bbr_constants *constants)
{
#ifdef BBR_VERSION
	(void)constants;
	return BBR_VERSION;
#else
	return constants->version;
#endif
}

/* Fills in the defaults of a set. */
static void bbr_default_settings(struct bbr_settings *settings, enum bbr_set set);

/* Returns NULL and fills in the constants, or returns the name of a setting that is out of its bounds. */
static const char *bbr_derive_constants(struct bbr_constants *constants, const struct bbr_settings *settings,
					u32 version);

#endif
