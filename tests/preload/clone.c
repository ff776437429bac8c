/*
 * Children that fork() did not make: by clone(), _Fork() and the system calls themselves. They hold
 * the socket as a forked child does, or share more than that with their parent: its memory, its
 * descriptors.
 */
#include "case.h"

#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SIZE_STACK 65536

enum way { BY_FORK_BARE, BY_CLONE, BY_SYS_CLONE, BY_SYS_CLONE3, BY_SYS_FORK, N_WAYS };

static const char *const names[N_WAYS] = { "_Fork", "clone", "SYS_clone", "SYS_clone3",
					   "SYS_fork" };

struct child {
	struct play *p;
	void (*run)(struct play *p, int fd);
	int fd;
};

/* What the child has no use for; -1: nothing. */
static int other_end = -1;

static int run_child(void *arg)
{
	struct child *child = arg;

	if (other_end >= 0)
		close(other_end);
	child->run(child->p, child->fd);
	_exit(0);
}

/* On a stack of its own; flags: besides SIGCHLD. */
static pid_t clone_child(struct child *child, int flags)
{
	static char stack[SIZE_STACK] __attribute__((aligned(16)));

	return clone(run_child, stack + sizeof(stack), flags | SIGCHLD, child);
}

static pid_t fork_bare(enum way way)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	switch (way) {
	case BY_FORK_BARE:
		return _Fork();
	case BY_SYS_CLONE:
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	case BY_SYS_CLONE3:
		return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	default:
#ifdef SYS_fork
		return (pid_t)syscall(SYS_fork);
#else
		return _Fork();
#endif
	}
}

/* A child that runs so, and ends. */
static pid_t child_by(struct play *p, enum way way, void (*run)(struct play *p, int fd), int fd)
{
	struct child child = { p, run, fd };
	pid_t pid;

	if (way == BY_CLONE)
		return clone_child(&child, 0);
	pid = fork_bare(way);
	if (pid == 0)
		(void)run_child(&child);
	if (pid < 0)
		say(p, "%s: %s", names[way], errno_name(errno));
	return pid;
}

/* ---- both have the socket -------------------------------------------------------------------- */

static void echo_a_word(struct play *p, int fd)
{
	say_send(p, fd, "child", 0);
	say_recv(p, fd, 3, MSG_WAITALL);
}

/* What the child has taken and sent is as if its parent had, and its end ends nothing. */
CASE(clone_used_by_both_in_turn, DUO)
{
	for (enum way way = 0; way < N_WAYS; way++) {
		A {
			pid_t pid = child_by(p, way, echo_a_word, FD);

			reap(p, names[way], pid);
			SEND("parent");
			RECV_FLAGS(4, MSG_WAITALL);
		}
		WITH_B {
			RECV_FLAGS(5, MSG_WAITALL);
			SEND("yes");
			RECV_FLAGS(6, MSG_WAITALL);
			SEND("fine");
		}
	}
	A { close(FD); }
	B { RECV(1); }
}

static void close_it(struct play *p, int fd)
{
	(void)p;
	close(fd);
}

CASE(clone_closed_by_the_child, ANY)
{
	for (enum way way = 0; way < N_WAYS; way++) {
		A {
			reap(p, names[way], child_by(p, way, close_it, FD));
			SEND("parent");
		}
		B {
			RECV_FLAGS(6, MSG_WAITALL);
			SEND("fine");
		}
		A { RECV_FLAGS(4, MSG_WAITALL); }
	}
	A { close(FD); }
	B { RECV(1); }
}

static void ping(struct play *p, int fd)
{
	while (!*stage_word(p, 1)) usleep(300);
	for (int i = 0; i < 20; i++) {
		if (send(fd, "ping", 4, 0) != 4)
			say(p, "ping %d fails", i);
		say_recv(p, fd, 4, MSG_WAITALL);
	}
}

