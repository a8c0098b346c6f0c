#include "fail.h"
#include "sockmon.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <linux/magic.h>

/* What a file handle of cgroup v2 holds is the number that the kernel compares. */
uint64_t cgroup_id(const char *folder)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} found = { .handle.handle_bytes = MAX_HANDLE_SZ };
	struct statfs system;
	uint64_t id = 0;
	int mount;

	if (statfs(folder, &system) < 0)
		fail_errno("cgroup %s", folder);
	if (system.f_type != CGROUP2_SUPER_MAGIC)
		fail(EXIT_RUN,
		     "cgroup %s: no folder of cgroup v2 (of v1 the kernel's filter knows nothing)",
		     folder);
	if (name_to_handle_at(AT_FDCWD, folder, &found.handle, &mount, 0) < 0)
		fail_errno("cgroup %s", folder);
	if (found.handle.handle_bytes == sizeof(id))
		memcpy(&id, found.handle.f_handle, sizeof(id));
	if (!id)
		fail(EXIT_RUN, "cgroup %s: the kernel gives no number of 64 bits for it", folder);
	return id;
}
