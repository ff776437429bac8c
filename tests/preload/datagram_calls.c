/* What each call does with datagrams: boundaries, truncation, names, flags. */
#include "case.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>

#define MSG_COUNT 4

CASE_TRAITS(datagram_one_each_way, ANY, DATAGRAMS)
{
	A { SEND("over"); }
	B { RECV(16); }
	B { SEND("and back"); }
	A { RECV(16); }
}

CASE_TRAITS(datagram_to_a_server, ANY, DATAGRAMS | SERVER)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	char buf[16];

	for (int i = 0; i < 3; i++) {
		A { SEND("request"); }
		B {
			R(recvfrom(FD, buf, sizeof(buf), 0, (struct sockaddr *)&from, &size));
			T(size == PEER_SIZE && memcmp(&from, PEER, 8) == 0);
			R(sendto(FD, "answer", 6, 0, (struct sockaddr *)&from, size));
		}
		A { RECV(16); }
	}
}

CASE_TRAITS(datagram_boundaries_are_kept, ANY, DATAGRAMS)
{
	A {
		SEND("one");
		SEND("three");
		SEND("");
		SEND("seven");
	}
	B {
		for (int i = 0; i < MSG_COUNT; i++) RECV(64);
	}
}

CASE_TRAITS(datagram_empty_ones, ANY, DATAGRAMS)
{
	struct iovec none = { .iov_base = NULL, .iov_len = 0 };
	char buf[8];

	A {
		R(send(FD, NULL, 0, 0));
		R(write(FD, buf, 0));
		R(writev(FD, &none, 1));
		R(sendmsg(FD, &(struct msghdr){ .msg_iov = &none, .msg_iovlen = 1 }, 0));
		R(sendmsg(FD, &(struct msghdr){ .msg_iovlen = 0 }, 0));
		SEND("end");
	}
	B {
		R(read(FD, buf, 0));
		R(readv(FD, &none, 1));
		for (int i = 0; i < 5; i++)
			if (RECV(8) == 3)
				break;
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_truncated, ANY, DATAGRAMS)
{
	char buf[4];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	A {
		for (int i = 0; i < 6; i++) SEND("0123456789");
		SEND("fits");
	}
	B {
		RECV(4);
		R(recv(FD, buf, sizeof(buf), MSG_TRUNC));
		R(recvmsg(FD, &msg, 0));
		say(p, "flags %x", msg.msg_flags);
		R(recvmsg(FD, &msg, MSG_TRUNC));
		say(p, "flags %x", msg.msg_flags);
		R(recv(FD, NULL, 0, 0));
		R(recv(FD, NULL, 0, MSG_TRUNC));
		R(recvmsg(FD, &msg, 0));
		say(p, "flags %x", msg.msg_flags);
		say_bytes(p, "whole", buf, 4);
	}
}

CASE_TRAITS(datagram_peeked, ANY, DATAGRAMS)
{
	char buf[4];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	A {
		SEND("first one");
		SEND("second");
	}
	B {
		RECV_FLAGS(16, MSG_PEEK);
		RECV_FLAGS(3, MSG_PEEK);
		R(recv(FD, NULL, 0, MSG_PEEK | MSG_TRUNC));
		R(recvmsg(FD, &msg, MSG_PEEK));
		say(p, "flags %x", msg.msg_flags);
		RECV(16);
		RECV_FLAGS(16, MSG_PEEK);
		RECV(16);
		RECV_FLAGS(16, MSG_PEEK | MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_of_every_size, DUO, DATAGRAMS)
{
	static const size_t sizes[] = { 1,    7,    8,	  15,	16,   17,   31,	  32,	33,
					47,   48,   49,	  63,	64,   100,  1000, 1472, 1473,
					4000, 4064, 4080, 4081, 8192, 9000, 30000 };
	char buf[32768];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		A {
			fill_pattern(buf, sizes[i], i);
			R(send(FD, buf, sizes[i], 0));
		}
		B {
			R(recv(FD, buf, sizeof(buf), 0));
			T(is_pattern(buf, sizes[i], i));
		}
	}
}

CASE_TRAITS(datagram_largest, DUO, DATAGRAMS)
{
	static char buf[70000];

	A {
		fill_pattern(buf, sizeof(buf), 0);
		R(send(FD, buf, 65507, 0));
		R(send(FD, buf, 65536, 0));
		R(send(FD, buf, sizeof(buf), 0));
	}
	B {
		memset(buf, 0, sizeof(buf));
		R(recv(FD, buf, sizeof(buf), 0));
		T(is_pattern(buf, 65507, 0));
		R(recv(FD, buf, sizeof(buf), MSG_DONTWAIT));
	}
}

CASE_TRAITS(datagram_vectors, ANY, DATAGRAMS)
{
	struct iovec out[] = { { "ab", 2 }, { "", 0 }, { "cde", 3 }, { "fghijk", 6 } };
	char a[4], b[3], c[8];
	struct iovec in[] = { { a, 4 }, { b, 3 }, { c, 8 } };

	A {
		R(writev(FD, out, 4));
		R(sendmsg(FD, &(struct msghdr){ .msg_iov = out, .msg_iovlen = 3 }, 0));
	}
	B {
		for (int i = 0; i < 2; i++) {
			memset(a, '-', 4);
			memset(b, '-', 3);
			memset(c, '-', 8);
			R(readv(FD, in, 3));
			say_bytes(p, "a", a, 4);
			say_bytes(p, "b", b, 3);
			say_bytes(p, "c", c, 8);
		}
	}
}

CASE_TRAITS(datagram_names, DUO, DATAGRAMS | SERVER)
{
	struct sockaddr_storage from;
	struct iovec iov;
	struct msghdr msg;
	socklen_t size;
	char buf[8];

	A {
		for (int i = 0; i < 6; i++) SEND("x");
	}
	B {
		size = sizeof(from);
		R(recvfrom(FD, buf, 8, 0, (struct sockaddr *)&from, &size));
		T(size == PEER_SIZE);
		T(memcmp(&from, PEER, 8) == 0);
		memset(&from, 'z', sizeof(from));
		size = 4;
		R(recvfrom(FD, buf, 8, MSG_PEEK, (struct sockaddr *)&from, &size));
		T(size == PEER_SIZE);
		T(memcmp(&from, PEER, 4) == 0 && ((char *)&from)[4] == 'z');
		R(recvfrom(FD, buf, 8, 0, NULL, NULL));
		size = 0;
		R(recvfrom(FD, buf, 8, 0, (struct sockaddr *)&from, &size));
		T(size == PEER_SIZE);
		iov = (struct iovec){ buf, 8 };
		msg = (struct msghdr){ .msg_iov = &iov,
				       .msg_iovlen = 1,
				       .msg_name = &from,
				       .msg_namelen = sizeof(from),
				       .msg_flags = 77 };
		R(recvmsg(FD, &msg, 0));
		T(msg.msg_namelen == PEER_SIZE && memcmp(&from, PEER, 8) == 0);
		say(p, "flags %x control %zu", msg.msg_flags, msg.msg_controllen);
		msg.msg_name = NULL;
		msg.msg_namelen = 55;
		R(recvmsg(FD, &msg, 0));
		say(p, "namelen %u", msg.msg_namelen);
		size = (socklen_t)-1;
		R(recvfrom(FD, buf, 8, MSG_DONTWAIT, (struct sockaddr *)&from, &size));
	}
}

CASE_TRAITS(datagram_connected_names, ANY, DATAGRAMS)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	char buf[8];

	A { SEND("x"); }
	B {
		R(recvfrom(FD, buf, 8, 0, (struct sockaddr *)&from, &size));
		T(size == PEER_SIZE && memcmp(&from, PEER, 8) == 0);
		size = sizeof(from);
		R(getpeername(FD, (struct sockaddr *)&from, &size));
		T(size == PEER_SIZE && memcmp(&from, PEER, 8) == 0);
	}
}

CASE_TRAITS(datagram_sendto_of_connected, ANY, DATAGRAMS)
{
	A {
		R(sendto(FD, "same", 4, 0, PEER, PEER_SIZE));
		R(sendto(FD, "none", 4, 0, NULL, 0));
		R(sendto(FD, "size", 4, 0, PEER, 3));
	}
	B {
		RECV(8);
		RECV(8);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_bad_destinations, DUO, DATAGRAMS | SERVER)
{
	struct sockaddr_storage to;

	B {
		R(send(FD, "x", 1, 0));
		R(write(FD, "x", 1));
		memcpy(&to, PEER, PEER_SIZE);
		to.ss_family = AF_UNIX;
		R(sendto(FD, "x", 1, 0, (struct sockaddr *)&to, PEER_SIZE));
		memcpy(&to, PEER, PEER_SIZE);
		((struct sockaddr_in *)&to)->sin_port = 0;
		R(sendto(FD, "x", 1, 0, (struct sockaddr *)&to, PEER_SIZE));
		R(sendto(FD, "x", 1, 0, (struct sockaddr *)bad_address, PEER_SIZE));
		R(sendto(FD, "ok", 2, 0, PEER, PEER_SIZE));
	}
	A { RECV(8); }
}

CASE_TRAITS(datagram_bad_buffers, ANY, DATAGRAMS)
{
	A {
		R(send(FD, bad_address, 8, 0));
		SEND("lost");
		SEND("kept");
	}
	B {
		R(recv(FD, bad_address, 8, 0));
		RECV(8);
	}
}

CASE_TRAITS(datagram_odd_flags, ANY, DATAGRAMS)
{
	char buf[8];

	A {
		R(send(FD, "x", 1, MSG_OOB));
		R(send(FD, "plain", 5, MSG_CONFIRM | MSG_NOSIGNAL | MSG_DONTWAIT));
		R(send(FD, "route", 5, MSG_DONTROUTE));
		R(send(FD, "record", 6, MSG_EOR));
	}
	B {
		R(recv(FD, buf, 8, MSG_OOB));
		R(recv(FD, buf, 8, MSG_ERRQUEUE));
		RECV_FLAGS(8, MSG_WAITALL);
		RECV(8);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* Pieces held back until the last one: one datagram. */
CASE_TRAITS(datagram_of_pieces, ANY, DATAGRAMS)
{
	A {
		SEND("before");
		SEND_FLAGS("a-", MSG_MORE);
		SEND_FLAGS("b-", MSG_MORE);
		SEND("c");
		SEND("after");
	}
	B {
		RECV(16);
		RECV(16);
		RECV(16);
	}
}

CASE_TRAITS(datagram_corked, ANY, DATAGRAMS)
{
	A {
		R(setsockopt(FD, IPPROTO_UDP, UDP_CORK, &(int){ 1 }, sizeof(int)));
		SEND("left ");
		SEND("right");
		R(setsockopt(FD, IPPROTO_UDP, UDP_CORK, &(int){ 0 }, sizeof(int)));
		SEND("next");
	}
	B {
		RECV(16);
		RECV(16);
	}
}

CASE_TRAITS(datagram_inq_is_of_the_next, ANY, DATAGRAMS)
{
	int n = -1;

	B {
		R(ioctl(FD, FIONREAD, &n));
		say(p, "n %d", n);
	}
	A {
		SEND("12345");
		SEND("123");
		R(ioctl(FD, SIOCOUTQ, &n));
		say(p, "out %d", n);
	}
	B {
		for (int i = 0; i < 3; i++) {
			R(ioctl(FD, FIONREAD, &n));
			say(p, "n %d", n);
			RECV_FLAGS(8, MSG_DONTWAIT);
		}
	}
}

CASE_TRAITS(datagram_nonblocking, ANY, DATAGRAMS)
{
	char buf[8];

	B {
		RECV_FLAGS(8, MSG_DONTWAIT);
		R(fcntl(FD, F_SETFL, O_NONBLOCK));
		RECV(8);
		R(read(FD, buf, 8));
	}
	A { SEND("here"); }
	B {
		RECV(8);
		RECV(8);
		R(fcntl(FD, F_SETFL, 0));
	}
	A { SEND("there"); }
	B { RECV(8); }
}

CASE_TRAITS(datagram_receive_timeout, ANY, DATAGRAMS)
{
	struct timeval tv = { .tv_usec = 20000 };
	uint64_t start;
	char buf[8];

	B {
		R(setsockopt(FD, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		start = usec_clock();
		R(recv(FD, buf, 8, 0));
		T(usec_clock() - start >= 15000);
	}
	A { SEND("in time"); }
	B { RECV(8); }
}

CASE_TRAITS(datagram_wakes_receiver, DUO, DATAGRAMS)
{
	for (int i = 0; i < 3; i++) {
		B { RECV(8); }
		WITH_A {
			until_other_sleeps(p);
			SEND("wake");
		}
	}
}

/* ---- several at once ------------------------------------------------------------------------- */

struct batch {
	struct mmsghdr msgs[MSG_COUNT];
	struct iovec iov[MSG_COUNT];
	struct sockaddr_storage names[MSG_COUNT];
	char bufs[MSG_COUNT][8];
};

static void prepare(struct batch *b, bool names)
{
	memset(b, 0, sizeof(*b));
	for (int i = 0; i < MSG_COUNT; i++) {
		b->iov[i] = (struct iovec){ b->bufs[i], sizeof(b->bufs[i]) };
		b->msgs[i].msg_hdr.msg_iov = &b->iov[i];
		b->msgs[i].msg_hdr.msg_iovlen = 1;
		b->msgs[i].msg_len = 99;
		if (names) {
			b->msgs[i].msg_hdr.msg_name = &b->names[i];
			b->msgs[i].msg_hdr.msg_namelen = sizeof(b->names[i]);
		}
	}
}

static void say_batch(struct play *p, const struct batch *b, int n)
{
	for (int i = 0; i < n; i++) {
		say(p, "%d: %u bytes, flags %x", i, b->msgs[i].msg_len,
		    b->msgs[i].msg_hdr.msg_flags);
		say_bytes(p, "bytes", b->bufs[i], b->msgs[i].msg_len);
	}
}

static void fill(struct batch *b)
{
	for (int i = 0; i < MSG_COUNT; i++) {
		memset(b->bufs[i], 'a' + i, 8);
		b->iov[i].iov_len = (size_t)(8 - i);
	}
}

CASE_TRAITS(datagram_batches, ANY, DATAGRAMS)
{
	struct batch b;

	A {
		prepare(&b, false);
		fill(&b);
		R(sendmmsg(FD, b.msgs, MSG_COUNT, 0));
		for (int i = 0; i < MSG_COUNT; i++) say(p, "%d: %u", i, b.msgs[i].msg_len);
		R(sendmmsg(FD, b.msgs, 0, 0));
	}
	B {
		prepare(&b, true);
		say_batch(p, &b, (int)R(recvmmsg(FD, b.msgs, MSG_COUNT, 0, NULL)));
		for (int i = 0; i < MSG_COUNT; i++)
			T(b.msgs[i].msg_hdr.msg_namelen == PEER_SIZE &&
			  memcmp(&b.names[i], PEER, 8) == 0);
		prepare(&b, false);
		R(recvmmsg(FD, b.msgs, MSG_COUNT, MSG_DONTWAIT, NULL));
		R(recvmmsg(FD, b.msgs, 0, 0, NULL));
	}
}

CASE_TRAITS(datagram_batches_of_fewer, ANY, DATAGRAMS)
{
	struct timespec ts = { .tv_nsec = 1 };
	struct batch b;

	A {
		for (int i = 0; i < 5; i++) SEND("some");
	}
	B {
		prepare(&b, false);
		say_batch(p, &b, (int)R(recvmmsg(FD, b.msgs, 2, 0, NULL)));
		say_batch(p, &b, (int)R(recvmmsg(FD, b.msgs, MSG_COUNT, MSG_WAITFORONE, NULL)));
		R(recvmmsg(FD, b.msgs, MSG_COUNT, MSG_DONTWAIT, NULL));
	}
	A { SEND("one"); }
	B {
		say_batch(p, &b, (int)R(recvmmsg(FD, b.msgs, MSG_COUNT, 0, &ts)));
		ts.tv_nsec = -1;
		R(recvmmsg(FD, b.msgs, MSG_COUNT, 0, &ts));
	}
}

CASE_TRAITS(datagram_batches_to_a_server, DUO, DATAGRAMS | SERVER)
{
	struct batch b;

	A {
		prepare(&b, false);
		fill(&b);
		R(sendmmsg(FD, b.msgs, MSG_COUNT, 0));
	}
	B {
		prepare(&b, true);
		say_batch(p, &b, (int)R(recvmmsg(FD, b.msgs, MSG_COUNT, 0, NULL)));
		for (int i = 0; i < MSG_COUNT; i++) {
			T(b.msgs[i].msg_hdr.msg_namelen == PEER_SIZE);
			b.iov[i].iov_len = b.msgs[i].msg_len;
		}
		R(sendmmsg(FD, b.msgs, MSG_COUNT, 0));
	}
	A {
		prepare(&b, false);
		say_batch(p, &b, (int)R(recvmmsg(FD, b.msgs, MSG_COUNT, 0, NULL)));
	}
}

/* The largest and the smallest by turns. */
CASE_TRAITS(datagram_batches_of_all_sizes, DUO, DATAGRAMS)
{
	static char large[60000];
	struct iovec iov[] = { { large, 60000 }, { "s", 1 }, { large, 9000 }, { "t", 1 } };
	struct mmsghdr msgs[MSG_COUNT] = { 0 };

	A {
		fill_pattern(large, sizeof(large), 0);
		for (int i = 0; i < MSG_COUNT; i++) {
			msgs[i].msg_hdr.msg_iov = &iov[i];
			msgs[i].msg_hdr.msg_iovlen = 1;
		}
		R(sendmmsg(FD, msgs, MSG_COUNT, 0));
	}
	B {
		for (int i = 0; i < MSG_COUNT; i++) R(recv(FD, large, sizeof(large), 0));
	}
}
