/* The fortified entries (__recv_chk and the like), which libc's headers use in optimised
 * programs. */
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#include "case.h"

#include <sys/select.h>

/* A length that the compiler cannot know: the checked entry has to look. */
static volatile size_t n_asked = 5;

__attribute__((optimize("O2"))) static void checked_reads(struct play *p, int fd)
{
	char buf[16] = "";
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);

	R(read(fd, buf, n_asked));
	say_bytes(p, "read", buf, 5);
	R(recv(fd, buf, n_asked, 0));
	say_bytes(p, "recv", buf, 5);
	R(recvfrom(fd, buf, n_asked, 0, (struct sockaddr *)&from, &size));
	say_bytes(p, "recvfrom", buf, 5);
}

CASE(fortified_reads, ANY)
{
	A { SEND("aaaaabbbbbccccc"); }
	B {
		settle(p, FD, 15);
		checked_reads(p, FD);
	}
}

__attribute__((optimize("O2"))) static void checked_poll(struct play *p, int fd)
{
	struct pollfd pfds[2] = { { .fd = fd, .events = POLLIN }, { .fd = -1 } };
	volatile nfds_t n = 2;
	fd_set in;

	R(poll(pfds, n, 1000));
	say_poll(p, "events", pfds[0].revents);
	R(ppoll(pfds, n, NULL, NULL));
	FD_ZERO(&in);
	FD_SET(fd, &in);
	R(select(fd + 1, &in, NULL, NULL, NULL));
}

CASE(fortified_waits, ANY)
{
	A { SEND("x"); }
	B {
		settle(p, FD, 1);
		checked_poll(p, FD);
	}
}
