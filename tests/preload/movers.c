/* Calls that move bytes past the program's buffers, libc's ways to a descriptor between them, and
 * calls that are left early. */
#include "case.h"

#include <aio.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

/* Every way to write, one after the other: the order is the program's. */
CASE(movers_keep_the_order, ANY)
{
	struct iovec iov = { (void *)"[writev]", 8 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct mmsghdr mm = { .msg_hdr = m };
	int pipes[2];

	A {
		FILE *file = fdopen(dup(FD), "w");
		int text = file_of("[sendfile]");

		T(pipe(pipes) == 0);
		T(write(pipes[1], "[splice]", 8) == 8);
		R(dprintf(FD, "[dprintf %d]", 1));
		R(fputs("[fputs]", file) >= 0 && fflush(file) == 0);
		SEND("[send]");
		R(writev(FD, &iov, 1));
		R(sendfile(FD, text, NULL, 100));
		R(fputs("[fputs]", file) >= 0 && fflush(file) == 0);
		R(splice(pipes[0], NULL, FD, NULL, 8, 0));
		R(sendmsg(FD, &m, 0));
		R(sendmmsg(FD, &mm, 1, 0));
		R(dprintf(FD, "[%s]", "end"));
		R(fclose(file));
		R(shutdown(FD, SHUT_WR));
	}
	B { RECV_FLAGS(200, MSG_WAITALL); }
}

/* Every way to read. */
CASE(movers_read_in_turn, ANY)
{
	char buf[10] = "";
	struct iovec iov = { buf, 2 };
	int pipes[2];

	A { SEND("aabbccddee"); }
	B {
		T(pipe(pipes) == 0);
		settle(p, FD, 10);
		R(read(FD, buf, 2));
		R(readv(FD, &iov, 1));
		say_bytes(p, "readv", buf, 2);
		R(splice(FD, NULL, pipes[1], NULL, 2, 0));
		R(read(pipes[0], buf, 10));
		say_bytes(p, "splice", buf, 2);
		R(preadv2(FD, &iov, 1, -1, 0));
		say_bytes(p, "preadv2", buf, 2);
		R(pread(FD, buf, 2, 0));
		RECV(2);
	}
}

CASE(movers_sendfile_edges, ANY)
{
	off_t offset = 4;

	A {
		int file = file_of("0123456789"), beyond = file_of("");

		R(sendfile(FD, file, NULL, 0));
		R(sendfile(FD, beyond, NULL, 10));
		R(sendfile(FD, file, &offset, 3));
		say(p, "offset %ld, position %ld", (long)offset, (long)lseek(file, 0, SEEK_CUR));
		R(sendfile(FD, file, NULL, 2));
		say(p, "position %ld", (long)lseek(file, 0, SEEK_CUR));
		offset = 100;
		R(sendfile(FD, file, &offset, 3));
		R(sendfile(FD, -1, NULL, 3));
		R(sendfile(-1, file, NULL, 3));
		R(shutdown(FD, SHUT_WR));
		count_signal(SIGPIPE, 0);
		R(sendfile(FD, file, NULL, 3));
		say(p, "%d signals, position %ld", n_signals, (long)lseek(file, 0, SEEK_CUR));
	}
	B { RECV_FLAGS(100, MSG_WAITALL); }
}

/* Offsets and lengths that no file has. */
CASE(movers_sendfile_out_of_range, ANY)
{
	off_t before = -1, one = 1, last = LONG_MAX;

	A {
		int file = file_of("0123456789"), pipes[2];

		T(pipe(pipes) == 0);
		R(sendfile(FD, file, &before, 3));
		R(sendfile(FD, -1, &before, 3));
		R(sendfile(FD, pipes[0], &before, 3));
		R(sendfile(FD, pipes[0], &one, 3));
		R(sendfile(FD, pipes[0], NULL, 3));
		R(sendfile(FD, file, &one, SSIZE_MAX));
		R(sendfile(FD, file, &last, 1));
		R(sendfile(FD, file, NULL, (size_t)SSIZE_MAX + 1));
		say(p, "offsets %ld, %ld, %ld", (long)before, (long)one, (long)last);
		R(sendfile(FD, file, &one, SSIZE_MAX - 1));
		R(sendfile(FD, file, NULL, SSIZE_MAX));
		say(p, "offset %ld, position %ld", (long)one, (long)lseek(file, 0, SEEK_CUR));
		R(shutdown(FD, SHUT_WR));
	}
	B { RECV_FLAGS(100, MSG_WAITALL); }
}

CASE(movers_splice_edges, ANY)
{
	int pipes[2];
	loff_t offset = 0;

	A {
		T(pipe(pipes) == 0);
		R(splice(FD, NULL, pipes[1], NULL, 0, 0));
		R(splice(FD, &offset, pipes[1], NULL, 5, 0));
		R(splice(pipes[0], NULL, FD, &offset, 5, 0));
		R(splice(FD, NULL, FD, NULL, 5, 0));
		R(splice(pipes[0], NULL, FD, NULL, 5, SPLICE_F_NONBLOCK));
		R(splice(FD, NULL, pipes[0], NULL, 5, SPLICE_F_NONBLOCK));
		R(fcntl(FD, F_SETFL, O_NONBLOCK));
		R(splice(FD, NULL, pipes[1], NULL, 5, 0));
		R(fcntl(FD, F_SETFL, 0));
		R(splice(-1, NULL, FD, NULL, 5, 0));
		R(tee(FD, pipes[1], 5, 0));
		R(tee(pipes[0], FD, 5, 0));
		R(vmsplice(FD, &(struct iovec){ (void *)"x", 1 }, 1, 0));
		R(close(pipes[1]));
		R(splice(pipes[0], NULL, FD, NULL, 5, 0));
		SEND("still whole");
		R(shutdown(FD, SHUT_WR));
	}
	B { RECV_FLAGS(100, MSG_WAITALL); }
	B {
		T(pipe(pipes) == 0);
		R(splice(FD, NULL, pipes[1], NULL, 5, 0));
	}
}

CASE(movers_move_nothing_to_what_appends, ANY)
{
	off_t offset = 0;
	int pipes[2];

	A {
		int file = file_of("0123456789");

		T(pipe(pipes) == 0);
		R(fcntl(FD, F_SETFL, O_APPEND));
		R(splice(pipes[0], NULL, FD, NULL, 8, 0));
		T(write(pipes[1], "[splice]", 8) == 8);
		R(splice(pipes[0], NULL, FD, NULL, 8, 0));
		R(splice(pipes[1], NULL, FD, NULL, 8, 0));
		R(sendfile(FD, file, &offset, 3));
		R(sendfile(FD, file, NULL, 3));
		R(sendfile(FD, pipes[1], &offset, 3));
		SEND("[send]");
		R(fcntl(FD, F_SETFL, 0));
		R(splice(pipes[0], NULL, FD, NULL, 8, 0));
		R(sendfile(FD, file, &offset, 3));
		R(shutdown(FD, SHUT_WR));
	}
	B { RECV_FLAGS(100, MSG_WAITALL); }
}

CASE(movers_splice_much, DUO)
{
	enum { LEN = 2000000 };

	A { T(put_pattern(FD, LEN, 30001) == LEN); }
	WITH_B {
		static char buf[65536];
		size_t done = 0;
		bool good = true;
		int pipes[2];

		T(pipe(pipes) == 0);
		while (done < LEN) {
			ssize_t n = splice(FD, NULL, pipes[1], NULL, sizeof(buf), 0), got;

			if (n <= 0)
				break;
			for (ssize_t k = 0; k < n; k += got) {
				got = read(pipes[0], buf, (size_t)(n - k));
				if (got <= 0)
					break;
				good &= is_pattern(buf, (size_t)got, done + (size_t)k);
			}
			done += (size_t)n;
		}
		T(done == LEN);
		T(good);
	}
}

CASE(movers_splice_takes_all_that_is_there, ANY)
{
	enum { LEN = 30000 };
	int pipes[2];

	A { T(put_pattern(FD, LEN, LEN) == LEN); }
	B {
		settle(p, FD, LEN);
		T(pipe(pipes) == 0);
		R(splice(FD, NULL, pipes[1], NULL, 65536, SPLICE_F_NONBLOCK));
		R(splice(pipes[0], NULL, FD, NULL, 65536, 0));
	}
	A { T(drain_exactly(FD, LEN)); }
}

CASE(movers_splice_leaves_the_error_behind_the_bytes, ANY)
{
	enum { LEN = 16384 };
	int pipes[2];

	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		T(put_pattern(FD, LEN, LEN) == LEN);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLERR);
		T(pipe(pipes) == 0);
		R(splice(FD, NULL, pipes[1], NULL, 65536, SPLICE_F_NONBLOCK));
		R(splice(FD, NULL, pipes[1], NULL, 65536, SPLICE_F_NONBLOCK));
		R(splice(FD, NULL, pipes[1], NULL, 65536, SPLICE_F_NONBLOCK));
	}
}

