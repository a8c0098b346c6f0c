// SPDX-License-Identifier: Apache-2.0
/*
 * Writes where the kernel has the machine code of the struct_ops programs whose names begin with the argument: for each
 * function its first address and its length ("function ADDRESS LENGTH"), and for each line of its source the address at
 * which its code begins ("line ADDRESS FILE").
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_program(int program, struct bpf_prog_info info)
{
	unsigned int functions = info.nr_jited_ksyms, lines = info.nr_line_info, size = sizeof(info), i;
	unsigned long long *starts = calloc(functions, sizeof(*starts)), *addresses = calloc(lines, sizeof(*addresses));
	unsigned int *lengths = calloc(functions, sizeof(*lengths));
	struct bpf_line_info *sources = calloc(lines, sizeof(*sources));
	struct btf *btf = btf__load_from_kernel_by_id(info.btf_id);

	memset(&info, 0, sizeof(info));
	info.nr_jited_ksyms = info.nr_jited_func_lens = functions;
	info.jited_ksyms = (unsigned long)starts;
	info.jited_func_lens = (unsigned long)lengths;
	info.nr_line_info = info.nr_jited_line_info = lines;
	info.line_info = (unsigned long)sources;
	info.line_info_rec_size = sizeof(*sources);
	info.jited_line_info = (unsigned long)addresses;
	info.jited_line_info_rec_size = sizeof(*addresses);
	if (!starts || !addresses || !lengths || !sources || !btf || bpf_prog_get_info_by_fd(program, &info, &size) < 0)
		exit(1);
	for (i = 0; i < functions; i++)
		printf("function %llu %u\n", starts[i], lengths[i]);
	for (i = 0; i < lines; i++)
		printf("line %llu %s\n", addresses[i], btf__name_by_offset(btf, sources[i].file_name_off));
	btf__free(btf);
	free(starts);
	free(addresses);
	free(lengths);
	free(sources);
}

int main(int count, char **arguments)
{
	unsigned int id = 0;

	while (count == 2 && bpf_prog_get_next_id(id, &id) == 0) {
		struct bpf_prog_info info = { 0 };
		unsigned int size = sizeof(info);
		int program = bpf_prog_get_fd_by_id(id);

		if (program >= 0 && bpf_prog_get_info_by_fd(program, &info, &size) == 0 &&
		    info.type == BPF_PROG_TYPE_STRUCT_OPS && !strncmp(info.name, arguments[1], strlen(arguments[1])))
			write_program(program, info);
		close(program);
	}
	return count != 2;
}
