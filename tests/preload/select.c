/* select and pselect. */
#include "case.h"

#include <sys/resource.h>
#include <sys/select.h>

struct sets {
	fd_set in, out, except;
};

/* Asks about one descriptor in all three sets, or in those of `which` ("r", "w", "e"). */
static int select_one(struct play *p, int fd, const char *which, int msec)
{
	struct timeval tv = { .tv_sec = msec / 1000, .tv_usec = msec % 1000 * 1000 };
	struct sets s;
	int n;

	FD_ZERO(&s.in);
	FD_ZERO(&s.out);
	FD_ZERO(&s.except);
	FD_SET(fd, &s.in);
	FD_SET(fd, &s.out);
	FD_SET(fd, &s.except);
	n = select(fd + 1, strchr(which, 'r') ? &s.in : NULL, strchr(which, 'w') ? &s.out : NULL,
		   strchr(which, 'e') ? &s.except : NULL, msec < 0 ? NULL : &tv);
	if (n < 0)
		say(p, "select %s: %s", which, errno_name(errno));
	else
		say(p, "select %s = %d:%s%s%s", which, n,
		    strchr(which, 'r') && FD_ISSET(fd, &s.in) ? " readable" : "",
		    strchr(which, 'w') && FD_ISSET(fd, &s.out) ? " writable" : "",
		    strchr(which, 'e') && FD_ISSET(fd, &s.except) ? " exceptional" : "");
	return n;
}

CASE(select_fresh, ANY)
{
	EACH {
		select_one(p, FD, "rwe", 0);
		select_one(p, FD, "r", 0);
		select_one(p, FD, "w", -1);
	}
}

CASE(select_data, ANY)
{
	A { SEND("x"); }
	B {
		select_one(p, FD, "r", 3000);
		select_one(p, FD, "rwe", -1);
		RECV(1);
		select_one(p, FD, "re", 0);
	}
}

CASE(select_eof, ANY)
{
	A { shutdown(FD, SHUT_WR); }
	B {
		select_one(p, FD, "r", 3000);
		select_one(p, FD, "rwe", 0);
		RECV(1);
	}
}

CASE(select_full, ANY)
{
	A {
		*stage_word(p, 1) = (long)stuff(FD);
		select_one(p, FD, "w", 20);
		select_one(p, FD, "rwe", 0);
	}
	B { T(drain_exactly(FD, (size_t)*stage_word(p, 1))); }
	A { select_one(p, FD, "w", 3000); }
}

