/* What a connection reports besides its bytes: control messages, the error queue, counts, and
 * options set early. */
#include "case.h"

#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <time.h>

#define SET(level, option, value) R(setsockopt(FD, level, option, &(int){ value }, sizeof(int)))

/* recvmsg with room for n_control bytes of control messages; says what came. */
static void say_message(struct play *p, size_t len, int flags, size_t n_control)
{
	char buf[64], control[128];
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };
	ssize_t got;

	m.msg_controllen = n_control;
	errno = ERRNO_UNTOUCHED;
	got = recvmsg(FD, &m, flags);
	say_result(p, "recvmsg", got);
	if (got < 0)
		return;
	say(p, "flags %x, %zu control bytes", (unsigned)m.msg_flags, m.msg_controllen);
	if (m.msg_controllen < CMSG_LEN(sizeof(int)))
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == IPPROTO_TCP)
			say(p, "left: %d", *(int *)CMSG_DATA(c));
		else
			say(p, "level %d type %d", c->cmsg_level, c->cmsg_type);
}

CASE(reports_left_after_each_receive, ANY)
{
	B { SET(IPPROTO_TCP, TCP_INQ, 1); }
	A { SEND("0123456789"); }
	B {
		settle(p, FD, 10);
		say_message(p, 3, 0, 128);
		say_message(p, 3, MSG_PEEK, 128);
		say_message(p, 7, 0, 128);
		say_message(p, 1, MSG_DONTWAIT, 128);
	}
	A { R(shutdown(FD, SHUT_WR)); }
	B {
		settle_poll(p, FD, POLLRDHUP);
		say_message(p, 1, 0, 128);
		SET(IPPROTO_TCP, TCP_INQ, 0);
		say_message(p, 1, 0, 128);
	}
}

CASE(reports_left_into_little_room, ANY)
{
	B { SET(IPPROTO_TCP, TCP_INQ, 1); }
	A { SEND("0123456789"); }
	B {
		settle(p, FD, 10);
		say_message(p, 1, 0, 0);
		say_message(p, 1, 0, 10);
		say_message(p, 1, 0, 16);
		say_message(p, 1, 0, 18);
		say_message(p, 1, 0, 20);
		say_message(p, 1, 0, 24);
		RECV(10);
	}
}

CASE(reports_left_at_the_end, ANY)
{
	B { SET(IPPROTO_TCP, TCP_INQ, 1); }
	A {
		SEND("last");
		R(shutdown(FD, SHUT_WR));
	}
	B {
		settle_poll(p, FD, POLLRDHUP);
		say_message(p, 2, 0, 128);
		say_message(p, 2, 0, 128);
		say_message(p, 2, 0, 128);
	}
}

/* A reset is no end, nor is this side's own. */
CASE(reports_left_before_a_reset, ANY)
{
	A {
		SET(IPPROTO_TCP, TCP_INQ, 1);
		SEND("unread");
	}
	B {
		settle(p, FD, 6);
		SEND("last");
		close(FD);
	}
	A {
		settle_poll(p, FD, POLLERR);
		say_message(p, 2, 0, 128);
		say_message(p, 2, 0, 128);
		say_message(p, 2, 0, 128);
		say_message(p, 2, 0, 128);
	}
}

CASE(reports_left_when_shut_for_reading, ANY)
{
	B { SET(IPPROTO_TCP, TCP_INQ, 1); }
	A { SEND("last"); }
	B {
		settle(p, FD, 4);
		R(shutdown(FD, SHUT_RD));
		say_message(p, 2, 0, 128);
		say_message(p, 2, 0, 128);
		say_message(p, 2, 0, 128);
	}
	A { R(shutdown(FD, SHUT_WR)); }
	B {
		settle_poll(p, FD, POLLHUP | POLLRDHUP);
		say_message(p, 2, 0, 128);
	}
}

/* ---- zero copy ------------------------------------------------------------------------------- */

