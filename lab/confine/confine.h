/* SPDX-License-Identifier: Apache-2.0 */
/* The files and sockets that a guest's process may reach, and the ways to keep it in. */
#ifndef CONFINE_H
#define CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum way { WAY_BEST, WAY_LANDLOCK, WAY_NAMESPACES, WAY_NONE };

struct paths {
	char **list;
	size_t count;
};

struct options {
	pid_t parent;		/* the guest ends with it */
	int processor;
	int report;		/* a file descriptor, or -1 */
	enum way way;
	int newest_abi;		/* that is used of Landlock */
	struct paths read;	/* files, and folders with all below them */
	struct paths write;	/* folders */
	char **kernel;		/* and its arguments */
};

struct options options_read(int count, char **arguments);

/* Files that User-Mode Linux opens for itself; strace shows them. */
struct needed {
	const char *path;
	bool write;
};
extern const struct needed needed[];
extern const size_t needed_count;

/*
 * Keeps this process to the paths, forbids TCP, and signals and abstract sockets outside, as far as the running kernel
 * can. Returns the ABI of Landlock that it uses, or -1 with errno if it has none. Ends the program if a path can't be
 * opened.
 */
int landlock_confine(const struct options *options);

/*
 * Goes on in a child process in namespaces of its own, which hold these paths only; this process waits for it and ends
 * as it ends. Returns false, with errno, where the machine does not allow that; then nothing has changed.
 */
bool namespaces_confine(const struct options *options);

/* Forbids the system calls by which a process reaches more than files, for good. */
void forbid_system_calls(void);

#endif
