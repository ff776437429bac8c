/* Signal handlers amid PULC's own work: what they may do, what they are told, and what the program
 * is told of them. */
#include "case.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

/* Old programs use them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define SIGNAL_QUEUED SIGRTMIN
#define N_ROUNDS 100000

static int handler_fd;
static _Atomic long n_here, sum_here;
static char *stack_base;

static void start_ticking(long usec)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, usec }, { 0, usec } }, NULL);
}

static void stop_ticking(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

static void install(int signal, void (*function)(int), int flags)
{
	struct sigaction action = { .sa_handler = function, .sa_flags = flags };

	sigaction(signal, &action, NULL);
}

static void take_from_handler(int signal __attribute__((unused)))
{
	char buf[7];
	int error = errno;
	ssize_t got = recv(handler_fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (got > 0)
		n_here += got;
	errno = error;
}

/* Bytes taken by the program and by its handler are all the bytes that there were. */
CASE(handlers_receive_amid_receives, DUO)
{
	enum { LEN = 300000 };

	B { leave_to_other(SIGALRM); } /* what B has taken it might not have counted yet */
	A {
		char buf[13];
		long n_main = 0;
		ssize_t got;

		handler_fd = FD;
		n_here = 0;
		install(SIGALRM, take_from_handler, SA_RESTART);
		start_ticking(300);
		while ((got = recv(FD, buf, sizeof(buf), 0)) > 0) n_main += got;
		stop_ticking();
		T(n_main + n_here == LEN);
	}
	WITH_B {
		T(put_pattern(FD, LEN, 100) == LEN);
		shutdown(FD, SHUT_WR);
	}
}

static void tell_and_write(int signal __attribute__((unused)))
{
	int error = errno;

	if (write(handler_fd, "h", 1) == 1)
		n_here++;
	errno = error;
}

/* A one-shot handler is there again only when the program installs it, also when it had to wait. */
CASE(handlers_one_shot_amid_sends, DUO)
{
	A {
		long n_installed = 0;

		handler_fd = FD;
		n_here = 0;
		signal(SIGUSR1, SIG_IGN);
		for (int i = 0; i < N_ROUNDS; i++) {
			if (i % 50 == 0) {
				struct sigaction now;

				sigaction(SIGUSR1, NULL, &now);
				if (now.sa_handler != tell_and_write) {
					install(SIGUSR1, tell_and_write,
						(int)SA_RESETHAND | SA_RESTART);
					n_installed++;
					kill(getpid(), SIGUSR1);
				}
			}
			if (send(FD, "m", 1, 0) != 1)
				break;
		}
		shutdown(FD, SHUT_WR);
		T(n_installed > 100);
		T(n_here == n_installed);
		*stage_word(p, 1) = n_here;
	}
	WITH_B {
		char buf[4096];
		long n_main = 0, n_handler = 0;
		ssize_t got;

		while ((got = recv(FD, buf, sizeof(buf), 0)) > 0)
			for (ssize_t i = 0; i < got; i++) {
				n_main += buf[i] == 'm';
				n_handler += buf[i] == 'h';
			}
		say(p, "%ld from the program", n_main);
		*stage_word(p, 2) = n_handler;
	}
	A { T(*stage_word(p, 1) == *stage_word(p, 2)); }
}

static void add_value(int signal, siginfo_t *info, void *context)
{
	if (signal == SIGNAL_QUEUED && info->si_code == SI_QUEUE && context)
		sum_here += info->si_value.sival_int;
	n_here++;
}

static void queue_value(pid_t pid, pid_t tid, int value)
{
	siginfo_t info = { .si_signo = SIGNAL_QUEUED, .si_code = SI_QUEUE };

	info.si_pid = getpid();
	info.si_value.sival_int = value;
	while (syscall(SYS_rt_tgsigqueueinfo, pid, tid, SIGNAL_QUEUED, &info) < 0 &&
	       errno == EAGAIN)
		sched_yield();
}

/* No queued signal is lost, doubled, or forgets what it carries. */
CASE(handlers_are_told_everything, DUO)
{
	enum { N = 3000 };

	A {
		struct sigaction action = { .sa_sigaction = add_value,
					    .sa_flags = SA_SIGINFO | SA_RESTART };

		n_here = sum_here = 0;
		sigaction(SIGNAL_QUEUED, &action, NULL);
	}
	A {
		while (n_here < N)
			if (send(FD, "m", 1, 0) != 1)
				break;
		T(n_here == N);
		T(sum_here == (long)N * (N + 1) / 2);
		shutdown(FD, SHUT_WR);
	}
	WITH_B {
		char buf[65536];

		for (int i = 1; i <= N; i++) {
			queue_value(actor_pid(p, SIDE_A), actor_tid(p, SIDE_A), i);
			while (recv(FD, buf, sizeof(buf), MSG_DONTWAIT) > 0)
				;
		}
		while (recv(FD, buf, sizeof(buf), 0) > 0)
			;
	}
}

