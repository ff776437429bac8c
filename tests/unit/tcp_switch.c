/*
 * protocols/tcp*: the switch at a counted byte in each direction, growth, the way back to the
 * kernel, the end of a stream; bytes compared throughout.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"
#include "rawsys.h"
#include "tcp_local.h"
#include "tcp_pair.h"

static struct tcp_pair p;

static void send_on_kernel(int end, uint64_t at, size_t len)
{
	pair_send_kernel(&p, end, at, len);
}

static void expect(int end, uint64_t at, size_t len)
{
	pair_expect(&p, end, at, len);
}

static void push(int end, uint64_t at, size_t len)
{
	pair_send(&p, end, at, len);
}

static void stays_on_kernel_until_watched(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	push(0, 0, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	expect(1, 0, 10);
	tcp_pair_watch(&p);
	push(0, 10, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	CHECK_INT(shm_tx_mode(&p.tcp[1].ring), ==, SHM_TX_KERNEL);
	expect(1, 10, 10);
	tcp_pair_deinit(&p);
}

static void counts_bytes_of_both_roles(void)
{
	for (int end = 0; end < 2; end++) {
		tcp_pair_init(&p, tcp_pair_small_rings);
		send_on_kernel(end, 0, 1000);
		tcp_pair_watch(&p);
		push(end, 1000, 50);
		CHECK_INT(shm_peer_kernel_at(&p.tcp[1 - end].ring), ==, 1000);
		expect(1 - end, 0, 1050);
		tcp_pair_deinit(&p);
	}
}

static void counts_bytes_read_behind_its_back(void)
{
	unsigned char buf[700];

	tcp_pair_init(&p, tcp_pair_small_rings);
	send_on_kernel(1, 0, 1000);
	tcp_pair_watch(&p);
	push(1, 1000, 50);
	REQUIRE_INT(read(p.fd[0], buf, sizeof(buf)), ==, (ssize_t)sizeof(buf));
	expect(0, 700, 350);
	tcp_pair_deinit(&p);
}

/* Whoever waits for more bytes than each part has: nobody tells of the kernel's, once the ring's
 * have come. */
static void parts_may_be_enough_together(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	send_on_kernel(1, 0, 3);
	tcp_pair_watch(&p);
	atomic_store(&p.tcp[0].ring.own->rcvlowat, 5);
	CHECK(!tcp_is_split_enough(&p.tcp[0], p.fd[0]));
	push(1, 3, 1);
	CHECK(tcp_is_split(&p.tcp[0]));
	CHECK(!tcp_is_split_enough(&p.tcp[0], p.fd[0]));
	push(1, 4, 1);
	CHECK(tcp_is_split_enough(&p.tcp[0], p.fd[0]));
	expect(0, 0, 5);
	CHECK(!tcp_is_split_enough(&p.tcp[0], p.fd[0]));
	tcp_pair_deinit(&p);
}

