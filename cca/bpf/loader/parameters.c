// SPDX-License-Identifier: Apache-2.0
#include "parameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "../../core/bbr_constants.c"

struct parameter {
	const char *name;
	size_t place;			/* in struct bbr_control */
	u32 least, most;
	u32 only_of;			/* a version; 0: both have it */
};

#define SETTING_ROW(name, deployed, draft, v3, least, most, meaning)                                                   \
	{ #name, offsetof(struct bbr_control, constants.s.name), least, most, 0 },

static const struct parameter parameters[] = {
	BBR_SETTINGS(SETTING_ROW)
	{ "max_sockets", offsetof(struct bbr_control, max_sockets), 0, UINT32_MAX, 0 },
	{ "draft", offsetof(struct bbr_control, draft), 0, 1, 2 },
};

static const size_t parameter_count = sizeof(parameters) / sizeof(*parameters);

static u32 *value_of(const struct bbr_control *control, const struct parameter *parameter)
{
	return (u32 *)((char *)control + parameter->place);
}

unsigned int version_of(const char *name)
{
	return !strcmp(name, "bbr2") ? 2 : !strcmp(name, "bbr3") ? 3 : 0;
}

static void preset(struct bbr_control *control)
{
	enum bbr_set set = control->constants.version == 3 ? BBR3 : control->draft ? BBR2_DRAFT : BBR2_DEPLOYED;

	bbr_default_settings(&control->constants.s, set);
}

void parameters_preset(struct bbr_control *control, unsigned int version)
{
	memset(control, 0, sizeof(*control));
	control->build = BBR_BUILD;
	control->constants.version = version;
	preset(control);
}

static bool is_known(const struct bbr_control *control, const struct parameter *parameter)
{
	return !parameter->only_of || parameter->only_of == control->constants.version;
}

/* Reads a number as the kernel reads a module's: decimal, or with 0x or 0 in front. Returns its end, or NULL. */
static const char *read_number(const char *text, u32 *value)
{
	unsigned long number;
	char *end;

	if (*text < '0' || *text > '9')
		return NULL;
	number = strtoul(text, &end, 0);
	*value = (u32)number;
	return number <= UINT32_MAX ? end : NULL;
}

static bool read_gains(const char *text, u32 *gains)
{
	for (int i = 0; i < BBR_GAINS; i++) {
		text = read_number(text, &gains[i]);
		if (!text || gains[i] < BBR_PACING_GAIN_MIN || gains[i] > BBR_PACING_GAIN_MAX)
			return false;
		if (*text++ != (i < BBR_GAINS - 1 ? ',' : '\0'))
			return false;
	}
	return true;
}

static const char *assign_number(struct bbr_control *control, const struct parameter *parameter, const char *text)
{
	static char wrong[256];
	u32 value;
	const char *end = read_number(text, &value);

	if (!end || *end || value < parameter->least || value > parameter->most) {
		snprintf(wrong, sizeof(wrong), "%s=%.80s: give a whole number from %u to %u", parameter->name, text,
			 parameter->least, parameter->most);
		return wrong;
	}
	*value_of(control, parameter) = value;
	if (value_of(control, parameter) == &control->draft)
		preset(control);
	return NULL;
}

static const char *assign(struct bbr_control *control, const char *assignment)
{
	static char wrong[256];
	const char *equals = strchr(assignment, '=');
	size_t length = equals ? (size_t)(equals - assignment) : 0;
	u32 gains[BBR_GAINS];

	if (!equals) {
		snprintf(wrong, sizeof(wrong), "%.80s: give a parameter and its value, as in loss_thresh=5", assignment);
		return wrong;
	}
	if (length == strlen("pacing_gain") && !memcmp(assignment, "pacing_gain", length)) {
		if (!read_gains(equals + 1, gains)) {
			snprintf(wrong, sizeof(wrong),
				 "pacing_gain=%.80s: give four numbers from %u to %u, as in 320,230,256,256: "
				 "up, down, cruise, refill", equals + 1, BBR_PACING_GAIN_MIN, BBR_PACING_GAIN_MAX);
			return wrong;
		}
		memcpy(control->constants.s.pacing_gain, gains, sizeof(gains));
		return NULL;
	}
	for (size_t i = 0; i < parameter_count; i++) {
		if (strlen(parameters[i].name) == length && !memcmp(parameters[i].name, assignment, length) &&
		    is_known(control, &parameters[i]))
			return assign_number(control, &parameters[i], equals + 1);
	}
	snprintf(wrong, sizeof(wrong), "%.*s is not a parameter of bbr%u", length < 80 ? (int)length : 80, assignment,
		 control->constants.version);
	return wrong;
}

static bool is_draft(const char *assignment)
{
	return !strncmp(assignment, "draft=", strlen("draft="));
}

const char *parameters_assign(struct bbr_control *control, char *const *assignments, int count)
{
	const char *wrong = NULL;

	for (int i = 0; i < count && !wrong; i++) {
		if (is_draft(assignments[i]))
			wrong = assign(control, assignments[i]);
	}
	for (int i = 0; i < count && !wrong; i++) {
		if (!is_draft(assignments[i]))
			wrong = assign(control, assignments[i]);
	}
	return wrong;
}

const char *parameters_finish(struct bbr_control *control)
{
	struct bbr_settings settings = control->constants.s;

	return bbr_derive_constants(&control->constants, &settings, control->constants.version);
}

void parameters_write(const struct bbr_control *control, parameter_writer *write, void *state)
{
	const u32 *gain = control->constants.s.pacing_gain;
	char value[64];

	for (size_t i = 0; i < parameter_count; i++) {
		if (!is_known(control, &parameters[i]))
			continue;
		snprintf(value, sizeof(value), "%u", *value_of(control, &parameters[i]));
		write(parameters[i].name, value, state);
	}
	snprintf(value, sizeof(value), "%u,%u,%u,%u", gain[BBR_GAIN_UP], gain[BBR_GAIN_DOWN], gain[BBR_GAIN_CRUISE],
		 gain[BBR_GAIN_REFILL]);
	write("pacing_gain", value, state);
}

bool parameters_equal(const struct bbr_control *a, const struct bbr_control *b)
{
	for (size_t i = 0; i < parameter_count; i++) {
		if (*value_of(a, &parameters[i]) != *value_of(b, &parameters[i]))
			return false;
	}
	return a->constants.version == b->constants.version &&
	       !memcmp(a->constants.s.pacing_gain, b->constants.s.pacing_gain, sizeof(a->constants.s.pacing_gain));
}
