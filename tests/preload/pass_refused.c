/*
 * Messages with descriptors that the kernel does not take: a connection that has not been passed on
 * is one like any other, and is upgraded, or stays so.
 *
 * Each case makes its connections, is refused, and exchanges bytes until they are on rings: that
 * they get there is what is looked for (OWN_PAIR), besides the answers.
 */
#include "case.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/un.h>

#define N_RIGHTS 2

struct rights {
	union {
		char buf[CMSG_SPACE(N_RIGHTS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov;
	struct msghdr msg;
};

/* A message of one byte with one descriptor, or with two. */
static void write_rights(struct rights *r, int fd, int other)
{
	size_t size = (other == -2 ? 1 : N_RIGHTS) * sizeof(int);

	*r = (struct rights){ .iov = { (void *)"f", 1 } };
	r->msg = (struct msghdr){ .msg_iov = &r->iov,
				  .msg_iovlen = 1,
				  .msg_control = &r->control,
				  .msg_controllen = CMSG_SPACE(size) };
	r->control.align = (struct cmsghdr){ .cmsg_len = CMSG_LEN(size),
					     .cmsg_level = SOL_SOCKET,
					     .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&r->control.align), (int[]){ fd, other }, size);
}

#define ALONE (-2)
#define PASS(via, fd, other, flags)                                                                \
	({                                                                                         \
		struct rights r_;                                                                  \
		write_rights(&r_, fd, other);                                                      \
		R(sendmsg(via, &r_.msg, flags));                                                   \
	})

/* One byte after the other until the Unix socket takes no more. */
static void fill(int via)
{
	while (send(via, "x", 1, MSG_DONTWAIT) == 1)
		;
}

static void refused_for_room(struct play *p, int fd, int type)
{
	int via[2];

	T(socketpair(AF_UNIX, type, 0, via) == 0);
	fill(via[0]);
	PASS(via[0], fd, ALONE, MSG_DONTWAIT);
	fcntl(via[0], F_SETFL, O_NONBLOCK);
	PASS(via[0], fd, ALONE, 0);
	close(via[0]);
	close(via[1]);
}

static void refused_for_another(struct play *p, int fd)
{
	int via[2];

	T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
	PASS(via[0], fd, -1, 0);
	PASS(via[0], 899, fd, 0);
	close(via[0]);
	close(via[1]);
}

/* The second has an error, which is told once. */
static void refused_for_the_end(struct play *p, int fd, int type)
{
	int via[2];

	count_signal(SIGPIPE, 0);
	n_signals = 0;
	T(socketpair(AF_UNIX, type, 0, via) == 0);
	close(via[1]);
	PASS(via[0], fd, ALONE, 0);
	PASS(via[0], fd, ALONE, MSG_NOSIGNAL);
	close(via[0]);
	T(socketpair(AF_UNIX, type, 0, via) == 0);
	send(via[0], "unread", 6, 0);
	close(via[1]);
	PASS(via[0], fd, ALONE, 0);
	PASS(via[0], fd, ALONE, MSG_NOSIGNAL);
	say_error(p, via[0]);
	close(via[0]);
	say(p, "%d signals", (int)n_signals);
	(void)signal(SIGPIPE, SIG_DFL);
}

static void refused_for_the_way(struct play *p, int fd)
{
	struct sockaddr_un nobody = { .sun_family = AF_UNIX, .sun_path = "/nowhere" };
	int pipe_[2], via, pair[2];
	struct rights r;

	via = socket(AF_UNIX, SOCK_STREAM, 0);
	PASS(via, fd, ALONE, MSG_NOSIGNAL);
	close(via);
	T(pipe(pipe_) == 0);
	PASS(pipe_[1], fd, ALONE, 0);
	close(pipe_[0]);
	close(pipe_[1]);
	PASS(-1, fd, ALONE, 0);
	T(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	write_rights(&r, fd, ALONE);
	r.msg.msg_name = &nobody;
	r.msg.msg_namelen = sizeof(nobody);
	R(sendmsg(pair[0], &r.msg, 0));
	R(shutdown(pair[0], SHUT_WR));
	PASS(pair[0], fd, ALONE, MSG_NOSIGNAL);
	close(pair[0]);
	close(pair[1]);
}

static void refused_for_its_size(struct play *p, int fd)
{
	struct rights r;
	int via[2];

	T(socketpair(AF_UNIX, SOCK_DGRAM, 0, via) == 0);
	write_rights(&r, fd, ALONE);
	r.iov.iov_base = calloc(1, 10 << 20);
	r.iov.iov_len = 10 << 20;
	R(sendmsg(via[0], &r.msg, 0));
	free(r.iov.iov_base);
	close(via[0]);
	close(via[1]);
}

/* Of several the kernel has taken those before it. */
static void refused_among_several(struct play *p, int fd)
{
	struct iovec plain = { (void *)"p", 1 };
	struct mmsghdr mm[3] = { 0 };
	struct rights r[2];
	int via[2];

	T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
	write_rights(&r[0], fd, -1);
	write_rights(&r[1], fd, ALONE);
	mm[0].msg_hdr = (struct msghdr){ .msg_iov = &plain, .msg_iovlen = 1 };
	mm[1].msg_hdr = r[0].msg;
	mm[2].msg_hdr = r[1].msg;
	R(sendmmsg(via[0], mm, 3, 0));
	say(p, "%u bytes", mm[0].msg_len);
	R(sendmmsg(via[0], mm + 1, 2, 0));
	say_recv(p, via[1], 10, MSG_DONTWAIT);
	say_recv(p, via[1], 10, MSG_DONTWAIT);
	close(via[0]);
	close(via[1]);
}

static void refused_in_all_ways(struct play *p, int fd)
{
	refused_for_room(p, fd, SOCK_STREAM);
	refused_for_room(p, fd, SOCK_SEQPACKET);
	refused_for_room(p, fd, SOCK_DGRAM);
	refused_for_another(p, fd);
	refused_for_the_end(p, fd, SOCK_STREAM);
	refused_for_the_end(p, fd, SOCK_SEQPACKET);
	refused_for_the_way(p, fd);
	refused_for_its_size(p, fd);
	refused_among_several(p, fd);
}

CASE_TRAITS(pass_refused_before_the_upgrade, SELF, OWN_PAIR)
{
	int fds[2];

	A {
		pair_local(fds);
		refused_in_all_ways(p, fds[0]);
		refused_in_all_ways(p, fds[1]);
		warm(p, fds);
		say_send(p, fds[0], "here", 0);
		say_recv(p, fds[1], 4, MSG_WAITALL);
	}
}

CASE_TRAITS(pass_refused_after_the_upgrade, SELF, OWN_PAIR)
{
	int fds[2];

	A {
		pair_local(fds);
		warm(p, fds);
		say_send(p, fds[0], "in the ring", 0);
		refused_in_all_ways(p, fds[0]);
		refused_in_all_ways(p, fds[1]);
		say_recv(p, fds[1], 11, MSG_WAITALL);
		warm(p, fds);
	}
}

/* Whoever has a library beside it that keeps descriptors of its own passes none of them on. */
CASE(pass_refused_of_what_is_not_open, SELF)
{
	int fds[2], via[2], n_passed = 0;
	struct rights r;

	A {
		pair_local(fds);
		warm(p, fds);
		R(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		for (int fd = 100; fd < 5000; fd++) {
			write_rights(&r, fd, ALONE);
			if (fcntl(fd, F_GETFD) < 0 || sendmsg(via[0], &r.msg, 0) < 0)
				continue;
			n_passed++;
			(void)recv(via[1], &(char){ 0 }, 1, 0);
		}
		R(n_passed);
	}
}

CASE_TRAITS(pass_refused_of_datagrams, SELF, OWN_PAIR)
{
	struct address addresses[2];
	int fds[2];

	A {
		pair_datagrams("127.0.0.1", fds, addresses);
		refused_in_all_ways(p, fds[0]);
		warm_datagrams(p, fds, addresses);
		say_send(p, fds[0], "in the queue", 0);
		refused_in_all_ways(p, fds[0]);
		refused_in_all_ways(p, fds[1]);
		say_recv(p, fds[1], 20, 0);
		warm_datagrams(p, fds, addresses);
	}
}

/* The kernel takes these, and passes nothing on. */
CASE_TRAITS(pass_refused_by_what_passes_nothing, SELF, OWN_PAIR)
{
	int fds[2], others[2];

	A {
		pair_local(fds);
		pair_local(others);
		PASS(others[0], fds[0], fds[1], 0);
		warm(p, others);
		PASS(others[0], fds[0], fds[1], 0);
		say_recv(p, others[1], 2, MSG_WAITALL);
		PASS(fds[1], fds[1], ALONE, 0);
		say_recv(p, fds[0], 1, MSG_WAITALL);
		warm(p, fds);
	}
}

static int take_rights(int via)
{
	int fd = take_fd(via);

	if (fd < 0)
		_exit(98);
	return fd;
}

/* First there is no room for it, then there is. */
CASE(pass_refused_and_passed_later, PROCESS)
{
	char text[4096];
	int via[2];
	pid_t pid = -1;

	B { SEND("from before "); }
	A {
		settle(p, FD, 12);
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		fill(via[0]);
		PASS(via[0], FD, ALONE, MSG_DONTWAIT);
		PASS(via[0], FD, -1, MSG_DONTWAIT);
		while (recv(via[1], text, sizeof(text), MSG_DONTWAIT) > 0)
			;
		pid = fork_logged(p);
		if (pid == 0) {
			int fd;

			close(FD);
			fd = take_rights(via[1]);
			/* What is said of this end stands behind what the sender says of its
			 * call. */
			while (!atomic_load(stage_word(p, 1))) sched_yield();
			say_recv(p, fd, 12, MSG_WAITALL);
			say_send(p, fd, "to the end", 0);
			_exit(0);
		}
		PASS(via[0], FD, ALONE, MSG_DONTWAIT);
		atomic_store(stage_word(p, 1), 1);
		close(FD);
		reap(p, "receiver", pid);
	}
	B {
		RECV_FLAGS(10, MSG_WAITALL);
		RECV(1);
	}
}

/* Each of them has gone, in one call. */
CASE(pass_refused_none_of_several, ANY)
{
	struct mmsghdr mm[2] = { 0 };
	struct rights r[2];
	int via[2], copies[2];

	A {
		T(socketpair(AF_UNIX, SOCK_DGRAM, 0, via) == 0);
		for (int i = 0; i < 2; i++) {
			write_rights(&r[i], FD, ALONE);
			mm[i].msg_hdr = r[i].msg;
		}
		R(sendmmsg(via[0], mm, 2, 0));
		say(p, "%u and %u bytes", mm[0].msg_len, mm[1].msg_len);
		for (int i = 0; i < 2; i++) copies[i] = take_fd(via[1]);
		R(close(FD));
		say_send(p, copies[0], "one ", 0);
		R(close(copies[0]));
		say_send(p, copies[1], "two", 0);
		R(close(copies[1]));
	}
	B {
		RECV_FLAGS(7, MSG_WAITALL);
		RECV(1);
	}
}
