/* Descriptors that one thread takes away while another is inside a call with them. */
#include "epoll_case.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>

/* B's name for A's descriptor. */
#define THEIRS ((int)*stage_word(p, 1))

CASE_TRAITS(inside_receive_of_a_datagram_goes_on, THREAD, DATAGRAMS)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV(20); }
	WITH_B {
		until_other_sleeps(p);
		R(close(THEIRS));
		SEND("still here");
	}
}

CASE(inside_number_is_free_at_once, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV(20); }
	WITH_B {
		int fds[2];

		until_other_sleeps(p);
		R(close(THEIRS));
		T(pipe(fds) == 0 && fds[0] == THEIRS);
		until_other_sleeps(p);
		SEND("to the old one");
		T(write(fds[1], "x", 1) == 1);
		close(fds[0]);
		close(fds[1]);
	}
	B { RECV(1); }
}

CASE(inside_replaced_by_dup2, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV(20); }
	WITH_B {
		int fds[2];

		T(pipe(fds) == 0);
		until_other_sleeps(p);
		T(dup2(fds[0], THEIRS) == THEIRS);
		SEND("to the old one");
		close(fds[0]);
		close(fds[1]);
		close(THEIRS);
	}
	B { RECV(1); }
}

CASE(inside_closed_by_close_range, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV_FLAGS(6, MSG_WAITALL); }
	WITH_B {
		until_other_sleeps(p);
		R(close_range((unsigned)THEIRS, (unsigned)THEIRS, 0));
		SEND("abc");
		until_other_sleeps(p);
		SEND("def");
	}
	B { RECV(1); }
}

/* There is another descriptor; the number of the closed one is somebody else's at once. */
CASE(inside_copy_is_closed, THREAD)
{
	A { *stage_word(p, 1) = dup(FD); }
	A { say_recv(p, THEIRS, 6, MSG_WAITALL); }
	WITH_B {
		int fds[2];

		until_other_sleeps(p);
		R(close(THEIRS));
		T(pipe(fds) == 0 && fds[0] == THEIRS);
		T(write(fds[1], "x", 1) == 1);
		SEND("abc");
		until_other_sleeps(p);
		SEND("def");
		close(fds[0]);
		close(fds[1]);
	}
	A { SEND("x"); }
	B { RECV(1); }
}

CASE_TRAITS(inside_copy_of_a_datagram_socket_is_closed, THREAD, DATAGRAMS)
{
	A { *stage_word(p, 1) = dup(FD); }
	A { say_recv(p, THEIRS, 20, 0); }
	WITH_B {
		int fds[2];

		until_other_sleeps(p);
		R(close(THEIRS));
		T(pipe(fds) == 0 && fds[0] == THEIRS);
		SEND("still here");
		close(fds[0]);
		close(fds[1]);
	}
}

CASE(inside_receive_of_messages_goes_on, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A {
		char bytes[2][3];
		struct iovec vectors[2] = { { bytes[0], 3 }, { bytes[1], 3 } };
		struct mmsghdr msgs[2] = { 0 };

		for (int i = 0; i < 2; i++)
			msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &vectors[i],
							   .msg_iovlen = 1 };
		R(recvmmsg(FD, msgs, 2, MSG_WAITFORONE, NULL));
		say(p, "%u and %u bytes", msgs[0].msg_len, msgs[1].msg_len);
	}
	WITH_B {
		until_other_sleeps(p);
		R(close(THEIRS));
		R(shutdown(FD, SHUT_RDWR));
	}
}

static __thread sigjmp_buf way_out;

static void jump(int signal __attribute__((unused)))
{
	siglongjmp(way_out, 1);
}

CASE(inside_left_by_a_jump, THREAD)
{
	A {
		signal(SIGUSR1, jump);
		*stage_word(p, 1) = FD;
	}
	A {
		if (sigsetjmp(way_out, 1) == 0)
			RECV(1);
		say(p, "back");
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
	B {
		R(close(THEIRS));
		RECV(1);
	}
}

/* A handler with SA_RESTART has the call begin anew: it finds what has become of its descriptor. */
#define RESTARTED                                                                                  \
	A {                                                                                        \
		count_signal(SIGUSR1, SA_RESTART);                                                 \
		*stage_word(p, 1) = FD;                                                            \
	}                                                                                          \
	A { RECV(20); }                                                                            \
	WITH_B

CASE(inside_restart_finds_it_closed, THREAD)
{
	RESTARTED
	{
		until_other_sleeps(p);
		R(close(THEIRS));
		interrupt_other(p, SIGUSR1);
	}
	B { RECV(1); }
}

CASE_TRAITS(inside_restart_finds_a_datagram_socket_closed, THREAD, DATAGRAMS)
{
	RESTARTED
	{
		until_other_sleeps(p);
		R(close(THEIRS));
		interrupt_other(p, SIGUSR1);
	}
}

CASE(inside_restart_finds_it_nonblocking, THREAD)
{
	RESTARTED
	{
		until_other_sleeps(p);
		R(fcntl(THEIRS, F_SETFL, O_NONBLOCK));
		interrupt_other(p, SIGUSR1);
	}
}

CASE(inside_fork_does_not_end_it, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV(20); }
	WITH_B {
		pid_t pid;

		until_other_sleeps(p);
		R(close(THEIRS));
		pid = fork_logged(p);
		if (pid == 0)
			_exit(0);
		reap(p, "child", pid);
		T(recv(FD, NULL, 1, MSG_PEEK | MSG_DONTWAIT) == -1 && errno == EAGAIN);
		SEND("still here");
	}
	B { RECV(1); }
}

CASE(inside_membership_ends_with_the_call, THREAD)
{
	A { *stage_word(p, 1) = FD; }
	A { RECV(20); }
	WITH_B {
		int ep = epoll_create1(0);

		until_other_sleeps(p);
		ADD(ep, THEIRS, EPOLLOUT, 1);
		R(close(THEIRS));
		EXPECT(ep);
		SEND("still here");
		RECV(1);
		EXPECT_NONE(ep);
		close(ep);
	}
}

CASE(inside_set_is_closed_under_its_waiter, THREAD)
{
	A {
		int ep = epoll_create1(0);

		ADD(ep, FD, EPOLLIN, 1);
		*stage_word(p, 1) = ep;
	}
	A {
		EXPECT(THEIRS);
		RECV(20);
	}
	WITH_B {
		until_other_sleeps(p);
		R(close(THEIRS));
		SEND("event");
	}
}

struct receiver {
	int fd;
	_Atomic pid_t tid;
};

static void *receive(void *arg)
{
	struct receiver *receiver = arg;
	char c;

	receiver->tid = gettid();
	return (void *)recv(receiver->fd, &c, 1, 0);
}

CASE(inside_cancelled_call_ends_it, THREAD)
{
	A { RECV(1); }
	WITH_B {
		struct receiver receiver = { .fd = FD };
		pthread_t thread;
		void *result;

		T(pthread_create(&thread, NULL, receive, &receiver) == 0);
		while (!receiver.tid) sched_yield();
		until_thread_sleeps(receiver.tid);
		until_other_sleeps(p);
		R(close(FD));
		until_other_sleeps(p);
		T(pthread_cancel(thread) == 0);
		T(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	}
}
