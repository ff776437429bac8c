/*
 * A keeper without a job, of which those of jobs are copies.
 *
 * To execute a program, link its libraries and make OpenSSL ready takes longer than a short job.
 * Here that has been done once: the keeper of a job is our fork, made in the job's cgroup. It is no
 * child of ours but of our parent (CLONE_PARENT), as if that had executed it.
 *
 * We are nobody's. What we are told about a job is its name, its cgroup and a socket that we pass
 * on unread: user, key and everything else come through that to the copy only (gifts.c), and we are
 * never a user's. Copies have the same layout of addresses, as processes of any server that forks;
 * their memory is shown to nobody but root, for each has changed its user.
 *
 * We have one thread, no handler of signals and no event loop, so that a bare system call is a good
 * fork. We end with psid, whose end of our socket we watch, and when it closes that.
 */
#include "zygote.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "keeper_fds.h"
#include "packet.h"
#include "rawsys.h"
#include "remote.h"

enum { FD_SOCKET, FD_CGROUP };

static void close_all(int fds[PACKET_N_FDS])
{
	for (size_t i = 0; i < PACKET_N_FDS; i++)
		fds[i] = close_own(fds[i]);
}

/* As fork(): returns 0 in the copy. libc's can't name parent and cgroup. */
static long fork_into(int cgroup_fd, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PARENT | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
	};

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	return raw_syscall(SYS_clone3, &args, sizeof(args));
}

/* What psid says to us is not for the copy. */
static bool become(const struct keeper_copy *copy, int fds[PACKET_N_FDS], char *title)
{
	int r = dup3(fds[FD_SOCKET], KEEPER_FD_START, O_CLOEXEC);

	close_all(fds);
	(void)prctl(PR_SET_NAME, KEEPER_NAME_WAITS, 0, 0, 0);
	if (title)
		(void)strncpy(title, copy->id, strlen(title));
	return r == KEEPER_FD_START;
}

static int answer(long pid, int pidfd)
{
	const struct keeper_copied copied = { .pid = (int32_t)pid };

	return packet_send(KEEPER_FD_START, &copied, sizeof(copied), &pidfd, pid > 0 ? 1 : 0);
}

bool keeper_zygote_serve(char *title)
{
	int fds[PACKET_N_FDS];
	struct keeper_copy copy;

	(void)prctl(PR_SET_NAME, KEEPER_NAME_ZYGOTE, 0, 0, 0);
	(void)setsid();
	while (packet_recv(KEEPER_FD_START, &copy, sizeof(copy), fds) == 0) {
		int pidfd = -EBADF, r;
		long pid = fork_into(fds[FD_CGROUP], &pidfd);

		copy.id[sizeof(copy.id) - 1] = '\0';
		if (pid == 0)
			return become(&copy, fds, title);
		r = answer(pid, pidfd);
		(void)close_own(pidfd);
		close_all(fds);
		if (r < 0)
			break;
		if (copy.calls)
			keeper_remote_prepare();
	}
	return false;
}
