/* libc's own ways to a descriptor, and the calls that move bytes between descriptors. */
#include "case.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

CASE(stdio_dprintf, ANY)
{
	A {
		R(dprintf(FD, "value %d\n", 42));
		SEND("plain");
		R(dprintf(FD, "%s", "!"));
	}
	B { RECV_FLAGS(15, MSG_WAITALL); }
}

CASE(stdio_fdopen_write, ANY)
{
	A {
		FILE *file = fdopen(FD, "w");

		R(fprintf(file, "line %d\n", 1));
		R(fflush(file));
		SEND("direct\n");
		R(fputs("line 2\n", file) >= 0);
		R(fclose(file));
	}
	B {
		RECV_FLAGS(21, MSG_WAITALL);
		RECV(1);
	}
}

CASE(stdio_fdopen_read, ANY)
{
	char line[64];

	A {
		SEND("first\nsecond\nthird");
		shutdown(FD, SHUT_WR);
	}
	B {
		FILE *file = fdopen(FD, "r");

		while (fgets(line, sizeof(line), file)) say(p, "%zu %.5s", strlen(line), line);
		T(feof(file));
		fclose(file);
	}
}

/* What lies in its buffer is not there for others; and it appends. */
CASE(stdio_fdopen_takes_as_much_ahead, ANY)
{
	B {
		char buf[20000];

		fill_pattern(buf, sizeof(buf), 0);
		R(send(FD, buf, sizeof(buf), 0) == sizeof(buf));
	}
	A {
		FILE *file = fdopen(FD, "r");
		int size;

		settle(p, FD, 20000);
		R(fgetc(file) == EOF);
		ioctl(FD, FIONREAD, &size);
		say(p, "left %d", size);
	}
}

CASE(stdio_fdopen_appends, ANY)
{
	A {
		FILE *file;

		T(fcntl(FD, F_GETFL) & O_APPEND);
		T(fdopen(FD, "x") == NULL);
		file = fdopen(FD, "a");
		T(fcntl(FD, F_GETFL) & O_APPEND);
		R(fprintf(file, "line\n"));
		R(fclose(file));
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		RECV(1);
	}
}

CASE(stdio_fdopen_both_ways, DUO)
{
	EACH {
		FILE *in = fdopen(dup(FD), "r"), *out = fdopen(FD, "w");
		char line[64];

		for (int i = 0; i < 10; i++) {
			if (p->side == SIDE_A) {
				fprintf(out, "question %d\n", i);
				fflush(out);
			}
			if (!fgets(line, sizeof(line), in))
				break;
			say(p, "%.*s", (int)strcspn(line, "\n"), line);
			if (p->side == SIDE_B) {
				fprintf(out, "answer %d\n", i);
				fflush(out);
			}
		}
		fclose(in);
		fclose(out);
	}
}

/* A signal handler cuts a long write short: the rest follows, as in libc's own. */
static void interrupt_a_long_one(struct play *p, int flags)
{
	enum { LEN = 32 << 20 };

	A { count_signal(SIGUSR1, flags); }
	A {
		FILE *file = fdopen(FD, "w");
		char *buf = malloc(LEN);

		fill_pattern(buf, LEN, 0);
		T(fwrite(buf, 1, LEN, file) == LEN);
		T(!ferror(file));
		R(fflush(file));
		say(p, "%d signals", n_signals);
		R(fprintf(file, "%s", "end"));
		R(fclose(file));
		free(buf);
	}
	WITH_B {
		interrupt_other(p, SIGUSR1);
		T(drain_exactly(FD, LEN));
		RECV_FLAGS(3, MSG_WAITALL);
		RECV(1);
	}
}

CASE_TRAITS(stdio_interrupted_write_goes_on, DUO, SETTLED)
{
	interrupt_a_long_one(p, 0);
}

CASE_TRAITS(stdio_restarted_write_goes_on, DUO, SETTLED)
{
	interrupt_a_long_one(p, SA_RESTART);
}

