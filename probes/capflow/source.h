/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_SOURCE_H
#define CAPFLOW_SOURCE_H

#include <pcap/pcap.h>
#include <stdio.h>

#include "frame.h"

/* A capture that is being read, which a program may decompress. */
struct source;

/*
 * Opens a capture. Returns NULL, with the reason in `problem`, if it is not one that can be read. The source closes the
 * file.
 */
struct source *source_open(FILE *file, char problem[PCAP_ERRBUF_SIZE]);

/* Reads the next frame. Returns 1, or 0 at the end, or -1 with the reason in `problem`. */
int source_next(struct source *source, struct frame *frame, char problem[PCAP_ERRBUF_SIZE]);

/* Ends the reading of a source; a signal handler may call it. */
void source_break(struct source *source);

void source_close(struct source *source);

#endif
