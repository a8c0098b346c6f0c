// SPDX-License-Identifier: Apache-2.0
/* The one place where something goes wrong in words. */
#include "fail.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list arguments)
{
	char line[1024];
	char *c;

	vsnprintf(line, sizeof(line), format, arguments);
	for (c = line; *c; c++) {
		if (!isprint((unsigned char)*c) && !((unsigned char)*c & 0x80))
			*c = '?';
	}
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
}

void complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void fail(int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	exit(status);
}
