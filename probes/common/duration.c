// SPDX-License-Identifier: Apache-2.0
#include "duration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNITS (sizeof(units) / sizeof(units[0]))

static const struct {
	const char *name;
	long milliseconds;
} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };

double duration_s(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0; end != text && i < UNITS; i++) {
		if (!strcmp(end, units[i].name))
			return value * ((double)units[i].milliseconds / 1e3);
	}
	return NAN;
}

void duration_write(double seconds, char *text, size_t room)
{
	long milliseconds = (long)(seconds * 1e3 + 0.5);
	size_t unit = UNITS - 1;

	while (milliseconds % units[unit].milliseconds)
		unit--;
	snprintf(text, room, "%ld%s", milliseconds / units[unit].milliseconds, units[unit].name);
}
