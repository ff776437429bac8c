/*
 * protocols/udp_send.c: a receiver that is behind is sent more slowly once the queue can't grow,
 * and gets each datagram out of the queue; one that takes nothing fills it, and what does not fit
 * is for the kernel.
 */
#include <errno.h>
#include <pthread.h>

#include "clock.h"
#include "harness.h"
#include "queue.h"
#include "tcp_pair.h"
#include "udp.h"

#define N_DATAGRAMS 20000u

static const uint32_t size_ring[SHM_N_RINGS] = { 4096, 8192, 16384, 32768, 65536 };

static struct {
	struct tcp_pair pair; /* its rings, as a flow's */
	struct udp_flow flow;
	uint64_t size_credit;
} v;

static bool grant(uint64_t size)
{
	v.size_credit += size;
	return true;
}

static void begin(void)
{
	udp_take_credit = grant;
	v.size_credit = 0;
	tcp_pair_init(&v.pair, size_ring);
	v.flow = (struct udp_flow){ .ring = v.pair.tcp[0].ring, .size_max = 8192 };
	v.flow.kernel_seen = udp_kernel_sends(v.flow.port);
	shm_notice_set(&v.pair.tcp[1].ring, SHM_RX_READY);
}

static ssize_t push(uint32_t i)
{
	struct iovec iov = { .iov_base = &i, .iov_len = sizeof(i) };

	return udp_push(&v.flow, &iov, 1, sizeof(i));
}

/* -EAGAIN: there is none. */
static int pull(uint32_t *ret_i)
{
	struct iovec iov = { .iov_base = ret_i, .iov_len = sizeof(*ret_i) };
	struct shm_stream *s = &v.pair.tcp[1].ring;
	struct shm_datagram d;
	int n = shm_queue_next(s, &d);

	if (n <= 0)
		return n ? n : -EAGAIN;
	REQUIRE_INT(shm_queue_copy(s, &d, &iov, 1), ==, sizeof(*ret_i));
	(void)shm_queue_drop(s, &d);
	return 0;
}

static void a_full_queue_has_grown_and_keeps_all(void)
{
	uint32_t n = 0, i;

	begin();
	while (push(n) > 0)
		n++;
	CHECK_INT(push(n), ==, -EAGAIN);
	CHECK_INT(v.size_credit, ==, size_ring[1] + size_ring[2] + size_ring[3] + size_ring[4]);
	CHECK_INT(n, >=, size_ring[4] / shm_queue_size(sizeof(i)));
	for (uint32_t k = 0; k < n; k++) {
		REQUIRE_INT(pull(&i), ==, 0);
		CHECK_INT(i, ==, k);
	}
	CHECK_INT(pull(&i), ==, -EAGAIN);
	tcp_pair_deinit(&v.pair);
}

static void what_is_filled_is_looked_up_beyond_enough(void)
{
	uint64_t size = shm_queue_size(sizeof(uint32_t));
	uint32_t i;

	begin();
	for (i = 0; i < 10; i++)
		REQUIRE_INT(push(i), ==, sizeof(i));
	CHECK_INT(shm_tx_filled(&v.flow.ring, 10 * size), ==, 0);
	CHECK_INT(shm_tx_filled(&v.flow.ring, 10 * size - 1), ==, 10 * size);
	while (pull(&i) == 0)
		continue;
	CHECK_INT(shm_tx_filled(&v.flow.ring, 0), ==, 0);
	tcp_pair_deinit(&v.pair);
}

/* The last look was a little later than what the next datagram's time says, and nothing was sent
 * since. */
static void a_time_that_goes_back_is_no_stall(void)
{
	uint32_t i;

	begin();
	for (i = 0; i < 10; i++)
		REQUIRE_INT(push(i), ==, sizeof(i));
	v.flow.stamp_looked += 1000 * 1000;
	v.flow.head_looked = shm_sent(&v.flow.ring);
	REQUIRE_INT(push(i), ==, sizeof(i));
	tcp_pair_deinit(&v.pair);
}

static void *take_all(void *unused)
{
	uint64_t until;
	uint32_t i;

	for (uint32_t k = 0; k < N_DATAGRAMS; k++) {
		while (pull(&i) == -EAGAIN)
			continue;
		CHECK_INT(i, ==, k);
		until = nsec_now() + 300;
		while (nsec_now() < until)
			continue;
	}
	return unused;
}

/* Many times what the queue holds, to one who needs longer for each than we. */
static void a_slow_receiver_gets_everything_in_order(void)
{
	pthread_t thread;

	begin();
	REQUIRE_INT(pthread_create(&thread, NULL, take_all, NULL), ==, 0);
	for (uint32_t i = 0; i < N_DATAGRAMS; i++) {
		while (push(i) == -EAGAIN)
			continue;
	}
	REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
	tcp_pair_deinit(&v.pair);
}

static const struct test tests[] = {
	TEST(a_full_queue_has_grown_and_keeps_all),
	TEST(what_is_filled_is_looked_up_beyond_enough),
	TEST(a_time_that_goes_back_is_no_stall),
	TEST(a_slow_receiver_gets_everything_in_order),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
