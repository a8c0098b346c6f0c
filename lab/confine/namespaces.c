// SPDX-License-Identifier: Apache-2.0
/*
 * For kernels without Landlock: the guest's process sees a root folder that holds the given paths only, in a namespace
 * of mounts; and no process of the host, in a namespace of processes. Who is not root needs a user namespace for that.
 * The mounts are made by file descriptors (open_tree() and others, Linux 5.12).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine.h"
#include "fail.h"
#include "memory.h"

/* A path, and a mount of it that is not in the tree yet. */
struct tree {
	const char *path;
	bool folder;
	int fd;
};

/* Makes a mount of what is at the path. It begins at a place from which no symbolic link leads out. */
static bool clone_tree(struct tree *tree, const char *path, unsigned attributes)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | attributes };
	struct stat status;

	tree->path = path;
	tree->fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree->fd < 0 || fstat(tree->fd, &status))
		return false;
	tree->folder = S_ISDIR(status.st_mode);
	return !mount_setattr(tree->fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr));
}

/* Makes what a mount at the path needs below the root, which is the working directory: a file, or folders. */
static bool make_place(const struct tree *tree)
{
	char *path = strdup(tree->path), *end = path;
	bool made = true;

	while (made && (end = strchr(end + 1, '/'))) {
		*end = '\0';
		made = !mkdir(path + 1, 0755) || errno == EEXIST || errno == EROFS;
		*end = '/';
	}
	if (made && tree->folder)
		made = !mkdir(path + 1, 0755) || errno == EEXIST || errno == EROFS;
	else if (made)
		made = mknod(path + 1, S_IFREG | 0644, 0) == 0 || errno == EEXIST || errno == EROFS;
	free(path);
	return made;
}

static bool attach(const struct tree *tree)
{
	const char *place = tree->path[1] ? tree->path + 1 : ".";

	if (tree->path[1] && !make_place(tree))
		return false;
	return !move_mount(tree->fd, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH);
}

/* The shorter path first: a mount hides what was mounted below it before. */
static int by_length(const void *a, const void *b)
{
	size_t first = strlen(((const struct tree *)a)->path), second = strlen(((const struct tree *)b)->path);

	return first < second ? -1 : first > second;
}

static bool clone_all(const struct options *options, struct tree *trees)
{
	const struct paths *read = &options->read, *write = &options->write;

	for (size_t i = 0; i < read->count; i++) {
		if (!clone_tree(trees++, read->list[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV))
			return false;
	}
	for (size_t i = 0; i < write->count; i++) {
		if (!clone_tree(trees++, write->list[i], MOUNT_ATTR_NODEV))
			return false;
	}
	for (size_t i = 0; i < needed_count; i++) {
		if (strncmp(needed[i].path, "/proc/", 6) && !clone_tree(trees++, needed[i].path, 0))
			return false;
	}
	return true;
}

/* Makes the root of these paths in the working directory's place, and stays there. */
static bool make_root(const struct options *options, const char *staging)
{
	size_t count = options->read.count + options->write.count + needed_count, used = 0;
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	struct tree *trees = create(count, sizeof(*trees));

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || !clone_all(options, trees))
		return false;
	while (used < count && trees[used].path)
		used++;
	qsort(trees, used, sizeof(*trees), by_length);
	if (mount("guest", staging, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") || chdir(staging))
		return false;
	for (size_t i = 0; i < used; i++) {
		if (!attach(&trees[i]))
			return false;
		close(trees[i].fd);
		if (!trees[i].path[1] && chdir(staging)) /* "/": into the root that is now mounted over this one */
			return false;
	}
	free(trees);
	return (!mkdir("proc", 0555) || errno == EEXIST || errno == EROFS) &&
	       !mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL) &&
	       !mount_setattr(AT_FDCWD, ".", 0, &read_only, sizeof(read_only));
}

static bool enter_root(const char *folder)
{
	return !syscall(SYS_pivot_root, ".", ".") && !umount2(".", MNT_DETACH) && !chdir(folder);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return written;
}

/* In a user namespace, the user stays who he is; other users are nobody. */
static bool map_user(uid_t uid, gid_t gid)
{
	char users[64], groups[64];

	snprintf(users, sizeof(users), "%u %u 1\n", uid, uid);
	snprintf(groups, sizeof(groups), "%u %u 1\n", gid, gid);
	return write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", users) &&
	       write_text("/proc/self/gid_map", groups);
}

/* The parent holds the pipe's other end for as long as it lives. */
static void end_with(int pipe)
{
	struct pollfd parent = { .fd = pipe };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		fail_errno("PR_SET_PDEATHSIG");
	if (poll(&parent, 1, 0) < 0 || parent.revents & (POLLHUP | POLLERR))
		exit(STATUS_FAILED);
}

/* Ends as the process of this wait status. */
static _Noreturn void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		kill(getpid(), WTERMSIG(status));
	}
	exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