CASE(movers_spliced_waits_for_bytes, DUO)
{
	A {
		char buf[10] = "";
		int pipes[2];

		T(pipe(pipes) == 0);
		R(splice(FD, NULL, pipes[1], NULL, 10, 0));
		R(read(pipes[0], buf, 10));
		say_bytes(p, "got", buf, 4);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("late");
	}
}

/* ---- asynchronous i/o of libc ---------------------------------------------------------------- */

static void await_aio(struct aiocb *cb)
{
	const struct aiocb *list[1] = { cb };

	while (aio_error(cb) == EINPROGRESS) aio_suspend(list, 1, NULL);
}

CASE(movers_aio_write, ANY)
{
	struct aiocb cb = { .aio_buf = (void *)"by aio", .aio_nbytes = 6 };

	A {
		SEND("before ");
		cb.aio_fildes = FD;
		R(aio_write(&cb));
		await_aio(&cb);
		R(aio_return(&cb));
		SEND(" after");
		R(shutdown(FD, SHUT_WR));
	}
	B { RECV_FLAGS(100, MSG_WAITALL); }
}

CASE(movers_aio_read, DUO)
{
	static char buf[20];
	struct aiocb cb = { .aio_buf = buf, .aio_nbytes = 5 };

	B {
		cb.aio_fildes = FD;
		R(aio_read(&cb));
	}
	A { SEND("01234"); }
	B {
		await_aio(&cb);
		R(aio_return(&cb));
		say_bytes(p, "got", buf, 5);
	}
}

