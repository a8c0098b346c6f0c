/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#ifndef COMMAND_H
#define COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum verb { VERB_HELP, VERB_VERSION, VERB_LOAD, VERB_SET, VERB_UNLOAD, VERB_LIST, VERB_STATUS, VERB_WATCH, VERB_CHECK };

struct command {
	enum verb verb;
	const char *name;		/* of the CCA; NULL: none was given */
	char **assignments;		/* NAME=VALUE, changed by load and set */
	int assignment_count;
	char **argv;			/* of the program that watch runs; NULL at its end */
	bool json, keep, missing_ok, verbose;
};

/* Reads the command line; returns NULL, or what is wrong with it, in words that the next call overwrites. */
const char *command_read(struct command *command, int count, char **arguments);

extern const char command_help[];

#endif
