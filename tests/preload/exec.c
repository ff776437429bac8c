/*
 * A socket that goes through exec on a descriptor of its own: the new program is this one, as
 * `catalogue --echo FD`, which sends back what it receives. It may be under the shim or not, be
 * started by fork, vfork or posix_spawn, and find bytes waiting.
 */
#include "stage.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

#define PROGRAM "/proc/self/exe"

int echo_until_end(int fd)
{
	char buf[4096];
	ssize_t n, sent;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		for (ssize_t at = 0; at < n; at += sent) {
			sent = send(fd, buf + at, (size_t)(n - at), MSG_NOSIGNAL);
			if (sent < 0)
				return 1;
		}
	return n < 0;
}

int count_until_end(int fd)
{
	char buf[100];
	ssize_t n;
	int total = 0;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) total += (int)n;
	return n < 0 ? 100 : total;
}

int check_pattern(int fd, size_t len, int gate)
{
	size_t at = 0;
	char buf[1000];
	ssize_t n;

	if (read(gate, buf, 1) != 0)
		return 4;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		if (!is_pattern(buf, (size_t)n, at))
			return 1;
		at += (size_t)n;
	}
	if (n < 0)
		return errno == ECONNRESET && recv(fd, buf, sizeof(buf), 0) == 0 ? 0 : 2;
	return at == len ? 0 : 3;
}

enum start { FORK, VFORK, SPAWN };

static void become_echo(int fd)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%d", fd);
	execl(PROGRAM, "catalogue", "--echo", number, NULL);
	_exit(99);
}

static pid_t spawn_echo(int fd)
{
	char number[16];
	char *const argv[] = { "catalogue", "--echo", number, NULL };
	pid_t pid = -1;

	(void)snprintf(number, sizeof(number), "%d", fd);
	(void)posix_spawn(&pid, PROGRAM, NULL, NULL, argv, environ);
	return pid;
}

static pid_t start_echo(int fd, enum start how)
{
	pid_t pid;

	if (how == SPAWN)
		return spawn_echo(fd);
	pid = how == FORK ? fork() : vfork();
	if (pid == 0)
		become_echo(fd);
	return pid;
}

/* A gives its end away; B talks to the echo, ends, and hears the end. */
static void echo_serves(struct play *p, enum start how, bool preloaded)
{
	char *preload = getenv("LD_PRELOAD");

	A {
		if (!preloaded)
			unsetenv("LD_PRELOAD");
		*stage_word(p, 1) = start_echo(FD, how);
		if (!preloaded && preload)
			setenv("LD_PRELOAD", preload, 1);
		close(FD);
	}
	B {
		for (int i = 0; i < 5; i++) {
			SEND("echo");
			RECV_FLAGS(4, MSG_WAITALL);
		}
		shutdown(FD, SHUT_WR);
		RECV(1);
	}
	A { reap(p, "echo", (pid_t)*stage_word(p, 1)); }
}

CASE(exec_echo_after_fork, PROCESS)
{
	echo_serves(p, FORK, true);
}

CASE(exec_echo_after_vfork, PROCESS)
{
	echo_serves(p, VFORK, true);
}

CASE(exec_echo_after_spawn, PROCESS)
{
	echo_serves(p, SPAWN, true);
}

CASE(exec_echo_outside_after_fork, PROCESS)
{
	echo_serves(p, FORK, false);
}

CASE(exec_echo_outside_after_vfork, PROCESS)
{
	echo_serves(p, VFORK, false);
}

CASE(exec_echo_outside_after_spawn, PROCESS)
{
	echo_serves(p, SPAWN, false);
}

/* Nobody is left to send again what lies in the rings: the new program must take them up. */
CASE(exec_with_sender_already_done, PROCESS)
{
	B {
		SEND("all that there is");
		shutdown(FD, SHUT_WR);
	}
	A {
		settle(p, FD, 17);
		*stage_word(p, 1) = start_echo(FD, FORK);
		close(FD);
	}
	B {
		RECV_FLAGS(17, MSG_WAITALL);
		RECV(1);
	}
	A { reap(p, "echo", (pid_t)*stage_word(p, 1)); }
}

/* The option that marks an upgraded connection for other programs is not the program's to take
 * away. */
static void find_all_that_there_is(struct play *p, bool clears)
{
	B {
		SEND("all that there is");
		close(FD);
	}
	A {
		char number[16];
		pid_t pid;

		settle(p, FD, 17);
		if (clears)
			R(setsockopt(FD, IPPROTO_IP, IP_RECVORIGDSTADDR, &(int){ 0 }, sizeof(int)));
		(void)snprintf(number, sizeof(number), "%d", FD);
		pid = fork();
		if (pid == 0) {
			execl(PROGRAM, "catalogue", "--count", number, NULL);
			_exit(99);
		}
		close(FD);
		reap(p, "count", pid);
	}
}

