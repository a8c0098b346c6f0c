// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* Defaults of the settings, the one place that checks them, and what is computed of them once. */

#define BBR_USEC_PER_SEC 1000000
#define BBR_USEC_PER_MSEC 1000

static void bbr_default_settings(struct bbr_settings *settings, enum bbr_set set)
{
	static const u32 down[BBR_SETS] = { 192, 230, 230 };	/* 0.75 [G], 0.9 and 0.9 of the drafts */

#define BBR_DEFAULT(name, deployed, draft, v3, least, most, meaning)                                                   \
	do {                                                                                                           \
		static const u32 values[BBR_SETS] = { deployed, draft, v3 };                                           \
		settings->name = values[set];                                                                          \
	} while (0);
	BBR_SETTINGS(BBR_DEFAULT)
#undef BBR_DEFAULT
	settings->pacing_gain[BBR_GAIN_UP] = 320;
	settings->pacing_gain[BBR_GAIN_DOWN] = down[set];
	settings->pacing_gain[BBR_GAIN_CRUISE] = BBR_UNIT;
	settings->pacing_gain[BBR_GAIN_REFILL] = BBR_UNIT;
}

static const char *bbr_setting_out_of_bounds(const struct bbr_settings *settings)
{
	u32 i;

#define BBR_CHECK(name, deployed, draft, v3, least, most, meaning)                                                     \
	if (settings->name > (most) || settings->name + 1 < (least) + 1)                                               \
		return #name;
	BBR_SETTINGS(BBR_CHECK)
#undef BBR_CHECK
	for (i = 0; i < BBR_GAINS; i++)
		if (settings->pacing_gain[i] < BBR_PACING_GAIN_MIN || settings->pacing_gain[i] > BBR_PACING_GAIN_MAX)
			return "pacing_gain";
	return NULL;
}

/* [v2] 4.6.1; [v3] 5.6.1 */
static void bbr_derive_gains(struct bbr_gains *gains, const struct bbr_settings *settings)
{
	gains[BBR_STARTUP] = (struct bbr_gains){ settings->startup_pacing_gain, settings->startup_cwnd_gain };
	gains[BBR_DRAIN] = (struct bbr_gains){ settings->drain_gain, settings->startup_cwnd_gain };
	gains[BBR_PROBE_BW_DOWN] = (struct bbr_gains){ settings->pacing_gain[BBR_GAIN_DOWN], settings->cwnd_gain };
	gains[BBR_PROBE_BW_CRUISE] = (struct bbr_gains){ settings->pacing_gain[BBR_GAIN_CRUISE], settings->cwnd_gain };
	gains[BBR_PROBE_BW_REFILL] = (struct bbr_gains){ settings->pacing_gain[BBR_GAIN_REFILL], settings->cwnd_gain };
	gains[BBR_PROBE_BW_UP] = (struct bbr_gains){ settings->pacing_gain[BBR_GAIN_UP], settings->up_cwnd_gain };
	gains[BBR_PROBE_RTT] = (struct bbr_gains){ BBR_UNIT, settings->probe_rtt_cwnd_gain };
}

static const char *bbr_derive_constants(struct bbr_constants *constants, const struct bbr_settings *settings,
					u32 version)
{
	const char *wrong = bbr_setting_out_of_bounds(settings);

	if (wrong)
		return wrong;
	constants->s = *settings;
	constants->version = version;
	bbr_derive_gains(constants->gains, settings);
	constants->min_rtt_win_us = settings->min_rtt_win_sec * BBR_USEC_PER_SEC;
	constants->probe_rtt_win_us = settings->probe_rtt_win_ms * BBR_USEC_PER_MSEC;
	constants->probe_rtt_mode_us = settings->probe_rtt_mode_ms * BBR_USEC_PER_MSEC;
	constants->min_tso_rate_bytes = settings->min_tso_rate / 8;
	constants->cwnd_min_target = settings->cwnd_min_target;
	constants->extra_acked_gain = settings->extra_acked_gain;
	constants->inflight_headroom = settings->inflight_headroom;
	constants->bw_probe_max_rounds = settings->bw_probe_max_rounds;
	constants->cruise_quanta = settings->cruise_quanta;
	constants->refresh_equal_rtt = settings->refresh_equal_rtt;
	constants->precautionary_probe = settings->precautionary_probe;
	constants->packet_conservation = settings->packet_conservation;
	constants->beta_kept = BBR_UNIT - settings->beta;
	constants->pacing_scale = BBR_USEC_PER_SEC / 100 * (100 - settings->pacing_margin_percent);
	constants->extra_acked_slot_rounds = settings->extra_acked_win_rtts / 2;
	constants->ecn_as_loss = settings->ecn_enable && version == 3;
	constants->ecn_alpha = settings->ecn_enable && version == 2;
	return NULL;
}
