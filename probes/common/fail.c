// SPDX-License-Identifier: Apache-2.0
#include "fail.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_line(const char *format, va_list arguments, const char *reason)
	__attribute__((format(printf, 1, 0)));

static void write_line(const char *format, va_list arguments, const char *reason)
{
	char line[1024];

	vsnprintf(line, sizeof(line), format, arguments);
	for (char *c = line; *c; c++) {
		if (!isprint((unsigned char)*c) && !((unsigned char)*c & 0x80))
			*c = '?';
	}
	fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, line, reason ? ": " : "",
		reason ? reason : "");
}

void complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line(format, arguments, NULL);
	va_end(arguments);
}

void fail(int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line(format, arguments, NULL);
	va_end(arguments);
	exit(status);
}

void fail_errno(const char *format, ...)
{
	const char *reason = strerror(errno);
	va_list arguments;

	va_start(arguments, format);
	write_line(format, arguments, reason);
	va_end(arguments);
	exit(STATUS_FAILED);
}
