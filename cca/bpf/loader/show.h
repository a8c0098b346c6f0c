/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOW_H
#define SHOW_H

#include "command.h"

/* Each carries out its command, and ends the program on failure. */
void list(const struct command *command);
void status(const struct command *command);

/*
 * Runs the program, with the number of an iterator's descriptor in CCMIX_STATE_BBR2 and _BBR3, and with those of the programs
 * for TCP sockets in CCMIX_SOCKETS; does not return.
 */
void watch(const struct command *command);

#endif
