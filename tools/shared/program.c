/*
 * Programs that cannot be preloaded into: the loader is not in a static program, does not trust the
 * environment of a set-user-id one, and rejects a library of another machine word. They run as
 * well as ever, on the kernel; the user is told why his connections stay there.
 */
#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cleanup.h"

#define N_INTERPRETERS_MAX 4 /* as many as the kernel follows */
#define PATH_DEFAULT "/bin:/usr/bin"
#define N_HEADERS_MAX 64

static int check_executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

int run_find_program(const char *name, char *buf, size_t size)
{
	const char *dirs = getenv("PATH");
	int r = -ENOENT;

	if (strlen(name) >= size)
		return -ENAMETOOLONG;
	if (!*name)
		return -ENOENT;
	if (strchr(name, '/')) {
		strcpy(buf, name);
		return check_executable(buf);
	}
	for (const char *dir = dirs ? dirs : PATH_DEFAULT; dir;
	     dir = strchr(dir, ':') ? strchr(dir, ':') + 1 : NULL) {
		int len = (int)strcspn(dir, ":"), found;

		if ((size_t)snprintf(buf, size, "%.*s%s%s", len, dir, len ? "/" : "", name) >= size)
			continue;
		found = check_executable(buf);
		if (found == 0)
			return 0;
		if (found == -EACCES || found == -EISDIR)
			r = -EACCES;
	}
	return r;
}

static const char *obstacle_of_elf(int fd, const Elf64_Ehdr *h)
{
	Elf64_Phdr p;

	if (h->e_ident[EI_CLASS] != ELFCLASS64)
		return "is no 64-bit program";
	for (unsigned i = 0; i < h->e_phnum && i < N_HEADERS_MAX; i++) {
		off_t at = (off_t)(h->e_phoff + (uint64_t)i * h->e_phentsize);

		if (pread(fd, &p, sizeof(p), at) != (ssize_t)sizeof(p))
			return NULL;
		if (p.p_type == PT_INTERP)
			return NULL;
	}
	return "is statically linked";
}

/* The kernel marks the run as privileged, and the loader then ignores LD_PRELOAD. */
static bool is_privileged(int fd, const struct stat *st)
{
	if ((st->st_mode & S_ISUID) && st->st_uid != geteuid())
		return true;
	if ((st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st->st_gid != getegid())
		return true;
	return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

/* The path in "#! /path argument", cut out of line in place. */
static char *interpreter_of(char *line)
{
	char *path = line + 2;

	path += strspn(path, " \t");
	path[strcspn(path, " \t\n")] = '\0';
	return path;
}

const char *run_obstacle(const char *path, const char **ret_path)
{
	static char shown[PATH_MAX];
	union {
		Elf64_Ehdr elf;
		char line[256];
	} start;

	(void)snprintf(shown, sizeof(shown), "%s", path);
	*ret_path = shown;
	for (int i = 0; i <= N_INTERPRETERS_MAX; i++) {
		CLEANUP_FD int fd = open(shown, O_RDONLY | O_CLOEXEC);
		struct stat st;
		ssize_t n;

		memset(&start, 0, sizeof(start));
		if (fd < 0 || fstat(fd, &st) < 0)
			return NULL;
		n = read(fd, &start, sizeof(start) - 1);
		if (n >= 2 && memcmp(start.line, "#!", 2) == 0) {
			(void)snprintf(shown, sizeof(shown), "%s", interpreter_of(start.line));
			continue;
		}
		if (is_privileged(fd, &st))
			return "is privileged (set-user-id, set-group-id or capabilities)";
		if (n >= (ssize_t)sizeof(start.elf) &&
		    memcmp(start.elf.e_ident, ELFMAG, SELFMAG) == 0)
			return obstacle_of_elf(fd, &start.elf);
		return NULL;
	}
	return NULL;
}
