/* See target.c. */
#ifndef PULC_PRELOAD_TARGET_H
#define PULC_PRELOAD_TARGET_H

#include <stdbool.h>

/* What becomes of a process that executes a file. */
enum pre_target {
	PRE_TARGET_NONE,    /* the kernel will refuse: it goes on as it is */
	PRE_TARGET_OURS,    /* a program that loads the shim */
	PRE_TARGET_FOREIGN, /* one that does not, or perhaps not */
};

/* Of path, relative to the directory dir (AT_FDCWD), or of the descriptor dir itself, where path is
 * empty. */
enum pre_target pre_target(int dir, const char *path, char *const env[]);
/* The same for a name that is looked for along PATH, as execvp does it. */
enum pre_target pre_target_search(const char *name, char *const env[]);

#endif
