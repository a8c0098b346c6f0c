// SPDX-License-Identifier: Apache-2.0
/* ccmix-confine becomes the kernel of a guest: one that can reach little, and ends with its parent. */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "fail.h"

const struct needed needed[] = {
	{ "/proc/cpuinfo", false },	/* the features of the processor */
	{ "/dev/null", true },		/* the console's input, and con=null */
};
const size_t needed_count = sizeof(needed) / sizeof(needed[0]);

/* The kernel does not report a parent that died before PR_SET_PDEATHSIG: that one is no longer the parent. */
static void end_with_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		fail_errno("PR_SET_PDEATHSIG");
	if (getppid() != parent)
		fail(STATUS_FAILED, "the process %d is not the parent, or has died", (int)parent);
}

static void leave_no_core(void)
{
	const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none))
		fail_errno("RLIMIT_CORE");
}

static void stay_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (processor < CPU_SETSIZE)
		CPU_SET((size_t)processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail_errno("processor %d", processor);
}

#define KEPT (1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER) /* for a job folder of another user */

/*
 * What root would get back with exec. Where it did, the kernel would also take back what User-Mode Linux sets in its
 * personality, and that would set it again, and so on. Returns false for those who may not drop it.
 */
static bool drop_bounds(void)
{
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
		bool kept = capability < 32 && KEPT & 1U << capability;

		if (!kept && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
			return false;
	}
	return true;
}

/* Keeps of root's rights those on files alone. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct sets[2];

	if (!drop_bounds() && geteuid() == 0)
		return;
	if (syscall(SYS_capget, &header, sets))
		fail_errno("capget");
	sets[0].permitted &= KEPT;
	sets[0].effective = sets[0].permitted;
	sets[0].inheritable = 0;
	sets[1] = (struct __user_cap_data_struct){ 0 };
	if (syscall(SYS_capset, &header, sets))
		fail_errno("capset");
}

static bool is_tried(const struct options *options, enum way way)
{
	return options->way == way || options->way == WAY_BEST;
}

/* Confines this process, or goes on in a confined child, and writes into `text` in which way. */
static void confine(const struct options *options, char *text, size_t room)
{
	const char *landlock = "not tried", *namespaces = "not tried";
	int abi;

	if (is_tried(options, WAY_LANDLOCK)) {
		abi = landlock_confine(options);
		snprintf(text, room, "landlock %d\n", abi);
		if (abi > 0)
			return;
		landlock = strerror(errno);
	}
	if (is_tried(options, WAY_NAMESPACES)) {
		snprintf(text, room, "namespaces\n");
		if (namespaces_confine(options))
			return;
		namespaces = strerror(errno);
	}
	if (options->way == WAY_LANDLOCK || options->way == WAY_NAMESPACES)
		fail(STATUS_FAILED, "the guest can't be confined so: Landlock: %s; namespaces: %s", landlock, namespaces);
	snprintf(text, room, "none: Landlock: %s; namespaces: %s\n", landlock, namespaces);
}

static void report(int fd, const char *text)
{
	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_errno("--report=%d", fd);
	close(fd); /* the guest must not write there */
}

int main(int count, char **arguments)
{
	const struct options options = options_read(count, arguments);
	char text[128];

	end_with_parent(options.parent);
	leave_no_core();
	stay_on(options.processor);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail_errno("no_new_privs");
	confine(&options, text, sizeof(text));
	report(options.report, text);
	drop_capabilities();
	forbid_system_calls();
	execv(options.kernel[0], options.kernel);
	fail_errno("%s", options.kernel[0]);
}