/* Nothing had gone yet. */
CASE_TRAITS(stdio_interrupted_write_fails, DUO, SETTLED)
{
	A { count_signal(SIGUSR1, 0); }
	A {
		FILE *file = fdopen(FD, "w");

		(void)stuff(FD);
		R(fprintf(file, "%d", 1234));
		R(fflush(file));
		T(ferror(file));
		say(p, "%d signals", n_signals);
	}
	WITH_B { interrupt_other(p, SIGUSR1); }
}

/* What the peer does not take is an error, once. */
CASE_TRAITS(stdio_write_without_room, SELF, SETTLED)
{
	enum { LEN = 32 << 20 };
	char *buf = malloc(LEN);

	A {
		FILE *file = fdopen(FD, "w");
		size_t n;

		memset(buf, 'x', LEN);
		R(fcntl(FD, F_SETFL, O_NONBLOCK));
		n = fwrite(buf, 1, LEN, file);
		T(n > 0 && n < LEN);
		T(errno == EAGAIN);
		T(ferror(file));
		free(buf);
	}
}

CASE(stdio_sendfile_from_file, ANY)
{
	A {
		off_t offset = 5;
		int file = file_of("0123456789abcdef");

		R(sendfile(FD, file, NULL, 4));
		R(sendfile(FD, file, &offset, 100));
		say(p, "offset %ld", (long)offset);
		SEND("tail");
	}
	B { RECV_FLAGS(19, MSG_WAITALL); }
}

CASE(stdio_sendfile_large, DUO)
{
	enum { LEN = 3 << 20 };

	A {
		int file = memfd_create("large", 0);
		char *buf = malloc(LEN);
		off_t offset = 0;

		fill_pattern(buf, LEN, 0);
		T(write(file, buf, LEN) == LEN);
		free(buf);
		while (offset < LEN && sendfile(FD, file, &offset, (size_t)(LEN - offset)) > 0)
			;
		say(p, "%ld", (long)offset);
	}
	WITH_B { T(drain_exactly(FD, LEN)); }
}

CASE(stdio_sendfile_to_socket_from_socket, ANY)
{
	A { R(sendfile(FD, FD, NULL, 10)); }
}

CASE(stdio_splice_out_and_in, ANY)
{
	int pipes[2];
	char buf[20] = "";

	A {
		T(pipe(pipes) == 0);
		T(write(pipes[1], "spliced", 7) == 7);
		R(splice(pipes[0], NULL, FD, NULL, 7, 0));
		SEND(" bytes");
	}
	B {
		T(pipe(pipes) == 0);
		settle(p, FD, 13);
		R(splice(FD, NULL, pipes[1], NULL, 100, 0));
		R(read(pipes[0], buf, sizeof(buf)));
		say_bytes(p, "got", buf, 13);
	}
}

CASE(stdio_splice_empty_nonblocking, ANY)
{
	int pipes[2];

	A {
		T(pipe(pipes) == 0);
		R(fcntl(FD, F_SETFL, O_NONBLOCK));
		R(splice(FD, NULL, pipes[1], NULL, 10, SPLICE_F_NONBLOCK));
	}
}

CASE(stdio_copy_file_range, ANY)
{
	A {
		int file = file_of("text");
		R(copy_file_range(file, NULL, FD, NULL, 4, 0));
		R(copy_file_range(FD, NULL, file, NULL, 4, 0));
		SEND("x");
	}
	B { RECV(1); }
}

CASE(stdio_files_are_left_alone, ANY)
{
	char buf[10] = "";

	A {
		int file = file_of("file text");

		SEND("x");
		R(read(file, buf, 4));
		say_bytes(p, "got", buf, 4);
		R(lseek(file, 0, SEEK_CUR));
		R(write(file, "!", 1));
		R(pread(file, buf, 9, 0));
		say_bytes(p, "got", buf, 9);
		close(file);
	}
	B { RECV(1); }
}
