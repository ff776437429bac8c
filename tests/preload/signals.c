/* Signals: EINTR and SA_RESTART, handlers that use the socket, masks, SIGPIPE. */
#include "case.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define LEN_FLOOD (64 << 20)

static int handler_fd;
static sigjmp_buf jump;

static void send_from_handler(int signal __attribute__((unused)))
{
	int error = errno;

	n_signals++;
	(void)!send(handler_fd, "h", 1, 0);
	errno = error;
}

static void jump_from_handler(int signal __attribute__((unused)))
{
	siglongjmp(jump, 1);
}

/* SIGALRM for this process, soon, and again: the first may come before the call that it is to
 * interrupt. */
static void alarm_soon(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 30000 }, { 0, 30000 } }, NULL);
}

static void no_alarms(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

/* What was sent over the kernel may come a while after the call. */
static void until_arrived(int fd)
{
	int left = 1;

	while (ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0) usleep(500);
}

CASE(signals_interrupt_recv, ANY)
{
	A {
		count_signal(SIGALRM, 0);
		alarm_soon();
		RECV(1);
		no_alarms();
		T(n_signals > 0);
	}
}

CASE(signals_interrupt_recv_by_kill, DUO)
{
	A { count_signal(SIGUSR1, 0); }
	A {
		RECV(1);
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE(signals_restart_recv, DUO)
{
	A { count_signal(SIGUSR1, SA_RESTART); }
	A {
		RECV(1);
		say(p, "%d signals", n_signals);
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(signals_restart_read_and_recvmsg, DUO)
{
	char c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	A { count_signal(SIGUSR1, SA_RESTART); }
	A {
		R(read(FD, &c, 1));
		R(recvmsg(FD, &m, 0));
		say(p, "%d signals", n_signals);
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		SEND("x");
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		SEND("y");
	}
}

CASE(signals_timeout_prevents_restart, DUO)
{
	A {
		count_signal(SIGUSR1, SA_RESTART);
		R(setsockopt(FD, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 8 },
			     sizeof(struct timeval)));
	}
	A {
		RECV(1);
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE(signals_waitall_gives_part, DUO)
{
	A { count_signal(SIGUSR1, 0); }
	A {
		RECV_FLAGS(10, MSG_WAITALL);
		say(p, "%d signals", n_signals);
	}
	WITH_B {
		SEND("abc");
		until_arrived(FD);
		interrupt_other(p, SIGUSR1);
	}
}

CASE(signals_waitall_restart_gives_part_too, DUO)
{
	A { count_signal(SIGUSR1, SA_RESTART); }
	A {
		RECV_FLAGS(10, MSG_WAITALL);
		say(p, "%d signals", n_signals);
	}
	WITH_B {
		SEND("abc");
		until_arrived(FD);
		interrupt_other(p, SIGUSR1);
	}
}

CASE(signals_restart_gives_the_messages_that_came, DUO)
{
	B { SEND("abc"); }
	A {
		count_signal(SIGUSR1, SA_RESTART);
		settle(p, FD, 3);
	}
	A {
		char bytes[2][3];
		struct iovec vectors[2] = { { bytes[0], 3 }, { bytes[1], 3 } };
		struct mmsghdr msgs[2] = { 0 };

		for (int i = 0; i < 2; i++)
			msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &vectors[i],
							   .msg_iovlen = 1 };
		R(recvmmsg(FD, msgs, 2, 0, NULL));
		say(p, "%u bytes, %d signals", msgs[0].msg_len, n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

/* What the handler sends comes behind the call. */
CASE(signals_end_a_message_of_no_bytes, THREAD)
{
	B { handler_fd = FD; }
	A {
		sigaction(SIGUSR1,
			  &(struct sigaction){ .sa_handler = send_from_handler,
					       .sa_flags = SA_RESTART },
			  NULL);
	}
	A {
		struct mmsghdr msgs[3] = { 0 };

		R(recvmmsg(FD, msgs, 3, MSG_WAITFORONE, NULL));
		RECV(10);
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE_TRAITS(signals_interrupt_send, DUO, SETTLED)
{
	A {
		count_signal(SIGUSR1, 0);
		(void)stuff(FD);
	}
	A {
		while (send(FD, "x", 1, 0) == 1)
			;
		say(p, "%s", errno_name(errno));
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE(signals_large_send_gives_part, DUO)
{
	enum { LEN = 64 << 20 };

	A { count_signal(SIGUSR1, 0); }
	A {
		char *buf = calloc(1, LEN);
		ssize_t n = send(FD, buf, LEN, 0);

		T(n > 0 && n < LEN);
		say(p, "%d signals", n_signals);
		free(buf);
	}
	WITH_B {
		settle(p, FD, 1);
		interrupt_other(p, SIGUSR1);
	}
}

struct flood {
	int fd;
	_Atomic pid_t tid;
	long n_sent;
};

static void *send_flood(void *arg)
{
	struct flood *flood = arg;
	char *buf = calloc(1, LEN_FLOOD);

	flood->tid = gettid();
	flood->n_sent = send(flood->fd, buf, LEN_FLOOD, 0);
	free(buf);
	return NULL;
}

/* As Java closes a socket that another thread is blocked in: its sleep is disturbed by the first,
 * and interrupted by the second. */
CASE(signals_behind_dup2_interrupt_send, DUO)
{
	A {
		struct flood flood = { .fd = FD };
		int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
		pthread_t thread;

		count_signal(SIGUSR1, 0);
		pthread_create(&thread, NULL, send_flood, &flood);
		while (flood.tid == 0)
			;
		until_thread_sleeps(flood.tid);
		T(dup2(other, FD) == FD);
		pthread_kill(thread, SIGUSR1);
		pthread_join(thread, NULL);
		T(flood.n_sent > 0 && flood.n_sent < LEN_FLOOD);
		close(other);
	}
}

CASE(signals_ignored_does_not_interrupt, DUO)
{
	A { signal(SIGUSR1, SIG_IGN); }
	A { RECV(1); }
	WITH_B {
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(signals_child_end_is_no_interruption, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			usleep(30000);
			_exit(0);
		}
		RECV(1);
		reap(p, "child", pid);
	}
	WITH_B {
		until_other_sleeps(p);
		usleep(60000);
		SEND("x");
	}
}

CASE(signals_interrupt_poll_even_with_restart, DUO)
{
	struct pollfd pfd;

	A {
		count_signal(SIGUSR1, SA_RESTART);
		pfd = (struct pollfd){ .fd = FD, .events = POLLIN };
	}
	A {
		R(poll(&pfd, 1, -1));
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE(signals_interrupt_select, DUO)
{
	A { count_signal(SIGUSR1, SA_RESTART); }
	A {
		fd_set in;

		FD_ZERO(&in);
		FD_SET(FD, &in);
		R(select(FD + 1, &in, NULL, NULL, NULL));
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE(signals_interrupt_epoll, DUO)
{
	A { count_signal(SIGUSR1, SA_RESTART); }
	A {
		struct epoll_event event = { .events = EPOLLIN };
		int ep = epoll_create1(0);

		R(epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event));
		R(epoll_wait(ep, &event, 1, -1));
		R(epoll_wait(ep, &event, 1, 5000));
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		interrupt_other(p, SIGUSR1);
	}
}

CASE(signals_handler_sends, DUO)
{
	A {
		handler_fd = FD;
		sigaction(SIGUSR1,
			  &(struct sigaction){ .sa_handler = send_from_handler,
					       .sa_flags = SA_RESTART },
			  NULL);
	}
	A { RECV(4); }
	WITH_B {
		interrupt_other(p, SIGUSR1);
		RECV(1);
		SEND("done");
	}
}

CASE(signals_handler_sends_amid_sends, DUO)
{
	B { leave_to_other(SIGALRM); }
	A {
		handler_fd = FD;
		n_signals = 0;
		sigaction(SIGALRM,
			  &(struct sigaction){ .sa_handler = send_from_handler,
					       .sa_flags = SA_RESTART },
			  NULL);
		setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 500 }, { 0, 500 } }, NULL);
		for (int i = 0; i < 50000; i++)
			if (send(FD, "m", 1, 0) != 1)
				break;
		no_alarms();
		signal(SIGALRM, SIG_IGN); /* drops one that is on its way */
		*stage_word(p, 1) = n_signals;
		shutdown(FD, SHUT_WR);
	}
	WITH_B {
		static char buf[4096];
		long n_main = 0, n_handler = 0;
		ssize_t got;

		while ((got = recv(FD, buf, sizeof(buf), 0)) > 0)
			for (ssize_t i = 0; i < got; i++) {
				n_main += buf[i] == 'm';
				n_handler += buf[i] == 'h';
			}
		*stage_word(p, 2) = n_handler;
		say(p, "%ld from the program", n_main);
	}
	A { T(*stage_word(p, 1) == *stage_word(p, 2)); }
}

CASE(signals_jump_out_of_recv, DUO)
{
	A { sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = jump_from_handler }, NULL); }
	A {
		if (sigsetjmp(jump, 1) == 0)
			RECV(1);
		else
			say(p, "jumped");
		SEND("alive");
		RECV(5);
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		RECV_FLAGS(5, MSG_WAITALL);
		SEND("reply");
	}
}

CASE_TRAITS(signals_jump_out_of_send, DUO, SETTLED)
{
	A {
		sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = jump_from_handler }, NULL);
		*stage_word(p, 1) = (long)stuff(FD);
	}
	A {
		if (sigsetjmp(jump, 1) == 0) {
			*stage_word(p, 1) += (long)stuff(FD);
			SEND("blocked");
		} else {
			say(p, "jumped");
		}
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
	B {
		T(recv(FD, NULL, (size_t)*stage_word(p, 1), MSG_WAITALL | MSG_TRUNC) ==
		  *stage_word(p, 1));
	}
	A { SEND("after"); }
	B { RECV_FLAGS(5, MSG_WAITALL); }
}

CASE(signals_jump_out_of_poll, DUO)
{
	A { sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = jump_from_handler }, NULL); }
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };

		if (sigsetjmp(jump, 1) == 0)
			R(poll(&pfd, 1, -1));
		else
			say(p, "jumped");
		R(poll(&pfd, 1, 5000));
		RECV(1);
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(signals_sigpipe_kills_by_default, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			shutdown(FD, SHUT_WR);
			say(p, "about to");
			(void)!write(FD, "x", 1);
			say(p, "survived");
			_exit(0);
		}
		reap(p, "child", pid);
	}
}

CASE(signals_sigpipe_from_each_call, ANY)
{
	struct iovec iov = { (void *)"x", 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	A {
		count_signal(SIGPIPE, 0);
		shutdown(FD, SHUT_WR);
		R(write(FD, "x", 1));
		R(send(FD, "x", 1, 0));
		R(sendto(FD, "x", 1, 0, NULL, 0));
		R(writev(FD, &iov, 1));
		R(sendmsg(FD, &m, 0));
		R(sendmsg(FD, &m, MSG_NOSIGNAL));
		say(p, "%d signals", n_signals);
	}
}

CASE(signals_sigpipe_is_for_the_thread, ANY)
{
	A {
		sigset_t set, pending;

		sigemptyset(&set);
		sigaddset(&set, SIGPIPE);
		pthread_sigmask(SIG_BLOCK, &set, NULL);
		shutdown(FD, SHUT_WR);
		R(write(FD, "x", 1));
		sigpending(&pending);
		T(sigismember(&pending, SIGPIPE));
		R(sigtimedwait(&set, NULL, &(struct timespec){ 0 }) == SIGPIPE);
		R(sigtimedwait(&set, NULL, &(struct timespec){ 0 }));
	}
}

CASE(signals_mask_and_handlers_are_left_alone, ANY)
{
	A {
		sigset_t set;
		int n_blocked = 0, n_handled = 0;

		SEND("x");
		pthread_sigmask(SIG_BLOCK, NULL, &set);
		for (int s = 1; s < NSIG; s++) {
			struct sigaction action = { 0 };

			n_blocked += sigismember(&set, s) == 1;
			if (sigaction(s, NULL, &action) == 0)
				n_handled += action.sa_handler != SIG_DFL &&
					     action.sa_handler != SIG_IGN;
		}
		say(p, "%d blocked %d handled", n_blocked, n_handled);
	}
	B { RECV(1); }
}

CASE(signals_storm, DUO)
{
	enum { LEN = 2000000 };

	EACH {
		char *buf = malloc(8192);
		size_t put = 0, taken = 0;
		bool good = true;

		if (p->side == SIDE_A) {
			count_signal(SIGALRM, 0);
			setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 700 }, { 0, 700 } }, NULL);
		}
		while ((p->side == SIDE_A && put < LEN) || (p->side == SIDE_B && taken < LEN)) {
			size_t at = p->side == SIDE_A ? put : taken,
			       n = LEN - at < 8192 ? LEN - at : 8192;
			ssize_t done;

			fill_pattern(buf, n, at);
			done = p->side == SIDE_A ? send(FD, buf, n, 0) : recv(FD, buf, n, 0);
			if (done < 0 && errno == EINTR)
				continue;
			if (done <= 0)
				break;
			good &= p->side == SIDE_A || is_pattern(buf, (size_t)done, at);
			put += (size_t)done;
			taken += (size_t)done;
		}
		if (p->side == SIDE_A)
			no_alarms();
		say(p, "%zu %zu %d", put, taken, good);
		free(buf);
	}
}
