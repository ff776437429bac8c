/* protocols/tcp_end.c: a peer has said that it ends, and the kernel comes to know of it a moment
 * later. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "tcp_local.h"
#include "tcp_pair.h"

#define NSEC_LONG (60 * NSEC_PER_SEC)
#define NSEC_SHORT (100 * NSEC_PER_USEC)
#define END (POLLIN | POLLRDHUP)

static struct tcp_pair p;

/* End 1 has sent `len` bytes through its ring, and says that it closes. */
static void begin(size_t len, uint64_t nsec_wait)
{
	tcp_end_nsec_wait = nsec_wait;
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send(&p, 1, 0, 100);
	pair_expect(&p, 0, 0, 100);
	if (len)
		pair_send(&p, 1, 100, len);
	CHECK_INT(tcp_poll(&p.tcp[0], p.fd[0], END), ==, len ? POLLIN : 0);
	shm_notice_set(&p.tcp[1].ring, SHM_TX_FIN | SHM_CLOSED);
}

static void *closer(void *arg)
{
	(void)arg;
	(void)close(p.fd[1]);
	p.fd[1] = -1;
	return NULL;
}

/* What the first look says that is made while end 1 is being closed. */
static unsigned look_meanwhile(unsigned events)
{
	unsigned ready;
	pthread_t thread;

	REQUIRE_INT(pthread_create(&thread, NULL, closer, NULL), ==, 0);
	ready = tcp_poll(&p.tcp[0], p.fd[0], events);
	REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
	return ready;
}

static void is_waited_for(void)
{
	begin(0, NSEC_LONG);
	CHECK_INT(look_meanwhile(END), ==, END);
	tcp_pair_deinit(&p);
}

static void is_waited_for_by_a_receive(void)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	unsigned did;
	pthread_t thread;

	begin(0, NSEC_LONG);
	REQUIRE_INT(pthread_create(&thread, NULL, closer, NULL), ==, 0);
	CHECK_INT(tcp_pull(&p.tcp[0], p.fd[0], &iov, 1, 0, false, &did), ==, 0);
	REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
	tcp_pair_deinit(&p);
}

static void is_a_reset_if_the_kernel_says_so(void)
{
	const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	begin(0, NSEC_LONG);
	REQUIRE_INT(setsockopt(p.fd[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), ==, 0);
	CHECK_INT(look_meanwhile(END), ==, END | POLLERR | POLLHUP);
	tcp_pair_deinit(&p);
}

static void bytes_come_before_it(void)
{
	begin(10, NSEC_LONG);
	CHECK_INT(tcp_poll(&p.tcp[0], p.fd[0], END), ==, POLLIN);
	CHECK(!p.tcp[0].end_awaited);
	pair_expect(&p, 0, 100, 10);
	CHECK_INT(look_meanwhile(END), ==, END);
	tcp_pair_deinit(&p);
}

static void nobody_waits_who_only_sends(void)
{
	begin(0, NSEC_LONG);
	CHECK_INT(tcp_poll(&p.tcp[0], p.fd[0], POLLOUT) & POLLIN, ==, 0);
	CHECK(!p.tcp[0].end_awaited);
	tcp_pair_deinit(&p);
}

/* The last one: nobody waits for a while afterwards. */
static void a_word_that_nothing_follows(void)
{
	begin(0, NSEC_SHORT);
	CHECK_INT(tcp_poll(&p.tcp[0], p.fd[0], END), ==, 0);
	CHECK(p.tcp[0].end_awaited);
	tcp_end_nsec_wait = NSEC_LONG;
	CHECK_INT(tcp_poll(&p.tcp[0], p.fd[0], END), ==, 0);
	tcp_pair_deinit(&p);
	begin(0, NSEC_SHORT);
	CHECK_INT(tcp_poll(&p.tcp[0], p.fd[0], END), ==, 0);
	tcp_pair_deinit(&p);
}

static const struct test tests[] = {
	TEST(is_waited_for),
	TEST(is_waited_for_by_a_receive),
	TEST(is_a_reset_if_the_kernel_says_so),
	TEST(bytes_come_before_it),
	TEST(nobody_waits_who_only_sends),
	TEST(a_word_that_nothing_follows),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
