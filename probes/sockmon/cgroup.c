// SPDX-License-Identifier: Apache-2.0
#include "cgroup.h"

#include "fail.h"

#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <linux/magic.h>

/* The file handle of a folder of cgroup v2 holds the number that the kernel compares. */
uint64_t cgroup_id(const char *folder)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} buffer = { .handle.handle_bytes = MAX_HANDLE_SZ };
	struct statfs system;
	uint64_t id = 0;
	int mount;

	if (statfs(folder, &system) < 0)
		fail_errno("cgroup %s", folder);
	if (system.f_type != CGROUP2_SUPER_MAGIC)
		fail(STATUS_FAILED,
		     "cgroup %s: no folder of cgroup v2, and the kernel can't filter by one of v1",
		     folder);
	if (name_to_handle_at(AT_FDCWD, folder, &buffer.handle, &mount, 0) < 0)
		fail_errno("cgroup %s", folder);
	if (buffer.handle.handle_bytes == sizeof(id))
		memcpy(&id, buffer.handle.f_handle, sizeof(id));
	if (!id)
		fail(STATUS_FAILED, "cgroup %s: the kernel gives no number of 64 bits for it", folder);
	return id;
}
