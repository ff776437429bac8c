/* exec, spawned helpers, handing the socket on. */
#include "case.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

/* A child that becomes `argv` with the descriptor as its stdin and stdout. */
static pid_t spawn_on(struct play *p, int fd, char *const argv[], bool preloaded)
{
	pid_t pid = fork_logged(p);

	if (pid == 0) {
		dup2(fd, STDIN_FILENO);
		dup2(fd, STDOUT_FILENO);
		if (!preloaded)
			unsetenv("LD_PRELOAD");
		execvp(argv[0], argv);
		_exit(99);
	}
	return pid;
}

static void talk_to_cat(struct play *p, bool preloaded)
{
	char *const cat[] = { "cat", NULL };

	A {
		*stage_word(p, 1) = spawn_on(p, FD, cat, preloaded);
		close(FD);
	}
	B {
		for (int i = 0; i < 10; i++) {
			SEND("echo");
			RECV_FLAGS(4, MSG_WAITALL);
		}
		shutdown(FD, SHUT_WR);
		RECV(1);
	}
	A { reap(p, "cat", (pid_t)*stage_word(p, 1)); }
}

CASE(process_exec_with_socket_as_stdio, ANY)
{
	if (play_is(p, PROCESS | SELF))
		talk_to_cat(p, true);
}

CASE(process_exec_of_program_outside, ANY)
{
	if (play_is(p, PROCESS | SELF))
		talk_to_cat(p, false);
}

CASE(process_exec_with_bytes_waiting, PROCESS)
{
	char *const cat[] = { "cat", NULL };

	B { SEND("waiting "); }
	A {
		settle(p, FD, 8);
		*stage_word(p, 1) = spawn_on(p, FD, cat, true);
		close(FD);
	}
	B {
		SEND("and later");
		shutdown(FD, SHUT_WR);
		RECV_FLAGS(17, MSG_WAITALL);
		RECV(1);
	}
	A { reap(p, "cat", (pid_t)*stage_word(p, 1)); }
}

CASE(process_exec_unrelated_program, ANY)
{
	char *const argv[] = { "true", NULL };

	A {
		pid_t pid;

		fcntl(FD, F_SETFD, FD_CLOEXEC);
		R(posix_spawnp(&pid, "true", NULL, NULL, argv, environ));
		reap(p, "true", pid);
		SEND("after");
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		SEND("reply");
	}
	A {
		RECV_FLAGS(5, MSG_WAITALL);
		close(FD);
	}
	B { RECV(1); }
}

CASE(process_system_call_of_a_shell, ANY)
{
	A {
		R(system("exit 3"));
		SEND("after");
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		SEND("reply");
	}
	A { RECV_FLAGS(5, MSG_WAITALL); }
}

CASE(process_spawn_with_socket_as_stdout, PROCESS)
{
	char *const argv[] = { "echo", "spoken", NULL };

	A {
		posix_spawn_file_actions_t actions;
		pid_t pid;

		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, FD, STDOUT_FILENO);
		R(posix_spawnp(&pid, "echo", &actions, NULL, argv, environ));
		reap(p, "echo", pid);
		SEND("after");
		close(FD);
	}
	B {
		RECV_FLAGS(12, MSG_WAITALL);
		RECV(1);
	}
}

CASE(process_cloexec_socket_ends_at_exec, PROCESS)
{
	char *const argv[] = { "sleep", "60", NULL };

	A {
		pid_t pid;

		fcntl(FD, F_SETFD, FD_CLOEXEC);
		pid = fork_logged(p);
		if (pid == 0) {
			unsetenv("LD_PRELOAD");
			execvp(argv[0], argv);
			_exit(99);
		}
		*stage_word(p, 1) = pid;
		close(FD);
	}
	B { RECV(1); }
	A {
		kill((pid_t)*stage_word(p, 1), SIGKILL);
		reap(p, "sleep", (pid_t)*stage_word(p, 1));
	}
}

int file_of(const char *text)
{
	int fd = memfd_create("text", 0);

	(void)!write(fd, text, strlen(text));
	lseek(fd, 0, SEEK_SET);
	return fd;
}

void pass_fd(int via, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .align = { .cmsg_len = CMSG_LEN(sizeof(int)),
				 .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)"f", 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	(void)!sendmsg(via, &m, 0);
}

static int receive_fd(int via, int flags)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(via, &m, flags) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

int take_fd(int via)
{
	return receive_fd(via, 0);
}

int peek_fd(int via)
{
	return receive_fd(via, MSG_PEEK);
}

CASE(process_passed_to_itself, ANY)
{
	A {
		int via[2], fd;

		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pass_fd(via[0], FD);
		fd = take_fd(via[1]);
		T(fd >= 0);
		say_send(p, fd, "passed", 0);
		SEND("own");
		close(FD);
		say_send(p, fd, "left", 0);
		close(fd);
	}
	B {
		RECV_FLAGS(13, MSG_WAITALL);
		RECV(1);
	}
}

