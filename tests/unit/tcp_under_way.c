/*
 * protocols/tcp*: the ring has bytes, and the kernel's last ones, which are before them, have not
 * all come yet. To receive, to poll and to count say the same of that.
 */
#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <sys/socket.h>

#include "harness.h"
#include "tcp_pair.h"

static struct tcp_pair p;

/* All that comes to an end from now on is lost, until it is sent once more (by a timer of the
 * kernel's, if the filter has gone by then). */
static void lose_arrivals(int end, bool lose)
{
	struct sock_filter nothing = { .code = BPF_RET | BPF_K, .k = 0 };
	struct sock_fprog program = { .len = 1, .filter = &nothing };

	REQUIRE_INT(setsockopt(p.fd[end], SOL_SOCKET, lose ? SO_ATTACH_FILTER : SO_DETACH_FILTER,
			       &program, sizeof(program)),
		    ==, 0);
}

static uint64_t inq(int end)
{
	uint64_t size = UINT64_MAX;

	CHECK_INT(tcp_inq(&p.tcp[end], p.fd[end], &size), ==, 0);
	return size;
}

static void expect_nothing(int end)
{
	unsigned char byte;

	CHECK_INT(inq(end), ==, 0);
	CHECK(!tcp_has(&p.tcp[end], p.fd[end], 1));
	CHECK_INT(tcp_ready(&p.tcp[end], POLLIN), ==, 0);
	CHECK_INT(tcp_poll(&p.tcp[end], p.fd[end], POLLIN), ==, 0);
	CHECK_INT(pair_pull(&p, end, &byte, 1, 0), ==, -EAGAIN);
	CHECK_INT(pair_pull(&p, end, &byte, 1, MSG_PEEK), ==, -EAGAIN);
}

/* The ring has bytes, and the kernel's last ones, which are before them, have not come yet. */
static void bytes_under_way_through_the_kernel(void)
{
	unsigned char buf[30];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	lose_arrivals(1, true);
	pair_send_kernel(&p, 0, 0, 10);
	pair_send(&p, 0, 10, 20);
	REQUIRE_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	CHECK(tcp_is_split(&p.tcp[1]));
	expect_nothing(1);
	lose_arrivals(1, false);
	while (!(tcp_poll(&p.tcp[1], p.fd[1], POLLIN) & POLLIN))
		sched_yield();
	CHECK_INT(inq(1), ==, 30);
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), 0), ==, 30);
	CHECK(bytes_match(buf, 0, 30));
	tcp_pair_deinit(&p);
}

static void some_bytes_have_come_and_some_are_under_way(void)
{
	unsigned char buf[30];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send_kernel(&p, 0, 0, 4);
	while (inq(1) < 4)
		sched_yield();
	lose_arrivals(1, true);
	pair_send_kernel(&p, 0, 4, 6);
	pair_send(&p, 0, 10, 20);
	CHECK_INT(inq(1), ==, 4);
	CHECK(tcp_has(&p.tcp[1], p.fd[1], 4));
	CHECK(!tcp_has(&p.tcp[1], p.fd[1], 5));
	CHECK_INT(tcp_poll(&p.tcp[1], p.fd[1], POLLIN), ==, POLLIN);
	atomic_store(&p.tcp[1].ring.own->rcvlowat, 5);
	CHECK(tcp_is_split_enough(&p.tcp[1], p.fd[1]));
	CHECK_INT(tcp_ready(&p.tcp[1], POLLIN), ==, 0);
	atomic_store(&p.tcp[1].ring.own->rcvlowat, 1);
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), 0), ==, 4);
	expect_nothing(1);
	lose_arrivals(1, false);
	pair_expect(&p, 1, 4, 26);
	tcp_pair_deinit(&p);
}

/* Another process of the family has sent urgent data, and what comes behind that stays with it: the
 * kernel's count of what is unread stops there. */
static void nobody_begins_a_ring_behind_urgent_data(void)
{
	struct tcp family;
	struct iovec iov = { "abU", 3 };
	unsigned char buf[30];
	unsigned did = 0;

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	family = p.tcp[0];
	CHECK_INT(tcp_push(&family, p.fd[0], &iov, 1, MSG_OOB, &did), ==, 3);
	pair_send(&p, 0, 10, 20);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	CHECK(!tcp_is_ending(&p.tcp[0]));
	while (inq(1) < 2)
		sched_yield();
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), MSG_PEEK | MSG_TRUNC), ==, 2);
	tcp_pair_deinit(&p);
}

/* A peer that counts fewer bytes than came: who polls is told to receive, and that ends the
 * connection. */
static void a_count_that_cannot_be_is_an_error_to_be_had(void)
{
	unsigned char buf[10];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send_kernel(&p, 0, 0, 10);
	pair_send(&p, 0, 10, 20);
	pair_expect(&p, 1, 0, 5);
	atomic_store(&p.tcp[0].ring.own->kernel_at, 1);
	CHECK(tcp_has(&p.tcp[1], p.fd[1], 1));
	CHECK_INT(tcp_poll(&p.tcp[1], p.fd[1], POLLIN), ==, POLLIN);
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), 0), ==, -ECONNRESET);
	tcp_pair_deinit(&p);
}

static const struct test tests[] = {
	TEST(bytes_under_way_through_the_kernel),
	TEST(some_bytes_have_come_and_some_are_under_way),
	TEST(nobody_begins_a_ring_behind_urgent_data),
	TEST(a_count_that_cannot_be_is_an_error_to_be_had),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
