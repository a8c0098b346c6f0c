// SPDX-License-Identifier: Apache-2.0
#include "netns.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

/*
 * A socket, and an open file of /proc/net, stay with the network namespace in which they were
 * opened.
 */
int open_in_netns(const char *netns, int (*open_it)(void *argument), void *argument)
{
	char path[NAME_BYTES + 32];
	int own, other, opened, reason;

	if (!netns[0])
		return open_it(argument);
	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	other = open(path, O_RDONLY | O_CLOEXEC);
	if (own < 0 || other < 0)
		fail_errno("network namespace %s", netns);
	if (setns(other, CLONE_NEWNET) < 0)
		fail_errno("network namespace %s can't be entered (this needs CAP_SYS_ADMIN)",
			   netns);
	opened = open_it(argument);
	reason = errno;
	if (setns(own, CLONE_NEWNET) < 0)
		fail_errno("no way back from network namespace %s", netns);
	close(own);
	close(other);
	errno = reason;
	return opened;
}
