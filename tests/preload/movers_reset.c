/* Calls that move bytes past the program's buffers, where they can't be sent: who is told, and what becomes of the bytes. */
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

/* The error is told once, by whatever asks first, but for who asks for no bytes; and then it is a broken pipe. */
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