static void note_stack(int signal __attribute__((unused)))
{
	char here;

	if (&here < stack_base || &here >= stack_base + SIGSTKSZ)
		sum_here++;
	n_here++;
}

CASE(handlers_keep_their_stack, PROCESS)
{
	A {
		stack_t stack = { .ss_size = (size_t)SIGSTKSZ };

		stack.ss_sp = stack_base = malloc(stack.ss_size);
		n_here = sum_here = 0;
		R(sigaltstack(&stack, NULL));
		install(SIGALRM, note_stack, SA_ONSTACK | SA_RESTART);
		start_ticking(300);
		while (n_here < 300)
			if (send(FD, "m", 1, 0) != 1)
				break;
		stop_ticking();
		say(p, "%ld times elsewhere", (long)sum_here);
		shutdown(FD, SHUT_WR);
	}
	WITH_B {
		char buf[65536];

		while (recv(FD, buf, sizeof(buf), 0) > 0)
			;
	}
}

/* The mask in a handler, and after it, is what was asked for. */
static void look_at_mask(int signal __attribute__((unused)))
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	if (!sigismember(&now, SIGALRM) || !sigismember(&now, SIGUSR2) ||
	    sigismember(&now, SIGUSR1) || sigismember(&now, SIGTERM))
		sum_here++;
	n_here++;
}

CASE(handlers_keep_their_mask, DUO)
{
	A {
		struct sigaction action = { .sa_handler = look_at_mask, .sa_flags = SA_RESTART };
		sigset_t now;
		bool clean = true;

		n_here = sum_here = 0;
		sigaddset(&action.sa_mask, SIGUSR2);
		sigaction(SIGALRM, &action, NULL);
		start_ticking(300);
		while (n_here < 300) {
			if (send(FD, "m", 1, 0) != 1)
				break;
			pthread_sigmask(SIG_BLOCK, NULL, &now);
			clean &= sigisemptyset(&now);
		}
		stop_ticking();
		T(clean);
		say(p, "%ld wrong masks", (long)sum_here);
		shutdown(FD, SHUT_WR);
	}
	WITH_B {
		char buf[65536];

		while (recv(FD, buf, sizeof(buf), 0) > 0)
			;
	}
}

static sigjmp_buf jump;

static void leave(int signal __attribute__((unused)))
{
	n_here++;
	siglongjmp(jump, 1);
}

/* Jumping out of whatever the handler interrupted costs at most the call, never the stream. */
CASE(handlers_jump_out_amid_sends, PROCESS)
{
	A {
		static volatile long n_sent;

		n_here = 0;
		n_sent = 0;
		install(SIGALRM, leave, 0);
		(void)sigsetjmp(jump, 1);
		start_ticking(300);
		while (n_here < 300)
			if (send(FD, "m", 1, 0) == 1)
				n_sent++;
		stop_ticking();
		install(SIGALRM, SIG_IGN, 0);
		SEND("e");
		shutdown(FD, SHUT_WR);
		*stage_word(p, 1) = n_sent;
	}
	WITH_B {
		char buf[65536], last = 0;
		long n = 0;
		ssize_t got;

		while ((got = recv(FD, buf, sizeof(buf), 0)) > 0) {
			n += got;
			last = buf[got - 1];
		}
		say(p, "last %c", last);
		*stage_word(p, 2) = n;
	}
	/* A jump may come between the send and its count. */
	A {
		T(*stage_word(p, 2) - 1 >= *stage_word(p, 1));
		T(*stage_word(p, 2) - 1 <= *stage_word(p, 1) + 300);
	}
}

/* ---- restarting ------------------------------------------------------------------------------ */

/* Two handlers of different kinds: the one that runs decides. */
CASE(handlers_of_both_kinds, DUO)
{
	A {
		count_signal(SIGUSR1, SA_RESTART);
		count_signal(SIGUSR2, 0);
	}
	A {
		RECV(1);
		say(p, "%d signals", n_signals);
		*stage_word(p, 1) = 1;
		RECV(1);
		say(p, "%d signals", n_signals);
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		SEND("x");
		/* What was sent over the kernel may come a while after the call. */
		while (!*stage_word(p, 1)) usleep(500);
		interrupt_other(p, SIGUSR2);
	}
}

