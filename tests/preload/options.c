/* Socket options that bear on the bytes, and what reading options back gives. */
#include "case.h"

#include <fcntl.h>
#include <netinet/tcp.h>

static void say_option(struct play *p, int fd, int level, int option, const char *name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	if (getsockopt(fd, level, option, &value, &size) < 0)
		say(p, "%s: %s", name, errno_name(errno));
	else
		say(p, "%s: %d", name, value);
}
#define GET(level, option) say_option(p, FD, level, option, #option)
#define SET(level, option, value) R(setsockopt(FD, level, option, &(int){ value }, sizeof(int)))

CASE(options_read_back, ANY)
{
	EACH {
		GET(SOL_SOCKET, SO_TYPE);
		GET(SOL_SOCKET, SO_PROTOCOL);
		GET(SOL_SOCKET, SO_ERROR);
		GET(SOL_SOCKET, SO_ACCEPTCONN);
		GET(SOL_SOCKET, SO_KEEPALIVE);
		GET(SOL_SOCKET, SO_OOBINLINE);
		GET(SOL_SOCKET, SO_RCVLOWAT);
		GET(SOL_SOCKET, SO_SNDLOWAT);
		GET(SOL_SOCKET, SO_BROADCAST);
		GET(IPPROTO_IP, IP_RECVORIGDSTADDR);
		GET(IPPROTO_TCP, TCP_NODELAY);
		GET(IPPROTO_TCP, TCP_CORK);
		GET(IPPROTO_TCP, TCP_KEEPIDLE);
		GET(IPPROTO_TCP, TCP_USER_TIMEOUT);
		GET(IPPROTO_TCP, 9999);
		GET(12345, 1);
	}
}

CASE(options_set_and_read_back, ANY)
{
	A {
		SET(SOL_SOCKET, SO_KEEPALIVE, 1);
		GET(SOL_SOCKET, SO_KEEPALIVE);
		SET(SOL_SOCKET, SO_SNDBUF, 50000);
		GET(SOL_SOCKET, SO_SNDBUF);
		SET(SOL_SOCKET, SO_RCVBUF, 60000);
		GET(SOL_SOCKET, SO_RCVBUF);
		SET(IPPROTO_TCP, TCP_KEEPIDLE, 100);
		GET(IPPROTO_TCP, TCP_KEEPIDLE);
		SET(IPPROTO_TCP, TCP_QUICKACK, 1);
		SET(IPPROTO_TCP, TCP_USER_TIMEOUT, 10000);
		SET(SOL_SOCKET, SO_PRIORITY, 3);
		SET(IPPROTO_IP, IP_TOS, 0x10);
		SEND("x");
	}
	B { RECV(1); }
}

CASE(options_small_send_buffer_bounds, ANY)
{
	A {
		SET(SOL_SOCKET, SO_SNDBUF, 20000);
		*stage_word(p, 1) = (long)stuff(FD);
		T(*stage_word(p, 1) > 0);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
}

CASE(options_lowat_delays_recv, DUO)
{
	A {
		SET(SOL_SOCKET, SO_RCVLOWAT, 5);
		RECV(10);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("ab");
		until_other_sleeps(p);
		SEND("cde");
	}
}

CASE(options_lowat_and_short_recv, ANY)
{
	A { SET(SOL_SOCKET, SO_RCVLOWAT, 5); }
	B { SEND("ab"); }
	A {
		settle(p, FD, 2);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV(2);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV_FLAGS(10, MSG_DONTWAIT);
	}
	B { SEND("cd"); }
	A {
		settle(p, FD, 2);
		RECV_FLAGS(10, MSG_DONTWAIT);
		RECV_FLAGS(10, MSG_DONTWAIT);
	}
}

CASE(options_lowat_ends_with_eof, DUO)
{
	A {
		SET(SOL_SOCKET, SO_RCVLOWAT, 50);
		RECV(100);
		RECV(1);
	}
	WITH_B {
		SEND("ab");
		until_other_sleeps(p);
		shutdown(FD, SHUT_WR);
	}
}

CASE_TRAITS(options_cork_holds_and_releases, ANY, DELAYED)
{
	A {
		SET(IPPROTO_TCP, TCP_CORK, 1);
		SEND("head,");
		SEND("body,");
		SEND("tail");
		SET(IPPROTO_TCP, TCP_CORK, 0);
	}
	B {
		settle(p, FD, 14);
		RECV(100);
	}
}

CASE_TRAITS(options_corked_close, ANY, DELAYED)
{
	A {
		SET(IPPROTO_TCP, TCP_CORK, 1);
		SEND("corked");
		R(close(FD));
	}
	B {
		RECV_FLAGS(10, MSG_WAITALL);
		RECV(1);
	}
}

CASE(options_cork_left_on, ANY)
{
	A {
		SET(IPPROTO_TCP, TCP_CORK, 1);
		SEND("sooner or later");
	}
	B { RECV_FLAGS(15, MSG_WAITALL); }
}

CASE(options_linger_read_back, ANY)
{
	struct linger linger = { 1, 7 };
	socklen_t size = sizeof(linger);

	A {
		R(getsockopt(FD, SOL_SOCKET, SO_LINGER, &linger, &size));
		say(p, "%d %d", linger.l_onoff, linger.l_linger);
		linger = (struct linger){ 1, 7 };
		R(setsockopt(FD, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
		linger = (struct linger){ 0, 0 };
		R(getsockopt(FD, SOL_SOCKET, SO_LINGER, &linger, &size));
		say(p, "%d %d", linger.l_onoff, linger.l_linger);
		SEND("x");
	}
	B {
		RECV(1);
		close(FD);
	}
	A {
		RECV(1);
		R(close(FD));
	}
}

CASE(options_peek_offset, ANY)
{
	B { SET(SOL_SOCKET, SO_PEEK_OFF, 2); }
	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		RECV_FLAGS(2, MSG_PEEK);
		RECV_FLAGS(2, MSG_PEEK);
		RECV(3);
		GET(SOL_SOCKET, SO_PEEK_OFF);
		SET(SOL_SOCKET, SO_PEEK_OFF, -1);
		RECV_FLAGS(9, MSG_PEEK);
	}
}

CASE(options_info_state, ANY)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	A {
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, &info, &size));
		say(p, "state %u", info.tcpi_state);
		shutdown(FD, SHUT_WR);
	}
	B {
		RECV(1);
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, &info, &size));
		say(p, "state %u", info.tcpi_state);
	}
}