CASE(exec_with_sender_already_gone, PROCESS)
{
	find_all_that_there_is(p, false);
}

CASE(exec_though_the_mark_was_taken_away, PROCESS)
{
	find_all_that_there_is(p, true);
}

#define LEN 60000

enum when { BEFORE_EXEC, AFTER_EXEC, AFTER_SPAWN };

/* A program outside that begins to read when the other end of gate is closed. */
static pid_t start_pattern(int fd, const int gate[2], enum when when)
{
	char number[16], len[16], wait[16], byte;
	char *const argv[] = { "catalogue", "--pattern", number, len, wait, NULL };
	pid_t pid = -1;

	(void)snprintf(number, sizeof(number), "%d", fd);
	(void)snprintf(len, sizeof(len), "%d", LEN);
	(void)snprintf(wait, sizeof(wait), "%d", gate[0]);
	if (when == AFTER_SPAWN) {
		(void)posix_spawn(&pid, PROGRAM, NULL, NULL, argv, environ);
		return pid;
	}
	pid = fork();
	if (pid != 0)
		return pid;
	close(gate[1]);
	if (when == BEFORE_EXEC && read(gate[0], &byte, 1) != 0)
		_exit(98);
	execv(PROGRAM, argv);
	_exit(99);
}

/* Much is on the way when A's end goes to a program outside, which nobody else then holds. */
static void outside_misses_nothing(struct play *p, enum when when)
{
	char *preload = getenv("LD_PRELOAD");

	B { T(put_pattern(FD, LEN, 1000) == LEN); }
	A {
		int gate[2];

		settle(p, FD, LEN);
		T(pipe2(gate, O_CLOEXEC) == 0);
		fcntl(gate[0], F_SETFD, 0);
		unsetenv("LD_PRELOAD");
		*stage_word(p, 1) = start_pattern(FD, gate, when);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (when == AFTER_EXEC)
			until_process_sleeps((pid_t)*stage_word(p, 1));
		close(FD);
		close(gate[1]);
		close(gate[0]);
	}
	B { shutdown(FD, SHUT_WR); }
	A { reap(p, "pattern", (pid_t)*stage_word(p, 1)); }
}

CASE(exec_outside_misses_nothing, PROCESS)
{
	outside_misses_nothing(p, BEFORE_EXEC);
}

CASE(exec_outside_misses_nothing_closed_later, PROCESS)
{
	outside_misses_nothing(p, AFTER_EXEC);
}

CASE(exec_outside_misses_nothing_spawned, PROCESS)
{
	outside_misses_nothing(p, AFTER_SPAWN);
}

/* Both go on with it: what each sends and receives is theirs. */
CASE(exec_parent_keeps_the_socket, PROCESS)
{
	A { *stage_word(p, 1) = start_echo(FD, FORK); }
	B {
		SEND("echo");
		RECV_FLAGS(4, MSG_WAITALL);
		shutdown(FD, SHUT_WR);
	}
	A {
		reap(p, "echo", (pid_t)*stage_word(p, 1));
		SEND("parent");
		RECV(1);
		close(FD);
	}
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		RECV(1);
	}
}

/* A parent that has sent already, and whose memory the child has not. */
CASE(exec_parent_sends_behind_the_spawned, PROCESS)
{
	A {
		SEND("before");
		*stage_word(p, 1) = start_echo(FD, SPAWN);
	}
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("echoed by the spawned one");
		RECV_FLAGS(25, MSG_WAITALL);
	}
	A { SEND("behind"); }
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("once more");
		RECV_FLAGS(9, MSG_WAITALL);
		shutdown(FD, SHUT_WR);
	}
	A {
		reap(p, "echo", (pid_t)*stage_word(p, 1));
		SEND("last");
		close(FD);
	}
	B {
		RECV_FLAGS(4, MSG_WAITALL);
		RECV(1);
	}
}

CASE(exec_by_a_shell_in_between, PROCESS)
{
	A {
		char program[300] = "", number[16];
		ssize_t n = readlink(PROGRAM, program, sizeof(program) - 1);
		pid_t pid = fork();

		if (pid == 0) {
			(void)snprintf(number, sizeof(number), "%d", FD);
			execl("/bin/sh", "sh", "-c", "exec \"$0\" --echo \"$1\"",
			      n > 0 ? program : "", number, NULL);
			_exit(99);
		}
		*stage_word(p, 1) = pid;
		close(FD);
	}
	B {
		SEND("echo");
		RECV_FLAGS(4, MSG_WAITALL);
		shutdown(FD, SHUT_WR);
		RECV(1);
	}
	A { reap(p, "echo", (pid_t)*stage_word(p, 1)); }
}

