/*
 * What only the kernel can serve, asked for in mid-connection: kTLS, time stamps of what was sent,
 * repair, and receivers that know nothing of rings.
 */
#include "stage.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/tcp.h>
#include <linux/tls.h>
#include <stdio.h>
#include <unistd.h>

#include "rawsys.h"

#define NOBODY 65534
#define LEN 60000

/* ---- options --------------------------------------------------------------------------------- */

/* One direction, with a key that everybody knows. Where there is no kTLS it is refused, and all
 * goes on in clear. */
static bool encrypt(struct play *p, int direction)
{
	struct tls12_crypto_info_aes_gcm_128 info = {
		.info = { .version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128 },
		.key = "0123456789abcde",
		.salt = "abc",
	};

	if (R(setsockopt(FD, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls"))) < 0)
		return false;
	R(setsockopt(FD, SOL_TLS, direction, &info, sizeof(info)));
	return true;
}

CASE(downgrade_for_ktls, ANY)
{
	A {
		SEND("clear");
		(void)encrypt(p, TLS_TX);
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		(void)encrypt(p, TLS_RX);
	}
	A { SEND("secret"); }
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("answer");
	}
	A {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("more");
	}
	B { RECV_FLAGS(4, MSG_WAITALL); }
}

/* The stamp of a byte: which one, and what became of it. */
static void take_stamp(struct play *p)
{
	struct pollfd pfd = { .fd = FD };
	char control[512];
	struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct sock_extended_err error;

	R(poll(&pfd, 1, 30000));
	R(recvmsg(FD, &m, MSG_ERRQUEUE));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_IP || c->cmsg_type != IP_RECVERR)
			continue;
		memcpy(&error, CMSG_DATA(c), sizeof(error));
		say(p, "origin %d, kind %u, byte %u", error.ee_origin, error.ee_info,
		    error.ee_data);
	}
}

/* Bytes are counted from the next one to be sent. Without that flag it is from the last one that
 * was acknowledged, which is anybody's guess. */
#ifndef SOF_TIMESTAMPING_OPT_ID_TCP
#define SOF_TIMESTAMPING_OPT_ID_TCP (1 << 16)
#endif

CASE(downgrade_for_stamps_of_what_was_sent, DUO)
{
	A { SEND("before"); }
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("yes");
	}
	A {
		unsigned flags = SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE |
				 SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_ID_TCP;
		bool stamped;

		RECV_FLAGS(3, MSG_WAITALL);
		stamped = R(setsockopt(FD, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags))) ==
			  0;
		SEND("stamped");
		if (stamped)
			take_stamp(p);
		SEND("again");
		if (stamped)
			take_stamp(p);
	}
	WITH_B {
		RECV_FLAGS(12, MSG_WAITALL);
		SEND("answer");
	}
	A { RECV_FLAGS(6, MSG_WAITALL); }
}

CASE(downgrade_for_repair, ANY)
{
	A { SEND("before"); }
	B { RECV_FLAGS(6, MSG_WAITALL); }
	A {
		int sequence;
		socklen_t size = sizeof(sequence);

		R(setsockopt(FD, IPPROTO_TCP, TCP_REPAIR, &(int){ 1 }, sizeof(int)));
		R(setsockopt(FD, IPPROTO_TCP, TCP_REPAIR_QUEUE, &(int){ 2 }, sizeof(int)));
		R(getsockopt(FD, IPPROTO_TCP, TCP_QUEUE_SEQ, &sequence, &size));
		R(setsockopt(FD, IPPROTO_TCP, TCP_REPAIR, &(int){ -1 }, sizeof(int)));
		SEND("after");
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		SEND("answer");
	}
	A { RECV_FLAGS(6, MSG_WAITALL); }
}

/* As much as there is room for. Returns how many bytes. */
static size_t fill_up(int fd)
{
	char buf[4096];
	size_t sent = 0;
	ssize_t n;

	for (;;) {
		fill_pattern(buf, sizeof(buf), sent);
		n = send(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0)
			return sent;
		sent += (size_t)n;
	}
}

/* A has sent more than the kernel has room for when B goes back to it, and then asks for kTLS: what
 * it is given to encrypt comes behind all that. Such bytes pass the rings by. Where there is no
 * kTLS nothing changes. */
