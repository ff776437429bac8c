/*
 * User, groups and limits of a job.
 *
 * Hard limits are raised while we are root, to what psid read from the kernel about the caller;
 * they are lowered in each task only, for the keeper needs its descriptors. The order is the usual
 * one: groups, group, user; and then we look whether it has worked, for a keeper that stayed root
 * would run a user's program as root. The environment that psid was started with goes the same way:
 * what the keeper executes can be looked into by the user.
 */
#include "identity.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"
#include "rawclone.h"
#include "rawsys.h"

static void raise_hard_limits(const Pulc__Job__Identity *identity)
{
	for (size_t i = 0; i < identity->n_limits; i++) {
		const Pulc__Job__Limit *limit = identity->limits[i];
		struct rlimit now;

		if (limit->resource >= RLIM_NLIMITS || getrlimit(limit->resource, &now) < 0 ||
		    now.rlim_max >= limit->hard)
			continue;
		now.rlim_max = limit->hard;
		(void)setrlimit(limit->resource, &now);
	}
}

/* As many descriptors as there may be: several for each task. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int change_user(const Pulc__Job__Identity *identity)
{
	CLEANUP_FREE gid_t *groups = calloc(identity->n_groups + 1, sizeof(*groups));

	if (!groups)
		return -ENOMEM;
	for (size_t i = 0; i < identity->n_groups; i++)
		groups[i] = identity->groups[i];
	if (setgroups(identity->n_groups, groups) < 0 ||
	    setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
	    setresuid(identity->uid, identity->uid, identity->uid) < 0)
		return -errno;
	if (getuid() != identity->uid || geteuid() != identity->uid || getgid() != identity->gid ||
	    getegid() != identity->gid)
		return -EPERM;
	if (identity->uid != 0 && setuid(0) == 0)
		return -EPERM;
	return 0;
}

int keeper_become(const Pulc__Job__Identity *identity)
{
	int r = 0;

	if (identity->change) {
		raise_hard_limits(identity);
		r = change_user(identity);
		(void)clearenv();
	}
	raise_descriptors();
	return r;
}

void keeper_limits_prepare(struct limits *ret, Pulc__Job__Limit *const *limits, size_t n)
{
	ret->n = 0;
	for (size_t i = 0; i < n && ret->n < RLIM_NLIMITS; i++) {
		struct rlimit wanted = { limits[i]->soft, limits[i]->hard }, now;

		if (limits[i]->resource >= RLIM_NLIMITS ||
		    getrlimit(limits[i]->resource, &now) < 0 ||
		    (wanted.rlim_cur == now.rlim_cur && wanted.rlim_max == now.rlim_max))
			continue;
		ret->items[ret->n].resource = limits[i]->resource;
		ret->items[ret->n].wanted = wanted;
		now.rlim_cur = MIN(wanted.rlim_cur, now.rlim_max);
		ret->items[ret->n].nearest = now;
		ret->n++;
	}
}

RAW_CLONE_CHILD void keeper_limit(const struct limits *limits)
{
	for (unsigned i = 0; i < limits->n; i++)
		if (raw_syscall(SYS_prlimit64, 0, limits->items[i].resource,
				&limits->items[i].wanted, NULL) < 0)
			(void)raw_syscall(SYS_prlimit64, 0, limits->items[i].resource,
					  &limits->items[i].nearest, NULL);
}