static void never_switches_with_a_sender_inside(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	p.tcp[0].n_native_sends = 1;
	push(0, 0, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	p.tcp[0].n_native_sends = 0;
	push(0, 10, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	expect(1, 0, 20);
	tcp_pair_deinit(&p);
}

/* Without a byte to send: the same switch, by the same conditions; the receiver goes over when it
 * has the kernel's part. */
static void begins_without_a_byte(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	send_on_kernel(0, 0, 100);
	tcp_begin(&p.tcp[0], p.fd[0]);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	tcp_pair_watch(&p);
	p.tcp[0].n_native_sends = 1;
	tcp_begin(&p.tcp[0], p.fd[0]);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	p.tcp[0].n_native_sends = 0;
	tcp_begin(&p.tcp[0], p.fd[0]);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	CHECK_INT(shm_peer_kernel_at(&p.tcp[1].ring), ==, 100);
	tcp_begin(&p.tcp[1], p.fd[1]);
	CHECK_INT(tcp_on_kernel(&p.tcp[1]), ==, POLLIN);
	expect(1, 0, 100);
	tcp_begin(&p.tcp[1], p.fd[1]);
	tcp_begin(&p.tcp[0], p.fd[0]);
	for (int end = 0; end < 2; end++) {
		CHECK_INT(tcp_on_kernel(&p.tcp[end]), ==, 0);
		push(end, end ? 0 : 100, 50);
		expect(1 - end, end ? 0 : 100, 50);
	}
	tcp_pair_deinit(&p);
}

/* What comes with an end is the kernel's to tell. */
static void does_not_begin_at_an_end(void)
{
	for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
		tcp_pair_init(&p, tcp_pair_small_rings);
		tcp_pair_watch(&p);
		REQUIRE_INT(tcp_shutdown(&p.tcp[0], p.fd[0], how), ==, 0);
		tcp_begin(&p.tcp[0], p.fd[0]);
		CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
		tcp_pair_deinit(&p);
	}
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	tcp_keep_on_kernel(&p.tcp[0]);
	for (int end = 0; end < 2; end++) {
		tcp_begin(&p.tcp[end], p.fd[end]);
		CHECK_INT(shm_tx_mode(&p.tcp[end].ring), ==, SHM_TX_KERNEL);
	}
	tcp_pair_deinit(&p);
}

static void never_watches_with_a_receiver_inside(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	p.tcp[1].n_native_receives = 1;
	CHECK(!tcp_watch(&p.tcp[1]));
	push(0, 0, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	p.tcp[1].n_native_receives = 0;
	CHECK(tcp_watch(&p.tcp[1]));
	tcp_pair_deinit(&p);
}

static void corked_bytes_are_pushed(void)
{
	int on = 1;

	tcp_pair_init(&p, tcp_pair_small_rings);
	REQUIRE_INT(raw_syscall(SYS_setsockopt, p.fd[0], 6, 3 /* TCP_CORK */, &on, sizeof(on), 0),
		    ==, 0);
	send_on_kernel(0, 0, 100);
	tcp_pair_watch(&p);
	push(0, 100, 10);
	expect(1, 0, 110);
	tcp_pair_deinit(&p);
}

static void grows_ring_by_ring(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	push(0, 0, 60);
	CHECK_INT(p.tcp[0].ring.tx_cur, ==, 0);
	push(0, 60, 60);
	CHECK_INT(p.tcp[0].ring.tx_cur, ==, 1);
	push(0, 120, 2000);
	CHECK_INT(p.tcp[0].ring.tx_cur, ==, 4);
	expect(1, 0, 2120);
	push(0, 2120, 4000);
	expect(1, 2120, 4000);
	tcp_pair_deinit(&p);
}

/* Each page of a larger ring is written for the first time some time. */
static void who_waits_for_answers_keeps_to_a_ring_for_one_message(void)
{
	const uint64_t size = 200 << 10;
	static unsigned char buf[200 << 10];

	tcp_pair_init(&p, tcp_pair_usual_rings);
	tcp_pair_watch(&p);
	for (uint64_t at = 0; at < 20 * size; at += size) {
		bytes_fill(buf, at, size);
		REQUIRE_INT(pair_push(&p, 0, buf, size), ==, size);
		for (uint64_t n = 0; n < size; n += 4096)
			expect(1, at + n, 4096);
	}
	CHECK_INT(p.tcp[0].ring.tx_size[p.tcp[0].ring.tx_cur], ==, 256 << 10);
	CHECK_INT(p.tcp[0].size_credit, ==, 256 << 10);
	tcp_pair_deinit(&p);
}

#define SIZE_LAST (2u << 20)

static void full_ring_takes_what_fits(void)
{
	/* The last one is as large as what programs rely on the kernel to hold: no way back from
	 * it. */
	static const uint32_t rings[SHM_N_RINGS] = { 64, 256, 512, 1024, SIZE_LAST };
	static unsigned char buf[2 * SIZE_LAST];

	tcp_pair_init(&p, rings);
	tcp_pair_watch(&p);
	bytes_fill(buf, 0, sizeof(buf));
	CHECK_INT(pair_push(&p, 0, buf, sizeof(buf)), ==, 64 + SIZE_LAST);
	CHECK_INT(pair_push(&p, 0, buf, 1), ==, -EAGAIN);
	CHECK(!tcp_ready(&p.tcp[0], POLLOUT));
	for (uint64_t at = 0; at < SIZE_LAST; at += 4096)
		expect(1, at, 4096);
	CHECK(tcp_ready(&p.tcp[0], POLLOUT));
	CHECK_INT(pair_push(&p, 0, buf + 64 + SIZE_LAST, 100), ==, 100);
	expect(1, SIZE_LAST, 164);
	tcp_pair_deinit(&p);
}

static enum tcp_credit grant_nothing(uint64_t size)
{
	(void)size;
	return TCP_CREDIT_DENIED;
}

static void no_credit_goes_back_to_the_kernel(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	tcp_take_credit = grant_nothing;
	push(0, 0, 20);
	expect(1, 0, 20); /* the receiver is past the kernel part: the direction may go back */
	{
		unsigned char buf[200];
		ssize_t n;

		bytes_fill(buf, 20, sizeof(buf));
		n = pair_push(&p, 0, buf, sizeof(buf));
		CHECK_INT(n, ==, 64);
		CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_ENDED);
		CHECK_INT(pair_push(&p, 0, buf + n, 200 - (size_t)n), ==, 200 - n);
	}
	expect(1, 20, 200);
	push(0, 220, 3000);
	expect(1, 220, 3000);
	tcp_pair_deinit(&p);
}

/* Who has read the ring out must look at the kernel, where bytes may have been since before. */
static void behind_the_ring_is_the_kernel(void)
{
	unsigned char buf[200];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	push(0, 0, 10);
	expect(1, 0, 10);
	CHECK_INT(tcp_on_kernel(&p.tcp[0]), ==, POLLIN);
	CHECK_INT(tcp_on_kernel(&p.tcp[1]), ==, POLLOUT);
	tcp_take_credit = grant_nothing;
	bytes_fill(buf, 10, sizeof(buf));
	CHECK_INT(pair_push(&p, 0, buf, 64), ==, 64);
	CHECK_INT(pair_push(&p, 0, buf + 64, 100), ==, 100);
	CHECK_INT(tcp_on_kernel(&p.tcp[0]), ==, POLLIN | POLLOUT);
	CHECK_INT(tcp_on_kernel(&p.tcp[1]), ==, POLLOUT);
	expect(1, 10, 64);
	CHECK_INT(tcp_on_kernel(&p.tcp[1]), ==, POLLIN | POLLOUT);
	CHECK_INT(tcp_ready(&p.tcp[1], POLLIN), ==, 0);
	CHECK_INT(tcp_poll(&p.tcp[1], p.fd[1], POLLIN), ==, POLLIN);
	expect(1, 74, 100);
	tcp_pair_deinit(&p);
}

static enum tcp_credit grant_later(uint64_t size)
{
	(void)size;
	return TCP_CREDIT_PENDING;
}

static void pending_credit_keeps_the_ring(void)
{
	unsigned char buf[200];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	tcp_take_credit = grant_later;
	bytes_fill(buf, 0, sizeof(buf));
	CHECK_INT(pair_push(&p, 0, buf, sizeof(buf)), ==, 64);
	CHECK(tcp_is_stuck(&p.tcp[0]));
	CHECK_INT(pair_push(&p, 0, buf, sizeof(buf)), ==, -EAGAIN);
	expect(1, 0, 64);
	push(0, 64, 30); /* it fits without growth */
	CHECK(!tcp_is_stuck(&p.tcp[0]));
	tcp_take_credit = tcp_pair_grant_everything;
	push(0, 94, 500);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	expect(1, 64, 530);
	tcp_pair_deinit(&p);
}

/* Programs may live off the kernel's buffers: a receiver that does not come must not stop a
 * sender. */
static void no_credit_and_nobody_receives(bool ends)
{
	unsigned char buf[20000];
	uint64_t size;

	tcp_pair_init(&p, tcp_pair_small_rings);
	send_on_kernel(0, 0, 100);
	tcp_pair_watch(&p);
	tcp_take_credit = grant_nothing;
	push(0, 100, 64);
	bytes_fill(buf, 164, sizeof(buf));
	CHECK_INT(pair_push(&p, 0, buf, sizeof(buf)), ==, (ssize_t)sizeof(buf));
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_ENDED);
	if (ends)
		CHECK_INT(tcp_shutdown(&p.tcp[0], p.fd[0], SHUT_WR), ==, 0);
	CHECK_INT(tcp_inq(&p.tcp[1], p.fd[1], &size), ==, 0);
	CHECK_INT(size, ==, 164 + sizeof(buf));
	expect(1, 0, 90);
	expect(1, 90, 50);
	CHECK_INT(tcp_inq(&p.tcp[1], p.fd[1], &size), ==, 0);
	CHECK_INT(size, ==, 24 + sizeof(buf));
	for (uint64_t at = 140; at < 164 + sizeof(buf); at += 1000)
		expect(1, at, MIN((size_t)1000, (size_t)(164 + sizeof(buf) - at)));
	CHECK_INT(pair_pull(&p, 1, buf, 1, 0), ==, ends ? 0 : -EAGAIN);
	tcp_pair_deinit(&p);
}

