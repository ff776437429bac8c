/* Calls that move bytes past the program's buffers, where they can't be sent: who is told, and what
 * becomes of the bytes. */
#include "case.h"

#include <fcntl.h>
#include <sys/sendfile.h>

/* A is left with a reset that nobody has been told of. */
#define RESET_A                                                                                    \
	A { SEND("unread"); }                                                                      \
	B {                                                                                        \
		settle(p, FD, 6);                                                                  \
		R(close(FD));                                                                      \
	}

/* The error is told once, by whatever asks first, but for who asks for no bytes; and then it is a
 * broken pipe. */
CASE(movers_tell_of_a_reset, ANY)
{
	RESET_A
	A {
		int text = file_of("[sendfile]");

		signal(SIGPIPE, SIG_IGN);
		settle_poll(p, FD, POLLHUP);
		R(sendfile(FD, text, NULL, 0));
		R(sendfile(FD, text, NULL, 100));
		R(sendfile(FD, text, NULL, 100));
	}
}

CASE(movers_tell_of_a_reset_to_a_pipe, ANY)
{
	int pipes[2];

	RESET_A
	A {
		T(pipe(pipes) == 0);
		T(write(pipes[1], "[splice]", 8) == 8);
		signal(SIGPIPE, SIG_IGN);
		settle_poll(p, FD, POLLHUP);
		R(splice(pipes[0], NULL, FD, NULL, 8, 0));
		R(splice(pipes[0], NULL, FD, NULL, 8, 0));
	}
}

/* Who finds nothing to send is told of no error. */
CASE(movers_leave_a_reset_at_the_end_of_the_file, ANY)
{
	off_t offset = 1000;

	RESET_A
	A {
		int text = file_of("[sendfile]"), folder = open("/", O_RDONLY);
		int unreadable = open("/dev/null", O_WRONLY);

		signal(SIGPIPE, SIG_IGN);
		settle_poll(p, FD, POLLHUP);
		R(sendfile(FD, text, &offset, 100));
		R(sendfile(FD, folder, NULL, 100));
		R(sendfile(FD, unreadable, NULL, 100));
		R(sendfile(FD, -1, NULL, 100));
		say_error(p, FD);
		R(sendfile(FD, text, &offset, 100));
		R(sendfile(FD, text, NULL, 100));
		say(p, "position %ld", (long)lseek(text, 0, SEEK_CUR));
	}
}

CASE(movers_leave_a_reset_with_nothing_in_the_pipe, ANY)
{
	int pipes[2];
	char buf[10];

	RESET_A
	A {
		signal(SIGPIPE, SIG_IGN);
		settle_poll(p, FD, POLLHUP);
		T(pipe(pipes) == 0);
		R(splice(pipes[0], NULL, FD, NULL, 5, SPLICE_F_NONBLOCK));
		T(fcntl(pipes[0], F_SETFL, O_NONBLOCK) == 0);
		R(splice(pipes[0], NULL, FD, NULL, 5, 0));
		say_error(p, FD);
		T(write(pipes[1], "stays", 5) == 5);
		R(splice(pipes[0], NULL, FD, NULL, 5, 0));
		R(read(pipes[0], buf, sizeof(buf)));
		T(close(pipes[1]) == 0);
		R(splice(pipes[0], NULL, FD, NULL, 5, 0));
	}
}

CASE(movers_leave_in_the_pipe_what_a_reset_refuses, ANY)
{
	int pipes[2];
	char buf[10];

	RESET_A
	A {
		signal(SIGPIPE, SIG_IGN);
		settle_poll(p, FD, POLLHUP);
		T(pipe(pipes) == 0);
		T(write(pipes[1], "stays", 5) == 5);
		R(splice(pipes[0], NULL, FD, NULL, 5, 0));
		say_error(p, FD);
		R(read(pipes[0], buf, sizeof(buf)));
	}
}

/* Of each connection it takes one byte when there is one and one when there are more, and closes it
 * with the rest unread. */
static void take_little(const struct address *to, unsigned n_connections)
{
	for (unsigned i = 0; i < n_connections; i++) {
		struct pollfd pfd = { .fd = connect_to(to, 0), .events = POLLIN };
		char byte;

		for (int takes = 0; takes < 2; takes++) {
			if (poll(&pfd, 1, -1) != 1 || recv(pfd.fd, &byte, 1, 0) != 1)
				_exit(1);
			usleep(1000u << i);
		}
		close(pfd.fd);
	}
	_exit(0);
}

