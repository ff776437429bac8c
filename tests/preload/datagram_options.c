/*
 * Options that a UDP socket gets while datagrams come to it through queues: from then on what they
 * ask for comes with each, or happens to each.
 */
#include "case.h"

#include <linux/filter.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/ioctl.h>

/* Receives one, and says of which kinds its control messages are, and what of their values is the
 * same each time. */
static void say_received(struct play *p, int fd)
{
	char bytes[32], control[256];
	struct iovec piece = { bytes, sizeof(bytes) };
	struct msghdr m = { .msg_iov = &piece,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = R(recvmsg(fd, &m, MSG_DONTWAIT));

	if (n < 0)
		return;
	say_bytes(p, "bytes", bytes, (size_t)n);
	say(p, "flags %x", (unsigned)m.msg_flags);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		say(p, "level %d type %d, %zu bytes", c->cmsg_level, c->cmsg_type,
		    (size_t)c->cmsg_len);
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type != IP_PKTINFO)
			say(p, "value %d", *(unsigned char *)CMSG_DATA(c));
	}
}

static void set_on(struct play *p, int level, int option, int value)
{
	R(setsockopt(FD, level, option, &value, sizeof(value)));
}

/* Of B's socket, between a datagram and two more. */
static void tell_from_now_on(struct play *p, int level, int option)
{
	A { SEND("before"); }
	B {
		say_received(p, FD);
		set_on(p, level, option, 1);
	}
	for (int i = 0; i < 2; i++) {
		A { SEND("after"); }
		B { say_received(p, FD); }
	}
	B { SEND("back"); }
	A { RECV_FLAGS(8, MSG_DONTWAIT); }
	B { set_on(p, level, option, 0); }
	A { SEND("off"); }
	B { say_received(p, FD); }
}

CASE_TRAITS(datagram_options_tell_the_address, ANY, DATAGRAMS)
{
	tell_from_now_on(p, IPPROTO_IP, IP_PKTINFO);
}

CASE_TRAITS(datagram_options_tell_the_hops, ANY, DATAGRAMS)
{
	A { set_on(p, IPPROTO_IP, IP_TTL, 77); }
	tell_from_now_on(p, IPPROTO_IP, IP_RECVTTL);
}

CASE_TRAITS(datagram_options_tell_the_kind_of_service, ANY, DATAGRAMS)
{
	A { set_on(p, IPPROTO_IP, IP_TOS, 0x10); }
	tell_from_now_on(p, IPPROTO_IP, IP_RECVTOS);
}

CASE_TRAITS(datagram_options_tell_the_destination, ANY, DATAGRAMS)
{
	tell_from_now_on(p, IPPROTO_IP, IP_RECVORIGDSTADDR);
}

CASE_TRAITS(datagram_options_tell_of_losses, ANY, DATAGRAMS)
{
	tell_from_now_on(p, SOL_SOCKET, SO_RXQ_OVFL);
}

CASE_TRAITS(datagram_options_gather, ANY, DATAGRAMS)
{
	tell_from_now_on(p, SOL_UDP, UDP_GRO);
}

CASE_TRAITS(datagram_options_peek_further_on, ANY, DATAGRAMS)
{
	A { SEND("before"); }
	B {
		RECV_FLAGS(8, MSG_DONTWAIT);
		set_on(p, SOL_SOCKET, SO_PEEK_OFF, 2);
	}
	A {
		SEND("abcdef");
		SEND("ghi");
	}
	B {
		for (int i = 0; i < 4; i++) RECV_FLAGS(2, MSG_DONTWAIT | MSG_PEEK);
		RECV_FLAGS(8, MSG_DONTWAIT);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_options_split, ANY, DATAGRAMS)
{
	A {
		SEND("before");
		set_on(p, SOL_UDP, UDP_SEGMENT, 2);
		SEND("abcde");
		set_on(p, SOL_UDP, UDP_SEGMENT, 0);
		SEND("after");
	}
	B {
		for (int i = 0; i < 6; i++) RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* What was there before a filter stays. */
CASE_TRAITS(datagram_options_filter, ANY, DATAGRAMS)
{
	struct sock_filter none[] = { { 0x06, 0, 0, 0 } };
	struct sock_fprog filter = { 1, none };

	A { SEND("before"); }
	B {
		R(setsockopt(FD, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)));
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
	A { SEND("dropped"); }
	B {
		RECV_FLAGS(8, MSG_DONTWAIT);
		R(setsockopt(FD, SOL_SOCKET, SO_DETACH_FILTER, &(int){ 0 }, sizeof(int)));
	}
	A { SEND("after"); }
	B { RECV_FLAGS(8, MSG_DONTWAIT); }
}

CASE_TRAITS(datagram_options_of_the_device, ANY, DATAGRAMS)
{
	A { SEND("before"); }
	B {
		R(setsockopt(FD, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
	A { SEND("after"); }
	B { RECV_FLAGS(8, MSG_DONTWAIT); }
	A { set_on(p, SOL_SOCKET, SO_DONTROUTE, 1); }
	A { SEND("not routed"); }
	B { RECV_FLAGS(16, MSG_DONTWAIT); }
}

/* An error is told with the datagram that it is about. */
CASE_TRAITS(datagram_options_queue_errors, ANY, DATAGRAMS)
{
	A {
		SEND("before");
		set_on(p, IPPROTO_IP, IP_RECVERR, 1);
	}
	B {
		RECV_FLAGS(8, MSG_DONTWAIT);
		R(close(FD));
	}
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };
		char bytes[8] = "";

		SEND("refused");
		R(poll(&pfd, 1, 1000));
		say_poll(p, "polled", pfd.revents);
		R(recv(FD, bytes, sizeof(bytes), MSG_ERRQUEUE | MSG_DONTWAIT));
		say_bytes(p, "bytes", bytes, 7);
		RECV_FLAGS(8, MSG_DONTWAIT);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* ---- ends that are none ---------------------------------------------------------------------- */

static void end_in_no_way(struct play *p)
{
	volatile int ways[] = { 3, 99, -1 };

	for (int i = 0; i < 3; i++) R(shutdown(FD, ways[i]));
}

CASE_TRAITS(datagram_options_no_way_to_shut_down, ANY, DATAGRAMS)
{
	B { end_in_no_way(p); }
	A { SEND("still"); }
	B { RECV_FLAGS(8, MSG_DONTWAIT); }
	B { SEND("open"); }
	A { RECV_FLAGS(8, MSG_DONTWAIT); }
}
