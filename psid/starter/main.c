/*
 * psid-starter: starts the keepers of a psid that is itself confined, see psid/jobs/starter.c. It
 * is a service of the system (psid-starter.service) whose socket belongs to root, and has no other
 * duty.
 *
 * One conversation after the other: greeting, request, clone, answer. Its cgroup is the one below
 * which psid makes those of jobs; its children are keepers, buried by the kernel. Whoever is not
 * the user that we run as is not answered: the socket's mode says the same.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "cgroup_own.h"
#include "packet.h"
#include "service.h"
#include "starter.h"

struct starter {
	char keeper[512];
	struct starter_hello hello;
};

/* The descriptors of a request to where they belong. Returns 0, -EBADMSG. */
static int sort(const struct starter_request *request, const int fds[PACKET_N_FDS],
		struct psid_gifts *ret_gifts, int *ret_cgroup)
{
	int sorted[KEEPER_N_FDS + 1];
	size_t n = 0;

	for (unsigned i = 0; i <= KEEPER_N_FDS; i++) {
		sorted[i] = request->has & 1u << i ? fds[n++] : -EBADF;
		if (request->has & 1u << i && sorted[i] < 0)
			return -EBADMSG;
	}
	memcpy(ret_gifts->fds, sorted, sizeof(ret_gifts->fds));
	*ret_cgroup = sorted[KEEPER_N_FDS];
	return memchr(request->id, '\0', sizeof(request->id)) ? 0 : -EBADMSG;
}

static void answer(int fd, int pid, int pidfd)
{
	const struct starter_answer message = { .pid = pid };

	(void)packet_send(fd, &message, sizeof(message), &pidfd, pid > 0 ? 1 : 0);
}

static void serve(const struct starter *starter, int fd)
{
	CLEANUP_FD int pidfd = -EBADF;
	struct starter_request request;
	struct psid_gifts gifts;
	int fds[PACKET_N_FDS], cgroup_fd;
	int r;

	packet_limit(fd);
	r = packet_send(fd, &starter->hello, sizeof(starter->hello), NULL, 0);
	if (r < 0)
		return;
	r = packet_recv(fd, &request, sizeof(request), fds);
	if (r == 0)
		r = sort(&request, fds, &gifts, &cgroup_fd);
	if (r == 0)
		r = psid_keeper_clone(starter->keeper, request.id, &gifts, cgroup_fd, &pidfd);
	answer(fd, r, pidfd);
	for (size_t i = 0; i < PACKET_N_FDS; i++)
		(void)close_own(fds[i]);
}

static bool is_ours(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

int main(void)
{
	struct starter starter = { .hello = { .version = STARTER_VERSION } };
	int listen_fd;

	if (psid_service_socket(NULL, &listen_fd) != 1) {
		(void)fputs("psid-starter: psid-starter.socket starts it, see psid(8)\n", stderr);
		return 1;
	}
	if (psid_keeper_find(starter.keeper, sizeof(starter.keeper)) < 0) {
		(void)fputs("psid-starter: ../libexec/pulc/keeper is not beside its folder "
			    "(is all of PULC installed?)\n",
			    stderr);
		return 1;
	}
	if (psid_cgroup_own(starter.hello.cgroup, sizeof(starter.hello.cgroup)) == 0 &&
	    !starter.hello.cgroup[0])
		(void)strcpy(starter.hello.cgroup, "/"); /* the topmost one */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_IGN);
	psid_service_tell("READY=1\nSTATUS=Starting keepers when psid asks");
	for (;;) {
		CLEANUP_FD int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && is_ours(fd))
			serve(&starter, fd);
		else if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			(void)usleep(100000); /* no descriptors, no memory: soon there are */
	}
}