CASE(downgrade_for_ktls_amid_a_debt, DUO)
{
	_Atomic long *sent = &p->stage->words[0];

	A { *sent = (long)fill_up(FD); }
	B { R(setsockopt(FD, SOL_SOCKET, SO_MAX_PACING_RATE, &(int){ 2000000000 }, sizeof(int))); }
	A {
		if (R(setsockopt(FD, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls"))) == 0)
			T(raw_syscall(SYS_write, FD, "behind", 6) == 6);
		else
			SEND("behind");
	}
	WITH_B {
		until_other_sleeps(p);
		T(drain_exactly(FD, (size_t)*sent));
		RECV_FLAGS(6, MSG_WAITALL);
	}
}

/* ---- a sender that ends ---------------------------------------------------------------------- */

/* Until the end. Returns how many bytes of the pattern came; what recv said last is logged. */
static size_t take_all(struct play *p, int fd)
{
	char buf[4096];
	size_t got = 0;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0 && is_pattern(buf, (size_t)n, got))
		got += (size_t)n;
	say_result(p, "recv", (long)n);
	return got;
}

/* A has sent more than the kernel has room for when B goes back to it, and then ends. B begins to
 * read only then, at last from a sender that is no more. */
static void ends_behind_much(struct play *p, void (*end)(struct play *p))
{
	_Atomic long *sent = &p->stage->words[0];

	A { *sent = (long)fill_up(FD); }
	B {
		/* Of what is received it means nothing. */
		R(setsockopt(FD, SOL_SOCKET, SO_MAX_PACING_RATE, &(int){ 2000000000 },
			     sizeof(int)));
	}
	A {
		T(*sent > 0);
		end(p);
	}
	B { T((long)take_all(p, FD) == *sent); }
}

static void close_it(struct play *p)
{
	R(close(FD));
}

static void shut_it_down(struct play *p)
{
	R(shutdown(FD, SHUT_WR));
	R(send(FD, "x", 1, MSG_NOSIGNAL));
}

static void shut_it_down_and_close(struct play *p)
{
	R(shutdown(FD, SHUT_WR));
	R(shutdown(FD, SHUT_RDWR));
	R(close(FD));
}

CASE(downgrade_before_its_sender_closes, ANY)
{
	ends_behind_much(p, close_it);
}

CASE(downgrade_before_its_sender_shuts_down, ANY)
{
	ends_behind_much(p, shut_it_down);
	B { SEND("answer"); }
	A { RECV_FLAGS(6, MSG_WAITALL); }
}

CASE(downgrade_before_its_sender_shuts_down_and_closes, ANY)
{
	ends_behind_much(p, shut_it_down_and_close);
}

static void exit_with_it(struct play *p)
{
	pid_t pid = fork_logged(p);

	if (pid == 0)
		_exit(0);
	close(FD);
	reap(p, "the last holder", pid);
}

CASE(downgrade_before_its_last_sender_ends, PROCESS)
{
	ends_behind_much(p, exit_with_it);
}

/* ---- passing --------------------------------------------------------------------------------- */

/* A's end goes to an echo that does not know it yet; B has len bytes on the way and then talks. */
static void passed(struct play *p, pid_t (*start)(struct play *p, int via), size_t len)
{
	B { T(put_pattern(FD, len, 1000) == len); }
	A {
		int via[2];
		pid_t pid;

		settle(p, FD, (int)len);
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pid = start(p, via[1]);
		close(via[1]);
		pass_fd(via[0], FD);
		close(FD);
		close(via[0]);
		reap(p, "echo", pid);
	}
	WITH_B {
		T(take_pattern(FD, len, 5000) == len);
		for (int i = 0; i < 5; i++) {
			SEND("echo");
			RECV_FLAGS(4, MSG_WAITALL);
		}
		shutdown(FD, SHUT_WR);
		RECV(1);
	}
}

int echo_passed(int via)
{
	return echo_until_end(take_fd(via));
}

static pid_t start_as_another_user(struct play *p, int via)
{
	pid_t pid = fork_logged(p);

	if (pid != 0)
		return pid;
	close(FD);
	R(setgid(NOBODY));
	R(setuid(NOBODY));
	_exit(echo_passed(via));
}

/* With bytes on the way it would be a reset, unless they come back in time
 * (docs/differences.md). */
CASE(downgrade_for_another_user, PROCESS)
{
	passed(p, start_as_another_user, 0);
}

static pid_t start_outside(struct play *p, int via)
{
	pid_t pid = fork_logged(p);
	char number[16];

	if (pid != 0)
		return pid;
	close(FD);
	unsetenv("LD_PRELOAD");
	(void)snprintf(number, sizeof(number), "%d", via);
	execl("/proc/self/exe", "catalogue", "--echo-passed", number, NULL);
	_exit(99);
}

CASE(downgrade_for_a_program_outside, PROCESS)
{
	passed(p, start_outside, LEN);
}
