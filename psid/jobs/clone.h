/* One clone into a cgroup, one exec: used by psid, and by the starter in its place. */
#ifndef PULC_PSID_CLONE_H
#define PULC_PSID_CLONE_H

#include <stddef.h>
#include <sys/types.h>

#include "keeper_fds.h"

/* What the keeper finds at KEEPER_FD_START and after; negative: nothing there. */
struct psid_gifts {
	int fds[KEEPER_N_FDS];
};

/* Where the program is: beside us as we are installed or built. Returns 0, negative errno. */
int psid_keeper_find(char *buf, size_t size);
/*
 * Starts it, in cgroup_fd unless negative. The gifts stay the caller's. Returns its number, with a
 * pidfd to close; negative errno.
 */
pid_t psid_keeper_clone(const char *program, const char *id, const struct psid_gifts *gifts,
			int cgroup_fd, int *ret_pidfd);

#endif
