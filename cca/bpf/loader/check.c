// SPDX-License-Identifier: Apache-2.0
/* The requirements on the host, and how the administrator meets them. */
#include "check.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fail.h"
#include "kernel_types.h"

struct need {
	const char *name;
	bool ok;
	char word[160];			/* what is there, or what to do */
};

enum { NEED_KERNEL, NEED_BTF, NEED_JIT, NEED_RIGHTS, NEEDS };

static void check_kernel(struct need *need)
{
	unsigned int major = 0, minor = 0;
	struct utsname system;

	uname(&system);
	need->name = "kernel";
	need->ok = sscanf(system.release, "%u.%u", &major, &minor) == 2 && (major > 6 || (major == 6 && minor >= 1));
	snprintf(need->word, sizeof(need->word), need->ok ? "Linux %.64s" : "Linux %.64s is too old: 6.1 or newer is needed",
		 system.release);
}

static void check_btf(struct need *need)
{
	struct ops_layout layout;

	need->name = "BTF";
	need->ok = false;
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		strcpy(need->word, "/sys/kernel/btf/vmlinux is missing: the kernel needs CONFIG_DEBUG_INFO_BTF");
	else if (!find_ops_layout(&layout))
		strcpy(need->word, "the kernel has no congestion control by BPF: it needs CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT");
	else
		need->ok = true;
	if (need->ok)
		snprintf(need->word, sizeof(need->word), "struct tcp_congestion_ops of %zu bytes", layout.size);
}

static void check_jit(struct need *need)
{
	FILE *file = fopen("/proc/sys/net/core/bpf_jit_enable", "re");
	int value = -1;

	need->name = "JIT";
	if (file) {
		if (fscanf(file, "%d", &value) != 1)
			value = -1;
		fclose(file);
	}
	need->ok = value != 0;
	strcpy(need->word, value > 0 ? "on" : value < 0 ? "not to be seen" :
	       "the compiler of BPF programs is off: sysctl net.core.bpf_jit_enable=1");
}

/* The kernel shows which BPF maps exist to CAP_SYS_ADMIN alone; it includes CAP_BPF and CAP_PERFMON, which load them. */
static void check_rights(struct need *need)
{
	static const struct {
		unsigned int number;
		const char *name;
	} rights[] = { { CAP_SYS_ADMIN, "CAP_SYS_ADMIN" }, { CAP_NET_ADMIN, "CAP_NET_ADMIN" } };
	FILE *file = fopen("/proc/self/status", "re");
	uint64_t effective = 0;
	char line[256];

	need->name = "rights";
	need->ok = true;
	strcpy(need->word, "CAP_SYS_ADMIN and CAP_NET_ADMIN");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "CapEff: %" SCNx64, &effective) == 1)
			break;
	}
	if (file)
		fclose(file);
	for (size_t i = 0; i < sizeof(rights) / sizeof(*rights) && need->ok; i++) {
		need->ok = effective >> rights[i].number & 1;
		if (!need->ok)
			snprintf(need->word, sizeof(need->word), "the capability %s is missing: run this as root",
				 rights[i].name);
	}
}

static void check_all(struct need *needs)
{
	check_kernel(&needs[NEED_KERNEL]);
	check_btf(&needs[NEED_BTF]);
	check_jit(&needs[NEED_JIT]);
	check_rights(&needs[NEED_RIGHTS]);
}

/* The words have no character that JSON would escape. */
bool check_show(bool json)
{
	struct need needs[NEEDS];
	bool all = true;

	check_all(needs);
	for (int i = 0; i < NEEDS; i++) {
		if (json)
			printf("%s{\"need\": \"%s\", \"ok\": %s, \"word\": \"%s\"}", i ? ",\n " : "[", needs[i].name,
			       needs[i].ok ? "true" : "false", needs[i].word);
		else
			printf("%-8s%-4s%s\n", needs[i].name, needs[i].ok ? "ok" : "no", needs[i].word);
		all = all && needs[i].ok;
	}
	if (json)
		puts("]");
	return all;
}

void check_require(void)
{
	struct need needs[NEEDS];

	check_all(needs);
	for (int i = 0; i < NEEDS; i++) {
		if (!needs[i].ok)
			fail(STATUS_FAILED, "%s: %s", needs[i].name, needs[i].word);
	}
}
