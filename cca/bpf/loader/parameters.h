/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of bbr2 and bbr3: their names, values and bounds are those of cca/core/bbr_constants.h. */
#ifndef PARAMETERS_H
#define PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>

struct bbr_control;

/* Returns 2 for bbr2, 3 for bbr3, and 0 for any other name. */
unsigned int version_of(const char *name);

/* Fills in the defaults of this version. */
void parameters_preset(struct bbr_control *control, unsigned int version);

/*
 * Carries out each "NAME=VALUE"; returns NULL, or what is wrong with one, in words that the next call overwrites. `draft`,
 * which gives all others their defaults, comes first, wherever it is written.
 */
const char *parameters_assign(struct bbr_control *control, char *const *assignments, int count);

/* Computes what follows from the parameters; returns NULL, or which of them is out of its bounds. */
const char *parameters_finish(struct bbr_control *control);

/* Writes the name and value of each parameter, all values as text. */
typedef void parameter_writer(const char *name, const char *value, void *state);
void parameters_write(const struct bbr_control *control, parameter_writer *write, void *state);

bool parameters_equal(const struct bbr_control *a, const struct bbr_control *b);

#endif
