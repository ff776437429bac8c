/* The same calls made through syscall(), as libuv, Go-like runtimes and others do. */
#include "case.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

CASE(syscall_write_read, ANY)
{
	char buf[16] = "";

	A { R(syscall(SYS_write, FD, "hello", 5)); }
	B {
		settle(p, FD, 5);
		R(syscall(SYS_read, FD, buf, sizeof(buf)));
		say_bytes(p, "got", buf, 5);
	}
}

CASE(syscall_sendto_recvfrom, ANY)
{
	char buf[16] = "";

	A { R(syscall(SYS_sendto, FD, "hello", 5, 0, NULL, 0)); }
	B {
		settle(p, FD, 5);
		R(syscall(SYS_recvfrom, FD, buf, sizeof(buf), MSG_PEEK, NULL, NULL));
		R(syscall(SYS_recvfrom, FD, buf, sizeof(buf), 0, NULL, NULL));
		R(syscall(SYS_recvfrom, FD, buf, sizeof(buf), MSG_DONTWAIT, NULL, NULL));
	}
}

CASE(syscall_mixed_with_calls, ANY)
{
	char buf[16] = "";

	for (int i = 0; i < 6; i++) {
		A {
			if (i & 1)
				R(syscall(SYS_write, FD, "raw.", 4));
			else
				R(write(FD, "libc", 4));
		}
		B {
			settle(p, FD, 4);
			if (i & 2)
				R(syscall(SYS_read, FD, buf, sizeof(buf)));
			else
				R(read(FD, buf, sizeof(buf)));
			say_bytes(p, "got", buf, 4);
		}
	}
}

CASE(syscall_vectors, ANY)
{
	char buf[16] = "";
	struct iovec out[] = { { (void *)"one", 3 }, { (void *)"two", 3 } },
		     in[] = { { buf, 4 }, { buf + 4, 4 } };

	A { R(syscall(SYS_writev, FD, out, 2)); }
	B {
		settle(p, FD, 6);
		R(syscall(SYS_readv, FD, in, 2));
		say_bytes(p, "got", buf, 6);
	}
}

CASE(syscall_messages, ANY)
{
	char buf[16] = "";
	struct iovec out = { (void *)"message", 7 }, in = { buf, sizeof(buf) };
	struct mmsghdr o = { .msg_hdr = { .msg_iov = &out, .msg_iovlen = 1 } },
		       i = { .msg_hdr = { .msg_iov = &in, .msg_iovlen = 1 } };

	A {
		R(syscall(SYS_sendmsg, FD, &o.msg_hdr, 0));
		R(syscall(SYS_sendmmsg, FD, &o, 1, 0));
	}
	B {
		settle(p, FD, 14);
		in.iov_len = 7;
		R(syscall(SYS_recvmsg, FD, &i.msg_hdr, 0));
		say_bytes(p, "got", buf, 7);
		R(syscall(SYS_recvmmsg, FD, &i, 1, 0, NULL));
		say_bytes(p, "got", buf, 7);
	}
}

CASE(syscall_errors_go_to_errno, ANY)
{
	char c;

	A {
		R(syscall(SYS_recvfrom, FD, &c, 1, MSG_DONTWAIT, NULL, NULL));
		R(syscall(SYS_read, -1, &c, 1));
		R(syscall(SYS_write, 1 << 20, &c, 1));
		R(syscall(-1L));
		R(syscall(9999));
	}
}

CASE(syscall_waiting, DUO)
{
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };

		R(syscall(SYS_poll, &pfd, 1, -1));
		say_poll(p, "events", pfd.revents);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(syscall_ppoll_and_select, ANY)
{
	A { SEND("x"); }
	B {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };
		fd_set in;

		settle(p, FD, 1);
		R(syscall(SYS_ppoll, &pfd, 1, NULL, NULL, 8));
		FD_ZERO(&in);
		FD_SET(FD, &in);
		R(syscall(SYS_select, FD + 1, &in, NULL, NULL, NULL));
	}
}

