/* Calls that a connection is too late for, or does not know: said again, with a place to name or
 * a flag that changes nothing. */
#include "case.h"

#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>

static struct sockaddr_in somewhere(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(9),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* The connection goes on as if nothing had been. */
CASE(again_calls_before_a_connection, ANY)
{
	EACH {
		struct sockaddr_in to = somewhere();
		struct sockaddr *at = (struct sockaddr *)&to;
		struct sockaddr_storage own;
		socklen_t size = sizeof(own);

		R(connect(FD, at, sizeof(to)));
		R(connect(FD, at, 3));
		R(bind(FD, at, sizeof(to)));
		T(getsockname(FD, (struct sockaddr *)&own, &size) == 0);
		R(bind(FD, (struct sockaddr *)&own, size));
		R(listen(FD, 5));
		R(accept(FD, NULL, NULL));
		R(accept4(FD, NULL, NULL, SOCK_CLOEXEC));
		R(accept4(FD, NULL, NULL, 1 << 30));
	}
	A { SEND("still there"); }
	answer_and_end(p);
}

CASE(again_a_place_to_send_to, ANY)
{
	A {
		struct sockaddr_in to = somewhere();
		struct iovec iov = { "bytes", 5 };
		struct msghdr m = {
			.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &iov, .msg_iovlen = 1
		};

		R(sendto(FD, "hello", 5, 0, (struct sockaddr *)&to, sizeof(to)));
		R(sendto(FD, "hello", 5, 0, (struct sockaddr *)&to, 3));
		R(sendto(FD, "hello", 5, 0, (struct sockaddr *)&to, 1000));
		R(sendto(FD, "hello", 5, 0, (struct sockaddr *)&to, (socklen_t)-1));
		R(sendmsg(FD, &m, 0));
		m.msg_namelen = 1000;
		R(sendmsg(FD, &m, 0));
	}
	B {
		char buf[64];
		struct sockaddr_storage from;
		socklen_t size = sizeof(from);
		struct iovec iov = { buf, 5 };
		struct msghdr m = { .msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_flags = 0x5555 };

		R(recvfrom(FD, buf, 5, MSG_WAITALL, (struct sockaddr *)&from, &size));
		say(p, "from %u", size);
		size = 4;
		R(recvfrom(FD, buf, 5, MSG_WAITALL, (struct sockaddr *)&from, &size));
		say(p, "from %u", size);
		R(recvmsg(FD, &m, MSG_WAITALL));
		say(p, "from %u, flags %x", m.msg_namelen, m.msg_flags);
		m = (struct msghdr){ .msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = buf + 32,
				     .msg_controllen = 32 };
		R(recvmsg(FD, &m, MSG_CMSG_CLOEXEC));
		say(p, "control %zu, flags %x", m.msg_controllen, m.msg_flags);
		m.msg_controllen = 32;
		m.msg_iovlen = 0;
		R(recvmsg(FD, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
		say(p, "control %zu, flags %x", m.msg_controllen, m.msg_flags);
		m.msg_iovlen = 1;
		m.msg_controllen = 32;
		m.msg_namelen = 77;
		R(recvmsg(FD, &m, MSG_ERRQUEUE));
		say(p, "control %zu, flags %x, name %u", m.msg_controllen, m.msg_flags,
		    m.msg_namelen);
		R(recvmsg(FD, &m, MSG_ERRQUEUE | MSG_PEEK | MSG_DONTWAIT));
		R(recv(FD, buf, 5, MSG_ERRQUEUE | MSG_OOB));
		R(recv(FD, buf, 5, MSG_OOB));
		R(recv(FD, buf, 5, MSG_OOB | MSG_PEEK));
	}
}

static void nothing(struct play *p, int flags)
{
	char byte;
	struct iovec none = { &byte, 0 };
	struct msghdr m = { .msg_iov = &none, .msg_iovlen = 1 };

	R(send(FD, "", 0, flags));
	R(sendto(FD, NULL, 0, flags, NULL, 0));
	R(sendmsg(FD, &m, flags));
	R(recv(FD, &byte, 0, flags));
	R(recv(FD, NULL, 0, flags));
	R(recvmsg(FD, &m, flags));
	R(read(FD, &byte, 0));
}

static void nothing_in_all_ways(struct play *p)
{
	static const int flags[] = {
		0, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE, MSG_EOR, MSG_CONFIRM
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		say(p, "flags %x", flags[i]);
		nothing(p, flags[i] | MSG_NOSIGNAL);
	}
	say(p, "peek");
	R(recv(FD, NULL, 0, MSG_PEEK | MSG_DONTWAIT));
	R(recv(FD, NULL, 0, MSG_WAITALL));
	R(recv(FD, NULL, 0, MSG_TRUNC | MSG_DONTWAIT));
	R(send(FD, "", 0, MSG_OOB | MSG_NOSIGNAL));
}

CASE(again_nothing_with_bytes_there, ANY)
{
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		nothing_in_all_ways(p);
		RECV(5);
	}
}

CASE(again_nothing_after_the_end, ANY)
{
	A { R(shutdown(FD, SHUT_WR)); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		nothing_in_all_ways(p);
		R(shutdown(FD, SHUT_RDWR));
		nothing_in_all_ways(p);
	}
}

static void say_everything(struct play *p)
{
	struct sockaddr_storage ss;
	socklen_t size = sizeof(ss);
	char byte;
	int n = -1;

	R(getpeername(FD, (struct sockaddr *)&ss, &size));
	size = 2;
	R(getsockname(FD, (struct sockaddr *)&ss, &size));
	say(p, "size %u", size);
	n = -1;
	R(ioctl(FD, FIONREAD, &n));
	say(p, "in %d", n);
	n = -1;
	R(ioctl(FD, SIOCOUTQNSD, &n));
	say(p, "unsent %d", n);
	R(recv(FD, &byte, 0, MSG_DONTWAIT));
	R(send(FD, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL));
	R(shutdown(FD, SHUT_WR));
	R(shutdown(FD, SHUT_RD));
	R(shutdown(FD, SHUT_WR));
	R(recv(FD, &byte, 1, MSG_DONTWAIT));
	R(send(FD, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	R(listen(FD, 1));
}

CASE(again_everything_of_a_reset_connection, ANY)
{
	A {
		R(setsockopt(FD, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
			     sizeof(struct linger)));
		R(close(FD));
	}
	B {
		settle_poll(p, FD, POLLHUP);
		say_everything(p);
	}
}

CASE(again_everything_of_a_reset_connection_with_bytes, ANY)
{
	A { SEND("for nobody"); }
	B {
		settle(p, FD, 10);
		SEND("unread");
	}
	A {
		settle(p, FD, 6);
		R(close(FD));
	}
	B {
		settle_poll(p, FD, POLLHUP);
		say_everything(p);
	}
}

CASE(again_everything_of_an_ended_connection, ANY)
{
	A { R(close(FD)); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		say_everything(p);
	}
}

CASE(again_sizes_of_buffers, ANY)
{
	EACH {
		int sizes[] = { 1, 5000, 70001, 1 << 30, -1 };
		int size;
		socklen_t len;

		for (size_t i = 0; i < 5; i++) {
			R(setsockopt(FD, SOL_SOCKET, SO_SNDBUF, &sizes[i], sizeof(int)));
			R(setsockopt(FD, SOL_SOCKET, SO_RCVBUF, &sizes[i], sizeof(int)));
			len = sizeof(size);
			R(getsockopt(FD, SOL_SOCKET, SO_SNDBUF, &size, &len));
			say(p, "send %d", size);
			R(getsockopt(FD, SOL_SOCKET, SO_RCVBUF, &size, &len));
			say(p, "receive %d", size);
		}
	}
	A { SEND("still there"); }
	answer_and_end(p);
}
