/*
 * Who asks for a job, as the kernel tells it: user and group of the socket, the groups beside it
 * (SO_PEERGROUPS), and the limits of the process itself. Nothing of this is taken from a message,
 * for the system's psid will act on it as root.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "job.h"
#include "psid.h"
#include "user.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#define N_GROUPS_MAX 65536u

static int read_groups(int fd, Pulc__Job__Identity *identity)
{
	socklen_t size = N_GROUPS_MAX * sizeof(uint32_t);
	uint32_t *groups = malloc(size);

	if (!groups)
		return -ENOMEM;
	identity->groups = groups; /* gid_t is 32 bits wide, in the kernel's answer too */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return -errno;
	identity->n_groups = size / sizeof(uint32_t);
	return 0;
}

static int add_limit(Pulc__Job__Identity *identity, unsigned resource, const struct rlimit *value)
{
	Pulc__Job__Limit *limit = malloc(sizeof(*limit));

	if (!limit)
		return -ENOMEM;
	pulc__job__limit__init(limit);
	limit->resource = resource;
	limit->soft = value->rlim_cur;
	limit->hard = value->rlim_max;
	identity->limits[identity->n_limits++] = limit;
	return 0;
}

static int read_limits(const struct psid_client *client, Pulc__Job__Identity *identity)
{
	struct rlimit value;
	int r = 0;

	identity->limits = calloc(RLIM_NLIMITS, sizeof(Pulc__Job__Limit *));
	if (!identity->limits)
		return -ENOMEM;
	for (unsigned i = 0; r == 0 && i < RLIM_NLIMITS; i++)
		if (prlimit(client->pid, i, NULL, &value) == 0)
			r = add_limit(identity, i, &value);
	/* Was it the client that we asked about, and not another with its number? */
	if (r == 0 && syscall(SYS_pidfd_send_signal, client->pidfd, 0, NULL, 0) < 0)
		r = -errno;
	return r;
}

int psid_job_identity(const struct psid_client *client, Pulc__Job__Identity **ret_identity)
{
	Pulc__Job__Identity *identity = malloc(sizeof(*identity));
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r = 0;

	if (!identity)
		return -ENOMEM;
	pulc__job__identity__init(identity);
	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		r = -errno;
	identity->change = client->psid->config->system;
	identity->uid = cred.uid;
	identity->gid = cred.gid;
	if (r == 0 && !identity->change && cred.uid != geteuid())
		r = -EPERM;
	if (r == 0 && identity->change)
		r = read_groups(client->fd, identity);
	if (r == 0 && identity->change)
		r = read_limits(client, identity);
	if (r < 0)
		psid_identity_free(identity);
	else
		*ret_identity = identity;
	return r;
}

void psid_identity_free(Pulc__Job__Identity *identity)
{
	if (identity)
		pulc__job__identity__free_unpacked(identity, NULL);
}
