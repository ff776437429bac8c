/*
 * A process executes a program while a connection's bytes are still to come to where the other end
 * is by then: that one has gone outside with some of them unread in a ring. The kernel loses
 * nothing of what was sent before exec, and nothing overtakes it, be the socket close-on-exec or
 * the new program's.
 */
#include "stage.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>

#include "rawsys.h"

extern char **environ;

#define PROGRAM "/proc/self/exe"
#define LEN 60000
/* Too much for the kernel once its buffers are small. */
#define LEN_LONG 1000000
#define SIZE_WORD 100000
#define N_WORDS 64

int write_pattern(int fd, size_t len, size_t from)
{
	char buf[1000];

	for (size_t n; len > 0; from += n, len -= n) {
		n = len < sizeof(buf) ? len : sizeof(buf);
		fill_pattern(buf, n, from);
		if (send(fd, buf, n, MSG_NOSIGNAL) != (ssize_t)n)
			return 1;
	}
	return 0;
}

/* This program, outside, as told by three numbers. */
static pid_t spawn_outside(const char *option, size_t a, size_t b, size_t c)
{
	char *preload = getenv("LD_PRELOAD"), text[3][16];
	char *const argv[] = { "catalogue", (char *)option, text[0], text[1], text[2], NULL };
	pid_t pid = -1;

	(void)snprintf(text[0], sizeof(text[0]), "%zu", a);
	(void)snprintf(text[1], sizeof(text[1]), "%zu", b);
	(void)snprintf(text[2], sizeof(text[2]), "%zu", c);
	unsetenv("LD_PRELOAD");
	(void)posix_spawn(&pid, PROGRAM, NULL, NULL, argv, environ);
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	return pid;
}

/* To one that reads len bytes of the pattern and an end, once gate ends. */
static void give_to_outside(struct play *p, size_t len, const int gate[2])
{
	pid_t pid = spawn_outside("--pattern", (size_t)FD, len, (size_t)gate[0]);

	until_process_sleeps(pid);
	close(FD);
	close(gate[0]);
	*stage_word(p, 1) = pid;
}

static void open_gate(int gate[2])
{
	(void)!pipe2(gate, O_CLOEXEC);
	fcntl(gate[0], F_SETFD, 0);
}

static bool exec_too_much(void)
{
	static char word[SIZE_WORD + 1];
	char *argv[N_WORDS + 1] = { NULL };

	memset(word, 'x', SIZE_WORD);
	for (int i = 0; i < N_WORDS; i++) argv[i] = word;
	return execv(PROGRAM, argv) == -1 && errno == E2BIG;
}

/* B's end is that of a child alone, which is another program in the end. */
static pid_t start_alone(struct play *p, void (*act)(int fd))
{
	int gate[2];
	char byte;
	pid_t pid;

	T(pipe2(gate, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) == 0)
			act(FD);
		_exit(99);
	}
	close(FD);
	close(gate[0]);
	close(gate[1]);
	return pid;
}

static void become_nothing(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	execl("/bin/true", "true", NULL);
}

static void fail_first(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (!exec_too_much() || write_pattern(fd, LEN, LEN) != 0 || !exec_too_much() ||
	    write_pattern(fd, LEN, 2 * LEN) != 0)
		_exit(98);
	become_nothing(fd);
}

static void become_nothing_with_it(int fd)
{
	(void)fd;
	execl("/bin/true", "true", NULL);
}

static void become_writer(int fd)
{
	char number[16], len[16], from[16];

	(void)snprintf(number, sizeof(number), "%d", fd);
	(void)snprintf(len, sizeof(len), "%d", LEN);
	(void)snprintf(from, sizeof(from), "%d", LEN_LONG);
	unsetenv("LD_PRELOAD");
	execl(PROGRAM, "catalogue", "--put", number, len, from, NULL);
}

/* What A has not read B has sent before, and B ends as act says. */
static void all_comes(struct play *p, void (*act)(int fd), size_t len)
{
	int gate[2];

	B { T(put_pattern(FD, LEN, 1000) == LEN); }
	A {
		settle(p, FD, LEN);
		open_gate(gate);
		give_to_outside(p, len, gate);
	}
	B { reap(p, "program", start_alone(p, act)); }
	A {
		close(gate[1]);
		reap(p, "pattern", (pid_t)*stage_word(p, 1));
	}
}

CASE(exec_pays_what_outside_has_not_read, PROCESS)
{
	all_comes(p, become_nothing, LEN);
}

CASE(exec_pays_with_a_socket_that_nobody_uses, PROCESS)
{
	all_comes(p, become_nothing_with_it, LEN);
}

CASE(exec_that_fails_pays_what_outside_has_not_read, PROCESS)
{
	all_comes(p, fail_first, 3 * LEN);
}

