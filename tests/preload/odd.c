/*
 * Odd requests: addresses where no memory is, lengths that nobody has, flags of preadv2 and
 * pwritev2, options under their other number, control messages of a connection that is reset.
 */
#include "case.h"

#include <limits.h>
#include <linux/sockios.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>

/* Of the kernel's half of the addresses. */
static char *volatile beyond = (char *)(intptr_t) - (1L << 40);
static char far_room[64];

/* ---- where to ------------------------------------------------------------------------------- */

static void receive_nowhere(struct play *p, int flags)
{
	struct iovec bad[2] = { { far_room, 2 }, { bad_address, 8 } };
	struct msghdr pieces = { .msg_iov = bad, .msg_iovlen = 2 },
		      nothing = { .msg_iov = (struct iovec *)bad_address, .msg_iovlen = 1 };

	R(recvmsg(FD, &nothing, flags));
	R(recv(FD, bad_address, 4, flags));
	R(recv(FD, NULL, 4, flags));
	R(recvmsg(FD, &pieces, flags));
}

/* What MSG_TRUNC drops needs no place; a datagram's bytes do. */
CASE(odd_places_for_bytes, ANY)
{
	B { receive_nowhere(p, MSG_DONTWAIT); }
	B { receive_nowhere(p, MSG_DONTWAIT | MSG_TRUNC); }
	A { SEND("0123456789abcdefghij"); }
	B {
		settle(p, FD, 20);
		R(recv(FD, bad_address, 4, MSG_DONTWAIT));
		R(recvmsg(
			FD,
			&(struct msghdr){ .msg_iov = (struct iovec *)bad_address, .msg_iovlen = 1 },
			MSG_DONTWAIT));
		receive_nowhere(p, MSG_DONTWAIT | MSG_TRUNC | MSG_PEEK);
		receive_nowhere(p, MSG_DONTWAIT | MSG_TRUNC);
		RECV_FLAGS(32, MSG_DONTWAIT);
	}
}

CASE_TRAITS(odd_places_for_datagrams, ANY, DATAGRAMS)
{
	B { receive_nowhere(p, MSG_DONTWAIT); }
	B { receive_nowhere(p, MSG_DONTWAIT | MSG_TRUNC); }
	A {
		for (int i = 0; i < 9; i++) SEND("0123456789");
		SEND("");
		SEND("end");
	}
	B {
		receive_nowhere(p, MSG_DONTWAIT | MSG_TRUNC | MSG_PEEK);
		receive_nowhere(p, MSG_DONTWAIT | MSG_TRUNC);
		receive_nowhere(p, MSG_DONTWAIT);
		R(recv(FD, NULL, 0, MSG_TRUNC));
		R(recvmsg(FD, &(struct msghdr){ .msg_iovlen = 0 }, MSG_TRUNC));
		R(recv(FD, NULL, 0, MSG_TRUNC | MSG_PEEK));
		for (int i = 0; i < 3; i++) RECV_FLAGS(32, MSG_DONTWAIT);
	}
}

CASE(odd_places_to_send_from, ANY)
{
	struct msghdr nothing = { .msg_iov = (struct iovec *)bad_address, .msg_iovlen = 1 };

	A {
		R(sendmsg(FD, &nothing, 0));
		R(send(FD, beyond, 4, 0));
		R(shutdown(FD, SHUT_WR));
		count_signal(SIGPIPE, 0);
		R(sendmsg(FD, &nothing, 0));
		R(send(FD, bad_address, 4, 0));
		say(p, "%d signals", n_signals);
	}
	B { RECV(4); }
}

CASE(odd_lengths, ANY)
{
	volatile size_t most = SIZE_MAX, large = (size_t)INT_MAX + 1, larger = 1L << 40;
	struct iovec two[2] = { { far_room, larger }, { far_room, larger } };

	B {
		R(recv(FD, far_room, most, MSG_DONTWAIT));
		R(recv(FD, far_room, large, MSG_DONTWAIT));
	}
	A { SEND("abcdefghij"); }
	B {
		settle(p, FD, 10);
		R(recv(FD, far_room, most, MSG_DONTWAIT | MSG_PEEK));
		R(recv(FD, far_room, most, MSG_DONTWAIT | MSG_PEEK | MSG_WAITALL));
		R(recv(FD, NULL, large, MSG_DONTWAIT | MSG_TRUNC | MSG_PEEK));
		R(recv(FD, far_room, 2, MSG_DONTWAIT));
		R(readv(FD, two, 2));
		R(recv(FD, far_room, larger, MSG_DONTWAIT));
	}
}

/* ---- preadv2 and pwritev2 ------------------------------------------------------------------- */