static void goes_on_alone(struct play *p, enum way way)
{
	A {
		pid_t pid = child_by(p, way, ping, FD);

		close(FD);
		*stage_word(p, 1) = 1;
		reap(p, names[way], pid);
	}
	WITH_B {
		for (int i = 0; i < 20; i++) {
			RECV_FLAGS(4, MSG_WAITALL);
			SEND("pong");
		}
		RECV(1);
	}
}

CASE(clone_child_goes_on_alone, DUO)
{
	goes_on_alone(p, BY_CLONE);
}

CASE(clone_child_of_bare_fork_goes_on_alone, DUO)
{
	goes_on_alone(p, BY_FORK_BARE);
}

CASE(clone_child_of_the_system_call_goes_on_alone, DUO)
{
	goes_on_alone(p, BY_SYS_CLONE);
}

static void send_words(struct play *p, int fd)
{
	(void)p;
	for (int i = 0; i < 2000; i++)
		if (send(fd, "cccc", 4, 0) != 4)
			break;
}

static void write_at_once(struct play *p, enum way way)
{
	A {
		pid_t pid = child_by(p, way, send_words, FD);

		for (int i = 0; i < 2000; i++)
			if (send(FD, "pppp", 4, 0) != 4)
				break;
		reap(p, names[way], pid);
	}
	WITH_B {
		int n_parent = 0, n_child = 0;

		for (int i = 0; i < 4000; i++) {
			char word[4];

			if (recv(FD, word, 4, MSG_WAITALL) != 4)
				break;
			n_parent += memcmp(word, "pppp", 4) == 0;
			n_child += memcmp(word, "cccc", 4) == 0;
		}
		say(p, "parent %d child %d", n_parent, n_child);
	}
}

CASE(clone_both_write_at_once, DUO)
{
	for (enum way way = 0; way < N_WAYS; way++) write_at_once(p, way);
}

static void wait_in_a_set(struct play *p, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 };
	int set = epoll_create1(0);

	R(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
	*stage_word(p, 2) = 1;
	R(epoll_wait(set, &event, 1, -1));
	say_recv(p, fd, 5, MSG_WAITALL);
}

CASE(clone_child_sleeps_in_a_set, DUO)
{
	for (enum way way = 0; way < N_WAYS; way++) {
		A {
			pid_t pid = child_by(p, way, wait_in_a_set, FD);

			*stage_word(p, 1) = pid;
			reap(p, names[way], pid);
			*stage_word(p, 1) = *stage_word(p, 2) = 0;
		}
		WITH_B {
			while (!*stage_word(p, 1) || !*stage_word(p, 2)) usleep(300);
			until_process_sleeps((pid_t)*stage_word(p, 1));
			SEND("wake!");
		}
	}
}

static void be_a_grandparent(struct play *p, int fd)
{
	say_send(p, fd, "child", 0);
	reap(p, "grandchild", child_by(p, BY_SYS_CLONE, echo_a_word, fd));
	say_send(p, fd, "again", 0);
}

CASE(clone_chain, DUO)
{
	A {
		reap(p, "child", child_by(p, BY_FORK_BARE, be_a_grandparent, FD));
		SEND("end");
	}
	WITH_B {
		RECV_FLAGS(10, MSG_WAITALL);
		SEND("yes");
		RECV_FLAGS(8, MSG_WAITALL);
	}
}

/* In the midst of an upgrade, or before it: neither of the two takes itself for alone. */
static void speak_alternately(struct play *p, int fds[2], pid_t pid, int n)
{
	char c;
	int n_bad = 0;

	for (int i = 0; i < n; i++) {
		/* The child sends when it is told to. */
		*stage_word(p, 1) = i + 1;
		n_bad += recv(fds[1], &c, 1, 0) != 1 || c != 'c';
		n_bad += send(fds[0], "p", 1, 0) != 1;
		n_bad += recv(fds[1], &c, 1, 0) != 1 || c != 'p';
		n_bad += send(fds[1], "r", 1, 0) != 1;
		n_bad += recv(fds[0], &c, 1, 0) != 1 || c != 'r';
	}
	say(p, "%d of %d go wrong", n_bad, n);
	reap(p, "child", pid);
}

enum { N_WORDS = 200 };

