/* SPDX-License-Identifier: Apache-2.0 */
/* The one place for errors: a line on standard error, and the exit status. */
#ifndef COMMON_FAIL_H
#define COMMON_FAIL_H

#include "status.h"	/* each probe's own: STATUS_GOOD, STATUS_USAGE, STATUS_FAILED and others */

/* Writes one line on standard error, after the program's name; a byte that does not print becomes '?'. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes the line, and ends the program with the status. */
_Noreturn void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes the line with ": " and errno's text at its end, and ends the program with STATUS_FAILED. */
_Noreturn void fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
