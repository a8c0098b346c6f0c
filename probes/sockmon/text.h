/* Files of /proc and /sys, kept open and read anew from their beginning. */
#ifndef CCMIX_TEXT_H
#define CCMIX_TEXT_H

#include <stdint.h>

/*
 * The file's text, ended by a zero byte, in a buffer that the next call reuses; NULL where it can't
 * be read.
 */
char *read_text(int fd);

/* The number at *at, and *at moves behind it; 0 and no move where there is none. */
uint64_t next_number(char **at);

#endif
