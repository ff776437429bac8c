/* fork in its patterns: the socket used by both, handed on, inherited in mid-stream. */
#include "case.h"

#include <fcntl.h>
#include <sys/wait.h>

CASE(fork_child_writes, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			SEND("child");
			_exit(0);
		}
		reap(p, "child", pid);
		SEND("parent");
	}
	B { RECV_FLAGS(11, MSG_WAITALL); }
}

CASE(fork_child_reads, ANY)
{
	A { SEND("abcdef"); }
	B {
		pid_t pid;

		settle(p, FD, 6);
		pid = fork_logged(p);
		if (pid == 0) {
			RECV(3);
			_exit(0);
		}
		reap(p, "child", pid);
		RECV(10);
	}
}

CASE(fork_reading_in_turns, ANY)
{
	A { SEND("0123456789"); }
	B {
		settle(p, FD, 10);
		for (int i = 0; i < 5; i++) {
			pid_t pid = fork_logged(p);

			if (pid == 0) {
				RECV(1);
				_exit(0);
			}
			reap(p, "child", pid);
			RECV(1);
		}
	}
}

CASE(fork_child_goes_on_alone, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			for (int i = 0; i < 20; i++) {
				T(send(FD, "ping", 4, 0) == 4);
				RECV_FLAGS(4, MSG_WAITALL);
			}
			_exit(0);
		}
		close(FD);
		reap(p, "child", pid);
	}
	WITH_B {
		for (int i = 0; i < 20; i++) {
			RECV_FLAGS(4, MSG_WAITALL);
			SEND("pong");
		}
		RECV(1);
	}
}

CASE(fork_parent_goes_on_alone, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0)
			_exit(0);
		reap(p, "child", pid);
		for (int i = 0; i < 20; i++) {
			SEND("ping");
			RECV_FLAGS(4, MSG_WAITALL);
		}
		close(FD);
	}
	WITH_B {
		for (int i = 0; i < 20; i++) {
			RECV_FLAGS(4, MSG_WAITALL);
			T(send(FD, "pong", 4, 0) == 4);
		}
		RECV(1);
	}
}

CASE(fork_eof_only_after_both_closed, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			while (!*stage_word(p, 1)) usleep(300);
			_exit(0);
		}
		R(close(FD));
		*stage_word(p, 2) = 1;
		reap(p, "child", pid);
	}
	WITH_B {
		while (!*stage_word(p, 2)) usleep(300);
		RECV_FLAGS(1, MSG_DONTWAIT);
		*stage_word(p, 1) = 1;
		RECV(1);
	}
}

CASE(fork_both_write_at_once, DUO)
{
	enum { N = 2000 };

	A {
		pid_t pid = fork_logged(p);

		for (int i = 0; i < N; i++)
			if (send(FD, pid ? "pppp" : "cccc", 4, 0) != 4)
				break;
		if (pid == 0)
			_exit(0);
		reap(p, "child", pid);
	}
	WITH_B {
		int n_parent = 0, n_child = 0, n_torn = 0;

		for (int i = 0; i < 2 * N; i++) {
			char word[4];

			if (recv(FD, word, 4, MSG_WAITALL) != 4)
				break;
			n_parent += memcmp(word, "pppp", 4) == 0;
			n_child += memcmp(word, "cccc", 4) == 0;
		}
		n_torn = 2 * N - n_parent - n_child;
		say(p, "parent %d child %d torn %d", n_parent, n_child, n_torn);
	}
}

CASE(fork_both_read_at_once, DUO)
{
	enum { N = 4000 };

	A {
		pid_t pid = fork_logged(p);
		char c;
		int n = 0;

		while (recv(FD, &c, 1, 0) == 1) n++;
		*stage_word(p, 1) += n;
		if (pid == 0)
			_exit(0);
		reap(p, "child", pid);
		say(p, "%ld bytes read in all", (long)*stage_word(p, 1));
	}
	WITH_B {
		for (int i = 0; i < N; i++)
			if (send(FD, "x", 1, 0) != 1)
				break;
		shutdown(FD, SHUT_WR);
	}
}

CASE(fork_one_reads_one_writes, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			_exit(take_pattern(FD, 1000000, 5000) == 1000000 ? 0 : 1);
		}
		T(put_pattern(FD, 1000000, 7000) == 1000000);
		reap(p, "child", pid);
	}
	WITH_B {
		T(put_pattern(FD, 1000000, 3000) == 1000000);
		T(take_pattern(FD, 1000000, 9000) == 1000000);
	}
}

CASE(fork_chain, ANY)
{
	A {
		pid_t top = getpid();

		for (int i = 0; i < 5; i++) {
			pid_t pid = fork_logged(p);

			if (pid != 0) {
				reap(p, "child", pid);
				break;
			}
			SEND("c");
		}
		if (getpid() != top)
			_exit(0);
		close(FD);
	}
	B {
		RECV_FLAGS(5, MSG_WAITALL);
		RECV(1);
	}
}

CASE(fork_with_data_waiting_read_by_both, ANY)
{
	A { T(put_pattern(FD, 50000, 50000) == 50000); }
	B {
		char buf[25000];
		pid_t pid;

		settle(p, FD, 50000);
		pid = fork_logged(p);
		if (pid == 0) {
			R(recv(FD, buf, sizeof(buf), MSG_WAITALL));
			T(is_pattern(buf, sizeof(buf), 0));
			_exit(0);
		}
		reap(p, "child", pid);
		R(recv(FD, buf, sizeof(buf), MSG_WAITALL));
		T(is_pattern(buf, sizeof(buf), 25000));
	}
}

