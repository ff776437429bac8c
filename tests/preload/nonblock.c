/* O_NONBLOCK, however it is set: it belongs to the open file description. */
#include "case.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static void set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

CASE(nonblock_by_fcntl, ANY)
{
	char c;

	A {
		set_nonblock(FD, true);
		RECV(1);
		R(read(FD, &c, 1));
		RECV_FLAGS(1, MSG_WAITALL);
	}
	B { SEND("x"); }
	A {
		settle(p, FD, 1);
		RECV(1);
		RECV(1);
	}
}

CASE(nonblock_by_ioctl, ANY)
{
	A {
		R(ioctl(FD, FIONBIO, &(int){ 1 }));
		RECV(1);
		T(fcntl(FD, F_GETFL) & O_NONBLOCK);
	}
	B { SEND("x"); }
	A {
		R(ioctl(FD, FIONBIO, &(int){ 0 }));
		RECV(1);
		T(fcntl(FD, F_GETFL) & O_NONBLOCK);
	}
}

CASE(nonblock_and_back, DUO)
{
	A {
		set_nonblock(FD, true);
		RECV(1);
		set_nonblock(FD, false);
	}
	A { RECV(1); }
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(nonblock_is_shared_by_dup, ANY)
{
	A {
		int copy = dup(FD);

		set_nonblock(copy, true);
		RECV(1);
		T(fcntl(FD, F_GETFL) & O_NONBLOCK);
		close(copy);
		RECV(1);
	}
}

CASE(nonblock_set_by_child, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			set_nonblock(FD, true);
			_exit(0);
		}
		reap(p, "child", pid);
		RECV(1);
	}
}

CASE(nonblock_set_by_parent_seen_by_child, ANY)
{
	A {
		pid_t pid;

		set_nonblock(FD, true);
		pid = fork_logged(p);
		if (pid == 0) {
			RECV(1);
			_exit(0);
		}
		reap(p, "child", pid);
	}
}

CASE(nonblock_read_at_eof, ANY)
{
	A {
		set_nonblock(FD, true);
		RECV(1);
	}
	B { shutdown(FD, SHUT_WR); }
	A {
		settle_poll(p, FD, POLLIN);
		RECV(1);
		RECV(1);
	}
}

CASE_TRAITS(nonblock_send_until_full_and_drain, ANY, SETTLED)
{
	A {
		static char buf[100000];
		size_t at = 0;
		ssize_t n;

		set_nonblock(FD, true);
		fill_pattern(buf, 65521, 0);
		while ((n = send(FD, buf + at % 65521, 65521 - at % 65521, 0)) > 0) at += (size_t)n;
		say(p, "ends with %s", errno_name(errno));
		R(write(FD, buf, 1));
		*stage_word(p, 1) = (long)at;
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
	A {
		settle_poll(p, FD, POLLOUT);
		SEND("on");
	}
	B { RECV_FLAGS(2, MSG_WAITALL); }
}

CASE(nonblock_large_send_is_partial, ANY)
{
	enum { LEN = 64 << 20 };

	A {
		char *buf = malloc(LEN);
		ssize_t n;

		fill_pattern(buf, LEN, 0);
		set_nonblock(FD, true);
		n = send(FD, buf, LEN, 0);
		T(n > 0);
		T(n < LEN);
		*stage_word(p, 1) = n;
		free(buf);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
}

CASE(nonblock_flags_read_back, ANY)
{
	A {
		say(p, "%o", (unsigned)fcntl(FD, F_GETFL));
		set_nonblock(FD, true);
		say(p, "%o", (unsigned)fcntl(FD, F_GETFL));
		say(p, "%d", fcntl(FD, F_GETFD));
	}
}

CASE(nonblock_other_end_is_not_concerned, DUO)
{
	A { set_nonblock(FD, true); }
	B { RECV(1); }
	WITH_A {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE_TRAITS(nonblock_connect, SELF, OWN_PAIR)
{
	struct address address;
	int fds[2], listener, error = -1;
	socklen_t size = sizeof(error);

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		settle_poll(p, fds[0], POLLOUT);
		R(getsockopt(fds[0], SOL_SOCKET, SO_ERROR, &error, &size));
		say(p, "error %d", error);
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		say_recv(p, fds[0], 1, 0);
		R(send(fds[1], "x", 1, 0));
		settle(p, fds[0], 1);
		say_recv(p, fds[0], 1, 0);
	}
}

CASE_TRAITS(nonblock_listener_does_not_make_accepted_so, SELF, OWN_PAIR)
{
	struct address address;
	int fds[2], listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		set_nonblock(listener, true);
		R(accept(listener, NULL, NULL));
		fds[0] = connect_to(&address, 0);
		settle_poll(p, listener, POLLIN);
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		T(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
		R(send(fds[0], "x", 1, 0));
		say_recv(p, fds[1], 1, 0);
	}
}

CASE_TRAITS(nonblock_accept4, SELF, OWN_PAIR)
{
	struct address address;
	int fds[2], listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, SOCK_CLOEXEC);
		fds[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		nodelay(fds[0]);
		nodelay(fds[1]);
		warm(p, fds);
		T(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
		T(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
		T(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
		say_recv(p, fds[1], 1, 0);
		R(send(fds[0], "x", 1, 0));
		settle(p, fds[1], 1);
		say_recv(p, fds[1], 1, 0);
	}
}
