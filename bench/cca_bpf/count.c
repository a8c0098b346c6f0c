// SPDX-License-Identifier: Apache-2.0
/*
 * Registers bench_bbr from the object that the argument names, and has the kernel count the time of BPF programs. For
 * each line on standard input it writes a line of JSON: by the name of each struct_ops program its calls and their
 * nanoseconds. At the end of the input all is as before.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_counts(void)
{
	const char *between = "{";
	unsigned int id = 0;

	while (bpf_prog_get_next_id(id, &id) == 0) {
		struct bpf_prog_info info = { 0 };
		unsigned int size = sizeof(info);
		int program = bpf_prog_get_fd_by_id(id);

		if (program >= 0 && bpf_prog_get_info_by_fd(program, &info, &size) == 0 &&
		    info.type == BPF_PROG_TYPE_STRUCT_OPS) {
			printf("%s\"%u %s\": [%llu, %llu]", between, id, info.name, info.run_cnt, info.run_time_ns);
			between = ", ";
		}
		close(program);
	}
	puts(*between == '{' ? "{}" : "}");
	fflush(stdout);
}

int main(int count, char **arguments)
{
	struct bpf_object *object = count == 2 ? bpf_object__open_file(arguments[1], NULL) : NULL;
	struct bpf_link *link;
	char line[16];

	if (!object || bpf_object__load(object) < 0 || bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
		return 1;
	link = bpf_map__attach_struct_ops(bpf_object__find_map_by_name(object, "bench_ops"));
	if (!link)
		return 1;
	while (fgets(line, sizeof(line), stdin))
		write_counts();
	return bpf_link__destroy(link) < 0;
}
