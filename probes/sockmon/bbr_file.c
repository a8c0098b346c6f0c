// SPDX-License-Identifier: Apache-2.0
#include "bbr_file.h"

#include "bpf.h"
#include "netns.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER "cookie phase cycle bw_lo_bps inflight_hi_packets inflight_lo_packets"
#define INFO_HEADER " bw_bytes_per_s min_rtt_us pacing_gain cwnd_gain"

static const char *const phases[BBR_PHASES] = {
	[BBR_STARTUP] = "startup",
	[BBR_DRAIN] = "drain",
	[BBR_PROBE_BW_DOWN] = "probe_bw_down",
	[BBR_PROBE_BW_CRUISE] = "probe_bw_cruise",
	[BBR_PROBE_BW_REFILL] = "probe_bw_refill",
	[BBR_PROBE_BW_UP] = "probe_bw_up",
	[BBR_PROBE_RTT] = "probe_rtt",
};

/* These take what is at *at, move *at behind it, and return whether it is what is due there. */

static bool take_word(const char **at, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(*at, word, length))
		return false;
	*at += length;
	return true;
}

static bool take_end(const char **at)
{
	return **at == '\n' || **at == ' ';
}

static bool take_number(const char **at, uint64_t most, uint64_t *value)
{
	const char *digit = *at;

	for (*value = 0; *digit >= '0' && *digit <= '9'; digit++) {
		uint64_t one = (uint64_t)(*digit - '0');

		if (*value > (most - one) / 10)
			return false;
		*value = *value * 10 + one;
	}
	if (digit == *at)
		return false;
	*at = digit;
	return true;
}

static bool take_bound(const char **at, uint64_t not_set, uint64_t *value)
{
	if (!take_word(at, "-"))
		return take_number(at, not_set - 1, value);
	*value = not_set;
	return true;
}

static bool take_phase(const char **at, enum bbr_phase *phase)
{
	size_t length = strcspn(*at, " \n");

	for (unsigned int i = 0; i < BBR_PHASES; i++) {
		if (strlen(phases[i]) == length && take_word(at, phases[i])) {
			*phase = i;
			return true;
		}
	}
	return false;
}

static bool take_info(const char **at, struct tcp_bbr_info *info)
{
	uint64_t bandwidth, min_rtt, pacing_gain, cwnd_gain;

	if (!take_word(at, " ") || !take_number(at, UINT64_MAX, &bandwidth) ||
	    !take_word(at, " ") || !take_bound(at, (uint32_t)BBR_NOT_SET, &min_rtt) ||
	    !take_word(at, " ") || !take_number(at, UINT32_MAX, &pacing_gain) ||
	    !take_word(at, " ") || !take_number(at, UINT32_MAX, &cwnd_gain) || !take_end(at))
		return false;
	*info = (struct tcp_bbr_info){
		.bbr_bw_lo = (uint32_t)bandwidth,
		.bbr_bw_hi = (uint32_t)(bandwidth >> 32),
		.bbr_min_rtt = (uint32_t)min_rtt,
		.bbr_pacing_gain = (uint32_t)pacing_gain,
		.bbr_cwnd_gain = (uint32_t)cwnd_gain,
	};
	return true;
}

/* Takes a line, which has the members of tcp_bbr_info if state->has_info. */
static bool take_line(const char **at, struct bbr_state *state)
{
	uint64_t cycle, hi, lo;

	if (!take_number(at, UINT64_MAX, &state->cookie) || !take_word(at, " ") ||
	    !take_phase(at, &state->phase) || !take_word(at, " ") ||
	    !take_number(at, UINT32_MAX, &cycle) || !take_word(at, " ") ||
	    !take_bound(at, BBR_NOT_SET, &state->bw_lo_bps) || !take_word(at, " ") ||
	    !take_bound(at, (uint32_t)BBR_NOT_SET, &hi) || !take_word(at, " ") ||
	    !take_bound(at, (uint32_t)BBR_NOT_SET, &lo) || !take_end(at))
		return false;
	state->cycle = (uint32_t)cycle;
	state->inflight_hi_packets = (uint32_t)hi;
	state->inflight_lo_packets = (uint32_t)lo;
	return !state->has_info || take_info(at, &state->info);
}

static bool take_header(const char **at, bool *has_info)
{
	if (!take_word(at, HEADER))
		return false;
	*has_info = take_word(at, INFO_HEADER);
	return take_end(at);
}

unsigned long bbr_parse(const char *text, bbr_handler handler, void *argument)
{
	unsigned long wrong = 0, number = 1;
	const char *line = text, *end;
	bool has_info = false;

	for (; number == 1 || *line; number++) {
		struct bbr_state state = { .has_info = has_info };
		const char *at = line;
		bool understood;

		end = strchr(line, '\n');	/* NULL: cut off */
		if (number == 1)
			understood = end && take_header(&at, &has_info);
		else
			understood = end && take_line(&at, &state);
		if (!understood && number == 1)
			return 1;
		if (!understood && !wrong)
			wrong = number;
		if (understood && number > 1)
			handler(&state, argument);
		if (!end)
			break;
		line = end + 1;
	}
	return wrong;
}

static int open_path(void *path)
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

int bbr_iterator(const char *cca)
{
	char name[40] = "CCMIX_STATE_", *at = name + strlen(name);
	const char *number;
	char *end;
	long fd;

	for (; *cca && at < name + sizeof(name) - 1; cca++)
		*at++ = (char)toupper((unsigned char)*cca);
	number = getenv(name);
	if (!number)
		return -1;
	fd = strtol(number, &end, 10);
	return end == number || *end || fd < 0 || fd > INT_MAX ? -1 : (int)fd;
}

/* Returns the text of all sockets as they are now, or NULL: a BPF iterator can't be read again from its beginning. */
static const char *iterate(int iterator)
{
	int fd = bpf_iterate(iterator);
	const char *text;

	if (fd < 0)
		return NULL;
	text = read_text_once(fd);
	close(fd);
	return text;
}

static const char *read_file(struct bbr_file *file, const char *path)
{
	if (!file->opened)
		file->fd = open_in_netns(file->netns, open_path, (void *)path);
	return file->fd < 0 ? NULL : read_text(file->fd);
}

const char *bbr_file_read(struct bbr_file *file, bbr_handler handler, void *argument)
{
	static char problem[160];
	bool iterates = file->iterator >= 0;
	char path[64];
	const char *text;
	unsigned long line;

	if (file->opened && !iterates && file->fd < 0)
		return NULL;
	snprintf(path, sizeof(path), iterates ? "BPF iterator of %.16s" : "/proc/self/net/tcp_%.16s", file->cca);
	text = iterates ? iterate(file->iterator) : read_file(file, path);
	file->opened = true;
	if (!text) {
		snprintf(problem, sizeof(problem), "%s: %s; phases of %s are not recorded", path,
			 strerror(errno), file->cca);
		if (!iterates && file->fd >= 0)
			close(file->fd);
		file->fd = file->iterator = -1;
		return problem;
	}
	line = iterates && !*text ? 0 : bbr_parse(text, handler, argument);
	if (!line || file->complained)
		return NULL;
	file->complained = true;
	snprintf(problem, sizeof(problem), "%s: line %lu is not understood; it is not recorded", path,
		 line);
	return problem;
}
