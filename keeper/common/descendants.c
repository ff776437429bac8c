/*
 * A process tree, from /proc/PID/stat.
 *
 * Mostly there is nothing to be found, which the kernel's lists of children tell at once, where it
 * has them: only who waits for a child takes it off such a list, and that is us. Otherwise one pass
 * reads the parent of every process; then the tree is walked until nothing is added, in an array
 * that is sorted, for a user may have many thousands. Numbers of processes are reused, so each is
 * killed through a pidfd, opened first and then checked to be still the child of the parent it had:
 * an innocent that has the number by now has another.
 */
#include "descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"

struct process {
	pid_t pid, parent;
	bool found;
};

struct table {
	struct process *processes;
	size_t n, n_max;
};

/* The parent of a process; 0: it is gone. The name in parentheses may hold anything, so the last
 * one counts. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[512];
	CLEANUP_FD int fd = -EBADF;
	const char *p;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && p[1] && p[2] ? (pid_t)strtol(p + 3, NULL, 10) : 0;
}

static bool is_spared(const pid_t *spare, pid_t pid)
{
	for (; spare && *spare; spare++)
		if (*spare == pid)
			return true;
	return false;
}

/* Are there others among the children of one thread, or can't that be known? */
static bool thread_has_others(int task, const char *tid, const pid_t *spare)
{
	char path[32];
	bool others = false;
	FILE *file;
	int fd, pid;

	(void)snprintf(path, sizeof(path), "%.16s/children", tid);
	fd = openat(task, path, O_RDONLY | O_CLOEXEC);
	file = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!file) {
		(void)close_own(fd);
		return true;
	}
	while (!others && fscanf(file, "%d", &pid) == 1)
		others = !is_spared(spare, pid);
	(void)fclose(file);
	return others;
}

static bool has_others(pid_t ancestor, const pid_t *spare)
{
	char path[32];
	const struct dirent *entry;
	bool others = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)ancestor);
	dir = opendir(path);
	if (!dir)
		return true;
	while (!others && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			others = thread_has_others(dirfd(dir), entry->d_name, spare);
	(void)closedir(dir);
	return others;
}

static int add(struct table *table, pid_t pid)
{
	if (table->n == table->n_max) {
		size_t n_max = table->n_max ? 2 * table->n_max : 512;
		struct process *more = reallocarray(table->processes, n_max, sizeof(*more));

		if (!more)
			return -ENOMEM;
		table->processes = more;
		table->n_max = n_max;
	}
	table->processes[table->n++] = (struct process){ .pid = pid, .parent = parent_of(pid) };
	return 0;
}

static int read_all(struct table *table)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			r = add(table, (pid_t)strtol(entry->d_name, NULL, 10));
	(void)closedir(dir);
	return r;
}

static int compare(const void *a, const void *b)
{
	pid_t x = ((const struct process *)a)->pid, y = ((const struct process *)b)->pid;

	return (x > y) - (x < y);
}

static bool is_found(const struct table *table, pid_t pid)
{
	const struct process key = { .pid = pid };
	const struct process *p = bsearch(&key, table->processes, table->n, sizeof(key), compare);

	return p && p->found;
}

/* Returns whether anything was added. */
static bool grow(struct table *table, pid_t ancestor, const pid_t *spare)
{
	bool grown = false;

	for (size_t i = 0; i < table->n; i++) {
		struct process *p = &table->processes[i];

		if (p->found || p->parent <= 0 ||
		    (p->parent == ancestor && is_spared(spare, p->pid)))
			continue;
		p->found = p->parent == ancestor || is_found(table, p->parent);
		grown |= p->found;
	}
	return grown;
}

static void kill_one(const struct process *p)
{
	CLEANUP_FD int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);

	if (fd >= 0 && parent_of(p->pid) == p->parent)
		(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

unsigned descendants_kill(pid_t ancestor, const pid_t *spare)
{
	struct table table = { 0 };
	unsigned n = 0;

	if (!has_others(ancestor, spare))
		return 0;
	(void)read_all(&table);
	if (table.n > 0)
		qsort(table.processes, table.n, sizeof(*table.processes), compare);
	while (grow(&table, ancestor, spare))
		;
	for (size_t i = 0; i < table.n; i++)
		if (table.processes[i].found) {
			kill_one(&table.processes[i]);
			n++;
		}
	free(table.processes);
	return n;
}
