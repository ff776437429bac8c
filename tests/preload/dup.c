/* Descriptors of one socket: dup, dup2, dup3, F_DUPFD. */
#include "case.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

CASE(dup_shares_the_stream, ANY)
{
	int copy = -1;

	A { SEND("abcdef"); }
	B {
		settle(p, FD, 6);
		copy = dup(FD);
		RECV(2);
		say_recv(p, copy, 2, 0);
		RECV(2);
		SEND("x");
		say_send(p, copy, "y", 0);
	}
	A { RECV_FLAGS(2, MSG_WAITALL); }
}

CASE(dup_keeps_open, ANY)
{
	int copy = -1;

	A {
		copy = dup(FD);
		R(close(FD));
		say_send(p, copy, "hi", 0);
	}
	B {
		RECV_FLAGS(2, MSG_WAITALL);
		RECV_FLAGS(1, MSG_DONTWAIT);
		SEND("yo");
	}
	A {
		say_recv(p, copy, 2, MSG_WAITALL);
		R(close(copy));
	}
	B { RECV(1); }
}

CASE(dup_many, ANY)
{
	int copies[50];

	A {
		for (int i = 0; i < 50; i++) {
			copies[i] = dup(i ? copies[i - 1] : FD);
			T(send(copies[i], "x", 1, 0) == 1);
		}
		close(FD);
		for (int i = 0; i < 50; i++) close(copies[i]);
	}
	B {
		RECV_FLAGS(50, MSG_WAITALL);
		RECV(1);
	}
}

CASE(dup2_onto_free_number, ANY)
{
	A {
		T(dup2(FD, 77) == 77);
		close(FD);
		say_send(p, 77, "via 77", 0);
	}
	B { RECV_FLAGS(6, MSG_WAITALL); }
}

CASE(dup2_onto_itself, ANY)
{
	A {
		T(dup2(FD, FD) == FD);
		R(dup3(FD, FD, 0));
		SEND("x");
	}
	B { RECV(1); }
}

CASE(dup2_over_live_socket_closes_it, ANY)
{
	A {
		T(dup2(STDIN_FILENO, FD) == FD);
		RECV_FLAGS(1, 0);
	}
	B {
		RECV(1);
		RECV(1);
	}
}

CASE_TRAITS(dup2_of_one_socket_over_another, SELF, OWN_PAIR)
{
	int one[2], two[2];

	A {
		pair_local(one);
		pair_local(two);
		warm(p, one);
		warm(p, two);
		T(dup2(one[0], two[0]) == two[0]);
		say_recv(p, two[1], 1, 0);
		R(send(two[0], "x", 1, 0));
		say_recv(p, one[1], 1, 0);
		close(one[0]);
		R(send(two[0], "y", 1, 0));
		say_recv(p, one[1], 1, 0);
		close(two[0]);
		say_recv(p, one[1], 1, 0);
	}
}

CASE(dup2_file_over_socket, ANY)
{
	char c;

	A {
		int file = open("/dev/zero", O_RDONLY);
		T(dup2(file, FD) == FD);
		R(read(FD, &c, 1));
		R(recv(FD, &c, 1, 0));
	}
	B { RECV(1); }
}

CASE(dup2_onto_stdin_and_stdout, ANY)
{
	A {
		pid_t pid = fork_logged(p);
		char buf[32];

		if (pid == 0) {
			dup2(FD, STDIN_FILENO);
			dup2(FD, STDOUT_FILENO);
			close(FD);
			(void)!write(STDOUT_FILENO, "prompt", 6);
			R(read(STDIN_FILENO, buf, sizeof(buf)));
			_exit(0);
		}
		*stage_word(p, 1) = pid;
		close(FD);
	}
	B {
		RECV_FLAGS(6, MSG_WAITALL);
		SEND("typed");
		RECV(1);
	}
	A { reap(p, "child", (pid_t)*stage_word(p, 1)); }
}

CASE(dup3_flags, ANY)
{
	A {
		T(dup3(FD, 78, O_CLOEXEC) == 78);
		T(fcntl(78, F_GETFD) & FD_CLOEXEC);
		R(dup3(FD, 79, O_NONBLOCK));
		say_send(p, 78, "x", 0);
	}
	B { RECV(1); }
}

CASE(dup_by_fcntl, ANY)
{
	A {
		T(fcntl(FD, F_DUPFD, 60) == 60);
		T(fcntl(FD, F_DUPFD_CLOEXEC, 60) == 61);
		T(fcntl(61, F_GETFD) & FD_CLOEXEC);
		R(fcntl(FD, F_DUPFD, 1 << 30));
		close(FD);
		say_send(p, 60, "sixty", 0);
		close(60);
		say_send(p, 61, "more", 0);
		close(61);
	}
	B {
		RECV_FLAGS(9, MSG_WAITALL);
		RECV(1);
	}
}

