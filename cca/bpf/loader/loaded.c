// SPDX-License-Identifier: Apache-2.0
#include "loaded.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "kernel_types.h"
#include "memory.h"
#include "parameters.h"

#define OPS_MAP "bbr_ops"
#define MOST_MAPS 16			/* of one program, which has four */

/* The beginning of a struct_ops map's value has been a count and this state since Linux 5.6. */
struct ops_head {
	unsigned int count;
	unsigned int state;
};

enum { OPS_IN_USE = 1 };

/* Opens the map if it has this name, and returns its file descriptor, else -1. */
static int open_map(unsigned int id, const char *name, struct bpf_map_info *info)
{
	unsigned int size = sizeof(*info);
	int map = bpf_map_get_fd_by_id(id);

	if (map < 0)
		return -1;
	memset(info, 0, sizeof(*info));
	if (bpf_map_get_info_by_fd(map, info, &size) == 0 && !strcmp(info->name, name))
		return map;
	close(map);
	return -1;
}

/* Reads the one element of an array; returns whether it has this size. */
static bool read_array(int map, const struct bpf_map_info *info, void *value, size_t size)
{
	unsigned int zero = 0;

	return info->value_size == size && bpf_map_lookup_elem(map, &zero, value) == 0;
}

/* Opens the maps that a program uses. */
static void open_maps(struct loaded *loaded, unsigned int program_id)
{
	unsigned int ids[MOST_MAPS], size = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = { .nr_map_ids = MOST_MAPS, .map_ids = (uintptr_t)ids };
	struct bpf_map_info of_map;
	bool has_control = false, has_counts = false;
	int program = bpf_prog_get_fd_by_id(program_id), map;

	if (program < 0)
		return;
	if (bpf_prog_get_info_by_fd(program, &info, &size) < 0)
		info.nr_map_ids = 0;
	for (unsigned int i = 0; i < info.nr_map_ids && i < MOST_MAPS; i++) {
		if ((map = open_map(ids[i], ".data.control", &of_map)) >= 0) {
			loaded->control_map = map;
			has_control = read_array(map, &of_map, &loaded->control, sizeof(loaded->control));
		} else if ((map = open_map(ids[i], ".data.counts", &of_map)) >= 0) {
			has_counts = read_array(map, &of_map, &loaded->counts, sizeof(loaded->counts));
			close(map);
		} else if ((map = open_map(ids[i], "bbr_sockets", &of_map)) >= 0) {
			loaded->sockets = map;
		}
	}
	close(program);
	loaded->is_this_build = has_control && has_counts && loaded->sockets >= 0 &&
				loaded->control.build == BBR_BUILD;
}

static void close_maps(const struct loaded *loaded)
{
	const int maps[] = { loaded->ops, loaded->sockets, loaded->control_map };

	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++) {
		if (maps[i] >= 0)
			close(maps[i]);
	}
}

/* Fills in what the struct_ops map of this id says; returns false if it is none of ours. */
static bool describe(struct loaded *loaded, unsigned int id, const struct ops_layout *layout)
{
	struct bpf_map_info info;
	unsigned int zero = 0;
	struct ops_head head;
	uint64_t program_id;
	char *value;

	*loaded = (struct loaded){ .id = id, .ops = -1, .sockets = -1, .control_map = -1 };
	loaded->ops = open_map(id, OPS_MAP, &info);
	if (loaded->ops < 0)
		return false;
	value = create(1, info.value_size);
	if (info.type == BPF_MAP_TYPE_STRUCT_OPS && layout->size == info.value_size &&
	    bpf_map_lookup_elem(loaded->ops, &zero, value) == 0) {
		memcpy(&head, value, sizeof(head));
		memcpy(&program_id, value + layout->init, sizeof(program_id));
		memcpy(loaded->name, value + layout->name, sizeof(loaded->name) - 1);
		loaded->registered = head.state == OPS_IN_USE;
		open_maps(loaded, (unsigned int)program_id);
	}
	free(value);
	return version_of(loaded->name) != 0;
}

void loaded_visit(loaded_visitor *visit, void *state)
{
	struct ops_layout layout;
	struct loaded loaded;
	unsigned int id = 0;
	bool more = true;

	if (!find_ops_layout(&layout))
		return;
	while (more && bpf_map_get_next_id(id, &id) == 0) {
		if (describe(&loaded, id, &layout))
			more = visit(&loaded, state);
		close_maps(&loaded);
	}
	if (more && errno != ENOENT)
		fail_errno("the kernel does not list its BPF maps; run this as root");
}

struct search {
	const char *name;
	unsigned int id;		/* 0: not found yet */
};

static bool is_the_one(const struct loaded *loaded, void *state)
{
	struct search *search = state;

	if (loaded->registered && !strcmp(loaded->name, search->name))
		search->id = loaded->id;
	return !search->id;
}

bool loaded_find(const char *name, struct loaded *loaded)
{
	struct search search = { .name = name };
	struct ops_layout layout;

	loaded_visit(is_the_one, &search);
	return search.id && find_ops_layout(&layout) && describe(loaded, search.id, &layout);
}