/* Flags that mean something to files do not take the bytes another way. */
CASE(odd_flags_of_pwritev2, ANY)
{
	static const int flags[] = { RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_NOWAIT };
	char text[] = "0a";

	A {
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			text[0] = (char)('0' + i);
			R(send(FD, text, 2, 0));
			R(pwritev2(FD, &(struct iovec){ text, 1 }, 1, -1, flags[i]));
		}
		R(pwritev2(FD, &(struct iovec){ text, 1 }, 1, -1, 0x40));
		R(pwritev2(FD, &(struct iovec){ text, 1 }, 1, 0, RWF_SYNC));
	}
	B {
		settle(p, FD, 15);
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			R(preadv2(FD, &(struct iovec){ far_room, 2 }, 1, -1, flags[i]));
			say_bytes(p, "got", far_room, 2);
		}
		R(preadv2(FD, &(struct iovec){ far_room, 2 }, 1, -1, 0x40));
		RECV_FLAGS(32, MSG_DONTWAIT);
	}
}

/* ---- options --------------------------------------------------------------------------------- */

/* Time-outs have two numbers each; those of the later one are for all machines. */
#define RCVTIMEO_NEW 66
#define SNDTIMEO_NEW 67
CASE(odd_number_of_the_timeout, ANY)
{
	int64_t tv[2] = { 0, 20000 };

	A {
		R(setsockopt(FD, SOL_SOCKET, RCVTIMEO_NEW, tv, sizeof(tv)));
		RECV(1);
		R(setsockopt(FD, SOL_SOCKET, SNDTIMEO_NEW, tv, sizeof(tv)));
		while (send(FD, far_room, sizeof(far_room), 0) > 0)
			;
		say(p, "%s", errno_name(errno));
	}
}

CASE_TRAITS(odd_number_of_the_timeout_of_datagrams, ANY, DATAGRAMS)
{
	int64_t tv[2] = { 0, 20000 };

	A {
		R(setsockopt(FD, SOL_SOCKET, RCVTIMEO_NEW, tv, sizeof(tv)));
		RECV(1);
	}
	B { SEND("in time"); }
	A { RECV(8); }
}

static int64_t stamp_of(struct play *p, unsigned long request)
{
	struct timeval tv = { 0 };

	say(p, "stamp %d", ioctl(FD, request, &tv));
	return (int64_t)tv.tv_sec * 1000000 + tv.tv_usec;
}

/* When the last one came, asked by ioctl. */
CASE_TRAITS(odd_stamps_of_datagrams, ANY, DATAGRAMS)
{
	static int64_t first, second;

	A { SEND("one"); }
	B {
		RECV(8);
		(void)stamp_of(p, SIOCGSTAMP_OLD);
	}
	for (int i = 0; i < 2; i++) {
		A { SEND("two"); }
		B {
			RECV(8);
			first = stamp_of(p, SIOCGSTAMP_OLD);
			T(first == stamp_of(p, SIOCGSTAMP_OLD));
		}
		A {
			usleep(2000);
			SEND("three");
		}
		B {
			RECV(8);
			second = stamp_of(p, SIOCGSTAMP_OLD);
			T(second - first >= 2000);
		}
	}
}

/* ---- control messages ------------------------------------------------------------------------ */

static ssize_t send_with_control(int fd, int level, int type, int value, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = level,
				  .cmsg_type = type } };
	struct iovec piece = { "with", 4 };
	struct msghdr msg = { .msg_iov = &piece,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.header), &value, sizeof(value));
	return sendmsg(fd, &msg, flags);
}

CASE(odd_control_of_a_reset_connection, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		R(send_with_control(FD, SOL_SOCKET, 9999, 0, MSG_NOSIGNAL));
		R(send_with_control(FD, IPPROTO_IP, IP_TOS, 4, MSG_NOSIGNAL));
		R(send_with_control(FD, IPPROTO_IP, IP_TOS, 4, MSG_NOSIGNAL));
		RECV(1);
	}
}

CASE(odd_control_of_an_ended_connection, ANY)
{
	A {
		count_signal(SIGPIPE, 0);
		R(send_with_control(FD, IPPROTO_IP, IP_TTL, 4, 0));
		R(shutdown(FD, SHUT_WR));
		R(send_with_control(FD, IPPROTO_IP, IP_TTL, 4, 0));
		R(send_with_control(FD, IPPROTO_IP, IP_TTL, 4, MSG_NOSIGNAL));
		R(send_with_control(FD, SOL_SOCKET, 9999, 4, 0));
		say(p, "%d signals", n_signals);
	}
	B { RECV_FLAGS(32, MSG_WAITALL); }
}

CASE_TRAITS(odd_control_of_datagrams, ANY, DATAGRAMS)
{
	A {
		SEND("before");
		R(send_with_control(FD, IPPROTO_IP, IP_TOS, 4, 0));
		R(send_with_control(FD, IPPROTO_IP, IP_TTL, 4, 0));
		SEND("between");
		R(send_with_control(FD, SOL_SOCKET, 9999, 4, 0));
		R(send_with_control(FD, SOL_UDP, UDP_SEGMENT, 2, 0));
		R(send_with_control(FD, IPPROTO_IP, IP_TOS, 4, MSG_MORE));
		SEND(", more");
		SEND("behind");
	}
	B {
		for (int i = 0; i < 8; i++) RECV_FLAGS(32, MSG_DONTWAIT);
	}
}

