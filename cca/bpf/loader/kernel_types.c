// SPDX-License-Identifier: Apache-2.0
#include "kernel_types.h"

#include <bpf/btf.h>
#include <string.h>

/* Arguments of cong_control with ack and flag: sk, ack, flag, rs; without them: sk, rs. */
#define ARGUMENTS_WITH_FLAG 4

static const struct btf_member *find_member(const struct btf *btf, const struct btf_type *type, const char *name)
{
	const struct btf_member *members = btf_members(type);

	for (unsigned int i = 0; i < btf_vlen(type); i++) {
		if (!strcmp(btf__name_by_offset(btf, members[i].name_off), name))
			return &members[i];
	}
	return NULL;
}

static const struct btf_type *find_struct(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

	return id < 0 ? NULL : btf__type_by_id(btf, (unsigned int)id);
}

/* Returns the number of arguments of a member that is a pointer to a function. */
static unsigned int argument_count(const struct btf *btf, const struct btf_member *member)
{
	const struct btf_type *type = btf__type_by_id(btf, member->type);

	while (type && (btf_is_ptr(type) || btf_is_mod(type) || btf_is_typedef(type)))
		type = btf__type_by_id(btf, type->type);
	return type && btf_is_func_proto(type) ? btf_vlen(type) : 0;
}

static bool read_layout(const struct btf *btf, struct ops_layout *layout)
{
	const struct btf_type *value = find_struct(btf, "bpf_struct_ops_tcp_congestion_ops");
	const struct btf_type *ops = find_struct(btf, "tcp_congestion_ops");
	const struct btf_member *data, *name, *init, *cong_control;

	if (!value || !ops)
		return false;
	data = find_member(btf, value, "data");
	name = find_member(btf, ops, "name");
	init = find_member(btf, ops, "init");
	cong_control = find_member(btf, ops, "cong_control");
	if (!data || !name || !init || !cong_control)
		return false;
	layout->size = value->size;
	layout->name = (data->offset + name->offset) / 8;
	layout->init = (data->offset + init->offset) / 8;
	layout->has_tx_start = find_member(btf, ops, "cwnd_event_tx_start") != NULL;
	layout->has_flag = argument_count(btf, cong_control) == ARGUMENTS_WITH_FLAG;
	return true;
}

bool find_ops_layout(struct ops_layout *layout)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool found = btf && read_layout(btf, layout);

	btf__free(btf);
	return found;
}
