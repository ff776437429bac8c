/* A socket that is put into an epoll set before it is connected, as event loops do it: what the set
 * tells of the connection, then of its bytes. */
#include "case.h"

#include <fcntl.h>
#include <sys/epoll.h>

#define N_ROUNDS 60

static void add_to(struct play *p, int set, int fd, unsigned events)
{
	struct epoll_event event = { .events = events, .data.u32 = 7 };

	R(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void change_in(int set, int fd, unsigned events)
{
	struct epoll_event event = { .events = events, .data.u32 = 7 };

	(void)epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
}

static unsigned waited(int set, int msec)
{
	struct epoll_event event = { 0 };
	int n = epoll_wait(set, &event, 1, msec);

	return n == 1 && event.data.u32 == 7 ? event.events : 0;
}

static void say_waited(struct play *p, int set, int msec)
{
	say_poll(p, "epoll", (int)waited(set, msec));
}

/* The server answers each word; both ends come to rings meanwhile, or not. */
static void exchange(struct play *p, int set, int fd, int server, unsigned events)
{
	int n_bad = 0;
	char c;

	for (int i = 0; i < N_ROUNDS; i++) {
		if (events & EPOLLONESHOT)
			change_in(set, fd, events);
		n_bad += send(fd, "q", 1, 0) != 1;
		n_bad += recv(server, &c, 1, 0) != 1 || c != 'q';
		n_bad += send(server, "a", 1, 0) != 1;
		n_bad += !(waited(set, 5000) & EPOLLIN);
		n_bad += recv(fd, &c, 1, 0) != 1 || c != 'a';
		n_bad += (waited(set, 0) & EPOLLIN) != 0;
	}
	say(p, "%d of %d go wrong", n_bad, N_ROUNDS);
}

static void play_early(struct play *p, unsigned events, unsigned later, bool closed_first)
{
	struct address address;
	int listener = listen_on("127.0.0.1", &address), set = epoll_create1(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), server;

	add_to(p, set, fd, events);
	say_waited(p, set, 0);
	if (connect(fd, (struct sockaddr *)&address.storage, address.size) < 0)
		T(errno == EINPROGRESS);
	server = accept(listener, NULL, NULL);
	nodelay(fd);
	nodelay(server);
	say_waited(p, set, 5000);
	say_error(p, fd);
	if (later != events)
		change_in(set, fd, later);
	exchange(p, set, fd, server, later);
	if (closed_first) {
		close(server);
		if (later & EPOLLONESHOT)
			change_in(set, fd, later);
		say_waited(p, set, 5000);
		say_recv(p, fd, 1, 0);
	}
	close(fd);
	say_waited(p, set, 0);
	if (!closed_first) {
		say_recv(p, server, 1, 0);
		close(server);
	}
	close(set);
	close(listener);
}

CASE_TRAITS(early_epoll_out_then_in, SELF, NO_PAIR)
{
	A { play_early(p, EPOLLOUT, EPOLLIN, true); }
}

CASE_TRAITS(early_epoll_by_edge, SELF, NO_PAIR)
{
	A { play_early(p, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, EPOLLIN | EPOLLET, true); }
}

CASE_TRAITS(early_epoll_by_edge_never_changed, SELF, NO_PAIR)
{
	A {
		unsigned events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP;

		play_early(p, events, events, false);
	}
}

CASE_TRAITS(early_epoll_by_level, SELF, NO_PAIR)
{
	A { play_early(p, EPOLLIN | EPOLLOUT, EPOLLIN, false); }
}

CASE_TRAITS(early_epoll_once, SELF, NO_PAIR)
{
	A { play_early(p, EPOLLOUT | EPOLLONESHOT, EPOLLIN | EPOLLONESHOT, true); }
}

CASE_TRAITS(early_epoll_nothing_asked_at_first, SELF, NO_PAIR)
{
	A {
		struct address address;
		int listener = listen_on("127.0.0.1", &address), set = epoll_create1(0);
		int fd = socket(AF_INET, SOCK_STREAM, 0), server;

		add_to(p, set, fd, 0);
		say_waited(p, set, 0);
		change_in(set, fd, EPOLLIN);
		say_waited(p, set, 0);
		R(connect(fd, (struct sockaddr *)&address.storage, address.size));
		server = accept(listener, NULL, NULL);
		say_waited(p, set, 0);
		exchange(p, set, fd, server, EPOLLIN);
		shutdown(server, SHUT_WR);
		say_waited(p, set, 5000);
		close(server);
		close(fd);
		close(set);
		close(listener);
	}
}

CASE_TRAITS(early_epoll_refused, SELF, NO_PAIR)
{
	A {
		struct address address;
		int listener = listen_on("127.0.0.1", &address), set = epoll_create1(0);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), server;

		close(listener);
		add_to(p, set, fd, EPOLLIN | EPOLLOUT);
		if (connect(fd, (struct sockaddr *)&address.storage, address.size) < 0)
			say(p, "connect: %s",
			    errno == EINPROGRESS ? "ECONNREFUSED" : errno_name(errno));
		say_waited(p, set, 5000);
		close(fd);
		/* The same socket to another one, as those who have several addresses do it. */
		listener = listen_on("127.0.0.1", &address);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		add_to(p, set, fd, EPOLLIN | EPOLLOUT);
		(void)connect(fd, (struct sockaddr *)&address.storage, address.size);
		server = accept(listener, NULL, NULL);
		say_waited(p, set, 5000);
		change_in(set, fd, EPOLLIN);
		exchange(p, set, fd, server, EPOLLIN);
		close(server);
		close(fd);
		close(set);
	}
}

/* It must come to rings: the warm-up says so. */
CASE_TRAITS(early_epoll_is_upgraded, SELF, OWN_PAIR)
{
	A {
		struct address address;
		int listener = listen_on("127.0.0.1", &address), set = epoll_create1(0), fds[2];

		fds[0] = socket(AF_INET, SOCK_STREAM, 0);
		add_to(p, set, fds[0], EPOLLIN);
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		fds[1] = accept(listener, NULL, NULL);
		nodelay(fds[0]);
		nodelay(fds[1]);
		warm(p, fds);
		say_waited(p, set, 0);
		exchange(p, set, fds[0], fds[1], EPOLLIN);
		close(fds[1]);
		say_waited(p, set, 5000);
		say_recv(p, fds[0], 1, 0);
		close(fds[0]);
		close(set);
		close(listener);
	}
}

/* So do listeners, and what they accept. */
CASE_TRAITS(early_epoll_of_a_listener, SELF, OWN_PAIR)
{
	A {
		struct address address;
		int listener = listen_on("127.0.0.1", &address), set = epoll_create1(0), fds[2];

		add_to(p, set, listener, EPOLLIN | EPOLLET);
		say_waited(p, set, 0);
		fds[0] = connect_to(&address, 0);
		say_waited(p, set, 5000);
		fds[1] = accept(listener, NULL, NULL);
		nodelay(fds[0]);
		nodelay(fds[1]);
		add_to(p, set, fds[1], EPOLLIN | EPOLLET);
		warm(p, fds);
		(void)waited(set, 0);
		exchange(p, set, fds[1], fds[0], EPOLLIN | EPOLLET);
		close(fds[0]);
		say_waited(p, set, 5000);
		close(fds[1]);
		close(set);
		close(listener);
	}
}