static void no_credit_and_nobody_receives_yet(void)
{
	no_credit_and_nobody_receives(false);
}

static void no_credit_and_nobody_receives_before_the_end(void)
{
	no_credit_and_nobody_receives(true);
}

/* Who gets less than he asked for waits for an edge, and that of what lies behind the ring may have
 * been told. */
static void one_receive_takes_all_three_parts(void)
{
	unsigned char buf[1000];

	tcp_pair_init(&p, tcp_pair_small_rings);
	send_on_kernel(0, 0, 100);
	tcp_pair_watch(&p);
	tcp_take_credit = grant_nothing;
	push(0, 100, 64);
	push(0, 164, 200);
	REQUIRE_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_ENDED);
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), 0), ==, 364);
	CHECK(bytes_match(buf, 0, 364));
	CHECK_INT(pair_pull(&p, 1, buf, sizeof(buf), 0), ==, -EAGAIN);
	push(0, 364, 30);
	expect(1, 364, 30);
	tcp_pair_deinit(&p);
}

/* A receive that holds its lock may have looked before the switch. */
static void no_end_while_a_receive_is_under_way(void)
{
	unsigned char buf[200];

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	tcp_take_credit = grant_nothing;
	push(0, 0, 64);
	REQUIRE(shm_lock(&p.tcp[1].ring.own->rx_lock));
	bytes_fill(buf, 64, sizeof(buf));
	CHECK_INT(pair_push(&p, 0, buf, sizeof(buf)), ==, -EAGAIN);
	CHECK(tcp_is_stuck(&p.tcp[0]));
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	shm_unlock(&p.tcp[1].ring.own->rx_lock);
	push(0, 64, sizeof(buf));
	CHECK(!tcp_is_stuck(&p.tcp[0]));
	expect(1, 0, 264);
	tcp_pair_deinit(&p);
}

