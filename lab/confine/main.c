// SPDX-License-Identifier: Apache-2.0
/* ccmix-confine becomes the kernel of a guest: one that can reach little, and ends with its parent. */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/* Waits for the end of either process, and then kills all that are in the group of the guest. */
static _Noreturn void watch(struct pollfd *ends, pid_t guest)
{
	setsid(); /* no signal to a group or from a terminal is meant for this one */
	if (dup2(ends[0].fd, 0) || dup2(ends[1].fd, 1) != 1 || chdir("/"))
		_exit(STATUS_FAILED);
	syscall(SYS_close_range, 2, ~0U, 0);
	ends[0].fd = 0;
	ends[1].fd = 1;
	while (poll(ends, 2, -1) < 1)
		;
	kill(-guest, SIGKILL);
	_exit(STATUS_GOOD);
}

/*
 * Lets a process outside end all of the guest with the parent, or with its first process. A child does not inherit
 * PR_SET_PDEATHSIG, and a process that was taken over may have made some. Nobody's child, so User-Mode Linux does not
 * wait for it. Kernels without pidfd_open() have no way that would keep such a process in anyhow.
 */
static void be_watched(pid_t parent)
{
	const pid_t guest = getpid();
	struct pollfd ends[2] = {
		{ .fd = (int)syscall(SYS_pidfd_open, parent, 0), .events = POLLIN },
		{ .fd = (int)syscall(SYS_pidfd_open, guest, 0), .events = POLLIN },
	};
	pid_t between;

	if (ends[0].fd < 0 || ends[1].fd < 0)
		return;
	between = fork();
	if (!between) {
		if (!fork())
			watch(ends, guest);
		_exit(STATUS_GOOD);
	}
	if (between < 0 || waitpid(between, NULL, 0) != between)
		fail_errno("fork");
	close(ends[0].fd);
	close(ends[1].fd);
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

#define BIT(capability) (UINT64_C(1) << (capability))
#define KEPT (BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER)) /* for a job folder of another user */

/* Drops what exec may give to root besides these. A process without CAP_SETPCAP can't. Returns the rest. */
static uint64_t drop_bounds(void)
{
	uint64_t left = 0;
	int bound;

	for (unsigned capability = 0; (bound = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0; capability++) {
		if (bound && (KEPT & BIT(capability) || prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)))
			left |= BIT(capability);
	}
	return left;
}

/*
 * Keeps of root's rights only those on files, and those that exec would give back: then it would also take back what
 * User-Mode Linux sets in its personality, and that would set it again, and so on. Returns the latter.
 */
static uint64_t drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct sets[2];
	const uint64_t left = drop_bounds();
	const uint64_t kept = geteuid() == 0 ? KEPT | left : KEPT;

	if (syscall(SYS_capget, &header, sets))
		fail_errno("capget");
	for (int half = 0; half < 2; half++) {
		sets[half].permitted &= (uint32_t)(kept >> 32 * half);
		sets[half].effective = sets[half].permitted;
		sets[half].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, sets))
		fail_errno("capset");
	return (sets[0].permitted | (uint64_t)sets[1].permitted << 32) & ~KEPT;
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
		snprintf(text, room, "landlock %d", abi);
		if (abi > 0)
			return;
		landlock = strerror(errno);
	}
	if (is_tried(options, WAY_NAMESPACES)) {
		snprintf(text, room, "namespaces");
		if (namespaces_confine(options))
			return;
		namespaces = strerror(errno);
	}
	if (options->way == WAY_LANDLOCK || options->way == WAY_NAMESPACES)
		fail(STATUS_FAILED, "the guest can't be confined so: Landlock: %s; namespaces: %s", landlock, namespaces);
	snprintf(text, room, "none: Landlock: %s; namespaces: %s", landlock, namespaces);
}

static void report(int fd, const char *way, uint64_t capabilities)
{
	int written;

	if (fd < 0)
		return;
	if (capabilities)
		written = dprintf(fd, "%s; root keeps the capabilities %016" PRIx64 ", since it lacks CAP_SETPCAP\n", way,
				  capabilities);
	else
		written = dprintf(fd, "%s\n", way);
	if (written < 0)
		fail_errno("--report=%d", fd);
	close(fd); /* the guest must not write there */
}

int main(int count, char **arguments)
{
	const struct options options = options_read(count, arguments);
	char way[128];

	setsid(); /* it leads a group already if the harness has seen to it; none of the guest can leave it later */
	end_with_parent(options.parent);
	leave_no_core();
	be_watched(options.parent);
	stay_on(options.processor);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail_errno("no_new_privs");
	confine(&options, way, sizeof(way));
	report(options.report, way, drop_capabilities());
	forbid_system_calls();
	execv(options.kernel[0], options.kernel);
	fail_errno("%s", options.kernel[0]);
}