CASE(select_woken_by_data, DUO)
{
	A {
		select_one(p, FD, "r", -1);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(select_woken_by_space, DUO)
{
	A { *stage_word(p, 1) = (long)stuff(FD); }
	A { select_one(p, FD, "w", -1); }
	WITH_B {
		until_other_sleeps(p);
		T(drain_exactly(FD, (size_t)*stage_word(p, 1)));
	}
}

CASE(select_woken_by_close, DUO)
{
	A {
		select_one(p, FD, "re", -1);
		RECV(1);
	}
	WITH_B {
		until_other_sleeps(p);
		close(FD);
	}
}

CASE(select_after_reset, ANY)
{
	A {
		setsockopt(FD, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
			   sizeof(struct linger));
		close(FD);
	}
	B {
		select_one(p, FD, "r", 3000);
		select_one(p, FD, "rwe", 0);
		RECV(1);
		RECV(1);
	}
}

CASE(select_times_out, ANY)
{
	A {
		uint64_t start = usec_clock();

		select_one(p, FD, "r", 50);
		T(usec_clock() - start >= 49000);
	}
}

CASE(select_writes_back_the_time_left, DUO)
{
	A {
		struct timeval tv = { .tv_sec = 8 };
		fd_set in;

		FD_ZERO(&in);
		FD_SET(FD, &in);
		R(select(FD + 1, &in, NULL, NULL, &tv));
		T(tv.tv_sec < 8);
		T(tv.tv_sec > 4);
	}
	WITH_B {
		until_other_sleeps(p);
		SEND("x");
	}
}

CASE(select_pselect_keeps_the_time, ANY)
{
	A {
		struct timespec ts = { .tv_nsec = 20000000 };
		fd_set in;

		FD_ZERO(&in);
		FD_SET(FD, &in);
		R(pselect(FD + 1, &in, NULL, NULL, &ts, NULL));
		say(p, "%ld", ts.tv_nsec);
		T(FD_ISSET(FD, &in));
	}
}

CASE(select_bad_descriptor, ANY)
{
	A {
		struct sets s;

		FD_ZERO(&s.in);
		FD_SET(FD, &s.in);
		close(FD);
		R(select(FD + 1, &s.in, NULL, NULL, &(struct timeval){ 0 }));
		R(select(-1, NULL, NULL, NULL, &(struct timeval){ 0 }));
	}
}

CASE(select_nothing_is_a_sleep, ANY)
{
	A {
		uint64_t start = usec_clock();

		R(select(0, NULL, NULL, NULL, &(struct timeval){ .tv_usec = 30000 }));
		T(usec_clock() - start >= 29000);
	}
}

CASE(select_beyond_nfds_is_ignored, ANY)
{
	A { SEND("x"); }
	B {
		fd_set in;

		settle(p, FD, 1);
		FD_ZERO(&in);
		FD_SET(FD, &in);
		R(select(FD, &in, NULL, NULL, &(struct timeval){ 0 }));
	}
}

CASE_TRAITS(select_pairs_and_pipe, SELF, OWN_PAIR)
{
	int one[2], two[2], pipes[2];
	fd_set in, out;

	A {
		pair_local(one);
		pair_local(two);
		T(pipe(pipes) == 0);
		warm(p, two);
		R(send(one[0], "x", 1, 0));
		settle(p, one[1], 1);
		for (int round = 0; round < 3; round++) {
			FD_ZERO(&in);
			FD_ZERO(&out);
			FD_SET(one[1], &in);
			FD_SET(two[1], &in);
			FD_SET(pipes[0], &in);
			FD_SET(two[0], &out);
			R(select(pipes[1] + 1, &in, &out, NULL, NULL));
			say(p, "%d %d %d %d", FD_ISSET(one[1], &in) != 0,
			    FD_ISSET(two[1], &in) != 0, FD_ISSET(pipes[0], &in) != 0,
			    FD_ISSET(two[0], &out) != 0);
			if (round == 0)
				T(write(pipes[1], "x", 1) == 1);
			if (round == 1) {
				R(send(two[0], "x", 1, 0));
				settle(p, two[1], 1);
			}
		}
	}
}

CASE(select_urgent_is_exceptional, ANY)
{
	A { SEND_FLAGS("u", MSG_OOB); }
	B {
		select_one(p, FD, "e", 3000);
		RECV_FLAGS(1, MSG_OOB);
	}
}

/* ---- more descriptors than may be opened ----------------------------------------------------- */

#define N_MANY 40

/* How many of the pipe's descriptors, and FD. */
static void select_many(struct play *p, const int many[N_MANY], int msec)
{
	struct timeval tv = { .tv_sec = msec / 1000, .tv_usec = msec % 1000 * 1000 };
	int highest = FD, n_many = 0, n;
	fd_set in;

	FD_ZERO(&in);
	FD_SET(FD, &in);
	for (int i = 0; i < N_MANY; i++) {
		FD_SET(many[i], &in);
		highest = many[i] > highest ? many[i] : highest;
	}
	n = select(highest + 1, &in, NULL, NULL, msec < 0 ? NULL : &tv);
	for (int i = 0; n > 0 && i < N_MANY; i++) n_many += FD_ISSET(many[i], &in) != 0;
	say(p, "select = %d %s: %d, %d", n, n < 0 ? errno_name(errno) : "", n_many,
	    n > 0 && FD_ISSET(FD, &in));
}

static void lower_limit(struct play *p, rlim_t to)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = to ? to : limit.rlim_max;
	T(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

CASE(select_more_than_may_be_open, PROCESS)
{
	int many[N_MANY], ends[2] = { -1, -1 };

	B {
		T(pipe(ends) == 0);
		for (int i = 0; i < N_MANY; i++) many[i] = dup(ends[0]);
		lower_limit(p, 16);
		select_many(p, many, 0);
		select_many(p, many, 5);
	}
	A { SEND("x"); }
	B {
		select_many(p, many, 3000);
		RECV(1);
		write(ends[1], "y", 1);
		select_many(p, many, 0);
		select_many(p, many, -1);
		read(ends[0], &(char){ 0 }, 1);
	}
	B { select_many(p, many, -1); }
	WITH_A {
		until_other_sleeps(p);
		SEND("z");
	}
	B {
		RECV(1);
		lower_limit(p, 0);
		for (int i = 0; i < N_MANY; i++) close(many[i]);
		for (int i = 0; i < 2; i++) close(ends[i]);
	}
}
