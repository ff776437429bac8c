/*
 * What a child in its parent's memory (vfork) does with its own descriptors is nothing to its
 * parent's, though both have the same records.
 */
#include "epoll_case.h"

#include <fcntl.h>

/* High ones, where PULC's own are. */
#define NUMBERS_FIRST 800
#define NUMBERS_END 4096

/* In place of the descriptor that was closed. */
enum made { A_SOCKET, A_DATAGRAM_SOCKET, A_SET, A_PASSED_SOCKET, AN_ACCEPTED_SOCKET, N_MADE };

struct around {
	int via;
	int listener;
};

static int make(enum made what, const struct around *around)
{
	switch (what) {
	case A_SOCKET:
		return socket(AF_INET, SOCK_STREAM, 0);
	case A_DATAGRAM_SOCKET:
		return socket(AF_INET, SOCK_DGRAM, 0);
	case A_SET:
		return epoll_create1(0);
	case A_PASSED_SOCKET:
		return take_fd(around->via);
	default:
		return accept(around->listener, NULL, NULL);
	}
}

CASE(vfork_child_has_numbers_of_its_own, ANY)
{
	A {
		for (volatile enum made what = 0; what < N_MADE; what++) {
			struct address address;
			struct around around = { .listener = listen_on("127.0.0.1", &address) };
			int client = connect_to(&address, 0),
			    other = socket(AF_INET, SOCK_STREAM, 0);
			int via[2];
			pid_t pid;

			T(socketpair(AF_UNIX, SOCK_STREAM, 0, via) == 0);
			pass_fd(via[0], other);
			around.via = via[1];
			pid = vfork();
			if (pid == 0) {
				close(FD);
				_exit(make(what, &around) == FD ? 0 : 1);
			}
			reap(p, "child", pid);
			SEND("x");
			close(around.listener);
			close(client);
			close(other);
			close(via[0]);
			close(via[1]);
		}
	}
	B {
		RECV_FLAGS(N_MADE, MSG_WAITALL);
		SEND("reply");
	}
	A {
		RECV_FLAGS(5, MSG_WAITALL);
		R(close(FD));
	}
	B { RECV(1); }
}

static void take_numbers(void)
{
	for (int fd = NUMBERS_FIRST; fd < NUMBERS_END; fd++) (void)dup2(STDIN_FILENO, fd);
}

/* Those that it does not know of as well; then its parent does so itself. */
CASE(vfork_child_takes_all_numbers, DUO)
{
	A {
		pid_t pid;

		SEND("before");
		pid = vfork();
		if (pid == 0) {
			take_numbers();
			_exit(0);
		}
		reap(p, "child", pid);
		take_numbers();
		for (int i = 0; i < 5; i++) {
			RECV(1);
			SEND("y");
		}
	}
	WITH_B {
		RECV_FLAGS(6, MSG_WAITALL);
		for (int i = 0; i < 5; i++) {
			until_other_sleeps(p);
			SEND("x");
			RECV(1);
		}
	}
	A { R(close(FD)); }
	B { RECV(1); }
}

/* A number that its parent has given away to somebody else again: a copy of the child's is none of
 * the parent's. */
CASE(vfork_child_has_copies_of_its_own, ANY)
{
	A {
		pid_t pid = vfork();

		if (pid == 0) {
			(void)dup2(FD, 701);
			(void)fcntl(FD, F_DUPFD, 702);
			(void)dup2(STDIN_FILENO, FD);
			_exit(0);
		}
		reap(p, "child", pid);
		R(fcntl(701, F_GETFD));
		SEND("x");
		R(close(FD));
	}
	B {
		RECV(1);
		RECV(1);
	}
}
