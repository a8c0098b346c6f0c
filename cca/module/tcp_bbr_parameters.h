/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Module parameters: every setting of the core under its name. A new value counts if all settings are then within their
 * bounds, and for all sockets from their next ACK on. Writers hold the kernel's lock of parameters. Readers take none:
 * each constant is a word, so an ACK during a change sees some new and some old constants, each of them valid.
 */
static int bbr_use_settings(const struct bbr_settings *settings)
{
	struct bbr_constants constants;
	const char *wrong = bbr_derive_constants(&constants, settings, BBR_VERSION);

	if (wrong) {
		pr_warn_ratelimited("tcp_" BBR_NAME ": %s is out of its bounds\n", wrong);
		return -EINVAL;
	}
	bbr_settings = *settings;
	bbr_constants = constants;
	return 0;
}

static bool bbr_settings_ready;

/* Parameters of the command line come before bbr_register(), others after it. */
static int bbr_init_settings(void)
{
	struct bbr_settings defaults;

	if (bbr_settings_ready)
		return 0;
	bbr_default_settings(&defaults, BBR_DEFAULT_SET);
	bbr_settings_ready = true;
	return bbr_use_settings(&defaults);
}

/* Sets the number at `offset` of the settings. */
static int bbr_change_setting(size_t offset, u32 value)
{
	struct bbr_settings settings;
	int error = bbr_init_settings();

	if (error)
		return error;
	settings = bbr_settings;
	*(u32 *)((char *)&settings + offset) = value;
	return bbr_use_settings(&settings);
}

static int bbr_set_number(const char *text, const struct kernel_param *parameter)
{
	u32 value;
	int error = kstrtou32(text, 0, &value);

	return error ?: bbr_change_setting((char *)parameter->arg - (char *)&bbr_settings, value);
}

static int bbr_get_number(char *text, const struct kernel_param *parameter)
{
	return sprintf(text, "%u\n", *(u32 *)parameter->arg);
}

static const struct kernel_param_ops bbr_number_ops = {
	.set = bbr_set_number,
	.get = bbr_get_number,
};

#define BBR_PARAMETER(name, deployed, draft, v3, least, most, meaning)                                                 \
	module_param_cb(name, &bbr_number_ops, &bbr_settings.name, 0644);                                              \
	MODULE_PARM_DESC(name, meaning);
BBR_SETTINGS(BBR_PARAMETER)

/* pacing_gain: four numbers, "up,down,cruise,refill". */
static int bbr_set_gains(const char *text, const struct kernel_param *parameter)
{
	struct bbr_settings settings;
	int error = bbr_init_settings();

	if (error)
		return error;
	settings = bbr_settings;
	if (sscanf(text, "%u,%u,%u,%u", &settings.pacing_gain[BBR_GAIN_UP], &settings.pacing_gain[BBR_GAIN_DOWN],
		   &settings.pacing_gain[BBR_GAIN_CRUISE], &settings.pacing_gain[BBR_GAIN_REFILL]) != BBR_GAINS)
		return -EINVAL;
	return bbr_use_settings(&settings);
}

static int bbr_get_gains(char *text, const struct kernel_param *parameter)
{
	const u32 *gain = bbr_settings.pacing_gain;

	return sprintf(text, "%u,%u,%u,%u\n", gain[BBR_GAIN_UP], gain[BBR_GAIN_DOWN], gain[BBR_GAIN_CRUISE],
		       gain[BBR_GAIN_REFILL]);
}

static const struct kernel_param_ops bbr_gains_ops = {
	.set = bbr_set_gains,
	.get = bbr_get_gains,
};
module_param_cb(pacing_gain, &bbr_gains_ops, NULL, 0644);
MODULE_PARM_DESC(pacing_gain, "pacing gains of PROBE_BW up, down, cruise and refill, in 1/256");

#if BBR_VERSION == 2
/* draft: 1 takes all defaults of the draft, 0 those of the deployed BBRv2, and forgets other changes. */
static unsigned int bbr_draft;

static int bbr_set_draft(const char *text, const struct kernel_param *parameter)
{
	struct bbr_settings settings;
	bool draft;
	int error = kstrtobool(text, &draft);

	if (error)
		return error;
	bbr_default_settings(&settings, draft ? BBR2_DRAFT : BBR2_DEPLOYED);
	bbr_settings_ready = true;
	bbr_draft = draft;
	return bbr_use_settings(&settings);
}

static const struct kernel_param_ops bbr_draft_ops = {
	.set = bbr_set_draft,
	.get = param_get_uint,
};
module_param_cb(draft, &bbr_draft_ops, &bbr_draft, 0644);
MODULE_PARM_DESC(draft, "1: the constants of the draft, 0: those of the deployed BBRv2");
#endif

module_param_named(max_sockets, bbr_max_sockets, uint, 0644);
MODULE_PARM_DESC(max_sockets, "most sockets with state, others fall back to Reno; 0: no limit");
module_param_named(sockets, bbr_sockets, uint, 0444);
MODULE_PARM_DESC(sockets, "sockets with state now");
module_param_named(fallbacks, bbr_fallbacks, uint, 0444);
MODULE_PARM_DESC(fallbacks, "sockets that fell back to Reno so far");