#define N_FAILING 30
#define SIZE_WORD 100000
#define N_WORDS 64

/* The kernel copies words until they are too many, and the caller stays what it is. */
static int exec_too_much(void)
{
	static char word[SIZE_WORD + 1];
	char *argv[N_WORDS + 1] = { NULL };

	memset(word, 'x', SIZE_WORD);
	for (int i = 0; i < N_WORDS; i++) argv[i] = word;
	return execv(PROGRAM, argv);
}

#define SIZE_SMALL (256ul << 20)

/* Of a process that psid knows already. Rings are larger than all that the new program may have. */
CASE(exec_small_address_space, PROCESS)
{
	A {
		pid_t pid = fork();

		if (pid == 0) {
			struct rlimit limit = { SIZE_SMALL, SIZE_SMALL };

			if (exec_too_much() != -1 || setrlimit(RLIMIT_AS, &limit) < 0)
				_exit(98);
			become_echo(FD);
		}
		*stage_word(p, 1) = pid;
		close(FD);
	}
	B {
		SEND("echo");
		RECV_FLAGS(4, MSG_WAITALL);
		shutdown(FD, SHUT_WR);
		RECV(1);
	}
	A { reap(p, "echo", (pid_t)*stage_word(p, 1)); }
}

struct turn {
	uint32_t sender, number;
};

static bool send_turn(int fd, uint32_t sender, uint32_t number)
{
	struct turn turn = { .sender = sender, .number = number };

	return send(fd, &turn, sizeof(turn), MSG_NOSIGNAL) == sizeof(turn);
}

/* All that both have sent is there, each one's in its order, the child's from this one on: how many
 * of those there are. */
static long receive_turns_from(int fd, uint32_t first)
{
	uint32_t next[2] = { 0, first };
	struct turn turn;
	ssize_t n;

	while ((n = recv(fd, &turn, sizeof(turn), MSG_WAITALL)) == sizeof(turn))
		if (turn.sender > 1 || turn.number != next[turn.sender]++)
			return -1;
	return n ? -1 : (long)next[1];
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* A process that sends after each exec that fails. */
static pid_t start_failing(int fd)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	for (uint32_t i = 0; i < N_FAILING; i++)
		if (exec_too_much() != -1 || errno != E2BIG || !send_turn(fd, 1, i))
			_exit(1);
	_exit(0);
}

CASE(exec_that_fails_while_the_parent_sends, PROCESS)
{
	A {
		bool sent = true;
		pid_t pid;

		fcntl(FD, F_SETFD, FD_CLOEXEC);
		pid = start_failing(FD);
		for (uint32_t i = 0; sent && !has_ended(pid); i++) sent = send_turn(FD, 0, i);
		reap(p, "child", pid);
		close(FD);
	}
	WITH_B { R(receive_turns_from(FD, 0)); }
}

/* B answers the first of the child's turns: then most of its time is spent in exec. */
CASE(exec_that_fails_while_the_parent_closes, PROCESS)
{
	A {
		pid_t pid;
		char byte;

		fcntl(FD, F_SETFD, FD_CLOEXEC);
		pid = start_failing(FD);
		R(recv(FD, &byte, 1, 0));
		R(close(FD));
		reap(p, "child", pid);
	}
	WITH_B {
		struct turn first;

		R(recv(FD, &first, sizeof(first), MSG_WAITALL));
		SEND("x");
		R(receive_turns_from(FD, 1));
	}
}

CASE(exec_that_fails_changes_nothing, ANY)
{
	char *const argv[] = { "nothing", NULL };

	A {
		SEND("before");
		R(execv("/nonexistent/nothing", argv));
		R(execve("/etc/passwd", argv, environ));
		R(execvp("pulc-no-such-program", argv));
		fcntl(FD, F_SETFD, FD_CLOEXEC);
		R(execv("/etc", argv));
		SEND("after");
	}
	answer_and_end(p);
}

CASE(exec_pipe_to_a_shell, ANY)
{
	A {
		FILE *pipe = popen("exit 4", "r");

		T(pipe != NULL);
		R(pclose(pipe));
		SEND("after");
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		SEND("reply");
	}
	A { RECV_FLAGS(5, MSG_WAITALL); }
}

CASE(exec_list_functions, PROCESS)
{
	A {
		pid_t pid = fork();
		char *const env[] = { "WORD=7", NULL };

		if (pid == 0) {
			execle("/bin/sh", "sh", "-c", "exit $WORD", NULL, env);
			_exit(99);
		}
		reap(p, "execle", pid);
		pid = fork();
		if (pid == 0) {
			execlp("sh", "sh", "-c", "exit 8", NULL);
			_exit(99);
		}
		reap(p, "execlp", pid);
		SEND("done");
	}
	B { RECV_FLAGS(4, MSG_WAITALL); }
}
