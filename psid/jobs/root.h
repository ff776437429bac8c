/* Inside of jobs/: the cgroup that those of the jobs of this psid lie in. */
#ifndef PULC_PSID_JOBS_ROOT_H
#define PULC_PSID_JOBS_ROOT_H

struct psid_config;

#define PSID_SIZE_ROOT 512

/*
 * Makes it, or finds it again, and removes those that dead psids of this user have left beside it.
 * *ret_fd: to be kept open as long as it is in use; untouched if it can't be held. Returns 0;
 * negative errno: there is none.
 */
int psid_root_open(const struct psid_config *config, char root[PSID_SIZE_ROOT], int *ret_fd);
/* The same, without regard to others, before it is used: it may have been removed since, or be held
 * only now. *fd: as above, or -EBADF. Returns 0; negative errno: there is none. */
int psid_root_keep(const char *root, int *fd);
/* Takes fd. root "": there was none. */
void psid_root_close(const char *root, int fd);

#endif
