/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOAD_H
#define LOAD_H

#include "command.h"

/* Each carries out its command, and ends the program on failure. */
void load(const struct command *command);
void set(const struct command *command);
void unload(const struct command *command);

#endif
