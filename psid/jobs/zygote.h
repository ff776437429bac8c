/* A keeper without a job, of which those of jobs are copies. */
#ifndef PULC_PSID_ZYGOTE_H
#define PULC_PSID_ZYGOTE_H

#include <stdbool.h>
#include <sys/types.h>

#include "clone.h"

struct psid;
struct psid_job;

void psid_zygotes_start(struct psid *psid);
/* Has one wait from now on, for some minutes, if that can be. */
void psid_zygote_make(struct psid *psid);
/* Ends it now, if there is one. */
void psid_zygote_drop(struct psid *psid);
/*
 * A copy for the job of that name, in cgroup_fd unless negative. calls: there are keepers of the
 * job on other nodes. Returns its process, with a pidfd and the socket where it waits for its
 * gifts, both to be closed; negative errno: there is none.
 */
pid_t psid_zygote_copy(struct psid *psid, bool calls, const char *id, int cgroup_fd, int *ret_pidfd,
		       int *ret_socket);
/* To a copy. The gifts stay the caller's. Returns 0, negative errno. */
int psid_keeper_give(int socket_fd, const struct psid_gifts *gifts);
/* Kills and buries a keeper that has no job. */
void psid_keeper_drop(struct psid *psid, pid_t pid, int pidfd);
/*
 * Makes the keeper of this job, in cgroup_fd unless negative, and watches it. The gifts stay the
 * caller's. Returns 0; -ENOENT: nothing has happened, it is to be made otherwise; other negative
 * errno.
 */
int psid_zygote_spawn(struct psid_job *job, bool calls, const struct psid_gifts *gifts,
		      int cgroup_fd);
/* Is there one, and its program still the one that is installed? */
bool psid_zygote_is_current(const struct psid *psid);
/* Its process; 0: there is none. */
pid_t psid_zygote_process(const struct psid *psid);
/* It was buried. */
void psid_zygote_ended(struct psid *psid);

#endif
