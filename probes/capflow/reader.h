/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_READER_H
#define CAPFLOW_READER_H

#include <stdbool.h>

#include "flows.h"
#include "options.h"
#include "source.h"

/*
 * Reads the capture to its end into the flows. Returns false, with the reason in `problem`, if it ends in an error:
 * all packets before count.
 */
bool reader_run(struct source *source, const struct options *options, struct flows *flows, struct capture *capture,
		char problem[PCAP_ERRBUF_SIZE]);

#endif
