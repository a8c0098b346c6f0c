// SPDX-License-Identifier: Apache-2.0
/*
 * A filter of system calls (the kernel's Documentation/userspace-api/seccomp_filter.rst). A command that is not to be
 * trusted can take over the guest's kernel, because the processes of a guest share its memory (seccomp= in the kernel's
 * arch/um/os-Linux/start_up.c): then it makes any system call of the host. Landlock and a namespace of mounts keep it
 * from files; this keeps it from the rest.
 *
 * It never kills, because User-Mode Linux has filters of its own for the guest's processes, whose traps must go first.
 */
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine.h"
#include "fail.h"

#ifndef __x86_64__
#error "the lab runs on x86-64 alone, and so do these rules"
#endif

/* Newer than the headers of some machine that builds this */
#define NR_SETXATTRAT 463
#define NR_REMOVEXATTRAT 466
#define NR_FCHMODAT2 452
#define NR_OPEN_TREE_ATTR 467
#define NR_FILE_SETATTR 469
#define X32_BIT 0x40000000U

#define NEW_NAMESPACES (CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define SET_ID 06000U

#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
/* The lower half of an argument: all that count here are int, mode_t or flags. */
#define LOAD_ARGUMENT(number) LOAD(args[number])
#define KEEP(bits) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
#define REFUSE(number) RETURN(SECCOMP_RET_ERRNO | (number))
#define IGNORE REFUSE(0) /* without an effect, and without an error */
#define IF_NOT(value, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped)
#define IF_NONE_OF(bits, skipped) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skipped)

#define REFUSED(call) IF_NOT(call, 1), REFUSE(EPERM)
#define MISSING(call) IF_NOT(call, 1), REFUSE(ENOSYS)
#define IGNORED(call) IF_NOT(call, 1), IGNORE
#define REFUSED_WITH(call, argument, bits) \
	IF_NOT(call, 4), LOAD_ARGUMENT(argument), IF_NONE_OF(bits, 1), REFUSE(EPERM), ALLOW
#define ALLOWED_IF(value) IF_NOT(value, 1), ALLOW
/*
 * Landlock asks for no right where a file is opened with both bits of O_ACCMODE, which is for ioctl() alone. Before its
 * ABI 3 it lets O_TRUNC empty each file that may be opened: with these bits any file, with O_RDONLY what may be read. NFS
 * empties it before Landlock is asked (nfs_atomic_open() in the kernel's fs/nfs/dir.c). User-Mode Linux uses neither.
 */
#define REFUSED_TO_OPEN(call, flags, mode) \
	IF_NOT(call, 10), LOAD_ARGUMENT(flags), IF_NONE_OF(O_TRUNC, 1), REFUSE(EPERM), \
	KEEP(O_ACCMODE), IF_NOT(O_ACCMODE, 1), REFUSE(EPERM), \
	LOAD_ARGUMENT(mode), IF_NONE_OF(SET_ID, 1), REFUSE(EPERM), ALLOW

