/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The congestion controls that this program has loaded, found in the kernel. Nothing is kept in files: the kernel lists
 * its struct_ops maps, the value of such a map names its programs, and a program names the maps that it uses.
 */
#ifndef LOADED_H
#define LOADED_H

#include <stdbool.h>

#include "core.h"

struct loaded {
	char name[16];
	unsigned int id;		/* of the struct_ops map */
	bool registered;		/* false: unloaded, and sockets still use it */
	bool is_this_build;		/* else what follows is not known */
	int ops, sockets, control_map;	/* file descriptors */
	struct bbr_control control;
	struct bbr_counts counts;
};

/* Calls `visit` for each; stops when that returns false. The file descriptors are closed after the call. */
typedef bool loaded_visitor(const struct loaded *loaded, void *state);
void loaded_visit(loaded_visitor *visit, void *state);

/* Finds the registered one of this name, and returns whether there is one. Its file descriptors stay open. */
bool loaded_find(const char *name, struct loaded *loaded);

#endif
