/* Making connections: refusals, backlogs, short lives. All of it is the kernel's, and must stay
 * so. */
#include "case.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>

CASE_TRAITS(connect_refused, SELF, NO_PAIR)
{
	struct address address;
	int listener, fd;

	A {
		listener = listen_on("127.0.0.1", &address);
		close(listener);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		R(connect(fd, (struct sockaddr *)&address.storage, address.size));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
		say_recv(p, fd, 1, 0);
	}
}

CASE_TRAITS(connect_refused_nonblocking, SELF, NO_PAIR)
{
	struct address address;
	int listener, fd, error = -1;
	socklen_t size = sizeof(error);
	struct pollfd pfd;

	A {
		listener = listen_on("127.0.0.1", &address);
		close(listener);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		R(connect(fd, (struct sockaddr *)&address.storage, address.size));
		pfd = (struct pollfd){ .fd = fd, .events = POLLOUT | POLLIN };
		R(poll(&pfd, 1, 3000));
		say_poll(p, "events", pfd.revents);
		R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
		say(p, "%s", errno_name(error));
	}
}

CASE(connect_again, ANY)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);

	A {
		getpeername(FD, (struct sockaddr *)&name, &size);
		R(connect(FD, (struct sockaddr *)&name, size));
		R(listen(FD, 1));
		R(accept(FD, NULL, NULL));
	}
	A { R(bind(FD, (struct sockaddr *)&name, size)); }
	A { SEND("x"); }
	B { RECV(1); }
}

CASE_TRAITS(connect_dissolved_by_unspec, SELF, OWN_PAIR)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct address address;
	int listener, fds[2], again;

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		R(connect(fds[0], &none, sizeof(none)));
		R(send(fds[0], "x", 1, MSG_NOSIGNAL));
		settle_poll(p, fds[1], POLLIN);
		say_recv(p, fds[1], 1, 0);
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		again = accept(listener, NULL, NULL);
		R(send(fds[0], "again", 5, 0));
		say_recv(p, again, 5, MSG_WAITALL);
	}
}

/* What has become of the socket and of the connection, as this process sees it. */
static void say_dissolved(struct play *p, int fd)
{
	struct sockaddr_storage ss;
	socklen_t size = sizeof(ss);
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };

	R(getpeername(fd, (struct sockaddr *)&ss, &size));
	R(poll(&pfd, 1, 0));
	say_poll(p, "poll", pfd.revents);
	say_recv(p, fd, 1, 0);
	say_recv(p, fd, 1, 0);
	say_send(p, fd, "x", MSG_NOSIGNAL);
}

/* Another process does it, and both had the connection: what lay unread is not to be had, and the
 * socket can be connected again. */
CASE_TRAITS(connect_dissolved_by_another_process, SELF, OWN_PAIR)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct address address;
	int listener, fds[2], again;
	pid_t pid;

	listener = listen_on("127.0.0.1", &address);
	fds[0] = connect_to(&address, 0);
	fds[1] = accept(listener, NULL, NULL);
	warm(p, fds);
	say_send(p, fds[0], "what was sent", 0);
	say_send(p, fds[1], "unread", 0);
	settle(p, fds[0], 6);
	pid = fork_logged(p);
	if (pid == 0)
		_exit(connect(fds[0], &none, sizeof(none)) == 0 ? 0 : 1);
	reap(p, "child", pid);
	say_dissolved(p, fds[0]);
	settle_poll(p, fds[1], POLLHUP);
	say_recv(p, fds[1], 20, 0);
	say_dissolved(p, fds[1]);
	R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
	again = accept(listener, NULL, NULL);
	say_send(p, fds[0], "again", 0);
	say_recv(p, again, 5, MSG_WAITALL);
	say_send(p, again, "back", 0);
	say_recv(p, fds[0], 4, MSG_WAITALL);
	R(close(again));
	say_recv(p, fds[0], 4, 0);
}

CASE_TRAITS(connect_accepted_after_data_and_close, SELF, NO_PAIR)
{
	struct address address;
	int listener, client, server;

	A {
		listener = listen_on("127.0.0.1", &address);
		client = connect_to(&address, 0);
		R(send(client, "early", 5, 0));
		R(close(client));
		server = accept(listener, NULL, NULL);
		say_recv(p, server, 5, MSG_WAITALL);
		say_recv(p, server, 5, 0);
	}
}

CASE_TRAITS(connect_upgraded_before_accept_of_next, SELF, OWN_PAIR)
{
	struct address address;
	int listener, fds[2], waiting;

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, 0);
		waiting = connect_to(&address, 0);
		R(send(waiting, "patience", 8, 0));
		fds[1] = accept(listener, NULL, NULL);
		warm(p, fds);
		waiting = accept(listener, NULL, NULL);
		say_recv(p, waiting, 8, MSG_WAITALL);
	}
}

CASE_TRAITS(connect_listener_closed_connection_lives, SELF, OWN_PAIR)
{
	struct address address;
	int listener, fds[2];

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, NULL, NULL);
		R(close(listener));
		warm(p, fds);
		R(send(fds[0], "alive", 5, 0));
		say_recv(p, fds[1], 5, MSG_WAITALL);
	}
}

CASE_TRAITS(connect_number_reused_at_once, SELF, OWN_PAIR)
{
	int fds[2], first = -1;

	A {
		for (int i = 0; i < 20; i++) {
			pair_local(fds);
			if (i == 0) {
				first = fds[0];
				warm(p, fds);
			}
			T(fds[0] == first);
			for (int k = 0; k < 10; k++) {
				T(send(fds[0], "abc", 3, 0) == 3);
				say_recv(p, fds[1], 3, MSG_WAITALL);
			}
			close(fds[0]);
			say_recv(p, fds[1], 1, 0);
			close(fds[1]);
		}
	}
}

