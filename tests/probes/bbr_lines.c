// SPDX-License-Identifier: Apache-2.0
/*
 * Reads texts, each after its length in 4 bytes, and prints the states that ccmix-sockmon finds in each, then a line
 * with the number of the first line that it does not understand. With the name of a CCA, reads its file twice instead,
 * and prints what is wrong with it each time.
 */
#include "bbr_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print(const struct bbr_state *state, void *unused)
{
	(void)unused;
	printf("%" PRIu64 " %d %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu32, state->cookie, (int)state->phase,
	       state->cycle, state->bw_lo_bps, state->inflight_hi_packets, state->inflight_lo_packets);
	if (state->has_info)
		printf(" %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32, state->info.bbr_bw_lo,
		       state->info.bbr_bw_hi, state->info.bbr_min_rtt, state->info.bbr_pacing_gain,
		       state->info.bbr_cwnd_gain);
	putchar('\n');
}

int main(int count, char **arguments)
{
	struct bbr_file file = { .cca = count > 1 ? arguments[1] : "", .netns = "", .iterator = -1 };
	uint32_t length;

	for (int i = 0; count > 1 && i < 2; i++) {
		const char *problem = bbr_file_read(&file, print, NULL);

		printf("%s\n", problem ? problem : "-");
	}

	while (fread(&length, sizeof(length), 1, stdin) == 1) {
		/* as long as the text, so that AddressSanitizer sees a read behind it */
		char *text = calloc(length + 1u, 1);

		if (!text || fread(text, 1, length, stdin) != length)
			return 1;
		printf("= %lu\n", bbr_parse(text, print, NULL));
		fflush(stdout);
		free(text);
	}
	return 0;
}
