// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "parameters.h"

const char command_help[] =
	"usage: ccmix-cca COMMAND [NAME] [PARAMETER=VALUE]... [OPTION]...\n"
	"\n"
	"Loads BBRv2 and BBRv3 into the running kernel as BPF programs. NAME is bbr2 or bbr3.\n"
	"\n"
	"  load NAME [PARAMETER=VALUE]...   registers the congestion control, until it is unloaded or the host restarts\n"
	"      --keep                       succeeds if it is loaded already, with these parameters\n"
	"      --verbose                    shows what libbpf and the kernel's verifier say\n"
	"  set NAME PARAMETER=VALUE...      changes parameters, for all its sockets from their next ACK on\n"
	"  unload NAME                      removes it; sockets that use it keep it until they close\n"
	"      --missing-ok                 succeeds if it is not loaded\n"
	"  list [--json]                    shows what is loaded, with its sockets and parameters\n"
	"  status [NAME] [--json]           shows the state of each socket that uses it\n"
	"  watch -- PROGRAM [ARGUMENT]...   runs a program that reads the state of sockets by itself, as ccmix-sockmon does\n"
	"  check [--json]                   shows whether this host has all that load needs\n"
	"  --help, --version\n"
	"\n"
	"All but check need the capabilities CAP_SYS_ADMIN and CAP_NET_ADMIN, which root has.\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage.\n";

struct verb_row {
	const char *word;
	enum verb verb;
	bool takes_name, needs_name, takes_assignments, needs_assignments;
	const char *options;		/* of those below, each with a blank at its end */
};

static const struct verb_row verbs[] = {
	{ "load", VERB_LOAD, true, true, true, false, "--keep --verbose " },
	{ "set", VERB_SET, true, true, true, true, "" },
	{ "unload", VERB_UNLOAD, true, true, false, false, "--missing-ok " },
	{ "list", VERB_LIST, false, false, false, false, "--json " },
	{ "status", VERB_STATUS, true, false, false, false, "--json " },
	{ "watch", VERB_WATCH, false, false, false, false, "" },
	{ "check", VERB_CHECK, false, false, false, false, "--json " },
	{ "--help", VERB_HELP, false, false, false, false, "" },
	{ "-h", VERB_HELP, false, false, false, false, "" },
	{ "--version", VERB_VERSION, false, false, false, false, "" },
};

static const struct verb_row *find_verb(const char *word)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		if (!strcmp(verbs[i].word, word))
			return &verbs[i];
	}
	return NULL;
}

/* Sets what an option means, and returns whether the verb has it. */
static bool read_option(struct command *command, const struct verb_row *verb, const char *word)
{
	const struct {
		const char *word;
		bool *flag;
	} options[] = {
		{ "--json", &command->json },
		{ "--keep", &command->keep },
		{ "--missing-ok", &command->missing_ok },
		{ "--verbose", &command->verbose },
	};
	char with_blank[32];

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		snprintf(with_blank, sizeof(with_blank), "%s ", options[i].word);
		if (!strcmp(options[i].word, word) && strstr(verb->options, with_blank)) {
			*options[i].flag = true;
			return true;
		}
	}
	return false;
}

const char *command_read(struct command *command, int count, char **arguments)
{
	static char wrong[256];
	const struct verb_row *verb = count > 1 ? find_verb(arguments[1]) : NULL;
	int operands = 0;

	memset(command, 0, sizeof(*command));
	if (count < 2)
		return "give a command: load, set, unload, list, status or check";
	if (!verb) {
		snprintf(wrong, sizeof(wrong), "%.80s is not a command: give load, set, unload, list, status or check",
			 arguments[1]);
		return wrong;
	}
	command->verb = verb->verb;
	for (int i = 2; i < count; i++) {
		if (verb->verb == VERB_WATCH && !strcmp(arguments[i], "--")) {
			command->argv = arguments + i + 1;
			break;
		}
		if (arguments[i][0] == '-') {
			if (!read_option(command, verb, arguments[i])) {
				snprintf(wrong, sizeof(wrong), "%.80s is not an option of %s", arguments[i], verb->word);
				return wrong;
			}
		} else {
			arguments[2 + operands++] = arguments[i];	/* the words without the options */
		}
	}
	if (operands && verb->takes_name) {
		command->name = arguments[2];
		command->assignments = arguments + 3;
		command->assignment_count = operands - 1;
	}
	if ((operands && !verb->takes_name) || (command->assignment_count && !verb->takes_assignments)) {
		snprintf(wrong, sizeof(wrong), "%s: %.80s is one word too many", verb->word,
			 arguments[verb->takes_name ? 3 : 2]);
		return wrong;
	}
	if (verb->needs_name && !command->name) {
		snprintf(wrong, sizeof(wrong), "%s: give bbr2 or bbr3", verb->word);
		return wrong;
	}
	if (command->name && !version_of(command->name)) {
		snprintf(wrong, sizeof(wrong), "%s: %.80s is not known: give bbr2 or bbr3", verb->word, command->name);
		return wrong;
	}
	if (verb->verb == VERB_WATCH && (!command->argv || !*command->argv))
		return "watch: give a program, as in watch -- ccmix-sockmon --sockets";
	if (verb->needs_assignments && !command->assignment_count) {
		snprintf(wrong, sizeof(wrong), "%s: give a parameter, as in loss_thresh=5", verb->word);
		return wrong;
	}
	return NULL;
}
