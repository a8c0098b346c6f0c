// SPDX-License-Identifier: Apache-2.0
/* The commands that change what is loaded. */
#include "load.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "fail.h"
#include "kernel_types.h"
#include "loaded.h"
#include "objects.h"
#include "parameters.h"

static void assign(struct bbr_control *control, const struct command *command)
{
	const char *wrong = parameters_assign(control, command->assignments, command->assignment_count);

	if (wrong)
		fail(STATUS_USAGE, "%s", wrong);
	wrong = parameters_finish(control);
	if (wrong)
		fail(STATUS_USAGE, "%s is out of its bounds", wrong);
}

/* Ends the program if the CCA was loaded by another build, whose maps this one can't read. */
static void require_this_build(const struct loaded *loaded)
{
	if (!loaded->is_this_build)
		fail(STATUS_FAILED, "%s was loaded by another build of ccmix-cca: unload it, and load it again",
		     loaded->name);
}

static struct bpf_map *find_map(struct bpf_object *object, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);

	if (!map)
		fail(STATUS_FAILED, "the BPF object has no map %s", name);
	return map;
}

static void *initial_value(struct bpf_map *map, size_t least)
{
	size_t size = 0;
	void *value = bpf_map__initial_value(map, &size);

	if (!value || size < least)
		fail(STATUS_FAILED, "the BPF object's map %s has %zu bytes instead of %zu", bpf_map__name(map), size, least);
	return value;
}

/* Chooses the hooks that the running kernel has. */
static void fit_hooks(struct tcp_congestion_ops *ops, struct bpf_object *object, const struct ops_layout *layout)
{
	if (layout->has_tx_start)
		ops->cwnd_event = NULL;
	else
		ops->cwnd_event_tx_start = NULL;
	if (!layout->has_flag)
		ops->cong_control = (bbr_hook *)bpf_object__find_program_by_name(object, "bbr_ack_without_flag");
}

static void register_ops(struct bpf_map *map, const char *name)
{
	struct bpf_link *link = bpf_map__attach_struct_ops(map);

	if (!link && errno == EEXIST)
		fail(STATUS_FAILED, "the kernel has a congestion control %s already, which is none of ccmix-cca's", name);
	if (!link)
		fail_errno("the kernel does not register %s", name);
	bpf_link__disconnect(link);	/* it stays when this program ends */
	bpf_link__destroy(link);
}

static void load_anew(const struct command *command, const struct bbr_control *control)
{
	struct bpf_object *object = open_bbr();
	struct bpf_map *map = find_map(object, "bbr_ops");
	struct tcp_congestion_ops *ops = initial_value(map, sizeof(*ops));
	struct ops_layout layout;

	if (!find_ops_layout(&layout))
		fail(STATUS_FAILED, "this kernel has no congestion control by BPF, or no BTF: see ccmix-cca check");
	fit_hooks(ops, object, &layout);
	strncpy(ops->name, command->name, sizeof(ops->name) - 1);
	*(struct bbr_control *)initial_value(find_map(object, ".data.control"), sizeof(*control)) = *control;
	if (bpf_object__load(object) < 0)
		fail_errno("the kernel refuses %s; load --verbose shows why", command->name);
	register_ops(map, command->name);
	bpf_object__close(object);
}

void load(const struct command *command)
{
	struct bbr_control control;
	struct loaded loaded;

	parameters_preset(&control, version_of(command->name));
	assign(&control, command);
	check_require();
	if (!loaded_find(command->name, &loaded)) {
		set_verbose(command->verbose);
		load_anew(command, &control);
		return;
	}
	if (!command->keep)
		fail(STATUS_FAILED, "%s is loaded already: unload it first, or change its parameters with set",
		     command->name);
	require_this_build(&loaded);
	if (!parameters_equal(&control, &loaded.control))
		fail(STATUS_FAILED, "%s is loaded with other parameters: see ccmix-cca list", command->name);
}

/* Finds a loaded one, or ends the program. */
static void require_loaded(const char *name, struct loaded *loaded)
{
	check_require();
	if (!loaded_find(name, loaded))
		fail(STATUS_FAILED, "%s is not loaded: use ccmix-cca load %s", name, name);
}

void set(const struct command *command)
{
	struct bbr_control control;
	struct loaded loaded;
	unsigned int zero = 0;

	parameters_preset(&control, version_of(command->name));
	assign(&control, command);	/* wrong words are told before anything else */
	require_loaded(command->name, &loaded);
	require_this_build(&loaded);
	control = loaded.control;
	assign(&control, command);
	if (bpf_map_update_elem(loaded.control_map, &zero, &control, 0) < 0)
		fail_errno("the parameters of %s can't be changed", command->name);
}

/* Tells if new sockets get the CCA all the same, because it is the default here. */
static void warn_of_default(const char *name)
{
	FILE *file = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "re");
	char line[32] = "";

	if (file && fgets(line, sizeof(line), file) && !strncmp(line, name, strlen(name)) && line[strlen(name)] == '\n')
		complain("%s is still the default of this network namespace: new sockets use it until "
			 "net.ipv4.tcp_congestion_control is changed", name);
	if (file)
		fclose(file);
}

void unload(const struct command *command)
{
	struct loaded loaded;
	unsigned int zero = 0;

	check_require();
	if (!loaded_find(command->name, &loaded)) {
		if (!command->missing_ok)
			fail(STATUS_FAILED, "%s is not loaded", command->name);
		return;
	}
	if (bpf_map_delete_elem(loaded.ops, &zero) < 0)
		fail_errno("the kernel does not unload %s", command->name);
	warn_of_default(command->name);
}
