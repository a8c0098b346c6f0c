// SPDX-License-Identifier: Apache-2.0
/*
 * Landlock: the kernel's Documentation/userspace-api/landlock.rst. Its numbers are written here, because the headers of
 * the machine that builds this may be older than the kernel of the machine that runs it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "fail.h"

#define CREATE_RULESET_VERSION 1U
#define RULE_PATH_BENEATH 1

enum {
	EXECUTE = 1 << 0,
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	MAKE_CHAR = 1 << 6,
	MAKE_BLOCK = 1 << 11,
	REFER = 1 << 13,	/* ABI 2: rename and link between folders */
	TRUNCATE = 1 << 14,	/* ABI 3 */
	IOCTL_DEV = 1 << 15,	/* ABI 5 */
	UP_TO_ABI_1 = (1 << 13) - 1,
	BIND_AND_CONNECT_TCP = 3,	/* ABI 4 */
	ABSTRACT_SOCKETS_AND_SIGNALS = 3, /* ABI 6 */
	FOR_READING = EXECUTE | READ_FILE | READ_DIR,
	FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
};

struct ruleset {
	uint64_t files, network, scoped;
};

struct path_beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

/* Returns all that the ABI can refuse. An older kernel refuses a struct with more than it knows, unless that is 0. */
static struct ruleset ruleset_of(int abi)
{
	struct ruleset all = { .files = UP_TO_ABI_1 };

	all.files |= abi >= 2 ? REFER : 0;
	all.files |= abi >= 3 ? TRUNCATE : 0;
	all.files |= abi >= 5 ? IOCTL_DEV : 0;
	all.network = abi >= 4 ? BIND_AND_CONNECT_TCP : 0;
	all.scoped = abi >= 6 ? ABSTRACT_SOCKETS_AND_SIGNALS : 0;
	return all;
}

static void allow(int ruleset, const char *path, uint64_t rights)
{
	struct path_beneath rule = { .allowed = rights, .parent = open(path, O_PATH | O_CLOEXEC) };
	struct stat status;

	if (rule.parent < 0 || fstat(rule.parent, &status))
		fail_errno("%s", path);
	if (!S_ISDIR(status.st_mode))
		rule.allowed &= FOR_FILES;
	if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0))
		fail_errno("Landlock's rule for %s", path);
	close(rule.parent);
}

static void allow_all(int ruleset, const struct paths *paths, uint64_t rights)
{
	for (size_t i = 0; i < paths->count; i++)
		allow(ruleset, paths->list[i], rights);
}

int landlock_confine(const struct options *options)
{
	int newest = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
	int abi = newest < options->newest_abi ? newest : options->newest_abi;
	struct ruleset refused = ruleset_of(abi);
	int ruleset;

	if (abi < 1)
		return -1;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &refused, sizeof(refused), 0);
	if (ruleset < 0)
		return -1;
	allow_all(ruleset, &options->read, FOR_READING);
	/* no devices, neither new ones nor what only they can do */
	allow_all(ruleset, &options->write, refused.files & ~(uint64_t)(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV));
	for (size_t i = 0; i < needed_count; i++)
		allow(ruleset, needed[i].path, READ_FILE | (needed[i].write ? WRITE_FILE : 0));
	if (syscall(SYS_landlock_restrict_self, ruleset, 0))
		fail_errno("Landlock");
	close(ruleset);
	return abi;
}
