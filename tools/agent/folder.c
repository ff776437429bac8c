/*
 * The run folder of a psid that lives as long as its agent: /tmp/pulc-UID-agent.XXXXXX.
 *
 * The agent holds a lock (flock) on the folder itself. An agent that was killed can't clean up, so
 * the next one of the same user on the same node does: a folder of that name whose lock is free
 * belongs to nobody. One that has just been made and is not locked yet would look like that too:
 * its maker finds, once it has the lock, that the folder has lost its name, and makes another.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "cleanup.h"

#define PARENT "/tmp"
#define N_TRIES 100

static int open_folder(const char *path, struct stat *ret_st)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static void empty(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (!dir) {
		(void)close_own(fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			(void)unlinkat(folder, entry->d_name, 0);
	(void)closedir(dir);
}

static void remove_stale(const char *path)
{
	struct stat st;
	CLEANUP_FD int fd = open_folder(path, &st);

	if (fd < 0 || st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	empty(fd);
	(void)rmdir(path);
}

static void sweep(const char *prefix)
{
	DIR *dir = opendir(PARENT);
	const struct dirent *entry;
	char path[sizeof(PARENT) + 1 + NAME_MAX];

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
			(void)snprintf(path, sizeof(path), PARENT "/%s", entry->d_name);
			remove_stale(path);
		}
	(void)closedir(dir);
}

/* Returns 0; -EAGAIN: somebody has swept it. */
static int make_one(const char *prefix, struct folder *folder)
{
	struct stat st, named;

	(void)snprintf(folder->path, sizeof(folder->path), PARENT "/%sXXXXXX", prefix);
	if (!mkdtemp(folder->path))
		return -errno;
	folder->fd = open_folder(folder->path, &st);
	if (folder->fd < 0)
		return folder->fd == -ENOENT ? -EAGAIN : folder->fd;
	if (flock(folder->fd, LOCK_EX) == 0 && stat(folder->path, &named) == 0 &&
	    st.st_ino == named.st_ino)
		return 0;
	folder->fd = close_own(folder->fd);
	return -EAGAIN;
}

int folder_make(struct folder *folder)
{
	char prefix[32];
	int r = -EAGAIN;

	(void)snprintf(prefix, sizeof(prefix), "pulc-%u-agent.", (unsigned)geteuid());
	sweep(prefix);
	for (int i = 0; r == -EAGAIN && i < N_TRIES; i++)
		r = make_one(prefix, folder);
	return r;
}

void folder_remove(struct folder *folder)
{
	if (folder->fd < 0)
		return;
	empty(folder->fd);
	(void)rmdir(folder->path);
	folder->fd = close_own(folder->fd);
}
