/* Scatter, gather and several messages a call. */
#include "case.h"

#include <limits.h>
#include <sys/uio.h>

#define IOV(text)                                                                                  \
	{                                                                                          \
		(void *)(text), sizeof(text) - 1                                                   \
	}

static void say_iov(struct play *p, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++) say_bytes(p, "piece", iov[i].iov_base, iov[i].iov_len);
}

CASE(vectors_writev_readv, ANY)
{
	struct iovec out[] = { IOV("one "), IOV("two "), IOV(""), IOV("three") };
	char a[3] = "", b[20] = "";
	struct iovec in[] = { { a, 3 }, { b, 10 } };

	A { R(writev(FD, out, 4)); }
	B {
		settle(p, FD, 13);
		R(readv(FD, in, 2));
		say_iov(p, in, 2);
	}
}

CASE(vectors_readv_short, ANY)
{
	char a[4] = "....", b[4] = "....", c[4] = "....";
	struct iovec in[] = { { a, 4 }, { b, 4 }, { c, 4 } };

	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		R(readv(FD, in, 3));
		say_iov(p, in, 3);
	}
}

CASE(vectors_readv_skips_empty_pieces, ANY)
{
	char a[4] = "....";
	struct iovec in[] = { { NULL, 0 }, { a, 2 }, { NULL, 0 }, { a + 2, 2 } };

	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		R(readv(FD, in, 4));
		say_bytes(p, "got", a, 4);
		RECV(10);
	}
}

CASE(vectors_counts, ANY)
{
	static char byte[1] = "x";
	volatile int negative = -1;
	struct iovec *iov = calloc(IOV_MAX + 1, sizeof(*iov));

	for (int i = 0; i <= IOV_MAX; i++) iov[i] = (struct iovec){ byte, 1 };
	A {
		R(writev(FD, iov, 0));
		R(writev(FD, iov, negative));
		R(writev(FD, iov, IOV_MAX + 1));
		R(writev(FD, iov, IOV_MAX));
		R(readv(FD, iov, 0));
		R(readv(FD, iov, negative));
		R(readv(FD, iov, IOV_MAX + 1));
	}
	B {
		settle(p, FD, IOV_MAX);
		R(readv(FD, iov, IOV_MAX));
		RECV_FLAGS(1, MSG_DONTWAIT);
	}
	free(iov);
}

CASE(vectors_empty_only, ANY)
{
	struct iovec iov[2] = { { NULL, 0 }, { NULL, 0 } };

	A {
		R(writev(FD, iov, 2));
		R(readv(FD, iov, 2));
	}
}

CASE(vectors_bad_pieces, ANY)
{
	struct iovec negative[1] = { { bad_address, (size_t)-5 } }, bad[1] = { { bad_address, 5 } };

	A {
		R(writev(FD, negative, 1));
		R(readv(FD, negative, 1));
		R(writev(FD, bad, 1));
		R(writev(FD, (struct iovec *)bad_address, 1));
	}
}

CASE(vectors_second_piece_bad, ANY)
{
	struct iovec bad[2] = { IOV("good"), { bad_address, 5 } };

	A {
		R(writev(FD, bad, 2));
		shutdown(FD, SHUT_WR);
	}
	B { RECV_FLAGS(20, MSG_WAITALL); }
}

CASE(vectors_sendmsg_recvmsg, ANY)
{
	struct iovec out[] = { IOV("alpha"), IOV("beta") };
	struct msghdr message = { .msg_iov = out, .msg_iovlen = 2 };
	struct sockaddr_storage name;
	char buf[20] = "", control[100];
	struct iovec in[] = { { buf, 7 }, { buf + 7, 10 } };

	A { R(sendmsg(FD, &message, 0)); }
	B {
		struct msghdr m = { .msg_name = &name,
				    .msg_namelen = sizeof(name),
				    .msg_iov = in,
				    .msg_iovlen = 2,
				    .msg_control = control,
				    .msg_controllen = sizeof(control),
				    .msg_flags = -1 };

		settle(p, FD, 9);
		R(recvmsg(FD, &m, 0));
		say_bytes(p, "got", buf, 9);
		say(p, "namelen %u controllen %zu flags %x iovlen %zu", m.msg_namelen,
		    m.msg_controllen, (unsigned)m.msg_flags, m.msg_iovlen);
	}
}