/* ---- calls that a thread is cancelled in ----------------------------------------------------- */

struct caller {
	int fd;
	int kind;
	_Atomic int tid;
};

enum { IN_RECV, IN_READ, IN_RECVMSG, IN_POLL, IN_SELECT, IN_EPOLL, IN_SEND, N_KINDS };

static void *call(void *arg)
{
	struct caller *c = arg;
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
	struct epoll_event event = { .events = EPOLLIN };
	static char buf[1 << 20];
	struct iovec iov = { buf, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int ep = c->kind == IN_EPOLL ? epoll_create1(0) : -1;
	fd_set in;

	FD_ZERO(&in);
	FD_SET(c->fd, &in);
	epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &event);
	c->tid = gettid();
	for (;;) {
		switch (c->kind) {
		case IN_RECV:
			(void)!recv(c->fd, buf, 1, 0);
			break;
		case IN_READ:
			(void)!read(c->fd, buf, 1);
			break;
		case IN_RECVMSG:
			(void)!recvmsg(c->fd, &m, 0);
			break;
		case IN_POLL:
			(void)poll(&pfd, 1, -1);
			break;
		case IN_SELECT:
			(void)select(c->fd + 1, &in, NULL, NULL, NULL);
			break;
		case IN_EPOLL:
			(void)epoll_wait(ep, &event, 1, -1);
			break;
		default:
			(void)!send(c->fd, buf, sizeof(buf), 0);
		}
	}
	return NULL;
}

static bool cancel_in(int fd, int kind)
{
	struct caller caller = { .fd = fd, .kind = kind };
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, call, &caller);
	while (!caller.tid) usleep(100);
	until_thread_sleeps(caller.tid);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	return result == PTHREAD_CANCELED;
}

CASE(movers_cancelled_in_each_wait, DUO)
{
	A {
		for (int kind = IN_RECV; kind < IN_SEND; kind++) {
			say(p, "kind %d", kind);
			T(cancel_in(FD, kind));
		}
		SEND("go");
		RECV(5);
	}
	WITH_B {
		RECV_FLAGS(2, MSG_WAITALL);
		SEND("after");
	}
}

/* At the very moment that a sleep ends: a thread that still had libc's signal blocked would stay
 * there for ever. */
CASE(movers_cancelled_as_it_wakes, DUO)
{
	enum { N = 300 };
	struct caller caller = { .kind = IN_RECV };
	unsigned seed = 1, n = 0;
	pthread_t thread;
	void *result;

	A {
		for (int i = 0; i < N; i++) {
			caller.fd = FD;
			pthread_create(&thread, NULL, call, &caller);
			usleep((useconds_t)rand_r(&seed) % 3000);
			pthread_cancel(thread);
			pthread_join(thread, &result);
			n += result == PTHREAD_CANCELED;
		}
		say(p, "cancelled %u of %d", n, N);
		SEND("go");
	}
	WITH_B { RECV_FLAGS(2, MSG_WAITALL); }
}

CASE(movers_cancelled_in_send, PROCESS)
{
	A {
		T(cancel_in(FD, IN_SEND));
		R(shutdown(FD, SHUT_WR));
		RECV(2);
	}
	WITH_B {
		static char buf[1 << 20];
		ssize_t got;
		size_t n = 0;

		usleep(100000);
		while ((got = recv(FD, buf, sizeof(buf), 0)) > 0) n += (size_t)got;
		T(n > 0);
		SEND("ok");
	}
}

static void *call_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	return call(arg);
}

/* Who has been cancelled before a call does not make it, though it would not wait. */
CASE(movers_cancelled_before, ANY)
{
	A { SEND("abc"); }
	B {
		settle(p, FD, 3);
		for (int kind = IN_RECV; kind < N_KINDS; kind++) {
			struct caller caller = { .fd = FD, .kind = kind };
			pthread_t thread;
			void *result;

			pthread_create(&thread, NULL, call_cancelled, &caller);
			pthread_join(thread, &result);
			T(result == PTHREAD_CANCELED);
		}
		RECV(4);
		R(shutdown(FD, SHUT_WR));
	}
	A { RECV(3); }
}
