// SPDX-License-Identifier: Apache-2.0
#include "duration.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

double duration_s(const char *text)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = { { "ms", 1e-3 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++) {
		if (!strcmp(end, units[i].name))
			return value * units[i].seconds;
	}
	return NAN;
}
