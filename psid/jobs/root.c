/*
 * The folder of this psid among the cgroups, where those of its jobs are.
 *
 * It lies below our own cgroup, which may be a scope made for us (scope.c), or our starter's
 * (version 2, also where it is mounted beside version 1), one for each run directory: psids of
 * several users, or of tests, don't sweep each other's.
 *
 * A psid that is killed leaves it behind, for the next one of the same run directory; there may
 * never be one. So whoever lives holds a lock on his own, the kernel's, which goes with him, and
 * who begins removes those of his user that nobody holds and that have no process in them. A lock
 * can be had by everybody who may look into the folder: he can keep it from being removed. While he
 * has it for himself we have none, and what we made may be removed once he lets go; so before each
 * job we see whether it is still there and held, make it anew where it is not, and try again.
 */
#include "root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cgroup_own.h"
#include "cleanup.h"
#include "folders.h"
#include "psid.h"
#include "scope.h"
#include "starter.h"

#define PREFIX "pulc."
#define N_STEPS 200 /* of the removal of one */
#define N_TRIES 20
#define N_TRIES_JOB 2	    /* the loop waits for it */
#define NSEC_AGAIN 5000000l /* somebody who begins looks at it for some microseconds */

/* Where version 2 is mounted: the fifth word of a line of mountinfo. Returns 0, -ENOENT. */
static int find_mount(char *buf, size_t size)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[1024], at[512];
	int r = -ENOENT;

	if (!file)
		return -errno;
	while (r < 0 && fgets(line, sizeof(line), file))
		if (strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s / %511s", at) == 1 &&
		    (size_t)snprintf(buf, size, "%s", at) < size)
			r = 0;
	(void)fclose(file);
	return r;
}

static unsigned hash(const char *text)
{
	unsigned h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

/* Where all of them lie. */
static int find_parent(const struct psid_config *config, unsigned number, char *buf, size_t size)
{
	char mount[256], own[200];
	int r;

	r = find_mount(mount, sizeof(mount));
	if (r == 0 && !config->starter[0])
		psid_scope_enter(config, number);
	if (r == 0)
		r = config->starter[0] ? psid_starter_cgroup(config->starter, own, sizeof(own))
				       : psid_cgroup_own(own, sizeof(own));
	if (r == 0)
		(void)snprintf(buf, size, "%s%s", mount, own);
	return r;
}

/* ---- ours ------------------------------------------------------------------------------------ */

static bool is_same(int fd, const char *path)
{
	struct stat held, there;

	return fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino &&
	       held.st_dev == there.st_dev;
}

/* Returns 0; -EAGAIN: somebody has just removed it, or looks at it; other negative errno. */
static int try_hold(const char *path, int *ret_fd)
{
	CLEANUP_FD int fd = -EBADF;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_SH | LOCK_NB) < 0 || !is_same(fd, path))
		return -EAGAIN;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Somebody who keeps the lock does not keep us from having jobs. */
static int hold(const char *path, unsigned n_tries, int *ret_fd)
{
	static const struct timespec pause = { .tv_nsec = NSEC_AGAIN };
	int r = try_hold(path, ret_fd);

	while (r == -EAGAIN && --n_tries > 0) {
		(void)nanosleep(&pause, NULL);
		r = try_hold(path, ret_fd);
	}
	return r == -EAGAIN ? 0 : r;
}

int psid_root_keep(const char *root, int *fd)
{
	if (*fd >= 0 && is_same(*fd, root))
		return 0;
	*fd = close_own(*fd);
	return hold(root, N_TRIES_JOB, fd);
}

/* ---- those of others ------------------------------------------------------------------------- */

static bool has_processes(int folder)
{
	CLEANUP_FD int fd = openat(folder, "cgroup.events", O_RDONLY | O_CLOEXEC);
	char text[128] = "";

	return fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || !strstr(text, "populated 0\n");
}

static void look_at(int parent, const char *parent_path, const char *name)
{
	CLEANUP_FD int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[PSID_SIZE_ROOT];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
	    flock(fd, LOCK_EX | LOCK_NB) < 0 || has_processes(fd))
		return;
	(void)snprintf(path, sizeof(path), "%s/%.20s", parent_path, name);
	(void)psid_folders_remove(path, N_STEPS);
}

static bool is_root(const char *name)
{
	const char *digits = name + strlen(PREFIX);

	return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && strlen(digits) == 8 &&
	       strspn(digits, "0123456789abcdef") == 8;
}

static void remove_others(const char *parent, const char *own)
{
	DIR *dir = opendir(parent);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (is_root(entry->d_name) && strcmp(entry->d_name, own) != 0)
			look_at(dirfd(dir), parent, entry->d_name);
	if (dir)
		(void)closedir(dir);
}

int psid_root_open(const struct psid_config *config, char root[PSID_SIZE_ROOT], int *ret_fd)
{
	unsigned number = hash(config->socket);
	char parent[480], name[20];
	int r;

	r = find_parent(config, number, parent, sizeof(parent));
	if (r < 0)
		return r;
	(void)snprintf(name, sizeof(name), PREFIX "%08x", number);
	(void)snprintf(root, PSID_SIZE_ROOT, "%s/%s", parent, name);
	r = hold(root, N_TRIES, ret_fd);
	if (r < 0)
		return r;
	remove_others(parent, name);
	return access(root, W_OK) < 0 ? -errno : 0;
}

void psid_root_close(const char *root, int fd)
{
	/* It stays if a job does, or if the next psid of this run directory has it already. */
	if (root[0] && (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0))
		(void)rmdir(root);
	(void)close_own(fd);
}
