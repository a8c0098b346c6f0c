/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files of /proc and /sys, which stay open and are read again from their beginning. */
#ifndef CCMIX_TEXT_H
#define CCMIX_TEXT_H

#include <stdint.h>

/*
 * Returns the file's text, ended by a zero byte, in a buffer that the next call reuses; NULL if it
 * can't be read.
 */
char *read_text(int fd);

/* Does so with a file that can be read only once, from its beginning. */
char *read_text_once(int fd);

/* Returns the number at *at, and moves *at behind it; returns 0 and does not move if there is none. */
uint64_t next_number(char **at);

#endif