/* More than the kernel takes of B at once, to one that reads len bytes once the gate ends. */
static void owe_much_outside(struct play *p, size_t len, int gate[2])
{
	B { T(put_pattern(FD, LEN_LONG, 10000) == LEN_LONG); }
	A {
		open_gate(gate);
		give_to_outside(p, len, gate);
	}
	B { R(setsockopt(FD, SOL_SOCKET, SO_SNDBUF, &(int){ 1 }, sizeof(int))); }
}

/* Nobody reads before exec has given up: all comes or a reset, and no end in between. */
CASE(exec_of_much_that_outside_has_not_read, PROCESS)
{
	int gate[2];

	owe_much_outside(p, LEN_LONG, gate);
	B { reap(p, "program", start_alone(p, become_nothing)); }
	A {
		close(gate[1]);
		reap(p, "pattern", (pid_t)*stage_word(p, 1));
	}
}

/* The parent goes on with it, and pays. */
CASE(exec_leaves_it_to_the_parent_to_pay, PROCESS)
{
	int gate[2];

	B { T(put_pattern(FD, LEN, 1000) == LEN); }
	A {
		settle(p, FD, LEN);
		open_gate(gate);
		give_to_outside(p, 2 * LEN, gate);
	}
	B {
		pid_t pid = fork();

		if (pid == 0) {
			become_nothing(FD);
			_exit(99);
		}
		reap(p, "program", pid);
		T(write_pattern(FD, LEN, LEN) == 0);
		close(FD);
	}
	A {
		close(gate[1]);
		reap(p, "pattern", (pid_t)*stage_word(p, 1));
	}
}

/* The kernel takes it piece by piece, as the reader goes on. */
CASE(exec_writes_behind_what_outside_has_not_read, PROCESS)
{
	int gate[2];

	owe_much_outside(p, LEN_LONG + LEN, gate);
	B { *stage_word(p, 2) = start_alone(p, become_writer); }
	A {
		until_process_sleeps((pid_t)*stage_word(p, 2));
		close(gate[1]);
		reap(p, "pattern", (pid_t)*stage_word(p, 1));
	}
	B { reap(p, "writer", (pid_t)*stage_word(p, 2)); }
}

CASE(exec_spawned_writes_behind_what_outside_has_not_read, PROCESS)
{
	int gate[2];

	owe_much_outside(p, LEN_LONG + LEN, gate);
	B {
		reap(p, "writer", spawn_outside("--put", (size_t)FD, LEN, LEN_LONG));
		close(FD);
	}
	WITH_A {
		until_other_sleeps(p);
		close(gate[1]);
		reap(p, "pattern", (pid_t)*stage_word(p, 1));
	}
}

/* ---- past the rings without exec ------------------------------------------------------------- */

/* As a program outside would, or libc's own streams. */
static void write_past(int fd)
{
	static char buf[LEN];
	size_t done = 0;
	ssize_t n;

	fill_pattern(buf, LEN, LEN_LONG);
	while (done < LEN) {
		n = raw_syscall(SYS_write, fd, buf + done, LEN - done);
		if (n <= 0)
			_exit(95);
		done += (size_t)n;
	}
	_exit(0);
}

/* To somebody who has never heard of it. */
static void pass_and_write(int fd)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int via[2], got;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, via) != 0)
		_exit(97);
	pass_fd(via[0], fd);
	close(fd);
	if (raw_syscall(SYS_recvmsg, via[1], &m, 0) != 1)
		_exit(96);
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	write_past(got);
}

static void write_as_stdin(int fd)
{
	if (dup2(fd, 0) != 0)
		_exit(97);
	close(fd);
	write_past(0);
}

static void written_behind(struct play *p, void (*act)(int fd))
{
	int gate[2];

	owe_much_outside(p, LEN_LONG + LEN, gate);
	B { *stage_word(p, 2) = start_alone(p, act); }
	A {
		until_process_sleeps((pid_t)*stage_word(p, 2));
		close(gate[1]);
		reap(p, "pattern", (pid_t)*stage_word(p, 1));
	}
	B { reap(p, "writer", (pid_t)*stage_word(p, 2)); }
}

CASE(pass_writes_behind_what_outside_has_not_read, PROCESS)
{
	written_behind(p, pass_and_write);
}

CASE(dup2_writes_behind_what_outside_has_not_read, PROCESS)
{
	written_behind(p, write_as_stdin);
}

/* ---- several at once ------------------------------------------------------------------------- */

#define N_OWED 5
#define HEALTHY 2
/* Those who take nothing are given 5 s together. */
#define SECONDS_MOST 12

/* Alone with all ends that owe. */
static pid_t start_owing(int fds[N_OWED][2], int begin[2], int open)
{
	char byte;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	close(begin[1]);
	close(open);
	if (read(begin[0], &byte, 1) != 0)
		_exit(98);
	for (int i = 0; i < N_OWED; i++) {
		(void)setsockopt(fds[i][0], SOL_SOCKET, SO_SNDBUF, &(int){ 1 }, sizeof(int));
		fcntl(fds[i][0], F_SETFD, FD_CLOEXEC);
	}
	alarm(SECONDS_MOST);
	execl("/bin/true", "true", NULL);
	_exit(99);
}

