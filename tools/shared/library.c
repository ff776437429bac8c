/*
 * Where the library is: named by PULC_PRELOAD, or beside this program (an installation may be moved
 * as a whole, and a build folder is laid out like one), or where the installation was configured to
 * be.
 *
 * LD_PRELOAD is a list separated by colons and spaces without any quoting: a path that holds one of
 * them cannot be preloaded, and that is said instead of leaving it to the loader's silence.
 */
#include "library.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"

#define LIBRARY "libpulc-preload.so"

int run_beside(const char *name, char *buf, size_t size)
{
	char self[PATH_MAX], joined[PATH_MAX + NAME_MAX];
	CLEANUP_FREE char *real = NULL;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return -errno;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	(void)snprintf(joined, sizeof(joined), "%s/%s", self, name);
	real = realpath(joined, NULL);
	if (!real)
		return -errno;
	if (strlen(real) >= size)
		return -ENAMETOOLONG;
	strcpy(buf, real);
	return 0;
}

static int take(const char *path, char *buf, size_t size)
{
	if (access(path, R_OK) < 0)
		return -errno;
	if (strlen(path) >= size)
		return -ENAMETOOLONG;
	strcpy(buf, path);
	return 0;
}

int run_find_library(char *buf, size_t size)
{
	const char *named = getenv("PULC_PRELOAD");
	int r;

	if (named && *named) {
		r = take(named, buf, size);
		if (r < 0)
			fprintf(stderr, "pulc: PULC_PRELOAD names %s: %s\n", named, strerror(-r));
		return r;
	}
	r = run_beside("../lib/" LIBRARY, buf, size);
	if (r < 0)
		r = take(PULC_LIBDIR "/" LIBRARY, buf, size);
	if (r < 0)
		fprintf(stderr, "pulc: " LIBRARY
				" is neither in ../lib beside this program nor in " PULC_LIBDIR
				"; install it, or name it in PULC_PRELOAD\n");
	return r;
}

int run_preload(const char *path)
{
	const char *before = getenv("LD_PRELOAD");
	CLEANUP_FREE char *list = NULL;
	size_t len = strlen(path);

	if (strpbrk(path, ": \t\n")) {
		fprintf(stderr,
			"pulc: %s: the loader cannot preload a path with spaces or colons\n", path);
		return -EINVAL;
	}
	if (before && strncmp(before, path, len) == 0 &&
	    (!before[len] || strchr(": ", before[len])))
		return 0;
	if (asprintf(&list, before && *before ? "%s:%s" : "%s", path, before) < 0) {
		list = NULL;
		return -ENOMEM;
	}
	return setenv("LD_PRELOAD", list, 1) < 0 ? -errno : 0;
}
