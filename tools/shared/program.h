/* The program to be run: where it is, and whether the loader will preload anything into it. */
#ifndef PULC_TOOLS_PROGRAM_H
#define PULC_TOOLS_PROGRAM_H

#include <stddef.h>

/* Finds name as execvp does. Returns 0, or the negative errno that execvp would fail with. */
int run_find_program(const char *name, char *buf, size_t size);

/*
 * Why preloading into the file at path (a script's interpreter is looked at in its place) will have
 * no effect: a phrase like "is statically linked", or NULL if nothing speaks against it. *ret_path:
 * the file that the phrase is about, valid until the next call.
 */
const char *run_obstacle(const char *path, const char **ret_path);

#endif