CASE_TRAITS(connect_many_short, SELF, OWN_PAIR)
{
	int fds[2], n_good = 0;

	A {
		pair_local(fds);
		warm(p, fds);
		for (int i = 0; i < 200; i++) {
			char text[16] = "request", answer[16] = "";

			pair_local(fds);
			n_good += send(fds[0], text, 7, 0) == 7 &&
				  recv(fds[1], answer, 7, MSG_WAITALL) == 7 &&
				  send(fds[1], answer, 7, 0) == 7 &&
				  recv(fds[0], text, 7, MSG_WAITALL) == 7 &&
				  memcmp(text, "request", 7) == 0;
			close(fds[i & 1]);
			close(fds[!(i & 1)]);
		}
		say(p, "%d good", n_good);
	}
}

CASE_TRAITS(connect_many_at_once, SELF, OWN_PAIR)
{
	enum { N = 100 };
	int fds[N][2], n_good = 0;

	A {
		for (int i = 0; i < N; i++) pair_local(fds[i]);
		warm(p, fds[50]);
		for (int round = 0; round < 10; round++)
			for (int i = 0; i < N; i++) {
				unsigned char out = (unsigned char)(i * 7 + round), in = 0;

				n_good += send(fds[i][round & 1], &out, 1, 0) == 1 &&
					  recv(fds[i][!(round & 1)], &in, 1, 0) == 1 && in == out;
			}
		say(p, "%d good", n_good);
		for (int i = 0; i < N; i++) close(fds[i][0]);
		for (int i = 0; i < N; i++) n_good -= recv(fds[i][1], &(char){ 0 }, 1, 0) == 0;
		say(p, "%d left", n_good);
	}
}

CASE_TRAITS(connect_reuseport_listeners, SELF, OWN_PAIR)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t size = sizeof(in);
	struct address address;
	int listeners[2], fds[2], n = 0;

	A {
		inet_pton(AF_INET, "127.0.0.1", &in.sin_addr);
		for (int i = 0; i < 2; i++) {
			listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
			setsockopt(listeners[i], SOL_SOCKET, SO_REUSEPORT, &(int){ 1 },
				   sizeof(int));
			T(bind(listeners[i], (struct sockaddr *)&in, sizeof(in)) == 0);
			T(listen(listeners[i], 50) == 0);
			getsockname(listeners[i], (struct sockaddr *)&in, &size);
		}
		memcpy(&address.storage, &in, sizeof(in));
		address.size = sizeof(in);
		for (int i = 0; i < 20; i++) {
			fds[0] = connect_to(&address, 0);
			fds[1] = accept(listeners[0], NULL, NULL);
			if (fds[1] < 0)
				fds[1] = accept(listeners[1], NULL, NULL);
			n += send(fds[0], "x", 1, 0) == 1 &&
			     recv(fds[1], &(char){ 0 }, 1, MSG_WAITALL) == 1;
			if (i == 0) {
				nodelay(fds[0]);
				nodelay(fds[1]);
				fcntl(fds[1], F_SETFL, 0);
				warm(p, fds);
			}
		}
		say(p, "%d good", n);
	}
}

static void *accept_one(void *arg)
{
	return (void *)(long)accept(*(int *)arg, NULL, NULL);
}

CASE_TRAITS(connect_blocked_accept_in_thread, SELF, OWN_PAIR)
{
	struct address address;
	int listener, fds[2];
	pthread_t thread;
	void *result;

	A {
		listener = listen_on("127.0.0.1", &address);
		pthread_create(&thread, NULL, accept_one, &listener);
		fds[0] = connect_to(&address, 0);
		pthread_join(thread, &result);
		fds[1] = (int)(long)result;
		nodelay(fds[0]);
		nodelay(fds[1]);
		warm(p, fds);
		R(send(fds[1], "hi", 2, 0));
		say_recv(p, fds[0], 2, MSG_WAITALL);
	}
}

CASE_TRAITS(connect_other_kinds_of_sockets, SELF, NO_PAIR)
{
	int fds[2];

	A {
		T(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
		R(send(fds[0], "unix", 4, 0));
		say_recv(p, fds[1], 10, 0);
		R(shutdown(fds[0], SHUT_WR));
		say_recv(p, fds[1], 10, 0);
		T(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
		R(send(fds[0], "packet", 6, 0));
		say_recv(p, fds[1], 3, MSG_TRUNC);
		R(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
		R(socket(9999, SOCK_STREAM, 0));
	}
}

CASE_TRAITS(connect_udp_is_left_alone, SELF, NO_PAIR)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t size = sizeof(in);
	int fds[2];

	A {
		inet_pton(AF_INET, "127.0.0.1", &in.sin_addr);
		fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
		fds[1] = socket(AF_INET, SOCK_DGRAM, 0);
		R(bind(fds[1], (struct sockaddr *)&in, sizeof(in)));
		getsockname(fds[1], (struct sockaddr *)&in, &size);
		R(connect(fds[0], (struct sockaddr *)&in, sizeof(in)));
		for (int i = 0; i < 20; i++) {
			R(send(fds[0], "datagram", 8, 0));
			say_recv(p, fds[1], 3, MSG_TRUNC);
		}
	}
}
