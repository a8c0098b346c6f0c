#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void line(const char *format, va_list arguments, const char *reason)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, arguments);
	if (reason)
		fprintf(stderr, "ccmix-sockmon: %s: %s\n", text, reason);
	else
		fprintf(stderr, "ccmix-sockmon: %s\n", text);
}

void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	line(format, arguments, NULL);
	va_end(arguments);
}

void fail(int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	line(format, arguments, NULL);
	va_end(arguments);
	exit(status);
}

void fail_errno(const char *format, ...)
{
	const char *reason = strerror(errno);
	va_list arguments;

	va_start(arguments, format);
	line(format, arguments, reason);
	va_end(arguments);
	exit(EXIT_RUN);
}

void *must_realloc(void *old, unsigned long bytes)
{
	void *new = realloc(old, bytes);

	if (!new)
		fail(EXIT_RUN, "no memory for %lu bytes", bytes);
	return new;
}