static int wait_for(pid_t pid)
{
	int status;
	pid_t ended;

	do
		ended = wait(&status); /* others of the namespace, too */
	while (ended != pid && (ended > 0 || errno == EINTR));
	return status;
}

/*
 * Is the first process of the namespace of processes, whose end ends all others. The kernel is another one, because the
 * first does not die of its own signals. Returns in that one.
 */
static void become_second(int tell)
{
	int link[2], status;
	pid_t pid;

	if (pipe2(link, O_CLOEXEC))
		fail_errno("pipe");
	pid = fork();
	if (pid < 0)
		fail_errno("fork");
	if (!pid) {
		close(link[1]);
		end_with(link[0]);
		return;
	}
	close(link[0]);
	status = wait_for(pid);
	if (write(tell, &status, sizeof(status)) != sizeof(status))
		exit(STATUS_FAILED);
	exit(STATUS_GOOD);
}

/* Returns a child in new namespaces as fork() does. */
static pid_t fork_into(uint64_t namespaces)
{
	struct clone_args args = { .flags = namespaces, .exit_signal = SIGCHLD };

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* The child's part: makes its root, and says by an errno whether it could. Returns in the process of the kernel. */
static void be_child(const struct options *options, const char *folder, const uid_t *user, gid_t group, int link, int tell)
{
	int error = 0;

	end_with(link);
	if ((user && !map_user(*user, group)) || !make_root(options, folder) || !enter_root(folder))
		error = errno;
	if (write(tell, &error, sizeof(error)) != sizeof(error) || error)
		exit(STATUS_FAILED);
	become_second(tell);
}

/* The parent's part: returns the child's errno, or ends when the child ends. */
static int be_parent(pid_t pid, int tell)
{
	int error, of_kernel, of_first;
	bool told;

	signal(SIGTERM, SIG_IGN); /* by which User-Mode Linux ends its group when it panics */
	if (read(tell, &error, sizeof(error)) != sizeof(error))
		error = EIO;
	if (error) {
		wait_for(pid);
		return error;
	}
	told = read(tell, &of_kernel, sizeof(of_kernel)) == sizeof(of_kernel);
	of_first = wait_for(pid);
	end_as(told ? of_kernel : of_first);
}

bool namespaces_confine(const struct options *options)
{
	const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET;
	const uid_t user = geteuid();
	const gid_t group = getegid();
	char *folder = getcwd(NULL, 0);
	bool own_users = false;
	int link[2], tell[2];
	pid_t pid;

	if (!folder || pipe2(link, O_CLOEXEC) || pipe2(tell, O_CLOEXEC))
		fail_errno("no pipe, or no working directory");
	pid = fork_into(namespaces);
	if (pid < 0 && errno == EPERM) {
		own_users = true;
		pid = fork_into(namespaces | CLONE_NEWUSER);
	}
	if (!pid) {
		close(link[1]);
		close(tell[0]);
		be_child(options, folder, own_users ? &user : NULL, group, link[0], tell[1]);
		return true;
	}
	close(link[0]);
	close(tell[1]);
	if (pid > 0)
		errno = be_parent(pid, tell[0]);
	close(link[1]);
	close(tell[0]);
	free(folder);
	return false;
}