static void receiver_asks_for_the_kernel(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	push(0, 0, 20);
	expect(1, 0, 10);
	tcp_keep_on_kernel(&p.tcp[1]);
	push(0, 20, 500);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_ENDED);
	expect(1, 10, 510);
	CHECK_INT(pair_pull(&p, 1, (char[1]){ 0 }, 1, 0), ==, -EAGAIN);
	tcp_pair_deinit(&p);
}

static void who_leaves_the_ring_is_stuck_no_more(void)
{
	unsigned char buf[200] = { 0 };

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	tcp_take_credit = grant_later;
	REQUIRE(pair_push(&p, 0, buf, sizeof(buf)) == 64 && tcp_is_stuck(&p.tcp[0]));
	tcp_keep_on_kernel(&p.tcp[1]);
	CHECK_INT(pair_push(&p, 0, buf, 1), ==, 1);
	CHECK(!tcp_is_stuck(&p.tcp[0]));
	tcp_pair_deinit(&p);
}

static void peek_spans_nothing_and_takes_nothing(void)
{
	unsigned char buf[64];
	uint64_t size;

	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	push(0, 0, 40);
	push(0, 40, 40);
	CHECK_INT(pair_pull(&p, 1, buf, 60, MSG_PEEK), ==, 60);
	CHECK(bytes_match(buf, 0, 60));
	CHECK_INT(tcp_inq(&p.tcp[1], p.fd[1], &size), ==, 0);
	CHECK_INT(size, ==, 80);
	expect(1, 0, 80);
	tcp_pair_deinit(&p);
}

static void end_comes_after_the_last_byte(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	push(0, 0, 30);
	CHECK_INT(tcp_shutdown(&p.tcp[0], p.fd[0], SHUT_WR), ==, 0);
	CHECK_INT(pair_push(&p, 0, "x", 1), ==, -EPIPE);
	CHECK(tcp_poll(&p.tcp[1], p.fd[1], POLLIN | POLLRDHUP) & POLLRDHUP);
	expect(1, 0, 30);
	CHECK_INT(pair_pull(&p, 1, (char[1]){ 0 }, 1, 0), ==, 0);
	CHECK_INT(pair_pull(&p, 1, (char[1]){ 0 }, 1, 0), ==, 0);
	push(1, 0, 20); /* the other direction goes on */
	expect(0, 0, 20);
	tcp_pair_deinit(&p);
}

static void closed_with_unread_bytes_is_a_reset(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	push(0, 0, 30);
	push(1, 0, 10);
	expect(1, 0, 10);
	tcp_close(&p.tcp[1], p.fd[1]);
	(void)close(p.fd[1]);
	p.fd[1] = -1;
	expect(0, 0, 10);
	CHECK(tcp_poll(&p.tcp[0], p.fd[0], POLLIN) & POLLERR);
	CHECK_INT(pair_pull(&p, 0, (char[1]){ 0 }, 1, 0), ==, -ECONNRESET);
	CHECK_INT(pair_pull(&p, 0, (char[1]){ 0 }, 1, 0), ==, 0);
	tcp_pair_deinit(&p);
}

