/*
 * A keeper without a job, of which those of jobs are copies (keeper/zygote.c).
 *
 * Whoever has run one job is likely to run the next one soon: so when a job has ended a keeper is
 * started that waits at the other end of a socket. It is nobody's, and is what psid is. For each
 * job from then on, whoever's and from wherever, it is asked for a copy, which costs a tenth of a
 * keeper that is executed. The copy gets a socket of its own, and what a keeper is given comes
 * through that as one packet (struct keeper_gifts), which the one that waits can't read. From there
 * it is a keeper like any other.
 *
 * We wait for the answer in the loop, as for a process of our own that has nothing else to do; five
 * seconds are the most that is lost to one that was stopped. Whatever goes wrong with it, it is
 * dropped, and the job's keeper is made in the ordinary way: a copy that we don't know of finds its
 * socket at its end, and ends.
 *
 * There is one, or none. It goes when no job has ended for MSEC_WAITS, when the program was
 * replaced, and with psid, whose end of the socket it watches. Where a starter makes the keepers,
 * it is the starter that makes this one, and the parent of its copies.
 */
#include "zygote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "job.h"
#include "macros.h"
#include "packet.h"
#include "psid.h"
#include "spare.h"
#include "starter.h"

#define MSEC_WAITS 300000

struct psid_zygote {
	pid_t pid;
	int pidfd, socket;
	struct stat program; /* that it is */
};

static struct psid_zygote *zygote_free(struct psid_zygote *zygote)
{
	if (zygote) {
		(void)close_own(zygote->socket);
		(void)close_own(zygote->pidfd);
		free(zygote);
	}
	return NULL;
}

pid_t psid_zygote_process(const struct psid *psid)
{
	return psid->jobs->zygote ? psid->jobs->zygote->pid : 0;
}

void psid_zygote_ended(struct psid *psid)
{
	psid->jobs->zygote = zygote_free(psid->jobs->zygote);
}

void psid_keeper_drop(struct psid *psid, pid_t pid, int pidfd)
{
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	if (!psid->config->starter[0])
		(void)waitpid(pid, NULL, 0);
}

void psid_zygote_drop(struct psid *psid)
{
	const struct psid_zygote *zygote = psid->jobs->zygote;

	if (!zygote)
		return;
	psid_keeper_drop(psid, zygote->pid, zygote->pidfd);
	psid_zygote_ended(psid);
}

static void on_idle(uv_timer_t *timer)
{
	struct psid *psid = CONTAINER_OF(timer, struct psid_jobs, idle_timer)->psid;

	psid_spare_drop(psid);
	psid_zygote_drop(psid);
}

void psid_zygotes_start(struct psid *psid)
{
	(void)uv_timer_init(&psid->loop, &psid->jobs->idle_timer);
}

/* ---- making ---------------------------------------------------------------------------------- */

static int start(struct psid *psid, struct psid_zygote *zygote)
{
	const char *starter = psid->config->starter, *program = psid->jobs->keeper;
	CLEANUP_FD int theirs = -EBADF;
	struct psid_gifts gifts;
	char title[KEEPER_SIZE_ID]; /* room for the names of its copies */
	int ends[2];

	if (stat(program, &zygote->program) < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	zygote->socket = ends[0];
	theirs = ends[1];
	packet_limit(zygote->socket);
	(void)snprintf(title, sizeof(title), "%*s", (int)sizeof(title) - 1, "");
	gifts = (struct psid_gifts){ .fds = { theirs, -EBADF, -EBADF, -EBADF } };
	zygote->pid = starter[0]
			      ? psid_starter_clone(starter, title, &gifts, -EBADF, &zygote->pidfd)
			      : psid_keeper_clone(program, title, &gifts, -EBADF, &zygote->pidfd);
	return MIN(zygote->pid, 0);
}

void psid_zygote_make(struct psid *psid)
{
	struct psid_jobs *jobs = psid->jobs;
	struct psid_zygote *zygote;

	if (psid->stopping || psid_job_find_keeper(jobs) < 0)
		return;
	(void)uv_timer_start(&jobs->idle_timer, on_idle, MSEC_WAITS, 0);
	if (jobs->zygote)
		return;
	psid_spare_drop(psid); /* a copy of an earlier one, perhaps of another program */
	zygote = calloc(1, sizeof(*zygote));
	if (!zygote)
		return;
	zygote->pidfd = zygote->socket = -EBADF;
	jobs->zygote = start(psid, zygote) == 0 ? zygote : zygote_free(zygote);
}

/* ---- copies ---------------------------------------------------------------------------------- */

bool psid_zygote_is_current(const struct psid *psid)
{
	const struct stat *then;
	struct stat now;

	if (!psid->jobs->zygote)
		return false;
	then = &psid->jobs->zygote->program;
	return stat(psid->jobs->keeper, &now) == 0 && now.st_ino == then->st_ino &&
	       now.st_dev == then->st_dev && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
	       now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

static pid_t ask(int zygote_fd, const struct keeper_copy *copy, int socket_fd, int cgroup_fd,
		 int *ret_pidfd)
{
	const int gifts[] = { socket_fd, cgroup_fd };
	struct keeper_copied copied;
	int fds[PACKET_N_FDS];
	int r = packet_send(zygote_fd, copy, sizeof(*copy), gifts, cgroup_fd >= 0 ? 2 : 1);

	if (r < 0)
		return r;
	r = packet_recv(zygote_fd, &copied, sizeof(copied), fds);
	*ret_pidfd = fds[0];
	if (r < 0)
		return r;
	return copied.pid > 0 && fds[0] < 0 ? -EBADMSG : copied.pid;
}

pid_t psid_zygote_copy(struct psid *psid, bool calls, const char *id, int cgroup_fd, int *ret_pidfd,
		       int *ret_socket)
{
	struct keeper_copy copy = { .calls = calls };
	CLEANUP_FD int ours = -EBADF, theirs = -EBADF, pidfd = -EBADF;
	pid_t pid = -ESTALE;
	int ends[2];

	if (!psid->jobs->zygote)
		return -ENOENT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	ours = ends[0];
	theirs = ends[1];
	(void)snprintf(copy.id, sizeof(copy.id), "%s", id);
	if (psid_zygote_is_current(psid))
		pid = ask(psid->jobs->zygote->socket, &copy, theirs, cgroup_fd, &pidfd);
	if (pid <= 0) {
		psid_zygote_drop(psid);
		return pid < 0 ? pid : -EBADMSG;
	}
	*ret_pidfd = TAKE_FD(pidfd);
	*ret_socket = TAKE_FD(ours);
	return pid;
}

int psid_keeper_give(int socket_fd, const struct psid_gifts *gifts)
{
	struct keeper_gifts message;
	int fds[PACKET_N_FDS];
	size_t n;

	message.has = packet_gather(gifts->fds, KEEPER_N_FDS, fds, &n);
	return packet_send(socket_fd, &message, sizeof(message), fds, n);
}

int psid_zygote_spawn(struct psid_job *job, bool calls, const struct psid_gifts *gifts,
		      int cgroup_fd)
{
	struct psid *psid = job->psid;
	CLEANUP_FD int pidfd = -EBADF, socket = -EBADF;
	pid_t pid = psid_zygote_copy(psid, calls, job->id, cgroup_fd, &pidfd, &socket);

	if (pid < 0)
		return -ENOENT;
	if (psid_keeper_give(socket, gifts) < 0) {
		psid_keeper_drop(psid, pid, pidfd);
		return -ENOENT;
	}
	return psid_job_watch(job, pid, TAKE_FD(pidfd), !psid->config->starter[0]);
}
