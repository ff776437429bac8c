/*
 * A psid that is itself confined (psid.service) must not start keepers: tasks would inherit its
 * confinement, which a program that a user runs has not asked for. The starter, a service of its
 * own that does nothing else, starts them instead.
 *
 * Each start is one short conversation: connect, its greeting, our request, its answer. Nothing is
 * kept between two of them, so both sides may be restarted at any time. It is waited for in the
 * loop: it belongs to this machine's administrator as we do, answers within a millisecond, and five
 * seconds are the most that is lost to one that is stopped.
 */
#include "starter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cleanup.h"
#include "packet.h"

static int say_hello(const char *socket_path, struct starter_hello *ret_hello, int *ret_fd)
{
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int none[PACKET_N_FDS];
	int r;

	if (fd < 0)
		return -errno;
	if (strlen(socket_path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	(void)strcpy(address.sun_path, socket_path);
	packet_limit(fd);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	r = packet_recv(fd, ret_hello, sizeof(*ret_hello), none);
	if (r < 0)
		return r;
	if (ret_hello->version != STARTER_VERSION)
		return -EPROTONOSUPPORT;
	ret_hello->cgroup[sizeof(ret_hello->cgroup) - 1] = '\0';
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int psid_starter_cgroup(const char *socket, char *buf, size_t size)
{
	CLEANUP_FD int fd = -EBADF;
	struct starter_hello hello = { 0 };
	int r = say_hello(socket, &hello, &fd);

	if (r < 0)
		return r;
	if (!hello.cgroup[0])
		return -ENOENT;
	return (size_t)snprintf(buf, size, "%s", hello.cgroup) < size ? 0 : -ENAMETOOLONG;
}

static int ask(int fd, const char *id, const struct psid_gifts *gifts, int cgroup_fd)
{
	struct starter_request request = { 0 };
	int fds[PACKET_N_FDS];
	size_t n;

	(void)snprintf(request.id, sizeof(request.id), "%s", id);
	request.has = packet_gather(gifts->fds, KEEPER_N_FDS, fds, &n);
	if (cgroup_fd >= 0) {
		request.has |= STARTER_CGROUP;
		fds[n++] = cgroup_fd;
	}
	return packet_send(fd, &request, sizeof(request), fds, n);
}

pid_t psid_starter_clone(const char *socket, const char *id, const struct psid_gifts *gifts,
			 int cgroup_fd, int *ret_pidfd)
{
	CLEANUP_FD int fd = -EBADF, pidfd = -EBADF;
	struct starter_hello hello = { 0 };
	struct starter_answer answer;
	int fds[PACKET_N_FDS];
	int r = say_hello(socket, &hello, &fd);

	if (r == 0)
		r = ask(fd, id, gifts, cgroup_fd);
	if (r < 0)
		return r;
	r = packet_recv(fd, &answer, sizeof(answer), fds);
	pidfd = fds[0];
	if (r < 0)
		return r;
	if (answer.pid <= 0)
		return answer.pid < 0 ? answer.pid : -EBADMSG;
	if (pidfd < 0)
		return -EBADMSG;
	*ret_pidfd = TAKE_FD(pidfd);
	return answer.pid;
}
