/* UDP sockets of several processes: fork, spawned and executed programs, with datagrams waiting or
 * not. */
#include "stage.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

#define PROGRAM "/proc/self/exe"

/* ---- fork ------------------------------------------------------------------------------------ */

#define N_SHARED 100

/* Each process takes what it can get until it is told to end; together they get all. */
static void take_share(struct play *p)
{
	char buf[8];

	while (recv(FD, buf, sizeof(buf), 0) == 4) (void)atomic_fetch_add(stage_word(p, 1), 1);
}

CASE_TRAITS(datagram_fork_both_receive, DUO, DATAGRAMS)
{
	B {
		pid_t pid = fork_logged(p);

		*stage_word(p, 2) = 1;
		take_share(p);
		if (pid == 0)
			_exit(0);
		reap(p, "child", pid);
	}
	WITH_A {
		while (!*stage_word(p, 2)) usleep(300);
		for (int i = 0; i < N_SHARED; i++) send(FD, "part", 4, 0);
		SEND("the end");
		SEND("the end");
	}
	B { T(*stage_word(p, 1) == N_SHARED); }
}

CASE_TRAITS(datagram_fork_both_send, DUO, DATAGRAMS)
{
	A {
		pid_t pid = fork_logged(p);

		for (int i = 0; i < N_SHARED / 2; i++) (void)send(FD, "part", 4, 0);
		if (pid == 0)
			_exit(0);
		reap(p, "child", pid);
		SEND("the end");
	}
	B {
		take_share(p);
		T(*stage_word(p, 1) == N_SHARED);
	}
}

/* What waits is taken by whoever comes first, and once. */
CASE_TRAITS(datagram_fork_takes_in_turns, ANY, DATAGRAMS)
{
	A {
		for (int i = 0; i < 8; i++) SEND(i % 2 ? "odd" : "even");
	}
	B {
		for (int i = 0; i < 4; i++) {
			pid_t pid;

			RECV_FLAGS(8, MSG_PEEK);
			pid = fork_logged(p);
			if (pid == 0) {
				RECV(8);
				_exit(0);
			}
			reap(p, "child", pid);
			RECV(8);
		}
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

CASE_TRAITS(datagram_fork_parent_closes, DUO, DATAGRAMS)
{
	B {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			for (int i = 0; i < 10; i++) {
				RECV(8);
				SEND("answer");
			}
			_exit(0);
		}
		close(FD);
		reap(p, "child", pid);
	}
	WITH_A {
		for (int i = 0; i < 10; i++) {
			SEND("ask");
			RECV(8);
		}
	}
	A {
		R(send(FD, "nobody", 6, 0));
		R(send(FD, "nobody", 6, 0));
	}
}

/* ---- other programs -------------------------------------------------------------------------- */

enum start { FORK, VFORK, SPAWN };

static void become_echo(int fd)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", fd);
	execl(PROGRAM, "catalogue", "--echo", number, NULL);
	_exit(99);
}

static pid_t start_echo(int fd, enum start how)
{
	char number[16];
	char *const argv[] = { "catalogue", "--echo", number, NULL };
	pid_t pid = -1;

	(void)snprintf(number, sizeof(number), "%d", fd);
	if (how == SPAWN)
		(void)posix_spawn(&pid, PROGRAM, NULL, NULL, argv, environ);
	else if (how == FORK)
		pid = fork();
	else
		pid = vfork();
	if (pid == 0)
		become_echo(fd);
	return pid;
}

/* B's socket becomes another program's; B keeps its descriptor or not, but receives no more. An
 * empty datagram ends the echo. */
static void echo_serves(struct play *p, enum start how, bool preloaded, bool keeps)
{
	char *preload = getenv("LD_PRELOAD");

	B {
		if (!preloaded)
			unsetenv("LD_PRELOAD");
		*stage_word(p, 1) = start_echo(FD, how);
		if (!preloaded && preload)
			setenv("LD_PRELOAD", preload, 1);
		if (!keeps)
			close(FD);
	}
	for (int i = 0; i < 40; i++) {
		A {
			SEND("echo");
			RECV(8);
		}
	}
	A { SEND(""); }
	B { reap(p, "echo", (pid_t)*stage_word(p, 1)); }
	if (keeps) {
		A { SEND("to the parent"); }
		B { RECV(16); }
		B { SEND("and back"); }
		A { RECV(16); }
	}
}

