/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHOW_H
#define SHOW_H

#include "command.h"

/* Each carries out its command, and ends the program on failure. */
void list(const struct command *command);
void status(const struct command *command);

#endif