static void killed_after_reading_all_is_an_end(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	push(0, 0, 30);
	push(1, 0, 10);
	expect(1, 0, 30);
	(void)close(p.fd[1]); /* no word of it in the area, as after SIGKILL */
	p.fd[1] = -1;
	expect(0, 0, 10);
	CHECK_INT(pair_pull(&p, 0, (char[1]){ 0 }, 1, 0), ==, 0);
	CHECK_INT(pair_push(&p, 0, "x", 1), ==, 1); /* as the kernel takes the first one */
	CHECK_INT(pair_push(&p, 0, "x", 1), ==, -EPIPE);
	tcp_pair_deinit(&p);
}

/* Both directions at once in random pieces, switches at random moments, small rings. */
#define N_BYTES (8u << 20)

static void *sender(void *arg)
{
	int end = (int)(intptr_t)arg;
	unsigned seed = 7u + (unsigned)end;
	unsigned char buf[3000];
	uint64_t at = 0;

	while (at < N_BYTES) {
		size_t len = (size_t)rand_r(&seed) % sizeof(buf) + 1, done = 0;

		if (len > N_BYTES - at)
			len = N_BYTES - at;
		bytes_fill(buf, at, len);
		while (done < len) {
			ssize_t n = pair_push(&p, end, buf + done, len - done);

			if (n < 0 && n != -EAGAIN)
				return (void *)1;
			if (n < 0)
				sched_yield();
			done += n > 0 ? (size_t)n : 0;
		}
		at += len;
	}
	return NULL;
}

static void *receiver(void *arg)
{
	int end = (int)(intptr_t)arg;
	unsigned seed = 70u + (unsigned)end;
	unsigned char buf[5000];
	uint64_t at = 0;

	while (at < N_BYTES) {
		ssize_t n = pair_pull(&p, end, buf, (size_t)rand_r(&seed) % sizeof(buf) + 1, 0);

		if (at > 5000)
			(void)tcp_watch(&p.tcp[end]);
		if (n == -EAGAIN)
			sched_yield();
		else if (n <= 0 || !bytes_match(buf, at, (size_t)n))
			return (void *)1;
		at += n > 0 ? (uint64_t)n : 0;
	}
	return NULL;
}

static void both_directions_keep_every_byte(void)
{
	pthread_t threads[4];
	void *failed;

	tcp_pair_init(&p, tcp_pair_small_rings);
	for (int i = 0; i < 2; i++) {
		REQUIRE_INT(pthread_create(&threads[i], NULL, sender, (void *)(intptr_t)i), ==, 0);
		REQUIRE_INT(pthread_create(&threads[2 + i], NULL, receiver, (void *)(intptr_t)i),
			    ==, 0);
	}
	for (int i = 0; i < 4; i++) {
		REQUIRE_INT(pthread_join(threads[i], &failed), ==, 0);
		CHECK(failed == NULL);
	}
	/* Rings this small give way to the kernel as soon as they are full. */
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), !=, SHM_TX_KERNEL);
	CHECK_INT(shm_tx_mode(&p.tcp[1].ring), !=, SHM_TX_KERNEL);
	tcp_pair_deinit(&p);
}

static const struct test tests[] = {
	TEST(stays_on_kernel_until_watched),
	TEST(counts_bytes_of_both_roles),
	TEST(counts_bytes_read_behind_its_back),
	TEST(parts_may_be_enough_together),
	TEST(never_switches_with_a_sender_inside),
	TEST(begins_without_a_byte),
	TEST(does_not_begin_at_an_end),
	TEST(never_watches_with_a_receiver_inside),
	TEST(corked_bytes_are_pushed),
	TEST(grows_ring_by_ring),
	TEST(who_waits_for_answers_keeps_to_a_ring_for_one_message),
	TEST(full_ring_takes_what_fits),
	TEST(no_credit_goes_back_to_the_kernel),
	TEST(behind_the_ring_is_the_kernel),
	TEST(pending_credit_keeps_the_ring),
	TEST(no_credit_and_nobody_receives_yet),
	TEST(no_credit_and_nobody_receives_before_the_end),
	TEST(one_receive_takes_all_three_parts),
	TEST(no_end_while_a_receive_is_under_way),
	TEST(receiver_asks_for_the_kernel),
	TEST(who_leaves_the_ring_is_stuck_no_more),
	TEST(peek_spans_nothing_and_takes_nothing),
	TEST(end_comes_after_the_last_byte),
	TEST(closed_with_unread_bytes_is_a_reset),
	TEST(killed_after_reading_all_is_an_end),
	TEST(both_directions_keep_every_byte),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