/* Takes completions until all of the first `n` sends are done; says how they came. */
static void say_completions(struct play *p, int fd, uint32_t n)
{
	uint32_t done = 0;
	bool in_order = true, as_wanted = true;

	while (done < n) {
		char control[256];
		struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };
		struct pollfd pfd = { .fd = fd };
		struct sock_extended_err *e;

		if (poll(&pfd, 1, 9000) != 1 || !(pfd.revents & POLLERR) ||
		    recvmsg(fd, &m, MSG_ERRQUEUE) < 0 || !CMSG_FIRSTHDR(&m)) {
			say(p, "no completion after %u of %u", done, n);
			return;
		}
		e = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&m));
		in_order &= e->ee_info == done;
		as_wanted &= e->ee_errno == 0 && e->ee_origin == SO_EE_ORIGIN_ZEROCOPY &&
			     (m.msg_flags & MSG_ERRQUEUE);
		done = e->ee_data + 1;
	}
	say(p, "%u completed, in order %d, well formed %d", done, in_order, as_wanted);
}

CASE(reports_zerocopy_completions, ANY)
{
	static char buf[20000];

	A {
		SEND("by copy");
		SET(SOL_SOCKET, SO_ZEROCOPY, 1);
		fill_pattern(buf, sizeof(buf), 0);
		for (int i = 0; i < 5; i++) R(send(FD, buf, sizeof(buf), MSG_ZEROCOPY));
		SEND("by copy");
	}
	B {
		RECV_FLAGS(7, MSG_WAITALL);
		for (int i = 0; i < 5; i++) T(drain_exactly(FD, sizeof(buf)));
		RECV_FLAGS(7, MSG_WAITALL);
	}
	A {
		say_completions(p, FD, 5);
		RECV_FLAGS(1, MSG_ERRQUEUE);
	}
}

/* gRPC sets it on each listener. */
CASE_TRAITS(reports_zerocopy_set_and_not_used, SELF, OWN_PAIR)
{
	struct address address;
	int listener, client, server;

	A {
		listener = listen_on("127.0.0.1", &address);
		R(setsockopt(listener, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int)));
		client = connect_to(&address, 0);
		server = accept(listener, NULL, NULL);
		warm(p, (int[2]){ client, server });
		R(send(server, "abc", 3, 0));
		say_recv(p, client, 3, MSG_WAITALL);
	}
}

CASE_TRAITS(reports_zerocopy_set_before_connect, SELF, OWN_PAIR)
{
	struct address address;
	int listener, client, server;
	static char buf[20000];

	A {
		listener = listen_on("127.0.0.1", &address);
		client = socket(AF_INET, SOCK_STREAM, 0);
		R(setsockopt(client, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int)));
		R(connect(client, (struct sockaddr *)&address.storage, address.size));
		server = accept(listener, NULL, NULL);
		warm(p, (int[2]){ client, server });
		R(send(client, buf, sizeof(buf), MSG_ZEROCOPY));
		T(recv(server, buf, sizeof(buf), MSG_WAITALL) == sizeof(buf));
		say_completions(p, client, 1);
	}
}

/* ---- time stamps ----------------------------------------------------------------------------- */

/* Sends and receives until a byte comes with a stamp: the kernel begins to stamp when it finds the
 * time. */
static void say_stamped(struct play *p, int from, int to, int type)
{
	for (int i = 0; i < 1000; i++) {
		char byte, control[128];
		struct iovec iov = { &byte, 1 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control };
		struct cmsghdr *c;

		m.msg_controllen = sizeof(control);
		if (from >= 0 && send(from, "x", 1, 0) != 1)
			break;
		if (recvmsg(to, &m, 0) != 1)
			break;
		c = CMSG_FIRSTHDR(&m);
		if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == type) {
			say(p, "stamped");
			return;
		}
		usleep(1000);
	}
	say(p, "not stamped");
}