CASE(fork_blocked_child_woken, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			RECV(5);
			_exit(0);
		}
		*stage_word(p, 1) = pid;
		reap(p, "child", pid);
	}
	WITH_B {
		while (!*stage_word(p, 1)) usleep(300);
		until_process_sleeps((pid_t)*stage_word(p, 1));
		SEND("wake!");
	}
}

CASE(fork_child_killed_while_holding, DUO)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			RECV(5);
			_exit(0);
		}
		until_process_sleeps(pid);
		kill(pid, SIGKILL);
		reap(p, "child", pid);
		SEND("parent lives");
		RECV_FLAGS(5, MSG_WAITALL);
	}
	WITH_B {
		RECV_FLAGS(12, MSG_WAITALL);
		SEND("indee");
	}
}

CASE(fork_many_children_each_a_byte, DUO)
{
	enum { N = 8 };

	A {
		pid_t pids[N];
		int n_bad = 0, status;

		for (int i = 0; i < N; i++) {
			pids[i] = fork_logged(p);
			if (pids[i] == 0) {
				char c;

				_exit(recv(FD, &c, 1, 0) == 1 ? 0 : 1);
			}
		}
		for (int i = 0; i < N; i++)
			n_bad += waitpid(pids[i], &status, 0) != pids[i] || status != 0;
		say(p, "%d children failed", n_bad);
	}
	WITH_B { SEND("12345678"); }
}

CASE_TRAITS(fork_per_connection_server, SELF, OWN_PAIR)
{
	struct address address;
	int listener, fds[2];

	A {
		pair_local(fds);
		warm(p, fds);
		listener = listen_on("127.0.0.1", &address);
		for (int i = 0; i < 5; i++) {
			int client = connect_to(&address, 0), server = accept(listener, NULL, NULL);
			pid_t pid = fork_logged(p);

			if (pid == 0) {
				char c;

				close(client);
				while (recv(server, &c, 1, 0) == 1 && send(server, &c, 1, 0) == 1)
					;
				_exit(0);
			}
			close(server);
			for (int k = 0; k < 30; k++)
				if (send(client, "e", 1, 0) != 1 ||
				    recv(client, &(char){ 0 }, 1, 0) != 1)
					say(p, "echo %d fails", k);
			close(client);
			reap(p, "server", pid);
		}
	}
}

CASE_TRAITS(fork_preforked_workers_accept, SELF, OWN_PAIR)
{
	enum { N_WORKERS = 3, N_CLIENTS = 12 };
	struct address address;
	int listener, fds[2];
	pid_t pids[N_WORKERS];

	A {
		pair_local(fds);
		warm(p, fds);
		listener = listen_on("127.0.0.1", &address);
		for (int w = 0; w < N_WORKERS; w++) {
			pids[w] = fork_logged(p);
			while (pids[w] == 0) {
				int server = accept(listener, NULL, NULL);
				char word[5] = "";

				while (recv(server, word, 4, MSG_WAITALL) == 4 &&
				       send(server, word, 4, 0) == 4)
					;
				close(server);
				if (strcmp(word, "quit") == 0)
					_exit(0);
			}
		}
		for (int i = 0; i < N_CLIENTS; i++) {
			int client = connect_to(&address, 0);

			for (int k = 0; k < 20; k++) {
				char word[4];

				if (send(client, i < N_CLIENTS - N_WORKERS ? "echo" : "quit", 4,
					 0) != 4 ||
				    recv(client, word, 4, MSG_WAITALL) != 4)
					say(p, "client %d fails at %d", i, k);
			}
			close(client);
		}
		for (int w = 0; w < N_WORKERS; w++) reap(p, "worker", pids[w]);
	}
}

CASE(fork_child_exits_by_exit, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			SEND("c");
			exit(3);
		}
		reap(p, "child", pid);
		SEND("p");
	}
	B {
		RECV_FLAGS(2, MSG_WAITALL);
		SEND("r");
	}
	A { RECV(1); }
}

CASE(fork_child_closes_everything, ANY)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			for (int fd = 3; fd < 1024; fd++) close(fd);
			_exit(0);
		}
		reap(p, "child", pid);
		SEND("p");
	}
	B {
		RECV(1);
		SEND("r");
	}
	A { RECV(1); }
}

CASE(fork_vfork_child_exits, ANY)
{
	A {
		volatile pid_t pid = vfork();

		if (pid == 0)
			_exit(5);
		reap(p, "child", pid);
		SEND("p");
	}
	B {
		RECV(1);
		SEND("r");
	}
	A { RECV(1); }
}

/* Nobody else has the socket: who closes it with bytes unread resets the connection. */
CASE(fork_that_fails, PROCESS)
{
	A { SEND("unread"); }
	B {
		settle(p, FD, 6);
		fork_in_vain(p, fork);
		R(close(FD));
	}
	A {
		settle_poll(p, FD, POLLERR | POLLHUP);
		RECV(1);
		SEND_FLAGS("x", MSG_NOSIGNAL);
	}
}

CASE(fork_both_ends_inherited, SELF)
{
	A {
		pid_t pid = fork_logged(p);

		if (pid == 0) {
			char c;

			close(p->fds[SIDE_A]);
			while (recv(p->fds[SIDE_B], &c, 1, 0) == 1 &&
			       send(p->fds[SIDE_B], &c, 1, 0) == 1)
				;
			_exit(0);
		}
		close(p->fds[SIDE_B]);
		for (int i = 0; i < 50; i++) {
			T(send(FD, "x", 1, 0) == 1);
			T(recv(FD, &(char){ 0 }, 1, 0) == 1);
		}
		close(FD);
		reap(p, "child", pid);
	}
}