/* A full kernel socket may find room once more. */
static void send_until_refused(struct play *p)
{
	while (send(FD, "x", 1, 0) == 1)
		;
	say(p, "%s", errno_name(errno));
}

CASE_TRAITS(handlers_restart_send, DUO, SETTLED)
{
	A {
		count_signal(SIGUSR1, SA_RESTART);
		count_signal(SIGUSR2, 0);
		(void)stuff(FD);
	}
	A {
		send_until_refused(p);
		say(p, "%d signals", n_signals);
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		interrupt_other(p, SIGUSR2);
	}
}

/* A time-out made of alarms works however short it is: a handler that runs before the sleep counts,
 * too. */
CASE(handlers_alarm_ends_each_call, ANY)
{
	A {
		int n_interrupted = 0;
		char byte;

		count_signal(SIGALRM, 0);
		for (int i = 0; i < 300; i++) {
			start_ticking(40 + i % 50);
			n_interrupted += recv(FD, &byte, 1, 0) < 0 && errno == EINTR;
			stop_ticking();
		}
		say(p, "%d interrupted", n_interrupted);
	}
}

CASE(handlers_alarm_ends_each_poll, ANY)
{
	A {
		struct pollfd pfd = { .fd = FD, .events = POLLIN };
		struct epoll_event event = { .events = EPOLLIN };
		int n_poll = 0, n_epoll = 0, ep = epoll_create1(0);

		count_signal(SIGALRM, SA_RESTART);
		epoll_ctl(ep, EPOLL_CTL_ADD, FD, &event);
		for (int i = 0; i < 300; i++) {
			start_ticking(40 + i % 50);
			n_poll += poll(&pfd, 1, -1) < 0 && errno == EINTR;
			n_epoll += epoll_wait(ep, &event, 1, -1) < 0 && errno == EINTR;
			stop_ticking();
		}
		say(p, "%d %d interrupted", n_poll, n_epoll);
		close(ep);
	}
}

CASE(handlers_siginterrupt_decides, DUO)
{
	A {
		n_signals = 0;
		count_signal(SIGUSR1, SA_RESTART);
		R(siginterrupt(SIGUSR1, 1));
	}
	A { RECV(1); }
	WITH_B { interrupt_other(p, SIGUSR1); }
	A {
		struct sigaction action;

		sigaction(SIGUSR1, NULL, &action);
		T(action.sa_flags & SA_RESTART);
		signal(SIGUSR1, action.sa_handler);
		sigaction(SIGUSR1, NULL, &action);
		T(action.sa_flags & SA_RESTART);
		R(siginterrupt(SIGUSR1, 0));
		sigaction(SIGUSR1, NULL, &action);
		T(action.sa_flags & SA_RESTART);
		R(siginterrupt(1000, 0));
	}
	A { RECV(1); }
	WITH_B {
		interrupt_other(p, SIGUSR1);
		until_other_sleeps(p);
		SEND("x");
	}
}

/* ---- what the program is told of its handlers ------------------------------------------------ */

static void with_info(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
}

static void plain(int signal)
{
	(void)signal;
	n_here++;
}

static void other(int signal)
{
	(void)signal;
	n_here += 100;
}

static void say_action(struct play *p, const char *text, const struct sigaction *action)
{
	const char *name = action->sa_handler == SIG_DFL       ? "default"
			   : action->sa_handler == SIG_IGN     ? "ignored"
			   : action->sa_handler == plain       ? "plain"
			   : action->sa_handler == other       ? "other"
			   : action->sa_sigaction == with_info ? "with_info"
							       : "?";

	say(p, "%s: %s, flags %x, USR2 masked %d", text, name,
	    (unsigned)action->sa_flags & ~0x04000000u, sigismember(&action->sa_mask, SIGUSR2));
}

