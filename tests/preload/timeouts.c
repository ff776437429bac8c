/* SO_RCVTIMEO and SO_SNDTIMEO. Times are logged only as "not too early" and "not far too late". */
#include "case.h"

#include <sys/time.h>

static void set_timeout(struct play *p, int fd, int option, unsigned msec)
{
	struct timeval tv = { .tv_sec = msec / 1000, .tv_usec = msec % 1000 * 1000 };

	R(setsockopt(fd, SOL_SOCKET, option, &tv, sizeof(tv)));
}

static void say_waited(struct play *p, uint64_t usec_start, unsigned msec)
{
	uint64_t usec = usec_clock() - usec_start;

	say(p, "waited %s",
	    usec < msec * 1000 - 5000	   ? "too short"
	    : usec > msec * 1000 + 1500000 ? "far too long"
					   : "as asked");
}

CASE(timeouts_recv, ANY)
{
	uint64_t start;

	A {
		set_timeout(p, FD, SO_RCVTIMEO, 60);
		start = usec_clock();
		RECV(1);
		say_waited(p, start, 60);
	}
	B { SEND("x"); }
	A { RECV(1); }
}

CASE(timeouts_read_and_recvmsg, ANY)
{
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	A {
		uint64_t start = usec_clock();

		set_timeout(p, FD, SO_RCVTIMEO, 30);
		R(read(FD, &c, 1));
		R(recvmsg(FD, &msg, 0));
		say_waited(p, start, 60);
	}
}

CASE(timeouts_do_not_delay_data, ANY)
{
	A { SEND("abc"); }
	B {
		uint64_t start = usec_clock();

		set_timeout(p, FD, SO_RCVTIMEO, 3000);
		RECV(10);
		say_waited(p, start, 0);
	}
}

CASE(timeouts_recv_woken_in_time, DUO)
{
	A {
		set_timeout(p, FD, SO_RCVTIMEO, 5000);
		RECV(10);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("abc");
	}
}

CASE(timeouts_waitall_gives_part, ANY)
{
	A { SEND("abc"); }
	B {
		set_timeout(p, FD, SO_RCVTIMEO, 60);
		RECV_FLAGS(10, MSG_WAITALL);
		RECV_FLAGS(10, MSG_WAITALL);
	}
}

CASE(timeouts_peek, ANY)
{
	A {
		set_timeout(p, FD, SO_RCVTIMEO, 40);
		RECV_FLAGS(10, MSG_PEEK);
	}
}

CASE(timeouts_dontwait_does_not_wait, ANY)
{
	A {
		uint64_t start = usec_clock();

		set_timeout(p, FD, SO_RCVTIMEO, 5000);
		RECV_FLAGS(1, MSG_DONTWAIT);
		T(usec_clock() - start < 2000000);
	}
}

CASE_TRAITS(timeouts_send_when_full, ANY, SETTLED)
{
	A {
		uint64_t start;

		T(stuff(FD) > 100000);
		set_timeout(p, FD, SO_SNDTIMEO, 60);
		(void)stuff(FD);
		start = usec_clock();
		SEND("x");
		say_waited(p, start, 60);
	}
}

CASE(timeouts_send_gives_part, ANY)
{
	enum { LEN = 64 << 20 };

	A {
		char *buf = malloc(LEN);
		ssize_t n;

		fill_pattern(buf, LEN, 0);
		set_timeout(p, FD, SO_SNDTIMEO, 60);
		n = send(FD, buf, LEN, 0);
		T(n > 0 && n < LEN);
		*stage_word(p, 1) = n;
		free(buf);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
}

CASE(timeouts_read_back, ANY)
{
	struct timeval tv;
	socklen_t size = sizeof(tv);

	A {
		set_timeout(p, FD, SO_RCVTIMEO, 2500);
		R(getsockopt(FD, SOL_SOCKET, SO_RCVTIMEO, &tv, &size));
		say(p, "%ld %ld", tv.tv_sec, tv.tv_usec);
		R(getsockopt(FD, SOL_SOCKET, SO_SNDTIMEO, &tv, &size));
		say(p, "%ld %ld", tv.tv_sec, tv.tv_usec);
	}
}

CASE(timeouts_reset_to_none, DUO)
{
	A {
		set_timeout(p, FD, SO_RCVTIMEO, 40);
		RECV(1);
		set_timeout(p, FD, SO_RCVTIMEO, 0);
	}
	A { RECV(1); }
	WITH_B {
		until_other_sleeps(p);
		usleep(80000);
		SEND("x");
	}
}

CASE(timeouts_belong_to_the_socket, ANY)
{
	A {
		int copy = dup(FD);

		set_timeout(p, copy, SO_RCVTIMEO, 40);
		close(copy);
		RECV(1);
	}
}

CASE(timeouts_seen_by_child, ANY)
{
	A {
		pid_t pid;

		set_timeout(p, FD, SO_RCVTIMEO, 40);
		pid = fork_logged(p);
		if (pid == 0) {
			RECV(1);
			_exit(0);
		}
		reap(p, "child", pid);
	}
}

CASE(timeouts_invalid, ANY)
{
	struct timeval tv = { .tv_usec = 2000000 };

	A {
		R(setsockopt(FD, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		R(setsockopt(FD, SOL_SOCKET, SO_RCVTIMEO, &tv, 3));
	}
}

CASE_TRAITS(timeouts_set_before_connect, SELF, OWN_PAIR)
{
	struct address address;
	int fds[2], listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = socket(AF_INET, SOCK_STREAM, 0);
		set_timeout(p, fds[0], SO_RCVTIMEO, 500);
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		say_recv(p, fds[0], 1, 0);
	}
}

CASE_TRAITS(timeouts_inherited_from_listener, SELF, OWN_PAIR)
{
	struct address address;
	int fds[2], listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		set_timeout(p, listener, SO_RCVTIMEO, 500);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		say_recv(p, fds[1], 1, 0);
	}
}
