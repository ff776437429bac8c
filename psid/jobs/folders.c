/*
 * Removing trees of folders that somebody else has made: as deep, as wide and with such names as he
 * likes, and perhaps while he goes on with it.
 *
 * So no path is put together, nothing is called recursively, and no more than two descriptors are
 * open at a time: we go down into the first folder that cannot be removed, and up again by "..".
 * One that has no folders in it and still cannot be removed ends it, for that takes time (a cgroup
 * with a process that dies). Links are not followed.
 */
#include "folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct walk {
	DIR *dir;
	unsigned depth; /* below the folder that is to be removed */
	unsigned n_steps;
	bool has_folders; /* the one where we are had some when it was entered */
};

static DIR *open_folder(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		(void)close(fd);
	return dir;
}

static bool is_inner(const struct dirent *entry)
{
	return entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
	       strcmp(entry->d_name, "..") != 0;
}

/* Removes the empty folders where we are. The name of the first one that is not. */
static const char *remove_empty(struct walk *walk)
{
	const struct dirent *entry;

	while (walk->n_steps > 0 && (entry = readdir(walk->dir))) {
		if (!is_inner(entry))
			continue;
		walk->has_folders = true;
		walk->n_steps--;
		if (unlinkat(dirfd(walk->dir), entry->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT)
			return entry->d_name;
	}
	return NULL;
}

/* False: it cannot be opened. `name` may be of the folder that is left. */
static bool go(struct walk *walk, const char *name)
{
	DIR *next = open_folder(dirfd(walk->dir), name);

	if (!next)
		return false;
	(void)closedir(walk->dir);
	walk->dir = next;
	walk->has_folders = false;
	return true;
}

static void remove_below(struct walk *walk)
{
	const char *name;

	while (walk->n_steps > 0) {
		name = remove_empty(walk);
		if (!name && (walk->depth == 0 || !walk->has_folders))
			return;
		if (!go(walk, name ? name : ".."))
			return;
		if (name)
			walk->depth++;
		else
			walk->depth--;
	}
}

bool psid_folders_remove(const char *path, unsigned n_steps)
{
	struct walk walk = { .dir = open_folder(AT_FDCWD, path), .n_steps = n_steps };

	if (walk.dir) {
		remove_below(&walk);
		(void)closedir(walk.dir);
	}
	return rmdir(path) == 0 || errno == ENOENT;
}