CASE(vectors_sendmsg_with_name, ANY)
{
	struct sockaddr_in name = { .sin_family = AF_INET };
	struct iovec out[] = { IOV("named") };
	struct msghdr message = {
		.msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = out, .msg_iovlen = 1
	};

	A { R(sendmsg(FD, &message, 0)); }
	B { RECV_FLAGS(5, MSG_WAITALL); }
}

CASE(vectors_recvmsg_peek_and_waitall, DUO)
{
	char buf[8] = "";
	struct iovec in[] = { { buf, 3 }, { buf + 3, 3 } };
	struct msghdr m = { .msg_iov = in, .msg_iovlen = 2 };

	A {
		R(recvmsg(FD, &m, MSG_PEEK | MSG_WAITALL));
		say_bytes(p, "peeked", buf, 6);
		R(recvmsg(FD, &m, MSG_WAITALL));
		say_bytes(p, "got", buf, 6);
	}
	WITH_B {
		SEND("abcd");
		until_other_sleeps(p);
		SEND("ef");
	}
}

CASE(vectors_recvmsg_without_pieces, ANY)
{
	struct msghdr m = { 0 };

	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		R(recvmsg(FD, &m, 0));
		R(recvmsg(FD, &m, MSG_DONTWAIT));
		RECV(1);
		R(recvmsg(FD, &m, MSG_DONTWAIT));
		R(sendmsg(FD, &m, 0));
	}
}

CASE(vectors_message_errors, ANY)
{
	struct iovec one[1] = { IOV("x") };
	struct msghdr many = { .msg_iov = one, .msg_iovlen = IOV_MAX + 1 };

	A {
		R(sendmsg(FD, &many, 0));
		R(recvmsg(FD, &many, 0));
		R(sendmsg(FD, (struct msghdr *)bad_address, 0));
		R(sendmsg(-1, &many, 0));
	}
}

CASE(vectors_sendmsg_with_control, ANY)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .align = { .cmsg_len = CMSG_LEN(sizeof(int)),
				 .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS } };
	struct iovec out[] = { IOV("with control") };
	struct msghdr message = { .msg_iov = out,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	A {
		memcpy(CMSG_DATA(&control.align), &(int){ STDIN_FILENO }, sizeof(int));
		R(sendmsg(FD, &message, 0));
		control.align.cmsg_type = 9999;
		R(sendmsg(FD, &message, 0));
		control.align.cmsg_level = IPPROTO_UDP;
		R(sendmsg(FD, &message, 0));
	}
	B {
		settle(p, FD, 12);
		RECV_FLAGS(100, MSG_DONTWAIT);
	}
}

CASE(vectors_sendmmsg, ANY)
{
	struct iovec out[3] = { IOV("first,"), IOV("second,"), IOV("third") };
	struct mmsghdr messages[3] = { 0 };

	for (int i = 0; i < 3; i++)
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &out[i], .msg_iovlen = 1 };
	A {
		R(sendmmsg(FD, messages, 3, 0));
		say(p, "%u %u %u", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len);
		R(sendmmsg(FD, messages, 0, 0));
	}
	B { RECV_FLAGS(18, MSG_WAITALL); }
}

/* The kernel ignores those beyond a number. */
CASE(vectors_sendmmsg_of_too_many, ANY)
{
	enum { MANY = 1500 };
	static struct mmsghdr messages[MANY];
	struct iovec out = IOV("x");

	A {
		for (int i = 0; i < MANY; i++)
			messages[i].msg_hdr = (struct msghdr){ .msg_iov = &out, .msg_iovlen = 1 };
		R(sendmmsg(FD, messages, MANY, 0));
	}
	B {
		settle(p, FD, 1024);
		R(recv(FD, (char[MANY]){ 0 }, MANY, MSG_DONTWAIT));
	}
}

