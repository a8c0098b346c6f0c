// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * Drives the core of cca/ by lines of words on standard input, and answers each with one line of JSON.
 *
 *	settings SET [NAME=VALUE]...	chooses a set of settings: deployed, draft or v3, and changes some of them
 *	init CWND [NAME=VALUE]...	begins a connection
 *	ack [NAME=VALUE]...		an ACK: members of struct bbr_ack, each of which keeps its value until it is changed
 *	idle | recovery | spurious	the other events
 *	set NAME=VALUE...		writes into the state: a test's way into a corner
 *	memory COUNT			lets only COUNT allocations succeed from now on
 *	bench COUNT			the nanoseconds of an ACK, of COUNT of them
 */
#include "bbr.c"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static u32 random_numerator = 1;	/* bbr_random_below() gives this half of its ceiling */

static u32 bbr_random_below(u32 ceiling)
{
	return (u64)ceiling * random_numerator / 2;
}

static unsigned long memory = ULONG_MAX;	/* how often there is memory to allocate */

static void *bbr_allocate(size_t bytes)
{
	if (!memory)
		return NULL;
	memory--;
	return malloc(bytes);
}

static void bbr_free(void *allocated)
{
	free(allocated);
}

static struct bbr_settings settings;
static struct bbr_constants constants;
static struct bbr bbr;
static struct bbr_ack ack;

struct member {
	const char *name;
	void *at;
	size_t size;
};

#define MEMBER(of, name) { #name, &of.name, sizeof(of.name) }
#define SETTING_MEMBER(name, deployed, draft, v3, least, most, meaning) MEMBER(settings, name),

static const struct member setting_members[] = { BBR_SETTINGS(SETTING_MEMBER){ "up", &settings.pacing_gain[0], 4 },
						 { "down", &settings.pacing_gain[1], 4 },
						 { "cruise", &settings.pacing_gain[2], 4 },
						 { "refill", &settings.pacing_gain[3], 4 },
						 { 0 } };

static const struct member ack_members[] = {
	MEMBER(ack, now_us), MEMBER(ack, delivered), MEMBER(ack, delivered_ce), MEMBER(ack, lost), MEMBER(ack, inflight),
	MEMBER(ack, prior_inflight), MEMBER(ack, newly_acked), MEMBER(ack, rs_delivered), MEMBER(ack, interval_us),
	MEMBER(ack, prior_delivered), MEMBER(ack, rtt_us), MEMBER(ack, snd_nxt), MEMBER(ack, last_end_seq),
	MEMBER(ack, mss), MEMBER(ack, pacing_queue_us), MEMBER(ack, srtt_us), MEMBER(ack, is_app_limited),
	MEMBER(ack, is_retransmission), MEMBER(ack, is_ack_delayed), MEMBER(ack, is_cwnd_limited), MEMBER(ack, has_sack),
	MEMBER(ack, recovery), { 0 }
};

static const struct member sample_members[] = { MEMBER(ack, newly_lost), MEMBER(ack, rs_lost), MEMBER(ack, tx_in_flight),
						{ "sample_bw", &ack.bw, sizeof(ack.bw) }, { 0 } };

static const struct member state_members[] = {
	MEMBER(bbr, cwnd), MEMBER(bbr, mark_app_limited), MEMBER(bbr, pacing_rate), MEMBER(bbr, state),
	MEMBER(bbr, ack_phase), MEMBER(bbr, undo_state), MEMBER(bbr, round_start), MEMBER(bbr, loss_round_start),
	MEMBER(bbr, is_loss_in_round), MEMBER(bbr, is_bw_probe_sample), MEMBER(bbr, full_bw_reached),
	MEMBER(bbr, full_bw_now), MEMBER(bbr, idle_restart), MEMBER(bbr, packet_conservation),
	MEMBER(bbr, prev_probe_too_high), MEMBER(bbr, prev_probe_precautionary), MEMBER(bbr, full_bw_count),
	MEMBER(bbr, bw_probe_up_rounds), MEMBER(bbr, bw), MEMBER(bbr, max_bw), MEMBER(bbr, bw_lo), MEMBER(bbr, inflight_hi),
	MEMBER(bbr, inflight_lo), MEMBER(bbr, min_rtt_us), MEMBER(bbr, extra_acked), MEMBER(bbr, send_quantum),
	MEMBER(bbr, pacing_gain), MEMBER(bbr, cwnd_gain), MEMBER(bbr, max_inflight), MEMBER(bbr, round_count),
	MEMBER(bbr, losses_in_round), MEMBER(bbr, full_bw), MEMBER(bbr, cycle_count), MEMBER(bbr, rounds_since_probe_up),
	MEMBER(bbr, probe_up_acked_per_inc), MEMBER(bbr, bw_probe_wait_us), MEMBER(bbr, cycle_stamp_us),
	MEMBER(bbr, probe_rtt_min_delay_us), MEMBER(bbr, probe_rtt_min_stamp_us), MEMBER(bbr, min_rtt_stamp_us),
	MEMBER(bbr, probe_rtt_done_stamp_us), MEMBER(bbr, prior_cwnd), MEMBER(bbr, bw_latest), MEMBER(bbr, inflight_latest),
	MEMBER(bbr, ecn_alpha), { "ring_size", &bbr.ring.size, sizeof(bbr.ring.size) }, { 0 }
};