/* One reader has its gate open, the others' are shut until the program was executed. */
CASE(exec_waits_once_for_all_that_take_nothing, PROCESS)
{
	int fds[N_OWED][2], gate[2], open[2], begin[2];
	pid_t pids[N_OWED], owing;

	A {
		open_gate(gate);
		open_gate(open);
		T(pipe2(begin, O_CLOEXEC) == 0);
		for (int i = 0; i < N_OWED; i++) {
			pair_local(fds[i]);
			warm(p, fds[i]);
			fcntl(fds[i][0], F_SETFD, FD_CLOEXEC);
			T(write_pattern(fds[i][0], LEN_LONG, 0) == 0);
		}
		owing = start_owing(fds, begin, open[1]);
		for (int i = 0; i < N_OWED; i++) close(fds[i][0]);
		for (int i = 0; i < N_OWED; i++)
			pids[i] = spawn_outside("--pattern", (size_t)fds[i][1], LEN_LONG,
						(size_t)(i == HEALTHY ? open : gate)[0]);
		for (int i = 0; i < N_OWED; i++) {
			until_process_sleeps(pids[i]);
			close(fds[i][1]);
		}
		close(open[0]);
		close(open[1]);
		close(begin[1]);
		reap(p, "program", owing);
		reap(p, "healthy", pids[HEALTHY]);
		close(gate[1]);
		for (int i = 0; i < N_OWED; i++)
			if (i != HEALTHY)
				reap(p, "late", pids[i]);
	}
}

/* ---- from the handler of a fault ------------------------------------------------------------- */

/* Of the process that faults: what it tells and waits for, and how it ends. */
static int ready_fd, go_fd;
static void (*end_by)(void);

/* The kernel answers EFAULT where PULC's copy is a fault. */
static void end_amid_a_send(int signal __attribute__((unused)))
{
	char byte;

	(void)!write(ready_fd, "r", 1);
	if (read(go_fd, &byte, 1) == 0)
		end_by();
	_exit(97);
}

static void end_by_exec(void)
{
	execl("/bin/true", "true", NULL);
}

static void end_by_exit(void)
{
	_exit(0);
}

static void *sleep_on(void *fd)
{
	char byte;

	(void)!read(*(int *)fd, &byte, 1);
	return NULL;
}

/* Alone with its end, of which the other one leaves bytes unread while this one is amid a send. */
static void fault_in_send(int fd, const int ready[2], const int go[2], bool threads)
{
	struct sigaction action = { .sa_handler = end_amid_a_send };
	pthread_t thread;

	close(go[1]);
	ready_fd = ready[1];
	go_fd = go[0];
	if (threads && pthread_create(&thread, NULL, sleep_on, &go_fd) != 0)
		_exit(96);
	sigaction(SIGSEGV, &action, NULL);
	alarm(4);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (write_pattern(fd, LEN, 0) != 0)
		_exit(98);
	if (send(fd, mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 100, 0) < 0 &&
	    errno == EFAULT)
		end_amid_a_send(0);
	_exit(99);
}

static void end_in_handler(struct play *p, void (*how)(void), bool threads)
{
	int fds[2], ready[2], go[2], gate[2];
	pid_t owing, reader;
	char byte;

	end_by = how;
	T(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
	open_gate(gate);
	pair_local(fds);
	warm(p, fds);
	owing = fork();
	if (owing == 0) {
		close(fds[1]);
		fault_in_send(fds[0], ready, go, threads);
	}
	close(fds[0]);
	T(read(ready[0], &byte, 1) == 1);
	reader = spawn_outside("--pattern", (size_t)fds[1], LEN, (size_t)gate[0]);
	until_process_sleeps(reader);
	close(fds[1]);
	close(go[1]);
	reap(p, "program", owing);
	close(gate[1]);
	reap(p, "pattern", reader);
	close(gate[0]);
	close(go[0]);
	close(ready[0]);
	close(ready[1]);
}

/* A reset would be as well for the reader: what counts is that nobody waits. */
CASE(exec_in_a_fault_amid_a_send, PROCESS)
{
	A { end_in_handler(p, end_by_exec, false); }
}

CASE(exec_in_a_fault_amid_a_send_of_threads, PROCESS)
{
	A { end_in_handler(p, end_by_exec, true); }
}

CASE(exec_or_exit_in_a_fault_amid_a_send, PROCESS)
{
	A { end_in_handler(p, end_by_exit, false); }
}

CASE(exec_or_exit_in_a_fault_amid_a_send_of_threads, PROCESS)
{
	A { end_in_handler(p, end_by_exit, true); }
}
