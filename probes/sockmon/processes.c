// SPDX-License-Identifier: Apache-2.0
/*
 * The processor time of given processes, and of all that descend from given ones, from
 * /proc/PID/stat; with --threads also of each of their threads, from /proc/PID/task/TID/stat.
 */
#include "fail.h"
#include "memory.h"
#include "recorders.h"
#include "stream.h"
#include "text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME 24

struct process {
	int fd, pid, parent;
	uint32_t id;
	bool tree;		/* its children count too */
	bool thread;		/* it is a thread of the process `parent`, and pid its thread ID */
	bool renamed;		/* it runs another program now */
	char name[NAME];
};

struct status {
	char name[NAME];
	int parent;
	uint64_t user_ticks, system_ticks, threads, started_ticks, memory_pages;
};

static struct process *processes;
static size_t count, room;
static uint32_t next_id;
static DIR *proc;
static bool threads_too;

/*
 * "PID (NAME) STATE PARENT ...": the name may have anything in it, so it ends at the last
 * parenthesis.
 */
static bool parse(char *text, struct status *status)
{
	char *open = text ? strchr(text, '(') : NULL;
	char *close = open ? strrchr(open, ')') : NULL, *at;
	uint64_t fields[25] = { 0 };

	if (!close || !close[1] || !close[2])
		return false;
	memset(status, 0, sizeof(*status));
	*close = 0;
	memcpy(status->name, open + 1, strnlen(open + 1, sizeof(status->name) - 1));
	at = close + 3;		/* behind the state, which is field 3 */
	for (int i = 4; i < 25; i++)
		fields[i] = next_number(&at);
	status->parent = (int)fields[4];
	status->user_ticks = fields[14];
	status->system_ticks = fields[15];
	status->threads = fields[20];
	status->started_ticks = fields[22];
	status->memory_pages = fields[24];
	return true;
}

static struct process *find(int pid, bool thread)
{
	for (size_t i = 0; i < count; i++)
		if (processes[i].pid == pid && processes[i].thread == thread)
			return &processes[i];
	return NULL;
}

static int open_stat(int pid)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void put_identity(struct process *process, const struct status *status)
{
	struct id_process identity = {
		.id = next_id++,
		.pid = (uint32_t)process->pid,
		.parent = (uint32_t)status->parent,
		.started_ticks = status->started_ticks,
	};

	memcpy(identity.name, status->name, sizeof(identity.name));
	memcpy(process->name, status->name, sizeof(process->name));
	process->id = identity.id;
	process->renamed = false;
	stream_put(RECORD_PROCESS, &identity, sizeof(identity));
}

static void add(struct process process, const struct status *status)
{
	if (count == room) {
		room = room ? 2 * room : 64;
		processes = resize(processes, room, sizeof(*processes));
	}
	processes[count] = process;
	put_identity(&processes[count++], status);
}

/* Gives processes that ran exec() another identity. */
static void rename_processes(void)
{
	for (size_t i = 0; i < count; i++) {
		struct status status;

		if (!processes[i].renamed || !parse(read_text(processes[i].fd), &status))
			continue;
		if (processes[i].thread)
			status.parent = processes[i].parent;
		put_identity(&processes[i], &status);
	}
}

/* Adds the threads of a process that are new; the first of them has the ID of the process. */
static void look_at_threads(int pid)
{
	const struct dirent *entry;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		int tid = atoi(entry->d_name), fd;
		struct status status;

		if (tid <= 0 || find(tid, true))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!parse(read_text(fd), &status)) {
			close(fd);
			continue;
		}
		status.parent = pid;
		add((struct process){ .fd = fd, .pid = tid, .thread = true, .parent = pid }, &status);
	}
	if (tasks)
		closedir(tasks);
}

/* Adds the process if its parent's tree is wanted. */
static void look_at(int pid)
{
	const struct process *parent, *known = find(pid, false);
	struct status status;
	int fd;

	if (known) {
		if (known->tree && threads_too)
			look_at_threads(pid);
		return;
	}
	fd = open_stat(pid);
	if (fd < 0)
		return;
	if (parse(read_text(fd), &status)) {
		parent = find(status.parent, false);
		if (parent && parent->tree) {
			add((struct process){ .fd = fd, .pid = pid, .tree = true }, &status);
			if (threads_too)
				look_at_threads(pid);
			return;
		}
	}
	close(fd);
}

void processes_scan(unsigned int entries)
{
	if (!proc)
		return;
	while (entries--) {
		const struct dirent *entry = readdir(proc);

		if (!entry) {
			rewinddir(proc);
			return;
		}
		if (atoi(entry->d_name) > 0)
			look_at(atoi(entry->d_name));
	}
}

void processes_sample(void)
{
	size_t kept = 0;

	if (!count)
		return;
	sample_begin(RECORD_PROCESSES, count, sizeof(struct row_process), 0);
	for (size_t i = 0; i < count; i++) {
		struct row_process *row;
		struct status status;

		if (!parse(read_text(processes[i].fd), &status)) {
			close(processes[i].fd);		/* ended: its file can't be read any more */
			continue;
		}
		processes[i].renamed = memcmp(processes[i].name, status.name, NAME) != 0;
		processes[kept++] = processes[i];
		row = sample_row();
		if (!row)
			continue;
		row->id = processes[i].id;
		row->threads = processes[i].thread ? 0 : (uint32_t)status.threads;
		row->user_ticks = status.user_ticks;
		row->system_ticks = status.system_ticks;
		row->memory_pages = status.memory_pages;
	}
	count = kept;
	sample_end();
	rename_processes();
}

void processes_open(const struct options *options)
{
	threads_too = options->threads;
	for (int n = 0; n < options->pid_count; n++) {
		struct status status;
		int pid = options->pids[n].pid, fd = open_stat(pid);

		if (fd < 0 || !parse(read_text(fd), &status))
			fail(STATUS_FAILED, "there is no process %d", pid);
		add((struct process){ .fd = fd, .pid = pid, .tree = options->pids[n].tree }, &status);
		if (options->pids[n].tree && !proc) {
			proc = opendir("/proc");
			if (!proc)
				fail_errno("/proc");
		}
	}
	processes_scan(1u << 20);
}
