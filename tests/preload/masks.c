/*
 * Waits with a signal mask of their own: ppoll, pselect, epoll_pwait, epoll_pwait2.
 *
 * SIGUSR1 is held back by the thread's mask and let in by the call's. A signal that is pending then
 * ends a wait for which nothing is ready; it stays pending where something is. Of calls that do not
 * wait epoll's alone let none in.
 */
#include "case.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

static const sigset_t none;

static void hold_back(void)
{
	sigset_t set;

	count_signal(SIGUSR1, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

CASE(masks_ppoll_opens_the_mask, DUO)
{
	A {
		hold_back();
		raise(SIGUSR1);
	}
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };
		R(poll(&pfd, 1, 5));
		say(p, "%d signals", n_signals);
		R(ppoll(&pfd, 1, NULL, &none));
		say(p, "%d signals", n_signals);
		R(ppoll(&pfd, 1, &(struct timespec){ .tv_nsec = 5000000 }, &none));
	}
}

CASE(masks_pending_and_data_ready, ANY)
{
	A { SEND("x"); }
	B {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };
		struct epoll_event event = { .events = EPOLLIN };
		int ep = epoll_create1(0);

		settle(p, FD, 1);
		hold_back();
		raise(SIGUSR1);
		R(epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event));
		R(epoll_pwait(ep, &event, 1, -1, &none));
		say(p, "%d signals", n_signals);
		R(ppoll(&pfd, 1, NULL, &none));
		say(p, "%d signals", n_signals);
	}
}

CASE(masks_epoll_pwait_opens_the_mask, DUO)
{
	A { hold_back(); }
	A {
		struct epoll_event event = { .events = EPOLLIN };
		int ep = epoll_create1(0);
		R(epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event));
		R(epoll_pwait(ep, &event, 1, -1, &none));
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

CASE(masks_pselect_opens_the_mask, DUO)
{
	A { hold_back(); }
	A {
		fd_set in;

		FD_ZERO(&in);
		FD_SET(FD, &in);
		R(pselect(FD + 1, &in, NULL, NULL, NULL, &none));
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

enum call { PPOLL, PPOLL_RAW, PSELECT, EPOLL_PWAIT, EPOLL_PWAIT2, N_CALLS };

static const char *const names[] = { "ppoll", "ppoll by number", "pselect", "epoll_pwait",
				     "epoll_pwait2" };

/* What is asked for is POLLIN or POLLOUT; ep has it too. */
static long ask(enum call call, int fd, int ep, short wanted, struct timespec timeout)
{
	struct pollfd pfd = { .fd = fd, .events = wanted };
	struct epoll_event event;
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	switch (call) {
	case PPOLL:
		return ppoll(&pfd, 1, &timeout, &none);
	case PPOLL_RAW:
		return syscall(SYS_ppoll, &pfd, 1, &timeout, &none, 8);
	case PSELECT:
		return pselect(fd + 1, wanted == POLLIN ? &set : NULL,
			       wanted == POLLOUT ? &set : NULL, NULL, &timeout, &none);
	case EPOLL_PWAIT:
		return epoll_pwait(ep, &event, 1, (int)(timeout.tv_nsec / 1000000), &none);
	default:
		return epoll_pwait2(ep, &event, 1, &timeout, &none);
	}
}

static int set_of(int fd, short wanted)
{
	struct epoll_event event = { .events = wanted == POLLIN ? EPOLLIN : EPOLLOUT };
	int ep = epoll_create1(0);

	return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event) == 0 ? ep : -1;
}

/* Each call once, with a signal pending, which is taken away behind it. */
static void ask_all(struct play *p, int fd, short wanted, struct timespec timeout)
{
	int ep = set_of(fd, wanted), n_before;
	sigset_t pending, usr1;
	long ret;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	for (enum call call = 0; call < N_CALLS; call++) {
		n_before = n_signals;
		raise(SIGUSR1);
		ret = ask(call, fd, ep, wanted, timeout);
		say(p, "%s %ld %s, handled %d", names[call], ret, ret < 0 ? errno_name(errno) : "",
		    (int)n_signals - n_before);
		sigpending(&pending);
		if (sigismember(&pending, SIGUSR1))
			say(p, "pending, %d",
			    sigtimedwait(&usr1, NULL, &(struct timespec){ 0 }) == SIGUSR1);
	}
	close(ep);
}

CASE(masks_let_in_by_calls_that_do_not_wait, ANY)
{
	A {
		hold_back();
		ask_all(p, FD, POLLIN, (struct timespec){ 0 });
	}
}

CASE(masks_do_not_let_in_where_something_is_ready, ANY)
{
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		hold_back();
		ask_all(p, FD, POLLIN, (struct timespec){ 0 });
		RECV(1);
		ask_all(p, FD, POLLIN, (struct timespec){ 0 });
	}
}

/* Ready for writing is a socket of the kernel's that nothing goes through. */
CASE_TRAITS(masks_let_in_by_calls_on_a_full_connection, ANY, SETTLED)
{
	A {
		(void)stuff(FD);
		hold_back();
		ask_all(p, FD, POLLOUT, (struct timespec){ 0 });
	}
}

CASE_TRAITS(masks_let_in_by_calls_on_datagrams, ANY, DATAGRAMS)
{
	A {
		hold_back();
		ask_all(p, FD, POLLIN, (struct timespec){ 0 });
	}
}

CASE(masks_let_in_by_short_waits, ANY)
{
	A {
		hold_back();
		ask_all(p, FD, POLLIN, (struct timespec){ .tv_nsec = 1 });
		ask_all(p, FD, POLLIN, (struct timespec){ .tv_nsec = 1000000 });
	}
}

/* Who has just served somebody looks before it sleeps. */
CASE(masks_let_in_by_waits_behind_a_send, ANY)
{
	A {
		int ep = set_of(FD, POLLIN), n_before;

		hold_back();
		for (enum call call = 0; call < N_CALLS; call++) {
			SEND("x");
			n_before = n_signals;
			raise(SIGUSR1);
			R(ask(call, FD, ep, POLLIN, (struct timespec){ .tv_nsec = 1000000 }));
			say(p, "%s, handled %d", names[call], (int)n_signals - n_before);
		}
		close(ep);
	}
}

/* Who polls so often asks the kernel now and then only, while the ring is in use. */
CASE(masks_let_in_by_a_busy_poll, ANY)
{
	A { SEND("x"); }
	B {
		int n_others = 0;

		settle(p, FD, 1);
		hold_back();
		for (int i = 0; i < 100; i++)
			n_others += ask(PPOLL, FD, -1, POLLIN, (struct timespec){ 0 }) != 1;
		RECV(1);
		for (int i = 0; i < 100; i++)
			n_others += ask(PPOLL, FD, -1, POLLIN, (struct timespec){ 0 }) != 0;
		say(p, "%d others", n_others);
		ask_all(p, FD, POLLIN, (struct timespec){ 0 });
	}
}