CASE(syscall_epoll, DUO)
{
	A {
		struct epoll_event event = { .events = EPOLLIN, .data.u64 = 42 };
		int ep = (int)syscall(SYS_epoll_create1, 0);

		R(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, FD, &event));
		event.data.u64 = 0;
		R(syscall(SYS_epoll_pwait, ep, &event, 1, -1, NULL, 8));
		say(p, "%llu", (unsigned long long)event.data.u64);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(syscall_close_ends_it, ANY)
{
	A {
		SEND("bye");
		R(syscall(SYS_close, FD));
		R(send(FD, "x", 1, MSG_NOSIGNAL));
	}
	B {
		RECV_FLAGS(3, MSG_WAITALL);
		RECV(1);
	}
}

CASE_TRAITS(syscall_close_then_number_reused, SELF, OWN_PAIR)
{
	int fds[2], more[2];
	char c = 0;

	A {
		pair_local(fds);
		warm(p, fds);
		R(syscall(SYS_close, fds[0]));
		say_recv(p, fds[1], 1, 0);
		T(pipe(more) == 0);
		T(more[0] == fds[0] || more[1] == fds[0]);
		T(write(more[1], "p", 1) == 1);
		T(read(more[0], &c, 1) == 1);
		say(p, "%c", c);
	}
}

CASE_TRAITS(syscall_close_then_socket_reuses_number, SELF, OWN_PAIR)
{
	int fds[2], more[2];

	A {
		pair_local(fds);
		warm(p, fds);
		R(syscall(SYS_close, fds[0]));
		R(syscall(SYS_close, fds[1]));
		pair_local(more);
		T(more[0] == fds[0] || more[1] == fds[0] || more[0] == fds[1]);
		for (int i = 0; i < 20; i++) {
			T(send(more[0], "abc", 3, 0) == 3);
			say_recv(p, more[1], 3, MSG_WAITALL);
		}
		close(more[0]);
		say_recv(p, more[1], 1, 0);
	}
}

CASE(syscall_shutdown, ANY)
{
	A {
		SEND("x");
		R(syscall(SYS_shutdown, FD, SHUT_WR));
		SEND_FLAGS("y", MSG_NOSIGNAL);
	}
	B {
		RECV(1);
		RECV(1);
	}
}

CASE(syscall_dup, ANY)
{
	A {
		int copy = (int)syscall(SYS_dup, FD);

		R(syscall(SYS_fcntl, FD, F_GETFD));
		R(close(FD));
		say_send(p, copy, "copy", 0);
		R(close(copy));
	}
	B {
		RECV_FLAGS(4, MSG_WAITALL);
		RECV(1);
	}
}

CASE(syscall_ioctl, ANY)
{
	int value = -1;

	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		R(syscall(SYS_ioctl, FD, FIONREAD, &value));
		say(p, "%d", value);
	}
}

CASE(syscall_nonblock, ANY)
{
	A {
		R(syscall(SYS_fcntl, FD, F_SETFL, O_NONBLOCK));
		RECV(1);
	}
}

CASE(syscall_large, DUO)
{
	enum { LEN = 2 << 20 };
	char *buf = malloc(LEN);

	A {
		size_t at = 0;

		fill_pattern(buf, LEN, 0);
		while (at < LEN) {
			long n = syscall(SYS_write, FD, buf + at,
					 LEN - at > 10000 ? 10000 : LEN - at);

			if (n <= 0)
				break;
			at += (size_t)n;
		}
		say(p, "%zu", at);
	}
	WITH_B {
		size_t at = 0;

		while (at < LEN) {
			long n = syscall(SYS_recvfrom, FD, buf + at, LEN - at, 0, NULL, NULL);

			if (n <= 0)
				break;
			at += (size_t)n;
		}
		say(p, "%zu", at);
		T(is_pattern(buf, at, 0));
	}
	free(buf);
}