static void send_when_told(struct play *p, int fd)
{
	for (int i = 0; i < N_WORDS; i++) {
		while (*stage_word(p, 1) <= i) usleep(50);
		if (send(fd, "c", 1, 0) != 1)
			say(p, "child fails at %d", i);
	}
}

CASE_TRAITS(clone_before_the_upgrade, SELF, NO_PAIR)
{
	for (enum way way = 0; way < N_WAYS; way++) {
		A {
			int fds[2];
			pid_t pid;

			pair_local(fds);
			*stage_word(p, 1) = 0;
			other_end = fds[1];
			pid = child_by(p, way, send_when_told, fds[0]);
			speak_alternately(p, fds, pid, N_WORDS);
			close(fds[0]);
			say_recv(p, fds[1], 1, 0);
			close(fds[1]);
		}
	}
}

/* ---- another pid namespace ------------------------------------------------------------------- */

/* Of that child its parent's number says nothing, nor its own to its parent: it is 1, or small. */
static void exchange(struct play *p, int fd)
{
	char c;

	(void)p;
	for (int i = 0; i < N_WORDS; i++) {
		if (send(fd, "c", 1, 0) != 1 || recv(fd, &c, 1, 0) != 1 || c != 'r')
			_exit(1);
		usleep(100);
	}
}

/* Both ways of coming there: as the first process, and as a later one. */
static pid_t child_elsewhere(struct play *p, void (*run)(struct play *p, int fd), int fd,
			     bool later)
{
	struct child child = { p, run, fd };
	pid_t pid, later_one;

	if (!later)
		return clone_child(&child, CLONE_NEWPID);
	pid = fork();
	if (pid != 0)
		return pid;
	if (unshare(CLONE_NEWPID) < 0)
		_exit(77);
	if (other_end >= 0)
		close(other_end);
	pid = fork(); /* the namespace lasts as long as this one */
	if (pid == 0) {
		pause();
		_exit(0);
	}
	later_one = fork_logged(p);
	if (later_one == 0)
		(void)run_child(&child);
	waitpid(later_one, NULL, 0);
	kill(pid, SIGKILL);
	_exit(0);
}

static bool has_namespaces(struct play *p)
{
	struct child nothing = { p, close_it, -1 };
	pid_t pid;

	other_end = -1;
	pid = clone_child(&nothing, CLONE_NEWPID);

	if (pid < 0)
		say(p, "no namespaces here: %s", errno_name(errno));
	else
		waitpid(pid, NULL, 0);
	return pid > 0;
}

static void talk_to_child_elsewhere(struct play *p, bool later)
{
	int fds[2], n_bad = 0;
	pid_t pid;
	char c;

	pair_local(fds);
	other_end = fds[1];
	pid = child_elsewhere(p, exchange, fds[0], later);
	for (int i = 0; i < N_WORDS; i++) {
		n_bad += recv(fds[1], &c, 1, 0) != 1;
		n_bad += send(fds[1], "r", 1, 0) != 1;
	}
	reap(p, "child", pid);
	for (int i = 0; i < N_WORDS; i++) {
		n_bad += send(fds[0], "p", 1, 0) != 1;
		n_bad += recv(fds[1], &c, 1, 0) != 1 || c != 'p';
	}
	say(p, "%d go wrong", n_bad);
	close(fds[0]);
	say_recv(p, fds[1], 1, 0);
	close(fds[1]);
}

CASE_TRAITS(clone_into_a_namespace_before_the_upgrade, SELF, NO_PAIR)
{
	A {
		for (int later = 0; later < 2 && has_namespaces(p); later++)
			talk_to_child_elsewhere(p, later);
	}
}

/* While the child speaks its parent does so too: neither is alone. */
CASE_TRAITS(clone_into_a_namespace_both_speak, SELF, NO_PAIR)
{
	A {
		for (int later = 0; later < 2 && has_namespaces(p); later++) {
			int fds[2];

			pair_local(fds);
			*stage_word(p, 1) = 0;
			speak_alternately(p, fds, child_elsewhere(p, send_when_told, fds[0], later),
					  N_WORDS);
			close(fds[0]);
			close(fds[1]);
		}
	}
}