CASE(vectors_recvmmsg, ANY)
{
	char bufs[3][4] = { "", "", "" };
	struct iovec in[3];
	struct mmsghdr messages[3] = { 0 };

	for (int i = 0; i < 3; i++) {
		in[i] = (struct iovec){ bufs[i], 3 };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &in[i], .msg_iovlen = 1 };
	}
	A { SEND("abcdefgh"); }
	B {
		settle(p, FD, 8);
		R(recvmmsg(FD, messages, 3, MSG_DONTWAIT, NULL));
		for (int i = 0; i < 3; i++) say(p, "%u \"%.3s\"", messages[i].msg_len, bufs[i]);
		R(recvmmsg(FD, messages, 3, MSG_DONTWAIT, NULL));
	}
	A { SEND("ij"); }
	B {
		R(recvmmsg(FD, messages, 3, MSG_WAITFORONE, NULL));
		say(p, "%u", messages[0].msg_len);
	}
}

CASE(vectors_recvmmsg_until_eof, ANY)
{
	char bufs[3][4] = { "", "", "" };
	struct iovec in[3];
	struct mmsghdr messages[3] = { 0 };

	for (int i = 0; i < 3; i++) {
		in[i] = (struct iovec){ bufs[i], 3 };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &in[i], .msg_iovlen = 1 };
	}
	A {
		SEND("abcd");
		shutdown(FD, SHUT_WR);
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		R(recvmmsg(FD, messages, 3, 0, NULL));
		for (int i = 0; i < 3; i++) say(p, "%u", messages[i].msg_len);
	}
}

CASE(vectors_preadv_pwritev, ANY)
{
	struct iovec out[] = { IOV("pw") };
	char buf[4];
	struct iovec in[] = { { buf, 4 } };

	A {
		R(pwritev(FD, out, 1, 0));
		R(pwritev2(FD, out, 1, -1, 0));
		R(preadv(FD, in, 1, 0));
		R(preadv2(FD, in, 1, -1, RWF_NOWAIT));
	}
	B {
		settle(p, FD, 2);
		R(preadv2(FD, in, 1, -1, 0));
		say_bytes(p, "got", buf, 2);
	}
}

CASE(vectors_large, DUO)
{
	enum { N = 64, PIECE = 30000 };
	char *bytes = malloc((size_t)N * PIECE);
	struct iovec iov[N];

	for (int i = 0; i < N; i++) iov[i] = (struct iovec){ bytes + (size_t)i * PIECE, PIECE };
	A {
		fill_pattern(bytes, (size_t)N * PIECE, 0);
		R(writev(FD, iov, N));
		shutdown(FD, SHUT_WR);
	}
	WITH_B {
		size_t at = 0;
		ssize_t got;

		while ((got = readv(FD, iov, N)) > 0 && is_pattern(bytes, (size_t)got, at))
			at += (size_t)got;
		say(p, "%zu bytes, then %zd", at, got);
	}
	free(bytes);
}

CASE(vectors_partial_writev_when_full, ANY)
{
	A {
		static char big[8 << 20];
		struct iovec iov[] = { { big, sizeof(big) }, { big, sizeof(big) },
				       { big, sizeof(big) }, { big, sizeof(big) },
				       { big, sizeof(big) }, { big, sizeof(big) } };
		struct msghdr m = { .msg_iov = iov, .msg_iovlen = 6 };
		ssize_t n = sendmsg(FD, &m, MSG_DONTWAIT);

		T(n > 0 && n < 6 * (ssize_t)sizeof(big));
		*stage_word(p, 1) = n;
		shutdown(FD, SHUT_WR);
	}
	B {
		static char buf[65536];
		ssize_t got, sum = 0;

		while ((got = recv(FD, buf, sizeof(buf), 0)) > 0) sum += got;
		T(sum == *stage_word(p, 1));
	}
}
