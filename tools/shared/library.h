/* The library that is preloaded, and the files that were installed beside this program. */
#ifndef PULC_TOOLS_LIBRARY_H
#define PULC_TOOLS_LIBRARY_H

#include <stddef.h>

/* Absolute path of `name` relative to the folder of this program. Returns 0, -ENOENT (no such
 * file), -ENAMETOOLONG. */
int run_beside(const char *name, char *buf, size_t size);

/* Finds libpulc-preload.so; says on stderr where it looked if it is nowhere. Returns 0, negative
 * errno. */
int run_find_library(char *buf, size_t size);

/* Puts path first in LD_PRELOAD of the environment. Returns 0, -ENOMEM, -EINVAL: the loader can't
 * read such a path. */
int run_preload(const char *path);

#endif