CASE_TRAITS(datagram_echo_after_fork, PROCESS, DATAGRAMS)
{
	echo_serves(p, FORK, true, false);
}

CASE_TRAITS(datagram_echo_after_vfork, PROCESS, DATAGRAMS)
{
	echo_serves(p, VFORK, true, true);
}

CASE_TRAITS(datagram_echo_after_spawn, PROCESS, DATAGRAMS)
{
	echo_serves(p, SPAWN, true, true);
}

CASE_TRAITS(datagram_echo_outside_after_fork, PROCESS, DATAGRAMS)
{
	echo_serves(p, FORK, false, true);
}

CASE_TRAITS(datagram_echo_outside_after_vfork, PROCESS, DATAGRAMS)
{
	echo_serves(p, VFORK, false, false);
}

CASE_TRAITS(datagram_echo_outside_after_spawn, PROCESS, DATAGRAMS)
{
	echo_serves(p, SPAWN, false, true);
}

/* A program of no interest that has the socket all the same. */
CASE_TRAITS(datagram_beside_a_shell, ANY, DATAGRAMS)
{
	for (int i = 0; i < 3; i++) {
		B { R(system("exit 3") >> 8); }
		A { SEND("ask"); }
		B {
			RECV(8);
			SEND("answer");
		}
		A { RECV(8); }
	}
}

/* ---- datagrams that wait when the socket changes hands --------------------------------------- */

/* The program that B starts must find them, in their order; so must A's answers come. */
static void echo_finds(struct play *p, enum start how, bool preloaded)
{
	char *preload = getenv("LD_PRELOAD");

	A {
		SEND("one");
		SEND("two");
		SEND("three");
	}
	B {
		if (!preloaded)
			unsetenv("LD_PRELOAD");
		RECV(8);
		*stage_word(p, 1) = start_echo(FD, how);
		if (!preloaded && preload)
			setenv("LD_PRELOAD", preload, 1);
		close(FD);
	}
	A {
		RECV(8);
		RECV(8);
		SEND("four");
		RECV(8);
		SEND("");
	}
	B { reap(p, "echo", (pid_t)*stage_word(p, 1)); }
}

CASE_TRAITS(datagram_unread_after_fork, PROCESS, DATAGRAMS)
{
	echo_finds(p, FORK, true);
}

CASE_TRAITS(datagram_unread_after_vfork, PROCESS, DATAGRAMS)
{
	echo_finds(p, VFORK, true);
}

CASE_TRAITS(datagram_unread_after_spawn, PROCESS, DATAGRAMS)
{
	echo_finds(p, SPAWN, true);
}

CASE_TRAITS(datagram_unread_outside, PROCESS, DATAGRAMS)
{
	echo_finds(p, FORK, false);
}

/* B starts a program, and goes on receiving itself. */
CASE_TRAITS(datagram_unread_beside_a_shell, ANY, DATAGRAMS)
{
	A {
		SEND("one");
		SEND("two");
	}
	B {
		RECV(8);
		R(system("exit 3") >> 8);
	}
	A { SEND("three"); }
	B {
		RECV(8);
		RECV(8);
		RECV_FLAGS(8, MSG_DONTWAIT);
	}
}

static void pass(int over, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	(void)!sendmsg(over, &msg, 0);
}

static int take_passed(int over)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(over, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

CASE_TRAITS(datagram_unread_is_passed, ANY, DATAGRAMS)
{
	int over[2], passed = -1;

	A {
		SEND("one");
		SEND("two");
		SEND("three");
	}
	B {
		RECV(8);
		R(socketpair(AF_UNIX, SOCK_STREAM, 0, over));
		pass(over[0], FD);
		close(FD);
		passed = take_passed(over[1]);
		T(passed >= 0);
		close(over[0]);
		close(over[1]);
	}
	A { SEND("four"); }
	B {
		for (int i = 0; i < 3; i++) say_recv(p, passed, 8, 0);
		say_recv(p, passed, 8, MSG_DONTWAIT);
		R(send(passed, "answer", 6, 0));
		close(passed);
	}
	A { RECV(8); }
}
