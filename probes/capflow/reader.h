/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_READER_H
#define CAPFLOW_READER_H

#include <pcap/pcap.h>
#include <stdbool.h>

#include "flows.h"
#include "options.h"

/*
 * Reads the capture to its end into the flows. Returns false, with the reason in `problem`, if it ends in an error:
 * all packets before count.
 */
bool reader_run(pcap_t *pcap, const struct options *options, struct flows *flows, struct capture *capture,
		char problem[PCAP_ERRBUF_SIZE]);

#endif