CASE(process_passed_to_a_process_forked_before, PROCESS)
{
	int via[2];
	pid_t pid = -1;

	A {
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pid = fork_logged(p);
		if (pid == 0) {
			int fd;

			close(FD);
			fd = take_fd(via[1]);
			say_send(p, fd, "from the other", 0);
			say_recv(p, fd, 5, MSG_WAITALL);
			_exit(0);
		}
		pass_fd(via[0], FD);
		close(FD);
		*stage_word(p, 1) = 1;
	}
	B {
		RECV_FLAGS(14, MSG_WAITALL);
		SEND("reply");
		RECV(1);
	}
	A { reap(p, "receiver", pid); }
}

/* What is in the ring can't be sent again by anybody: the receiver, if under the shim, reads it
 * there. */
CASE(process_passed_when_the_sender_is_done, PROCESS)
{
	int via[2];
	pid_t pid = -1;

	B {
		SEND("all that there is");
		shutdown(FD, SHUT_WR);
	}
	A {
		settle(p, FD, 17);
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pid = fork_logged(p);
		if (pid == 0) {
			int fd;

			close(FD);
			fd = take_fd(via[1]);
			say_recv(p, fd, 17, MSG_WAITALL);
			say_recv(p, fd, 1, 0);
			say_send(p, fd, "reply", 0);
			_exit(0);
		}
		pass_fd(via[0], FD);
		close(FD);
		reap(p, "receiver", pid);
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		RECV(1);
	}
}

CASE(process_passed_and_kept, PROCESS)
{
	int via[2];
	pid_t pid = -1;

	B { SEND("waiting"); }
	A {
		settle(p, FD, 7);
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
		pid = fork_logged(p);
		if (pid == 0) {
			int fd;

			close(FD);
			fd = take_fd(via[1]);
			say_recv(p, fd, 4, MSG_WAITALL);
			say_send(p, fd, "child", 0);
			_exit(0);
		}
		pass_fd(via[0], FD);
		reap(p, "receiver", pid);
		RECV_FLAGS(3, MSG_WAITALL);
		SEND("parent");
		close(FD);
	}
	B {
		RECV_FLAGS(11, MSG_WAITALL);
		RECV(1);
	}
}

CASE_TRAITS(process_forked_before_connecting, SELF, OWN_PAIR)
{
	struct address address;
	int listener, fds[2];
	pid_t pid;

	A {
		pair_local(fds);
		warm(p, fds);
		listener = listen_on("127.0.0.1", &address);
		pid = fork_logged(p);
		if (pid == 0) {
			int fd = connect_to(&address, 0);

			for (int i = 0; i < 100; i++)
				if (send(fd, "p", 1, 0) != 1 || recv(fd, &(char){ 0 }, 1, 0) != 1)
					_exit(1);
			_exit(0);
		}
		fds[0] = accept(listener, NULL, NULL);
		for (int i = 0; i < 100; i++)
			if (recv(fds[0], &(char){ 0 }, 1, 0) != 1 || send(fds[0], "q", 1, 0) != 1)
				say(p, "round %d fails", i);
		say_recv(p, fds[0], 1, 0);
		reap(p, "child", pid);
	}
}

CASE(process_daemon_style_double_fork, PROCESS)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			setsid();
			pid = fork();
			if (pid != 0)
				_exit(0);
			while (!*stage_word(p, 1)) usleep(300);
			SEND("daemon");
			RECV_FLAGS(4, MSG_WAITALL);
			_exit(0);
		}
		close(FD);
		reap(p, "middle", pid);
		*stage_word(p, 1) = 1;
	}
	WITH_B {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("stop");
		RECV(1);
	}
}

CASE(process_stopped_reader_blocks_writer_only_when_full, PROCESS)
{
	A {
		kill(actor_pid(p, SIDE_B), SIGSTOP);
		T(stuff(FD) > 100000);
		SEND_FLAGS("x", MSG_DONTWAIT);
		kill(actor_pid(p, SIDE_B), SIGCONT);
	}
	B { RECV(1); }
}

/* A program that has had the socket too ends without using it. Whoever sends then is told by psid,
 * which asks the kernel when the last process says that it closes: soon, not at its next look. */
#define USEC_SOON 500000

static void close_after_program(struct play *p, void (*end)(int fd))
{
	char *const argv[] = { "true", NULL };

	B { SEND("unread"); }
	A {
		pid_t pid;

		settle(p, FD, 6);
		T(posix_spawnp(&pid, "true", NULL, NULL, argv, environ) == 0);
		reap(p, "true", pid);
		end(FD);
	}
	B {
		uint64_t begin = usec_clock();

		errno = 0;
		while (send(FD, "x", 1, MSG_NOSIGNAL) == 1 && usec_clock() - begin < USEC_SOON)
			(void)sched_yield();
		say(p, "%s", errno_name(errno));
	}
}

static void end_by_close(int fd)
{
	(void)close(fd);
}

static void end_by_dup2(int fd)
{
	(void)dup2(STDIN_FILENO, fd);
}

CASE(process_closes_what_a_program_had_too, PROCESS)
{
	close_after_program(p, end_by_close);
}

CASE(process_replaces_what_a_program_had_too, PROCESS)
{
	close_after_program(p, end_by_dup2);
}
