/* SO_ERROR and receives of no bytes, where a connection was reset: who is told of what, and how often. */
#include "case.h"

/* Asked again and again, for nothing else tells when it is there; 30 s at most. */
static void say_error_when_it_comes(struct play *p, int fd)
{
	uint64_t end = usec_clock() + 30 * 1000 * 1000;
	socklen_t size = sizeof(int);
	int error = 0;

	while (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && !error &&
	       usec_clock() < end)
		usleep(1000);
	say(p, "SO_ERROR %s", error ? errno_name(error) : "none");
}

/* Nobody has polled, received or sent since. */
CASE(close_error_is_there_without_a_look, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(close(FD));
	}
	A {
		say_error_when_it_comes(p, FD);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(close_error_behind_an_end_is_there_without_a_look, ANY)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		R(shutdown(FD, SHUT_WR));
	}
	A { settle_poll(p, FD, POLLRDHUP); }
	B { R(close(FD)); }
	A {
		say_error_when_it_comes(p, FD);
		SEND_FLAGS("x", MSG_NOSIGNAL);
		RECV(1);
	}
}

/* Bytes come before an error, also to one who takes none of them. */
CASE(close_error_comes_behind_bytes_that_nobody_takes, ANY)
{
	A { SEND("bytes"); }
	B {
		settle(p, FD, 5);
		SEND("unread");
	}
	A {
		settle(p, FD, 6);
		R(close(FD));
	}
	B {
		settle_poll(p, FD, POLLHUP);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV_FLAGS(0, MSG_PEEK | MSG_DONTWAIT);
		RECV(2);
		RECV_FLAGS(0, MSG_DONTWAIT);
		RECV(10);
	}
}
