// SPDX-License-Identifier: Apache-2.0
/* ccmix-cca: loads BBRv2 and BBRv3 into the running kernel, and shows their state. */
#include <errno.h>
#include <stdio.h>

#include "check.h"
#include "command.h"
#include "fail.h"
#include "load.h"
#include "objects.h"
#include "show.h"

static int carry_out(const struct command *command)
{
	switch (command->verb) {
	case VERB_HELP:
		fputs(command_help, stdout);
		break;
	case VERB_VERSION:
		printf("ccmix-cca, build %016llx\n", BBR_BUILD);
		break;
	case VERB_LOAD:
		load(command);
		break;
	case VERB_SET:
		set(command);
		break;
	case VERB_UNLOAD:
		unload(command);
		break;
	case VERB_LIST:
		list(command);
		break;
	case VERB_STATUS:
		status(command);
		break;
	case VERB_WATCH:
		watch(command);
		break;
	case VERB_CHECK:
		return check_show(command->json) ? STATUS_GOOD : STATUS_FAILED;
	}
	return STATUS_GOOD;
}

int main(int count, char **arguments)
{
	struct command command;
	const char *wrong = command_read(&command, count, arguments);
	int result;

	program_invocation_short_name = "ccmix-cca";	/* the copy that ccmix keeps for an undo has another name */
	if (wrong)
		fail(STATUS_USAGE, "%s; see ccmix-cca --help", wrong);
	set_verbose(0);
	result = carry_out(&command);
	if (fflush(stdout) || ferror(stdout))
		fail_errno("the output can't be written");
	return result;
}
