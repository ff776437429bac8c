/*
 * The error of a UDP socket that several processes have: it is the open file description's, and is
 * told once, to whoever asks first.
 */
#include "stage.h"

#include <sys/ioctl.h>
#include <sys/wait.h>

/* A turns to a port that nobody has: what it sends is refused. Its queues remain. */
static void is_refused(struct play *p)
{
	A {
		bool is_ipv6 = p->addresses[SIDE_A].storage.ss_family == AF_INET6;
		struct address nobody;

		close(bound_on(is_ipv6 ? "::1" : "127.0.0.1", &nobody));
		R(connect(FD, (struct sockaddr *)&nobody.storage, nobody.size));
		SEND("nobody");
	}
}

static void ask_size(struct play *p, int fd)
{
	int size = -1;

	R(ioctl(fd, FIONREAD, &size));
	say(p, "size %d", size);
}

static void child_asks_size(struct play *p, int fd)
{
	pid_t pid = fork_logged(p);

	if (pid == 0) {
		ask_size(p, fd);
		_exit(0);
	}
	reap(p, "child", pid);
}

static void look(struct play *p, int fd)
{
	struct pollfd entry = { .fd = fd, .events = POLLIN };

	R(poll(&entry, 1, 0));
	say_poll(p, "events", entry.revents);
}

/* A call of one process that does not tell takes nothing from the others. */
CASE_TRAITS(datagram_fork_size_leaves_the_refusal, ANY, DATAGRAMS)
{
	is_refused(p);
	A {
		child_asks_size(p, FD);
		look(p, FD);
		RECV_FLAGS(8, MSG_DONTWAIT);
		look(p, FD);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_fork_parent_asks_size_child_hears, ANY, DATAGRAMS)
{
	is_refused(p);
	A {
		pid_t pid;

		ask_size(p, FD);
		pid = fork_logged(p);
		if (pid == 0) {
			say_error(p, FD);
			say_error(p, FD);
			_exit(0);
		}
		reap(p, "child", pid);
		look(p, FD);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* What waits in the kernel behind what waits in a queue: to know which is first the kernel's is
 * looked at, and what does that is told the error. */
static void is_refused_with_unread(struct play *p)
{
	B {
		SEND("one");
		SEND_FLAGS("second", MSG_DONTROUTE);
	}
	is_refused(p);
}

CASE_TRAITS(datagram_fork_size_of_unread, ANY, DATAGRAMS)
{
	is_refused_with_unread(p);
	A {
		child_asks_size(p, FD);
		look(p, FD);
		for (int i = 0; i < 4; i++) RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_fork_hears_of_unread_once, ANY, DATAGRAMS)
{
	is_refused_with_unread(p);
	A {
		pid_t pid;

		ask_size(p, FD);
		pid = fork_logged(p);
		if (pid == 0) {
			R(send(FD, "heard", 5, 0));
			_exit(0);
		}
		reap(p, "child", pid);
		for (int i = 0; i < 3; i++) RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* Between the two processes the one that is left goes on. */
CASE_TRAITS(datagram_fork_child_ends_with_the_refusal, ANY, DATAGRAMS)
{
	is_refused_with_unread(p);
	A {
		for (int i = 0; i < 2; i++) child_asks_size(p, FD);
		/* Longer than it takes to notice that nobody else has the socket. */
		for (int i = 0; i < 5; i++) {
			usleep(60 * 1000);
			look(p, FD);
		}
		say_error(p, FD);
		look(p, FD);
		for (int i = 0; i < 3; i++) RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

/* On the kernel nobody hears of it: what was sent before the death counts as received. PULC may
 * tell, and then one of the two. */
static int hears(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == ECONNREFUSED;
}

#define MSEC_WORD 300 /* from a death to psid's word of it */

CASE_TRAITS(datagram_fork_death_is_told_once, PROCESS, DATAGRAMS)
{
	A { SEND("unread"); }
	B {
		pid_t pid = fork();

		if (pid == 0)
			for (;;) pause();
		close(FD);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	A {
		struct pollfd entry = { .fd = FD, .events = POLLIN };
		pid_t pid = fork_logged(p);

		(void)poll(&entry, 1, MSEC_WORD);
		(void)atomic_fetch_add(stage_word(p, 1), hears(FD));
		if (pid == 0)
			_exit(0);
		reap(p, "child", pid);
		T(*stage_word(p, 1) <= 1);
	}
}

/* ---- who is the last one --------------------------------------------------------------------- */

static void kill_a_child(struct play *p)
{
	pid_t pid = fork_logged(p);

	if (pid == 0) {
		*stage_word(p, 1) = 1;
		for (;;) pause();
	}
	while (*stage_word(p, 1) == 0) usleep(300);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void nobody_takes_it(struct play *p)
{
	for (int i = 0; i < 3; i++) SEND("x");
}

/* A child that was killed has counted nothing off. */
CASE_TRAITS(datagram_fork_killed_child_then_close, ANY, DATAGRAMS)
{
	B {
		kill_a_child(p);
		R(close(FD));
	}
	A { nobody_takes_it(p); }
}

CASE_TRAITS(datagram_fork_killed_child_then_exit, PROCESS, DATAGRAMS)
{
	B {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			kill_a_child(p);
			exit(0);
		}
		R(close(FD));
		reap(p, "parent", pid);
	}
	A { nobody_takes_it(p); }
}

/* ---- a child whose parent ends, as a daemon's does ------------------------------------------- */

static void orphan_reads(struct play *p, int fd)
{
	while (*stage_word(p, 1) == 0) usleep(300);
	usleep(MSEC_WORD * 1000);
	look(p, fd);
	say_recv(p, fd, 16, MSG_DONTWAIT);
	ask_size(p, fd);
	say_recv(p, fd, 16, MSG_DONTWAIT);
	look(p, fd);
	say_recv(p, fd, 16, MSG_DONTWAIT);
	*stage_word(p, 2) = 1;
}

/* The sender is gone, and so is the process that psid knows as the receiver: what was sent before
 * is there, and nothing else. */
CASE_TRAITS(datagram_fork_orphan_reads_on, SELF, NO_PAIR)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			struct address addresses[2];
			int fds[2];

			pair_datagrams("127.0.0.1", fds, addresses);
			warm_datagrams(p, fds, addresses);
			R(send(fds[0], "one", 3, 0));
			R(send(fds[0], "second", 6, 0));
			close(fds[0]);
			if (fork() == 0)
				orphan_reads(p, fds[1]);
			_exit(0);
		}
		reap(p, "parent", pid);
		*stage_word(p, 1) = 1;
		while (*stage_word(p, 2) == 0) usleep(300);
	}
}