/*
 * A call that sends takes the connection off the kernel, where the reset is known: psid's answer
 * waits for it. It comes some time after both have called twice, so that one of a few connections
 * is at that point.
 */
CASE_TRAITS(movers_tell_of_a_reset_though_upgraded_by_their_call, SELF, NO_PAIR)
{
	int pipes[2], text = file_of("[sendfile]"), listener;
	const unsigned n_connections = 6;
	struct address address;
	char buf[10];
	pid_t other;

	signal(SIGPIPE, SIG_IGN);
	T(pipe(pipes) == 0);
	listener = listen_on("127.0.0.1", &address);
	other = fork();
	if (other == 0)
		take_little(&address, n_connections);
	for (unsigned i = 0; i < n_connections; i++) {
		int fd = accept(listener, NULL, NULL);

		nodelay(fd);
		say_send(p, fd, "x", 0);
		usleep(1000u << i);
		say_send(p, fd, "xunread", 0);
		settle_poll(p, fd, POLLHUP);
		if (i % 2 == 0) {
			T(write(pipes[1], "stays", 5) == 5);
			R(splice(pipes[0], NULL, fd, NULL, 5, 0));
			R(read(pipes[0], buf, sizeof(buf)));
		} else {
			R(sendfile(fd, text, NULL, 100));
		}
		say_error(p, fd);
		R(close(fd));
	}
	reap(p, "other", other);
}

/* The pipe is empty, and what comes at last cannot be sent; or nothing comes. */
CASE(movers_wait_for_the_pipe_before_they_tell_of_a_reset, ANY)
{
	int pipes[2];
	char buf[10];

	RESET_A
	A {
		signal(SIGPIPE, SIG_IGN);
		settle_poll(p, FD, POLLHUP);
		T(pipe(pipes) == 0);
		for (int writes = 0; writes < 2; writes++) {
			pid_t self = actor_tid(p, SIDE_A), writer = fork();

			if (writer == 0) {
				close(pipes[0]);
				until_thread_sleeps(self);
				_exit(writes && write(pipes[1], "stays", 5) != 5);
			}
			if (!writes)
				close(pipes[1]);
			R(splice(pipes[0], NULL, FD, NULL, 5, 0));
			if (!writes) {
				close(pipes[0]);
				T(pipe(pipes) == 0);
			}
			reap(p, "writer", writer);
		}
		R(read(pipes[0], buf, sizeof(buf)));
		say_error(p, FD);
	}
}

/* The reset comes while nothing is in the pipe, and after it something to send. */
CASE(movers_leave_in_the_pipe_what_comes_after_a_reset, THREAD)
{
	static int pipes[2], end;
	char buf[10];

	A {
		SEND("unread");
		end = FD;
		signal(SIGPIPE, SIG_IGN);
		T(pipe(pipes) == 0);
	}
	B { settle(p, FD, 6); }
	A { R(splice(pipes[0], NULL, FD, NULL, 5, 0)); }
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
		settle_poll(p, end, POLLHUP);
		T(write(pipes[1], "stays", 5) == 5);
	}
	A {
		R(read(pipes[0], buf, sizeof(buf)));
		say_error(p, FD);
	}
}

/* The same while there is no room. */
CASE_TRAITS(movers_leave_in_the_pipe_what_found_no_room, DUO, SETTLED)
{
	int pipes[2];
	char buf[10];

	A {
		signal(SIGPIPE, SIG_IGN);
		T(pipe(pipes) == 0);
		T(write(pipes[1], "stays", 5) == 5);
		T(stuff(FD) > 0);
	}
	A { R(splice(pipes[0], NULL, FD, NULL, 5, 0)); }
	WITH_B {
		until_other_sleeps(p);
		R(close(FD));
	}
	A {
		R(read(pipes[0], buf, sizeof(buf)));
		say_error(p, FD);
	}
}

CASE(movers_leave_in_the_pipe_what_cannot_be_sent, ANY)
{
	int pipes[2];
	char buf[10];

	A {
		int text = file_of("");

		count_signal(SIGPIPE, 0);
		T(pipe(pipes) == 0);
		R(shutdown(FD, SHUT_WR));
		R(splice(pipes[0], NULL, FD, NULL, 5, SPLICE_F_NONBLOCK));
		R(sendfile(FD, text, NULL, 5));
		T(write(pipes[1], "stays", 5) == 5);
		say(p, "%d signals", n_signals);
		R(splice(pipes[0], NULL, FD, NULL, 5, 0));
		say(p, "%d signals", n_signals);
		R(read(pipes[0], buf, sizeof(buf)));
	}
}
