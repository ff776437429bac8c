/*
 * protocols/tcp_queue.c and urgent data: what the counts say of bytes in rings, in the kernel and
 * in both.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "rawsys.h"
#include "tcp_local.h"
#include "tcp_pair.h"

static struct tcp_pair p;

static uint64_t outq(int end)
{
	uint64_t size = UINT64_MAX;

	CHECK_INT(tcp_outq(&p.tcp[end], p.fd[end], &size), ==, 0);
	return size;
}

static void tell_info(int end, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	REQUIRE_INT(raw_getsockopt(p.fd[end], IPPROTO_TCP, TCP_INFO, info, &len), >=, 0);
	tcp_add_info(&p.tcp[end], info, len);
}

static void send_urgent(int end, unsigned char byte)
{
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	unsigned did = 0;

	REQUIRE_INT(tcp_push(&p.tcp[end], p.fd[end], &iov, 1, MSG_OOB, &did), ==, 1);
}

static void expect_urgent(int end, unsigned char byte)
{
	struct pollfd pfd = { .fd = p.fd[end], .events = POLLPRI };
	unsigned char got = 0;

	REQUIRE_INT(poll(&pfd, 1, 10000), ==, 1);
	CHECK_INT(recv(p.fd[end], &got, 1, MSG_OOB), ==, 1);
	CHECK_INT(got, ==, byte);
}

/* The first half of the largest ring stands for the receiver's queue. */
static void half_a_ring_counts_as_arrived(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send(&p, 0, 0, 60);
	pair_expect(&p, 1, 0, 10);
	CHECK_INT(outq(0), ==, 0);
	pair_send(&p, 0, 60, 1990);
	CHECK_INT(outq(0), ==, 0);
	pair_send(&p, 0, 2050, 1000);
	CHECK_INT(outq(0), ==, 3040 - 2048);
	pair_expect(&p, 1, 10, 3040);
	CHECK_INT(outq(0), ==, 0);
	tcp_pair_deinit(&p);
}

static void info_counts_both_ways(void)
{
	struct tcp_info before[2], after[2];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tell_info(0, &before[0]);
	tell_info(1, &before[1]);
	pair_send_kernel(&p, 0, 0, 100);
	pair_expect(&p, 1, 0, 100);
	tcp_pair_watch(&p);
	pair_send(&p, 0, 100, 50);
	pair_send(&p, 1, 0, 7);
	tell_info(0, &after[0]);
	tell_info(1, &after[1]);
	CHECK_INT(after[0].tcpi_bytes_sent - before[0].tcpi_bytes_sent, ==, 150);
	CHECK_INT(after[1].tcpi_bytes_received - before[1].tcpi_bytes_received, ==, 150);
	CHECK_INT(after[1].tcpi_bytes_sent - before[1].tcpi_bytes_sent, ==, 7);
	CHECK_INT(after[0].tcpi_bytes_received - before[0].tcpi_bytes_received, ==, 7);
	tcp_pair_deinit(&p);
}

static void info_of_an_old_program_is_left_alone(void)
{
	char info[offsetof(struct tcp_info, tcpi_bytes_acked) + 4];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send(&p, 0, 0, 50);
	memset(info, 0, sizeof(info));
	tcp_add_info(&p.tcp[0], info, sizeof(info));
	for (size_t i = 0; i < sizeof(info); i++)
		CHECK_INT(info[i], ==, 0);
	tcp_pair_deinit(&p);
}

static void urgent_data_ends_the_ring(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send(&p, 0, 0, 40);
	pair_expect(&p, 1, 0, 10);
	send_urgent(0, 'u');
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_ENDED);
	expect_urgent(1, 'u');
	CHECK(!tcp_at_mark(&p.tcp[1], p.fd[1]));
	pair_expect(&p, 1, 10, 30);
	CHECK(tcp_at_mark(&p.tcp[1], p.fd[1]));
	pair_send(&p, 0, 40, 20);
	pair_expect(&p, 1, 40, 20);
	CHECK(!tcp_at_mark(&p.tcp[1], p.fd[1]));
	tcp_pair_deinit(&p);
}

/* Kernel, ring, urgent byte, kernel: all sent before the receiver looks for the first time. */
static void urgent_data_does_not_upset_the_count(void)
{
	for (int how = 0; how < 3; how++) {
		tcp_pair_init(&p, tcp_pair_small_rings);
		pair_send_kernel(&p, 0, 0, 100);
		tcp_pair_watch(&p);
		pair_send(&p, 0, 100, 50);
		send_urgent(0, 'u');
		pair_send(&p, 0, 150, 30);
		if (how == 1)
			CHECK_INT(tcp_shutdown(&p.tcp[0], p.fd[0], SHUT_WR), ==, 0);
		if (how == 2)
			expect_urgent(1, 'u');
		pair_expect(&p, 1, 0, 180);
		CHECK_INT(pair_pull(&p, 1, (char[1]){ 0 }, 1, 0), ==, how == 1 ? 0 : -EAGAIN);
		tcp_pair_deinit(&p);
	}
}

static void urgent_data_before_the_switch_prevents_it(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	send_urgent(0, 'u');
	tcp_pair_watch(&p);
	pair_send(&p, 0, 0, 50);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	expect_urgent(1, 'u');
	pair_expect(&p, 1, 0, 50);
	tcp_pair_deinit(&p);
}

/* What lies behind the ring is received with it, up to a mark. */
static void one_call_spans_ring_and_kernel(void)
{
	unsigned char buf[100];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	pair_send(&p, 0, 0, 40);
	pair_expect(&p, 1, 0, 10);
	tcp_keep_on_kernel(&p.tcp[0]);
	pair_send(&p, 0, 40, 20);
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), MSG_PEEK), ==, 50);
	CHECK(bytes_match(buf, 10, 50));
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), 0), ==, 50);
	CHECK(bytes_match(buf, 10, 50));
	tcp_pair_deinit(&p);
}

/* To ask for a mark changes how urgent data is received, for a moment; two who ask at once leave it
 * as it was. */
static void *ask_for_mark(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 200; i++)
		(void)tcp_mark_is_behind(&p.tcp[1], p.fd[1], 10);
	return NULL;
}

static void a_mark_is_asked_for_by_one_at_a_time(void)
{
	pthread_t thread;
	int in_line = 0;
	socklen_t len = sizeof(in_line);

	tcp_pair_init(&p, tcp_pair_small_rings);
	pair_send_kernel(&p, 0, 0, 10);
	for (unsigned i = 0; i < 50 && !in_line; i++) {
		REQUIRE_INT(pthread_create(&thread, NULL, ask_for_mark, NULL), ==, 0);
		(void)ask_for_mark(NULL);
		REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
		REQUIRE_INT(raw_getsockopt(p.fd[1], SOL_SOCKET, SO_OOBINLINE, &in_line, &len), >=,
			    0);
	}
	CHECK_INT(in_line, ==, 0);
	pair_expect(&p, 1, 0, 10);
	send_urgent(0, 'u');
	expect_urgent(1, 'u');
	tcp_pair_deinit(&p);
}

static const struct test tests[] = {
	TEST(half_a_ring_counts_as_arrived),	    TEST(info_counts_both_ways),
	TEST(info_of_an_old_program_is_left_alone), TEST(urgent_data_ends_the_ring),
	TEST(urgent_data_does_not_upset_the_count), TEST(urgent_data_before_the_switch_prevents_it),
	TEST(one_call_spans_ring_and_kernel),	    TEST(a_mark_is_asked_for_by_one_at_a_time),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
