// SPDX-License-Identifier: Apache-2.0
#include "sockets.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "objects.h"
#include "socket_values.h"

#define PREFIX "tcpi_"
#define LAST_WORD (8 * (unsigned int)offsetof(struct values_info, accecn))	/* in bits */

/* The members of the last word of struct tcp_info: in Linux 6.18, and in 7.2 */
static const struct {
	const char *name;
	unsigned int bit;
} last_members[] = {
	{ "accecn_fail_mode", 0 },
	{ "accecn_opt_seen", 16 },
	{ "ecn_mode", 0 },
	{ "accecn_opt_seen", 2 },
	{ "accecn_fail_mode", 4 },
	{ "options2", 8 },
};

static const struct btf_type *find_struct(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

	return id < 0 ? NULL : btf__type_by_id(btf, (unsigned int)id);
}

static bool has_last_member(const char *name, unsigned int bit)
{
	for (size_t i = 0; i < sizeof(last_members) / sizeof(*last_members); i++) {
		if (last_members[i].bit == bit && !strcmp(last_members[i].name, name))
			return true;
	}
	return false;
}

static bool has_member(const struct btf *btf, const struct btf_type *type, const char *name, unsigned int bit)
{
	const struct btf_member *members = btf_members(type);

	for (unsigned int i = 0; i < btf_vlen(type); i++) {
		if (btf_member_bit_offset(type, i) == bit && !strcmp(btf__name_by_offset(btf, members[i].name_off), name))
			return true;
	}
	return false;
}

/* Returns whether the programs fill in each member that the kernel's struct tcp_info has. */
static bool knows_info(const struct btf *kernel, const struct btf *programs)
{
	const struct btf_type *info = find_struct(kernel, "tcp_info"), *known = find_struct(programs, "values_info");

	if (!info || !known || info->size != known->size)
		return false;
	for (unsigned int i = 0; i < btf_vlen(info); i++) {
		const char *name = btf__name_by_offset(kernel, btf_members(info)[i].name_off);
		unsigned int bit = btf_member_bit_offset(info, i);

		if (strncmp(name, PREFIX, strlen(PREFIX)))
			return false;
		name += strlen(PREFIX);
		if (bit < LAST_WORD ? !has_member(programs, known, name, bit) : !has_last_member(name, bit - LAST_WORD))
			return false;
	}
	return true;
}

/* Returns whether it is a Linux with which the programs were tested: others may say something else in the same members. */
static bool is_known_version(void)
{
	static const struct {
		unsigned int major, minor;
	} known[] = { { 6, 18 }, { 7, 2 } };
	unsigned int major, minor;
	struct utsname system;

	uname(&system);
	if (sscanf(system.release, "%u.%u", &major, &minor) != 2)
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (known[i].major == major && known[i].minor == minor)
			return true;
	}
	return false;
}

static bool can_load(struct bpf_object *object)
{
	struct btf *kernel = is_known_version() ? btf__load_vmlinux_btf() : NULL;
	bool knows = kernel && knows_info(kernel, bpf_object__btf(object));

	btf__free(kernel);
	return knows;
}

/* Tells the programs how long a jiffy is; returns false if that is not a whole number of milliseconds. */
static bool set_ticks(struct bpf_object *object)
{
	struct bpf_map *constants = bpf_object__find_map_by_name(object, ".rodata");
	unsigned int *ticks_per_s = constants ? bpf_map__initial_value(constants, &(size_t){ 0 }) : NULL;
	struct timespec tick;

	if (!ticks_per_s || clock_getres(CLOCK_MONOTONIC_COARSE, &tick) < 0 || tick.tv_sec || tick.tv_nsec % 1000000)
		return false;
	*ticks_per_s = (unsigned int)(1000000000 / tick.tv_nsec);
	return *ticks_per_s * tick.tv_nsec == 1000000000;
}

/* Attaches an iterator, and returns a descriptor that is inherited, or -1. */
static int attach(struct bpf_object *object, const char *name, const struct bpf_iter_attach_opts *options)
{
	struct bpf_link *link = bpf_program__attach_iter(bpf_object__find_program_by_name(object, name), options);

	return link ? dup(bpf_link__fd(link)) : -1;
}

void hand_over_sockets(void)
{
	struct bpf_object *object = open_sockets();
	union bpf_iter_link_info map = { 0 };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &map, .link_info_len = sizeof(map));
	int mark, write, wanted;
	char numbers[40];

	if (!can_load(object) || !set_ticks(object) || bpf_object__load(object) < 0)
		return;
	map.map.map_fd = (unsigned int)bpf_object__find_map_fd_by_name(object, "marked");
	mark = attach(object, "mark_sockets", NULL);
	write = attach(object, "write_sockets", &options);
	wanted = dup(bpf_object__find_map_fd_by_name(object, "wanted"));
	if (mark < 0 || write < 0 || wanted < 0)
		return;
	snprintf(numbers, sizeof(numbers), "%d %d %d", mark, write, wanted);
	setenv("CCMIX_SOCKETS", numbers, 1);
}
