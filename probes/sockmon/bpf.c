// SPDX-License-Identifier: Apache-2.0
#include "bpf.h"

#include <linux/bpf.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static int call(enum bpf_cmd command, union bpf_attr *attributes)
{
	return (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

int bpf_iterate(int link)
{
	union bpf_attr attributes = { .iter_create.link_fd = (__u32)link };

	return call(BPF_ITER_CREATE, &attributes);
}

void bpf_put(int map, const void *key, const void *value)
{
	union bpf_attr attributes = { .map_fd = (__u32)map, .key = (uintptr_t)key, .value = (uintptr_t)value };

	call(BPF_MAP_UPDATE_ELEM, &attributes);
}

void bpf_remove(int map, const void *key)
{
	union bpf_attr attributes = { .map_fd = (__u32)map, .key = (uintptr_t)key };

	call(BPF_MAP_DELETE_ELEM, &attributes);
}
