/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_OPTIONS_H
#define CAPFLOW_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *file; /* "-": standard input */
	int64_t interval_ns;
	/* Where each result goes: NULL nowhere, "-" standard output */
	const char *series, *json, *text;
	uint8_t host_version; /* 0: any host */
	uint8_t host[16];
	uint16_t port; /* 0: any */
	int64_t most_connections;
};

/* Ends the program where an option is wrong, or was --help or --version. */
struct options options_read(int count, char **arguments);

#endif