/* ---- flags ----------------------------------------------------------------------------------- */

CASE(odd_flags, ANY)
{
	enum { PROBE = 0x10, BATCH = 0x40000, SPLICE_PAGES = 0x8000000 };

	A {
		SEND_FLAGS("a", PROBE);
		SEND_FLAGS("b", BATCH);
		SEND_FLAGS("c", SPLICE_PAGES);
		SEND_FLAGS("d", MSG_SYN | MSG_FIN | MSG_RST);
		SEND_FLAGS("e", MSG_CMSG_CLOEXEC | MSG_WAITFORONE);
	}
	B {
		settle(p, FD, 5);
		RECV_FLAGS(1, PROBE | BATCH);
		RECV_FLAGS(1, MSG_EOR | MSG_CONFIRM | MSG_MORE);
		RECV_FLAGS(8, MSG_WAITFORONE | MSG_CTRUNC);
	}
}

CASE_TRAITS(odd_flags_of_datagrams, ANY, DATAGRAMS)
{
	enum { PROBE = 0x10, BATCH = 0x40000, SPLICE_PAGES = 0x8000000 };

	A {
		SEND_FLAGS("a", PROBE);
		SEND_FLAGS("b", BATCH);
		SEND_FLAGS("c", SPLICE_PAGES);
		SEND_FLAGS("d", MSG_SYN | MSG_FIN | MSG_RST);
		SEND_FLAGS("e", MSG_CMSG_CLOEXEC | MSG_WAITFORONE);
		SEND_FLAGS("f", MSG_FASTOPEN);
		SEND_FLAGS("g", MSG_CTRUNC | MSG_TRUNC | MSG_PEEK | MSG_ERRQUEUE);
		SEND("h");
	}
	B {
		RECV_FLAGS(8, PROBE | BATCH | MSG_DONTWAIT);
		RECV_FLAGS(8, MSG_EOR | MSG_CONFIRM | MSG_MORE | MSG_DONTWAIT);
		RECV_FLAGS(8, MSG_WAITFORONE | MSG_CTRUNC | MSG_DONTWAIT);
		for (int i = 0; i < 5; i++) RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* ---- ends, errors and options ---------------------------------------------------------------- */

CASE(odd_ways_to_shut_down, ANY)
{
	volatile int ways[] = { 3, 99, -1 };

	A {
		for (int i = 0; i < 3; i++) R(shutdown(FD, ways[i]));
		SEND("open");
	}
	B {
		RECV_FLAGS(4, MSG_WAITALL);
		SEND("still");
	}
	A { RECV_FLAGS(5, MSG_WAITALL); }
}

/* The error is told into no more than there is room for, and is told with that. */
CASE(odd_room_for_the_error, ANY)
{
	unsigned char error[4] = { 0xaa, 0xaa, 0xaa, 0xaa };
	socklen_t size = 1;

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLHUP);
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, error, (socklen_t *)bad_address));
		size = (socklen_t)-1;
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, error, &size));
		size = 1;
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, error, &size));
		say(p, "size %u, %x %x", size, error[0], error[1]);
		say_error(p, FD);
		RECV(1);
	}
}

CASE(odd_room_for_answers, ANY)
{
	socklen_t size = 200, no_room = 0;

	A {
		SEND("x");
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, far_room, (socklen_t *)bad_address));
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, bad_address, &size));
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, bad_address, &no_room));
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, NULL, NULL));
		R(getpeername(FD, (struct sockaddr *)bad_address, &size));
		R(getpeername(FD, (struct sockaddr *)far_room, (socklen_t *)bad_address));
		R(setsockopt(FD, SOL_SOCKET, SO_KEEPALIVE, bad_address, sizeof(int)));
		R(setsockopt(FD, SOL_SOCKET, SO_TIMESTAMP, bad_address, sizeof(int)));
	}
	B { RECV(1); }
}

/* More pieces than are looked at at once. */
CASE(odd_number_of_pieces, DUO)
{
	enum { MANY = IOV_MAX };
	static struct iovec pieces[MANY];
	static char bytes[MANY * 3];
	struct msghdr m = { .msg_iov = pieces, .msg_iovlen = MANY };

	for (int i = 0; i < MANY; i++)
		pieces[i] = (struct iovec){ bytes + 3 * i, (size_t)(i % 4 == 3 ? 0 : 3) };
	A {
		R(recvmsg(FD, &m, MSG_WAITALL | MSG_PEEK));
		R(recvmsg(FD, &m, MSG_WAITALL));
		for (int i = 0; i < MANY; i++)
			if (pieces[i].iov_len &&
			    !is_pattern(pieces[i].iov_base, 3, (uint64_t)(i - i / 4) * 3))
				say(p, "piece %d is wrong", i);
	}
	WITH_B {
		T(put_pattern(FD, 2304, 100) == 2304);
		SEND("behind");
	}
	A { RECV_FLAGS(6, MSG_WAITALL); }
}