CASE(dup_number_reused_by_file, ANY)
{
	char c;

	A {
		int number = FD, copy = dup(FD), file;

		close(FD);
		file = open("/dev/zero", O_RDONLY);
		T(file == number);
		R(read(file, &c, 1));
		R(lseek(file, 0, SEEK_CUR));
		say_send(p, copy, "x", 0);
	}
	B { RECV(1); }
}

CASE(dup_errors, ANY)
{
	A {
		R(dup(-1));
		R(dup2(FD, -1));
		R(dup2(FD, 1 << 30));
		R(dup2(-1, FD));
		SEND("x");
	}
	B { RECV(1); }
}

/* What it was to replace stays. */
CASE(dup_refused_closes_nothing, ANY)
{
	struct rlimit limit, lower;

	A {
		T(getrlimit(RLIMIT_NOFILE, &limit) == 0);
		lower = (struct rlimit){ (rlim_t)FD, limit.rlim_max };
		R(dup3(STDIN_FILENO, FD, O_NONBLOCK));
		R(dup3(-1, FD, 0));
		R(dup2(999, FD));
		T(setrlimit(RLIMIT_NOFILE, &lower) == 0);
		R(dup2(STDIN_FILENO, FD));
		R(dup3(STDIN_FILENO, FD, O_CLOEXEC));
		R(dup2(FD, FD) == FD);
		T(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		SEND("still there");
	}
	answer_and_end(p);
}

CASE_TRAITS(dup_before_the_upgrade, SELF, OWN_PAIR)
{
	int fds[2], copy;

	A {
		pair_local(fds);
		copy = dup(fds[1]);
		warm(p, fds);
		R(send(fds[0], "abc", 3, 0));
		settle(p, copy, 3);
		say_recv(p, copy, 1, 0);
		say_recv(p, fds[1], 1, 0);
		close(fds[1]);
		say_recv(p, copy, 1, 0);
		R(send(copy, "d", 1, 0));
		say_recv(p, fds[0], 1, 0);
		close(copy);
		say_recv(p, fds[0], 1, 0);
	}
}

CASE(dup_reader_blocked_while_duplicate_closes, THREAD)
{
	A { *stage_word(p, 1) = dup(FD); }
	A { RECV(1); }
	WITH_B {
		until_other_sleeps(p);
		R(close((int)*stage_word(p, 1)));
		until_other_sleeps(p);
		SEND("x");
	}
}

/* ---- while another thread uses the number ---------------------------------------------------- */

enum { N_WORDS = 30000 };

struct sender {
	int fd;
	_Atomic bool is_done;
	uint32_t n_refused;
};

/* A word at a time, each one higher; one that the number, which was just closed, does not take is
 * sent again. */
static void *send_words(void *arg)
{
	struct sender *sender = arg;

	for (uint32_t word = 1; word <= N_WORDS; word++) {
		while (send(sender->fd, &word, sizeof(word), MSG_NOSIGNAL) < 0) {
			if (errno != EBADF)
				sender->n_refused++;
			sched_yield();
		}
	}
	sender->is_done = true;
	return NULL;
}

struct receiver {
	int fd;
	uint32_t last, n, n_disordered;
};

static void receive_words(struct receiver *r)
{
	uint32_t words[256];
	ssize_t n;

	while ((n = recv(r->fd, words, sizeof(words), MSG_DONTWAIT)) > 0) {
		for (size_t i = 0; i < (size_t)n / sizeof(*words); i++) {
			r->n++;
			r->n_disordered += words[i] <= r->last;
			r->last = words[i];
		}
	}
}

/* The number is now one connection's, now the other's: each word goes to one of them. */
static void exchange_under_a_sender(struct play *p, bool with_close)
{
	int one[2], two[2];
	struct sender sender = { 0 };
	struct receiver receivers[2] = { 0 };
	pthread_t thread;

	A {
		pair_local(one);
		pair_local(two);
		warm(p, one);
		warm(p, two);
		receivers[0].fd = one[1];
		receivers[1].fd = two[1];
		sender.fd = dup(one[0]);
		pthread_create(&thread, NULL, send_words, &sender);
		while (!sender.is_done) {
			dup2(two[0], sender.fd);
			receive_words(&receivers[0]);
			if (with_close)
				close(sender.fd);
			dup2(one[0], sender.fd);
			receive_words(&receivers[1]);
		}
		pthread_join(thread, NULL);
		close(sender.fd);
		for (int i = 0; i < 2; i++) {
			R(shutdown(i ? two[0] : one[0], SHUT_WR));
			settle_poll(p, receivers[i].fd, POLLRDHUP);
			receive_words(&receivers[i]);
			say(p, "%u out of order", receivers[i].n_disordered);
		}
		say(p, "%u words, %u refused", receivers[0].n + receivers[1].n, sender.n_refused);
	}
}

CASE_TRAITS(dup2_under_a_sender, SELF, OWN_PAIR)
{
	exchange_under_a_sender(p, false);
}

CASE_TRAITS(dup2_and_close_under_a_sender, SELF, OWN_PAIR)
{
	exchange_under_a_sender(p, true);
}