CASE(options_inq_in_control, ANY)
{
	char buf[4], control[64];
	struct iovec iov = { buf, 4 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };

	B { SET(IPPROTO_TCP, TCP_INQ, 1); }
	A { SEND("abcdefghij"); }
	B {
		settle(p, FD, 10);
		R(recvmsg(FD, &m, 0));
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			say(p, "level %d type %d value %d", c->cmsg_level, c->cmsg_type,
			    *(int *)CMSG_DATA(c));
	}
}

CASE(options_timestamp_stays_right, ANY)
{
	B { SET(SOL_SOCKET, SO_TIMESTAMP, 1); }
	A { SEND("stamped"); }
	B { RECV_FLAGS(7, MSG_WAITALL); }
	A { SEND("again"); }
	B { RECV_FLAGS(5, MSG_WAITALL); }
}

CASE(options_wrong_size, ANY)
{
	A {
		R(setsockopt(FD, SOL_SOCKET, SO_RCVLOWAT, &(int){ 1 }, 1));
		R(setsockopt(FD, SOL_SOCKET, SO_RCVBUF, bad_address, 4));
	}
}

CASE(options_status_of_the_descriptor, ANY)
{
	A {
		R(fcntl(FD, F_GETFD));
		R(fcntl(FD, F_SETFD, FD_CLOEXEC));
		R(fcntl(FD, F_GETFD));
		say(p, "%o", (unsigned)fcntl(FD, F_GETFL));
		R(fcntl(FD, F_SETFL, O_APPEND));
		R(fcntl(FD, 9999, 0));
		SEND("x");
	}
	B { RECV(1); }
}

/* ---- receiving without copying --------------------------------------------------------------- */

/* As the kernel has it since 5.11 (linux/tcp.h does not go together with libc's). */
struct mapped_receive {
	uint64_t address;
	uint32_t length, recv_skip_hint, inq;
	int32_t err;
	uint64_t copybuf_address;
	int32_t copybuf_len;
	uint32_t flags;
	uint64_t msg_control, msg_controllen;
	uint32_t msg_flags, reserved;
};

/* Nothing can be mapped of so few bytes: they are copied where there is room, and else counted. */
static void receive_mapped(struct play *p, int room)
{
	char buf[200] = "";
	struct mapped_receive r = { .length = 65536,
				    .copybuf_address = (uintptr_t)buf,
				    .copybuf_len = room };
	socklen_t size = sizeof(r);

	R(getsockopt(FD, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &r, &size));
	say(p, "mapped %u, to skip %u, there %u, error %d, copied %d", r.length, r.recv_skip_hint,
	    r.inq, r.err, r.copybuf_len);
	say_bytes(p, "copied", buf, strlen(buf));
}

CASE(options_zerocopy_receive, ANY)
{
	A { SEND("those that lie there"); }
	B {
		settle(p, FD, 20);
		receive_mapped(p, 10);
		receive_mapped(p, 100);
		receive_mapped(p, 100);
	}
	A { SEND("others"); }
	B {
		settle(p, FD, 6);
		receive_mapped(p, 0);
		RECV(3);
		receive_mapped(p, 100);
		SEND("reply");
	}
	A {
		RECV_FLAGS(5, MSG_WAITALL);
		shutdown(FD, SHUT_WR);
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		receive_mapped(p, 100);
		RECV(1);
	}
}