CASE(clone_into_a_namespace, DUO)
{
	for (int later = 0; later < 2; later++) {
		A {
			bool has = has_namespaces(p);

			*stage_word(p, 2) = has ? 2 : 1;
			if (has) {
				reap(p, "child", child_elsewhere(p, echo_a_word, FD, later));
				SEND("parent");
			}
			while (*stage_word(p, 2) != 0) usleep(300);
		}
		WITH_B {
			while (*stage_word(p, 2) == 0) usleep(300);
			if (*stage_word(p, 2) == 2) {
				RECV_FLAGS(5, MSG_WAITALL);
				SEND("yes");
				RECV_FLAGS(6, MSG_WAITALL);
			}
			*stage_word(p, 2) = 0;
		}
	}
}

/* ---- more in common than the socket ---------------------------------------------------------- */

static void close_all(struct play *p, int fd)
{
	(void)p;
	dup2(fd, 700);
	for (int i = 3; i < 800; i++) close(i);
}

/* As those who start programs do it: descriptors of its own, the memory is the parent's. */
CASE(clone_in_the_same_memory, ANY)
{
	A {
		struct child child = { p, close_all, FD };
		pid_t pid = clone_child(&child, CLONE_VM | CLONE_VFORK);

		reap(p, "child", pid);
		SEND("parent");
	}
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("reply");
	}
	A {
		RECV_FLAGS(5, MSG_WAITALL);
		close(FD);
	}
	B { RECV(1); }
}

/* Memory of its own, the descriptors are the parent's: what it closes is closed, and the number is
 * given out anew. */
static void with_the_same_descriptors(struct play *p, int flags)
{
	A {
		struct child child = { p, close_it, FD };
		int fds[2];

		SEND("before");
		reap(p, "child", clone_child(&child, flags));
		R(send(FD, "x", 1, MSG_NOSIGNAL));
		pair_local(fds);
		T(fds[0] == FD || fds[1] == FD);
		for (int i = 0; i < 20; i++) {
			T(send(fds[0], "abc", 3, 0) == 3);
			say_recv(p, fds[1], 3, MSG_WAITALL);
		}
		close(fds[0]);
		say_recv(p, fds[1], 1, 0);
	}
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		RECV(1);
	}
}

CASE(clone_with_the_same_descriptors, ANY)
{
	with_the_same_descriptors(p, CLONE_FILES);
}

CASE(clone_with_the_same_descriptors_and_memory, ANY)
{
	with_the_same_descriptors(p, CLONE_FILES | CLONE_VM | CLONE_VFORK);
}

/* A thread that has taken descriptors of its own: another one's closing is nothing to it. */
static void *close_elsewhere(void *arg)
{
	int fd = *(int *)arg;

	if (unshare(CLONE_FILES) < 0)
		return (void *)1;
	close(fd);
	return NULL;
}

CASE(clone_descriptors_of_one_thread, ANY)
{
	A {
		pthread_t thread;
		void *failed;

		SEND("before");
		pthread_create(&thread, NULL, close_elsewhere, &FD);
		pthread_join(thread, &failed);
		T(failed == NULL);
		SEND("after");
	}
	answer_and_end(p);
}

/* A child in its parent's memory sends, each byte to somebody asleep: what psid says to the parent
 * meanwhile is left to the parent. */
CASE(clone_child_by_vfork_sends, PROCESS)
{
	enum { N = 20 };

	A {
		for (int i = 0; i < N; i++) RECV(1);
		RECV(1);
		T(usec_clock() - *stage_word(p, 1) < 1000000);
	}
	WITH_B {
		pid_t pid = vfork();

		if (pid == 0) {
			for (int i = 0; i < N; i++) {
				until_other_sleeps(p);
				(void)!send(FD, "x", 1, 0);
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		until_other_sleeps(p);
		*stage_word(p, 1) = usec_clock();
		SEND("y");
	}
}
