/*
 * protocols/tcp_state.c, tcp_receive.c: what a look at a connection says of a reset that comes at
 * the same moment, and what a receive finds of an end that a look has told of.
 *
 * The kernel takes a reset in field by field, and its poll reads them without a lock. One look in a
 * thousand or so falls into the midst; the rounds here are few enough for a loaded machine, and
 * none may show it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "tcp_pair.h"

#define N_ROUNDS 100

static struct tcp_pair p;
static pthread_barrier_t both;

static void *resetter(void *arg)
{
	const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	(void)arg;
	REQUIRE_INT(setsockopt(p.fd[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), ==, 0);
	(void)pthread_barrier_wait(&both);
	(void)close(p.fd[1]);
	p.fd[1] = -1;
	return NULL;
}

/* The first look that says anything, while the other end is being closed. */
static unsigned first_look(unsigned events)
{
	unsigned ready;
	pthread_t thread;

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	REQUIRE_INT(pthread_create(&thread, NULL, resetter, NULL), ==, 0);
	(void)pthread_barrier_wait(&both);
	while ((ready = tcp_poll(&p.tcp[0], p.fd[0], events)) == 0)
		(void)sched_yield();
	REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
	tcp_pair_deinit(&p);
	return ready;
}

static void is_seen_whole_or_not_at_all(void)
{
	REQUIRE_INT(pthread_barrier_init(&both, NULL, 2), ==, 0);
	for (int i = 0; i < N_ROUNDS; i++) {
		CHECK_INT(first_look(POLLIN), ==, POLLIN | POLLERR | POLLHUP);
		CHECK_INT(first_look(POLLRDHUP), ==, POLLRDHUP | POLLERR | POLLHUP);
	}
	(void)pthread_barrier_destroy(&both);
}

/* A peer that was killed says nothing of its end, and who receives asks the kernel only now and
 * then. */
static void an_end_that_was_told_is_found(void)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	unsigned did;

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send(&p, 1, 0, 100);
	pair_expect(&p, 0, 0, 100);
	CHECK_INT(pair_pull(&p, 0, &byte, 1, 0), ==, -EAGAIN);
	REQUIRE_INT(shutdown(p.fd[1], SHUT_WR), ==, 0);
	while (!(tcp_poll(&p.tcp[0], p.fd[0], POLLIN) & POLLIN))
		(void)sched_yield();
	atomic_store(&p.tcp[0].nsec_looked, nsec_now());
	CHECK_INT(tcp_pull(&p.tcp[0], p.fd[0], &iov, 1, 0, false, &did), ==, 0);
	tcp_pair_deinit(&p);
}

/* Bytes of the kernel's part are on their way when the connection is reset: they never come, and
 * what lies in the ring behind them is not to be had either. */
static void what_is_behind_lost_bytes_is_lost(void)
{
	const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	unsigned char buf[4096];
	uint64_t sent = 0, came = 0;
	int size = sizeof(buf);
	ssize_t n;

	tcp_pair_init(&p, tcp_pair_small_rings);
	REQUIRE_INT(setsockopt(p.fd[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), ==, 0);
	do {
		bytes_fill(buf, sent, sizeof(buf));
		n = send(p.fd[1], buf, sizeof(buf), MSG_DONTWAIT);
		sent += n > 0 ? (uint64_t)n : 0;
	} while (n > 0);
	tcp_pair_watch(&p);
	bytes_fill(buf, sent, 16);
	REQUIRE_INT(pair_push(&p, 1, buf, 16), ==, 16);
	REQUIRE_INT(p.tcp[1].ring.own->tx_mode, ==, SHM_TX_RING);
	REQUIRE_INT(setsockopt(p.fd[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), ==, 0);
	(void)close(p.fd[1]);
	p.fd[1] = -1;
	while ((n = pair_pull(&p, 0, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		CHECK(bytes_match(buf, came, (size_t)n));
		came += (uint64_t)n;
	}
	CHECK_INT(n, ==, -ECONNRESET);
	CHECK_INT(came, <, sent);
	CHECK_INT(pair_pull(&p, 0, buf, sizeof(buf), MSG_DONTWAIT), ==, 0);
	tcp_pair_deinit(&p);
}

static const struct test tests[] = {
	TEST(what_is_behind_lost_bytes_is_lost),
	TEST(an_end_that_was_told_is_found),
	TEST(is_seen_whole_or_not_at_all),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
