/* Trees of folders that belong to somebody else. */
#ifndef PSID_JOBS_FOLDERS_H
#define PSID_JOBS_FOLDERS_H

#include <stdbool.h>

/*
 * Removes the folder `path` with all folders in it; files are left, and what holds one. Takes at
 * most n_steps system calls that change something, so that it never keeps a loop for long. Returns
 * whether the folder is gone: if not, try again later.
 */
bool psid_folders_remove(const char *path, unsigned n_steps);

#endif