CASE_TRAITS(reports_stamps_set_before_accept, SELF, NO_PAIR | STAYS_KERNEL)
{
	struct address address;
	int listener, fds[2];

	A {
		listener = listen_on("127.0.0.1", &address);
		R(setsockopt(listener, SOL_SOCKET, SO_TIMESTAMPNS, &(int){ 1 }, sizeof(int)));
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		say_stamped(p, fds[0], fds[1], SCM_TIMESTAMPNS);
	}
}

CASE(reports_stamps_from_now_on, DUO)
{
	A { SEND("without"); }
	B {
		RECV_FLAGS(7, MSG_WAITALL);
		SET(SOL_SOCKET, SO_TIMESTAMP, 1);
	}
	A {
		for (int i = 0; i < 5000 && !*stage_word(p, 1); i++)
			if (send(FD, "x", 1, 0) == 1)
				usleep(1000);
	}
	WITH_B {
		say_stamped(p, -1, FD, SCM_TIMESTAMP);
		*stage_word(p, 1) = 1;
	}
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void get_info(int fd, struct tcp_info *info)
{
	socklen_t size = sizeof(*info);

	memset(info, 0, sizeof(*info));
	getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size);
}

CASE(reports_info_counts_all_bytes, ANY)
{
	enum { LEN = 200000 };
	struct tcp_info before, after;

	B { get_info(FD, &before); }
	A {
		struct tcp_info sent[2];

		get_info(FD, &sent[0]);
		T(put_pattern(FD, LEN, 1000) == LEN);
		get_info(FD, &sent[1]);
		T(sent[1].tcpi_bytes_sent + sent[1].tcpi_notsent_bytes -
			  (sent[0].tcpi_bytes_sent + sent[0].tcpi_notsent_bytes) >=
		  LEN);
	}
	B {
		T(drain_exactly(FD, LEN));
		get_info(FD, &after);
		T(after.tcpi_bytes_received - before.tcpi_bytes_received == LEN);
	}
}

CASE(reports_info_into_little_room, ANY)
{
	A {
		struct tcp_info info;
		socklen_t size = 1;

		SEND("x");
		memset(&info, 0xaa, sizeof(info));
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, &info, &size));
		say(p, "size %u, state %u", size, info.tcpi_state);
		T(info.tcpi_bytes_sent == 0xaaaaaaaaaaaaaaaa);
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, bad_address, &size));
		R(getsockopt(FD, IPPROTO_TCP, TCP_INFO, &info, (socklen_t *)bad_address));
	}
	B { RECV(1); }
}

/* Nothing is unacknowledged once it has reached the peer, whether or not the peer reads. */
CASE(reports_nothing_left_to_send, ANY)
{
	A {
		int left = 1;

		SEND("unread for long");
		for (int i = 0; i < 5000 && left; i++) {
			ioctl(FD, SIOCOUTQ, &left);
			usleep(left ? 1000 : 0);
		}
		say(p, "left %d", left);
		R(ioctl(FD, SIOCOUTQNSD, &left));
		say(p, "left %d", left);
	}
	B { RECV(100); }
}

CASE(reports_socket_options, ANY)
{
	A {
		int value = -1;
		socklen_t size = sizeof(value);

		SEND("x");
		R(getsockopt(FD, SOL_SOCKET, SO_INCOMING_CPU, &value, &size));
		T(value >= 0);
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, &value, &size));
		say(p, "error %d", value);
		size = 1;
		value = 0;
		R(getsockopt(FD, SOL_SOCKET, SO_ERROR, &value, &size));
		say(p, "size %u", size);
		SET(SOL_SOCKET, SO_INCOMING_CPU, 0);
		SET(SOL_SOCKET, SO_BUSY_POLL, 10);
		SET(SOL_SOCKET, SO_MARK, 0);
		SET(SOL_SOCKET, SO_RCVBUFFORCE, 100000);
	}
	B { RECV(1); }
}