static const struct sock_filter rules[] = {
	LOAD(arch), IF_NOT(AUDIT_ARCH_X86_64, 1), BPF_STMT(BPF_JMP | BPF_JA, 1), REFUSE(ENOSYS),
	LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1), REFUSE(ENOSYS),

	/* No socket of any family, so no TCP, UDP or netlink, nor the servers of this machine behind a path: User-Mode Linux
	 * needs pairs of streams only, to its own processes. Rings of io_uring make sockets without socket(). */
	REFUSED(SYS_socket), REFUSED(SYS_connect), REFUSED(SYS_io_uring_setup),
	IF_NOT(SYS_socketpair, 5), LOAD_ARGUMENT(1), KEEP(0xf), ALLOWED_IF(SOCK_STREAM), REFUSE(EPERM),

	/* What processes share without a file */
	REFUSED(SYS_shmget), REFUSED(SYS_shmat), REFUSED(SYS_semget), REFUSED(SYS_msgget), REFUSED(SYS_mq_open),
	REFUSED(SYS_add_key), REFUSED(SYS_request_key), REFUSED(SYS_keyctl),

	/* Attributes of files, which Landlock does not protect, not even if it forbids writing. An error would fail
	 * cp -p and tar in the job folder, so these do nothing, as on a file system without such attributes. */
	IGNORED(SYS_chmod), IGNORED(SYS_fchmod), IGNORED(SYS_fchmodat), IGNORED(NR_FCHMODAT2), IGNORED(SYS_chown),
	IGNORED(SYS_lchown), IGNORED(SYS_fchown), IGNORED(SYS_fchownat), IGNORED(SYS_utime), IGNORED(SYS_utimes),
	IGNORED(SYS_futimesat), IGNORED(SYS_utimensat),
	REFUSED(SYS_setxattr), REFUSED(SYS_lsetxattr), REFUSED(SYS_fsetxattr), REFUSED(NR_SETXATTRAT),
	REFUSED(SYS_removexattr), REFUSED(SYS_lremovexattr), REFUSED(SYS_fremovexattr), REFUSED(NR_REMOVEXATTRAT),
	REFUSED(SYS_truncate), /* Landlock protects it since ABI 3 only; ftruncate() needs a file that may be written */
	REFUSED(SYS_open_by_handle_at), REFUSED(NR_FILE_SETATTR),
	REFUSED(SYS_flock), /* which needs no right either, and by which ccmix's processes wait for each other */

	/* What each file system and each device has of its own, such as the flags of files, which need no right to write.
	 * User-Mode Linux asks only terminals, for `ccmix lab shell`: for their size and by tcgetattr() and tcsetattr(). */
	IF_NOT(SYS_ioctl, 16), LOAD_ARGUMENT(1), ALLOWED_IF(TIOCGWINSZ), ALLOWED_IF(TCGETS), ALLOWED_IF(TCSETSW),
	ALLOWED_IF(TCSETSF), ALLOWED_IF(TCGETS2), ALLOWED_IF(TCSETSW2), ALLOWED_IF(TCSETSF2), REFUSE(ENOTTY),

	/* Files that Landlock lets through, and programs that run with the rights of their owner, made in the job folder by a
	 * guest of root */
	REFUSED_TO_OPEN(SYS_open, 1, 2), REFUSED_TO_OPEN(SYS_openat, 2, 3), REFUSED(SYS_creat),
	REFUSED_WITH(SYS_mknod, 1, SET_ID), REFUSED_WITH(SYS_mknodat, 2, SET_ID), MISSING(SYS_openat2),

	/* Other namespaces and mounts, which would have other paths */
	REFUSED_WITH(SYS_clone, 0, NEW_NAMESPACES), MISSING(SYS_clone3), REFUSED(SYS_unshare), REFUSED(SYS_setns),
	REFUSED(SYS_mount), REFUSED(SYS_umount2), REFUSED(SYS_pivot_root), REFUSED(SYS_chroot), REFUSED(SYS_open_tree),
	REFUSED(NR_OPEN_TREE_ATTR), REFUSED(SYS_move_mount), REFUSED(SYS_fsopen), REFUSED(SYS_fsconfig), REFUSED(SYS_fsmount),
	REFUSED(SYS_fspick), REFUSED(SYS_mount_setattr),

	/* Parts of the host's kernel that a guest has no use for */
	REFUSED(SYS_bpf), REFUSED(SYS_perf_event_open), REFUSED(SYS_userfaultfd), REFUSED(SYS_fanotify_init),
	REFUSED(SYS_inotify_init), REFUSED(SYS_inotify_init1), REFUSED(SYS_syslog), REFUSED(SYS_pidfd_getfd),
	REFUSED(SYS_process_vm_readv), REFUSED(SYS_process_vm_writev),

	/* What root can do to the whole machine; its capabilities can't be dropped everywhere (main.c) */
	REFUSED(SYS_init_module), REFUSED(SYS_finit_module), REFUSED(SYS_delete_module), REFUSED(SYS_kexec_load),
	REFUSED(SYS_kexec_file_load), REFUSED(SYS_reboot), REFUSED(SYS_swapon), REFUSED(SYS_swapoff), REFUSED(SYS_acct),
	REFUSED(SYS_quotactl), REFUSED(SYS_quotactl_fd), REFUSED(SYS_settimeofday), REFUSED(SYS_clock_settime),
	REFUSED(SYS_clock_adjtime), REFUSED(SYS_adjtimex), REFUSED(SYS_sethostname), REFUSED(SYS_setdomainname),
	REFUSED(SYS_iopl), REFUSED(SYS_ioperm), REFUSED(SYS_vhangup),

	/* What would leave the guest's group of processes, which is killed as a whole in the end */
	REFUSED(SYS_setsid), REFUSED(SYS_setpgid),

	/* Other processes of the user */
	REFUSED(SYS_setpriority), REFUSED(SYS_ioprio_set), REFUSED(SYS_sched_setscheduler), REFUSED(SYS_sched_setparam),
	REFUSED(SYS_sched_setattr), REFUSED(SYS_sched_setaffinity), REFUSED(SYS_migrate_pages), REFUSED(SYS_move_pages),
	IF_NOT(SYS_prlimit64, 5), LOAD_ARGUMENT(0), IF_NOT(0, 1), ALLOW, REFUSE(EPERM), ALLOW,

	ALLOW,
};

void forbid_system_calls(void)
{
	const struct sock_fprog program = { sizeof(rules) / sizeof(rules[0]), (struct sock_filter *)rules };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program))
		fail_errno("the filter of system calls");
}
