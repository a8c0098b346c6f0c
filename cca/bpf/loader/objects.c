// SPDX-License-Identifier: Apache-2.0
#include "objects.h"

#include <bpf/libbpf.h>
#include <stdio.h>

#include "fail.h"

#define EMBED(symbol, file)                                                                                            \
	__asm__(".section .rodata\n.balign 8\n" #symbol ":\n.incbin \"" file "\"\n" #symbol "_end:\n.byte 0\n.previous\n"); \
	extern const char symbol[], symbol##_end[]

EMBED(bbr_object, BBR_OBJECT);
EMBED(status_object, STATUS_OBJECT);
EMBED(sockets_object, SOCKETS_OBJECT);

static int write_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	return vfprintf(stderr, format, arguments);
}

void set_verbose(int verbose)
{
	libbpf_set_print(verbose ? write_message : NULL);
}

static struct bpf_object *open_object(const char *name, const char *begin, const char *end)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name);
	struct bpf_object *object = bpf_object__open_mem(begin, (size_t)(end - begin), &options);

	if (!object)
		fail_errno("the BPF programs can't be opened; is BTF missing? See ccmix-cca check");
	return object;
}

struct bpf_object *open_bbr(void)
{
	return open_object("bbr", bbr_object, bbr_object_end);
}

struct bpf_object *open_status(void)
{
	return open_object("bbr_status", status_object, status_object_end);
}

struct bpf_object *open_sockets(void)
{
	return open_object("sockets", sockets_object, sockets_object_end);
}