static void fail(const char *what, const char *word)
{
	fprintf(stderr, "driver: %s: %s\n", what, word);
	exit(2);
}

static void assign(const struct member *members, char *word)
{
	char *value = strchr(word, '=');
	unsigned long long number;

	if (!value)
		fail("no value", word);
	*value++ = '\0';
	number = strtoull(value, NULL, 0);
	for (; members->name; members++) {
		if (strcmp(members->name, word))
			continue;
		memcpy(members->at, &number, members->size); /* little-endian, as x86-64 is */
		return;
	}
	fail("no such name", word);
}

static void assign_rest(const struct member *members)
{
	char *word;

	while ((word = strtok(NULL, " \n")))
		assign(members, word);
}

static const char *print(const struct member *members, const char *separator)
{
	unsigned long long number;

	for (; members->name; members++) {
		number = 0;
		memcpy(&number, members->at, members->size);
		printf("%s\"%s\": %llu", separator, members->name, number);
		separator = ", ";
	}
	return separator;
}

static void choose_settings(void)
{
	static const char *const names[BBR_SETS] = { "deployed", "draft", "v3" };
	const char *name = strtok(NULL, " \n"), *wrong;
	u32 set = 0;

	while (set < BBR_SETS && strcmp(names[set], name))
		set++;
	if (set == BBR_SETS)
		fail("no such set", name);
	bbr_default_settings(&settings, set);
	assign_rest(setting_members);
	wrong = bbr_derive_constants(&constants, &settings, set == BBR3 ? 3 : 2);
	printf("{");
	print(setting_members, "");
	printf(", \"wrong\": \"%s\"}\n", wrong ? wrong : "");
}

static void init(void)
{
	u32 cwnd = strtoul(strtok(NULL, " \n"), NULL, 0);

	memset(&ack, 0, sizeof(ack));
	ack.mss = 1448;
	ack.has_sack = true;
	ack.rtt_us = -1;
	assign_rest(ack_members);
	if (bbr.ring.entries)
		bbr_release(&bbr);
	bbr_init(&bbr, &constants, &ack, cwnd);
}

/* A steady flow: an ACK for two packets each, 160 packets in flight, 100 Mbit/s and 20 ms; nothing else is in the loop. */
static void bench(void)
{
	unsigned long count = strtoul(strtok(NULL, " \n"), NULL, 0), i;
	struct timespec begin, end;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (i = 0; i < count; i++) {
		struct bbr_ack now = {
			.now_us = 232 * i, .delivered = 2 * i, .inflight = 160, .prior_inflight = 162, .newly_acked = 2,
			.rs_delivered = 160, .interval_us = 18560 + (i & 15), .prior_delivered = 2 * i - 160, .rtt_us = 20000,
			.snd_nxt = 1448 * (2 * i + 160), .last_end_seq = 1448 * 2 * i, .mss = 1448, .srtt_us = 20000,
			.is_cwnd_limited = false, .has_sack = true,
		};

		bbr_expect_ack(&bbr, &constants, bbr_expected_sent(&bbr));
		bbr.cwnd = 330;
		bbr_on_ack(&bbr, &constants, &now);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	printf("{\"ns\": %.2f}\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count);
}

int main(void)
{
	static char line[4096];
	const char *word, *separator;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		word = strtok(line, " \n");
		if (!strcmp(word, "settings")) {
			choose_settings();
			continue;
		}
		if (!strcmp(word, "bench")) {
			bench();
			continue;
		}
		if (!strcmp(word, "random")) {
			random_numerator = strtoul(strtok(NULL, " \n"), NULL, 0);
		} else if (!strcmp(word, "memory")) {
			memory = strtoul(strtok(NULL, " \n"), NULL, 0);
		} else if (!strcmp(word, "init")) {
			init();
		} else if (!strcmp(word, "ack")) {
			assign_rest(ack_members);
			bbr_on_ack(&bbr, &constants, &ack);
		} else if (!strcmp(word, "idle")) {
			assign_rest(ack_members);
			bbr_on_restart_from_idle(&bbr, &constants, &ack);
		} else if (!strcmp(word, "recovery")) {
			bbr_on_enter_recovery(&bbr);
		} else if (!strcmp(word, "spurious")) {
			assign_rest(ack_members);
			bbr_on_spurious_recovery(&bbr, &ack);
		} else if (!strcmp(word, "set")) {
			assign_rest(state_members);
		} else {
			fail("no such command", word);
		}
		printf("{");
		separator = print(state_members, "");
		print(sample_members, separator);
		printf("}\n");
	}
	if (bbr.ring.entries)
		bbr_release(&bbr);
	return 0;
}