/* Paced by the kernel: what is sent takes its time. Its first ten segments are not paced. */
CASE_TRAITS(reports_pacing_is_kept, SELF, NO_PAIR | STAYS_KERNEL)
{
	enum { LEN = 100000, N_PIECES = 50, PIECE = LEN / N_PIECES };
	struct address address;
	int listener, client, server;
	uint64_t begun;

	A {
		listener = listen_on("127.0.0.1", &address);
		client = connect_to(&address, 0);
		server = accept(listener, NULL, NULL);
		R(setsockopt(client, SOL_SOCKET, SO_MAX_PACING_RATE, &(int){ 500000 },
			     sizeof(int)));
		warm(p, (int[2]){ client, server });
		begun = usec_clock();
		for (int i = 0; i < N_PIECES; i++) {
			T(put_pattern(client, PIECE, PIECE) == PIECE);
			T(take_pattern(server, PIECE, PIECE) == PIECE);
		}
		T(usec_clock() - begun > 20000);
	}
}

/* ---- signals of a descriptor ----------------------------------------------------------------- */

static volatile sig_atomic_t n_ready, last_fd, last_band;

static void note_ready(int signal __attribute__((unused)), siginfo_t *info,
		       void *context __attribute__((unused)))
{
	n_ready++;
	last_fd = info->si_fd;
	last_band = (int)info->si_band & (POLLIN | POLLRDNORM);
}

static void await_signal(int n)
{
	for (int i = 0; i < 5000 && n_ready < n; i++) usleep(1000);
}

CASE(reports_readiness_by_signal, DUO)
{
	A {
		count_signal(SIGIO, SA_RESTART);
		R(fcntl(FD, F_SETOWN, getpid()));
		R(fcntl(FD, F_SETFL, O_ASYNC | O_NONBLOCK));
		say(p, "%o", (unsigned)fcntl(FD, F_GETFL) & (O_ASYNC | O_NONBLOCK));
	}
	B { SEND("one"); }
	A {
		for (int i = 0; i < 5000 && !n_signals; i++) usleep(1000);
		T(n_signals > 0);
		RECV(3);
		n_signals = 0;
	}
	B { SEND("two"); }
	A {
		for (int i = 0; i < 5000 && !n_signals; i++) usleep(1000);
		T(n_signals > 0);
		RECV(3);
		R(fcntl(FD, F_SETFL, 0));
		n_signals = 0;
	}
	B { SEND("three"); }
	A {
		RECV_FLAGS(5, MSG_WAITALL);
		say(p, "%d signals", n_signals);
	}
}

CASE(reports_readiness_by_chosen_signal, DUO)
{
	A {
		struct sigaction action = { .sa_sigaction = note_ready,
					    .sa_flags = SA_SIGINFO | SA_RESTART };

		n_ready = 0;
		sigaction(SIGRTMIN + 1, &action, NULL);
		R(fcntl(FD, F_SETSIG, SIGRTMIN + 1));
		T(fcntl(FD, F_GETSIG) == SIGRTMIN + 1);
		R(fcntl(FD, F_SETOWN, getpid()));
		R(ioctl(FD, FIOASYNC, &(int){ 1 }));
	}
	B { SEND("one"); }
	A {
		await_signal(1);
		T(n_ready > 0);
		T(last_fd == FD);
		T(last_band == (POLLIN | POLLRDNORM));
		RECV(3);
		R(ioctl(FD, FIOASYNC, &(int){ 0 }));
	}
}

/* A group is a negative number, which is no error. */
CASE(reports_owner_is_a_group, ANY)
{
	A {
		struct f_owner_ex owner = { 0 };

		R(fcntl(FD, F_SETOWN, -getpgrp()));
		T(fcntl(FD, F_GETOWN) == -getpgrp());
		R(fcntl(FD, F_GETOWN_EX, &owner));
		T(owner.type == F_OWNER_PGRP && owner.pid == getpgrp());
		R(fcntl(FD, F_SETOWN, 0));
		SEND("x");
	}
	B { RECV(1); }
}