CASE_TRAITS(handlers_are_told_back, SELF, NO_PAIR)
{
	struct sigaction action = { .sa_handler = plain, .sa_flags = SA_RESTART }, old;
	struct sigaction *volatile same = &action;

	A {
		sigaddset(&action.sa_mask, SIGUSR2);
		R(sigaction(SIGUSR1, &action, &old));
		say_action(p, "before", &old);
		action = (struct sigaction){ .sa_sigaction = with_info,
					     .sa_flags = SA_SIGINFO | SA_NODEFER };
		R(sigaction(SIGUSR1, &action, &old));
		say_action(p, "first", &old);
		R(sigaction(SIGUSR1, NULL, &old));
		say_action(p, "second", &old);
		/* the same structure for both */
		action = (struct sigaction){ .sa_handler = other };
		R(sigaction(SIGUSR1, &action, same));
		say_action(p, "second again", &action);
		R(sigaction(SIGUSR1, &action, &old));
		say_action(p, "third", &old);
		T((void *)signal(SIGUSR1, SIG_IGN) == (void *)with_info);
		T(signal(SIGUSR1, plain) == SIG_IGN);
		R(sigaction(SIGUSR1, NULL, &old));
		say_action(p, "by signal()", &old);
		T(signal(SIGUSR1, SIG_DFL) == plain);
		T(signal(SIGUSR1, other) == SIG_DFL);
		T(sigset(SIGUSR1, plain) == other);
		T(sigset(SIGUSR1, SIG_HOLD) == plain);
		T(sigset(SIGUSR1, other) == SIG_HOLD);
		R(sigaction(SIGUSR1, NULL, &old));
		say_action(p, "by sigset()", &old);
		T(sysv_signal(SIGUSR1, plain) == other);
		R(sigaction(SIGUSR1, NULL, &old));
		say_action(p, "by sysv_signal()", &old);
		n_here = 0;
		raise(SIGUSR1);
		R(sigaction(SIGUSR1, NULL, &old));
		say_action(p, "after its only shot", &old);
		say(p, "%ld", (long)n_here);
	}
}

CASE_TRAITS(handlers_errors, SELF, NO_PAIR)
{
	struct sigaction action = { .sa_handler = plain };

	A {
		R(sigaction(0, &action, NULL));
		R(sigaction(65, &action, NULL));
		R(sigaction(-1, NULL, &action));
		R(sigaction(SIGKILL, &action, NULL));
		R(sigaction(SIGSTOP, &action, NULL));
		R(sigaction(32, &action, NULL));
		R(sigaction(SIGKILL, NULL, &action));
		R((long)signal(SIGKILL, plain));
		R((long)signal(1000, plain));
		R((long)signal(SIGUSR1, SIG_ERR));
		R((long)sigset(1000, plain));
		R(siginterrupt(SIGKILL, 1));
	}
}

/* The action of a child in the parent's memory is the child's alone. */
CASE_TRAITS(handlers_of_a_vfork_child, SELF, NO_PAIR)
{
	A {
		pid_t pid;
		struct sigaction action;

		n_here = 0;
		signal(SIGUSR1, plain);
		pid = vfork();
		if (pid == 0) {
			signal(SIGUSR1, other); /* as old shells do */
			_exit(0);
		}
		reap(p, "child", pid);
		sigaction(SIGUSR1, NULL, &action);
		say_action(p, "the parent's", &action);
		raise(SIGUSR1);
		say(p, "%ld", (long)n_here);
	}
}

/* Handlers are inherited by a forked child and forgotten at exec, ignored signals are not. */
CASE_TRAITS(handlers_of_a_forked_child, SELF, NO_PAIR)
{
	A {
		pid_t pid;

		n_here = 0;
		signal(SIGUSR1, plain);
		signal(SIGUSR2, SIG_IGN);
		pid = fork_logged(p);
		if (pid == 0) {
			raise(SIGUSR1);
			raise(SIGUSR2);
			_exit((int)n_here);
		}
		reap(p, "child", pid);
		pid = fork_logged(p);
		if (pid == 0) {
			execl("/bin/sh", "sh", "-c", "kill -USR2 $$; kill -USR1 $$; exit 7", NULL);
			_exit(1);
		}
		reap(p, "program", pid);
	}
}

static void fault(int signal __attribute__((unused)))
{
	siglongjmp(jump, 1);
}

/* A fault is told at once, and one who jumps out of it hears the next signal. */
CASE_TRAITS(handlers_of_faults, SELF, NO_PAIR)
{
	A {
		install(SIGSEGV, fault, 0);
		install(SIGUSR1, plain, 0);
		n_here = 0;
		for (volatile int i = 0; i < 3; i++) {
			if (sigsetjmp(jump, 1) == 0)
				*bad_address = 1;
			else
				raise(SIGUSR1);
		}
		say(p, "%ld", (long)n_here);
	}
}
