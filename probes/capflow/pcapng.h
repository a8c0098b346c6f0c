/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_PCAPNG_H
#define CAPFLOW_PCAPNG_H

#include <pcap/pcap.h>
#include <stdio.h>

#include "frame.h"

/* A pcapng file that is being read. libpcap refuses interfaces that differ in their link type or snap length. */
struct pcapng;

/*
 * Reads the file, which the caller closes, up to the first interface. Returns NULL, with the reason in `problem`, if
 * there is none.
 */
struct pcapng *pcapng_open(FILE *file, char problem[PCAP_ERRBUF_SIZE]);

/* Reads the next frame of any interface. Returns 1, or 0 at the end, or -1 with the reason in `problem`. */
int pcapng_next(struct pcapng *pcapng, struct frame *frame, char problem[PCAP_ERRBUF_SIZE]);

/* Lets the next pcapng_next() return 0; a signal handler may call it. */
void pcapng_break(struct pcapng *pcapng);

void pcapng_close(struct pcapng *pcapng);

#endif
