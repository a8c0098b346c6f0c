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

static const char *bbr_derive_constants(struct bbr_constants *constants, const struct bbr_settings *settings,
					u32 version)
{
	const char *wrong = bbr_setting_out_of_bounds(settings);

	if (wrong)
		return wrong;
	constants->s = *settings;
	constants->version = version;
	constants->min_rtt_win_us = (u64)settings->min_rtt_win_sec * BBR_USEC_PER_SEC;
	constants->probe_rtt_win_us = (u64)settings->probe_rtt_win_ms * BBR_USEC_PER_MSEC;
	constants->probe_rtt_mode_us = (u64)settings->probe_rtt_mode_ms * BBR_USEC_PER_MSEC;
	constants->min_tso_rate_bytes = settings->min_tso_rate / 8;
	constants->beta_kept = BBR_UNIT - settings->beta;
	constants->pacing_scale = BBR_USEC_PER_SEC / 100 * (100 - settings->pacing_margin_percent);
	constants->extra_acked_slot_rounds = settings->extra_acked_win_rtts / 2;
	constants->ecn_as_loss = settings->ecn_enable && version == 3;
	constants->ecn_alpha = settings->ecn_enable && version == 2;
	return NULL;
}
