// SPDX-License-Identifier: Apache-2.0
/* Fuzzes the command line: the input is its words, one a line. Nothing is loaded. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "core.h"
#include "parameters.h"

#define MOST_WORDS 64
#define MOST_PARAMETERS 64

static void require(bool condition)
{
	if (!condition)
		abort();
}

struct written {
	char *assignments[MOST_PARAMETERS];
	int count;
};

static void note_parameter(const char *name, const char *value, void *state)
{
	struct written *written = state;

	require(*name && *value);
	require(written->count < MOST_PARAMETERS);
	require(asprintf(&written->assignments[written->count++], "%s=%s", name, value) > 0);
}

/* What parameters_assign() takes must be taken again from what parameters_write() shows. */
static void check_parameters(const struct command *command)
{
	struct bbr_control control, again;
	struct written written = { 0 };

	parameters_preset(&control, version_of(command->name));
	if (parameters_assign(&control, command->assignments, command->assignment_count))
		return;
	require(!parameters_finish(&control));
	parameters_write(&control, note_parameter, &written);
	require(written.count > 30);
	parameters_preset(&again, version_of(command->name));
	require(!parameters_assign(&again, written.assignments, written.count));
	require(parameters_equal(&control, &again));
	for (int i = 0; i < written.count; i++)
		free(written.assignments[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *words[MOST_WORDS + 1] = { "ccmix-cca" }, *rest = text, *word;
	struct command command;
	int count = 1;

	memcpy(text, data, size);
	text[size] = '\0';
	while (count < MOST_WORDS && (word = strsep(&rest, "\n")))
		words[count++] = word;
	if (!command_read(&command, count, words) && command.name)
		check_parameters(&command);
	free(text);
	return 0;
}
