// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confine.h"
#include "fail.h"
#include "memory.h"

static const char help[] =
	"Usage: %s --parent=PID --processor=N [OPTION]... -- KERNEL [ARGUMENT]...\n"
	"\n"
	"Becomes the kernel of a guest, which can reach of this machine only what the options name, and which ends with\n"
	"its parent.\n"
	"\n"
	"      --parent=PID       end with this process, which must be this one's parent\n"
	"      --processor=N      run only on this processor\n"
	"      --read=PATH        the guest may read and execute this file, or all below this folder; may be repeated\n"
	"      --write=FOLDER     the guest may read and write all below this folder; may be repeated\n"
	"      --way=WAY          landlock or namespaces: confine the guest in this way, or fail; none: don't confine it\n"
	"                         [default: landlock, otherwise namespaces, otherwise none]\n"
	"      --abi=N            use of Landlock no newer ABI than this; for tests\n"
	"      --report=FD        write to this file descriptor in which way the guest is confined: `landlock ABI`,\n"
	"                         `namespaces` or `none: REASONS`; and which capabilities root can't drop\n"
	"  -h, --help             print this text\n"
	"\n"
	"Exit status: the kernel's; before it starts 1 if it can't be started so, 2 for wrong options.\n";

enum { PARENT = 256, PROCESSOR, READ, WRITE, WAY, ABI, REPORT };

static const struct option names[] = {
	{ "parent", required_argument, NULL, PARENT }, { "processor", required_argument, NULL, PROCESSOR },
	{ "read", required_argument, NULL, READ },     { "write", required_argument, NULL, WRITE },
	{ "way", required_argument, NULL, WAY },       { "abi", required_argument, NULL, ABI },
	{ "report", required_argument, NULL, REPORT }, { "help", no_argument, NULL, 'h' },
	{ 0 },
};

static int number(const char *name, const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 0 || value > INT_MAX)
		fail(STATUS_USAGE, "--%s=%s: give a number; see --help", name, text);
	return (int)value;
}

static enum way way(const char *text)
{
	static const char *const ways[] = {
		[WAY_LANDLOCK] = "landlock", [WAY_NAMESPACES] = "namespaces", [WAY_NONE] = "none"
	};

	for (enum way found = WAY_LANDLOCK; found <= WAY_NONE; found++) {
		if (!strcmp(ways[found], text))
			return found;
	}
	fail(STATUS_USAGE, "--way=%s: give landlock, namespaces or none; see --help", text);
}

static void add(struct paths *paths, const char *name, char *path)
{
	if (path[0] != '/')
		fail(STATUS_USAGE, "--%s=%s: give an absolute path; see --help", name, path);
	paths->list = resize(paths->list, paths->count + 1, sizeof(*paths->list));
	paths->list[paths->count++] = path;
}

static void take(struct options *options, int option)
{
	switch (option) {
	case PARENT:
		options->parent = number("parent", optarg);
		break;
	case PROCESSOR:
		options->processor = number("processor", optarg);
		break;
	case READ:
		add(&options->read, "read", optarg);
		break;
	case WRITE:
		add(&options->write, "write", optarg);
		break;
	case WAY:
		options->way = way(optarg);
		break;
	case ABI:
		options->newest_abi = number("abi", optarg);
		if (!options->newest_abi)
			fail(STATUS_USAGE, "--abi=%s: the oldest is 1; see --help", optarg);
		break;
	case REPORT:
		options->report = number("report", optarg);
		break;
	case 'h':
		printf(help, program_invocation_short_name);
		exit(STATUS_GOOD);
	default: /* getopt has said why */
		exit(STATUS_USAGE);
	}
}

struct options options_read(int count, char **arguments)
{
	struct options options = { .parent = -1, .processor = -1, .newest_abi = INT_MAX, .report = -1 };
	int option;

	while ((option = getopt_long(count, arguments, "+h", names, NULL)) != -1)
		take(&options, option);
	if (options.parent < 0 || options.processor < 0)
		fail(STATUS_USAGE, "give --parent and --processor; see --help");
	if (optind == count || arguments[optind][0] != '/')
		fail(STATUS_USAGE, "give the absolute path of a kernel; see --help");
	options.kernel = arguments + optind;
	add(&options.read, "read", options.kernel[0]);
	return options;
}
