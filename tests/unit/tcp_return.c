/*
 * protocols/tcp_return.c: one end goes back to the kernel while bytes lie in the rings. From then
 * on it is played by plain system calls, as a program without PULC would make them.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "tcp_local.h"
#include "tcp_pair.h"

static struct tcp_pair p;

static void begin(const uint32_t size_ring[SHM_N_RINGS])
{
	tcp_pair_init(&p, size_ring);
	tcp_pair_watch(&p);
}

static void leave(int end)
{
	REQUIRE_INT(tcp_leave(&p.tcp[end], p.fd[end]), ==, 0);
}

static void nothing_in_kernel(int end)
{
	CHECK_INT(recv(p.fd[end], (char[1]){ 0 }, 1, MSG_DONTWAIT), ==, -1);
	CHECK_INT(errno, ==, EAGAIN);
}

static void unread_bytes_come_through_the_kernel(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 0, 0, 30);
	pair_expect(&p, 1, 0, 10);
	pair_send(&p, 1, 0, 500); /* more than one ring */
	pair_expect(&p, 0, 0, 7);
	leave(0);
	nothing_in_kernel(0);
	CHECK(!tcp_is_returned(&p.tcp[0]));
	CHECK(tcp_owes(&p.tcp[1]));
	CHECK_INT(tcp_return(&p.tcp[1], p.fd[1]), ==, 1);
	CHECK(!tcp_owes(&p.tcp[1]));
	CHECK(tcp_is_returned(&p.tcp[0]));
	pair_expect_kernel(&p, 0, 7, 493);
	/* Both directions go on. */
	pair_send_kernel(&p, 0, 30, 40);
	pair_expect(&p, 1, 10, 60);
	pair_send(&p, 1, 500, 40);
	pair_expect_kernel(&p, 0, 500, 40);
	tcp_pair_deinit(&p);
}

static void own_library_goes_on_with_the_kernel(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 300);
	leave(0);
	pair_send(&p, 1, 300, 50);
	pair_expect(&p, 0, 0, 350);
	CHECK_INT(pair_pull(&p, 0, (char[1]){ 0 }, 1, 0), ==, -EAGAIN);
	CHECK_INT(tcp_poll(&p.tcp[0], p.fd[0], POLLIN), ==, 0);
	pair_send(&p, 0, 0, 20);
	pair_expect(&p, 1, 0, 20);
	tcp_pair_deinit(&p);
}

/* The peer is still in the kernel part: it never sees our ring. */
static void unseen_ring_is_returned_by_its_sender(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	pair_send_kernel(&p, 0, 0, 100);
	tcp_pair_watch(&p);
	pair_send(&p, 0, 100, 200);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_RING);
	leave(0);
	pair_send_kernel(&p, 0, 300, 100);
	pair_expect(&p, 1, 0, 400);
	tcp_pair_deinit(&p);
}

static void nothing_switches_afterwards(void)
{
	begin(tcp_pair_small_rings);
	leave(0);
	pair_send(&p, 0, 0, 10);
	pair_send(&p, 1, 0, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	CHECK_INT(shm_tx_mode(&p.tcp[1].ring), ==, SHM_TX_KERNEL);
	pair_expect(&p, 1, 0, 10);
	pair_expect(&p, 0, 0, 10);
	tcp_pair_deinit(&p);
}

static void second_to_leave_reads_its_ring_first(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 0, 0, 50);
	pair_expect(&p, 1, 0, 1);
	pair_send(&p, 1, 0, 60);
	leave(0);
	CHECK_INT(tcp_leave(&p.tcp[1], p.fd[1]), ==, -EBUSY);
	pair_expect_kernel(&p, 0, 0, 60);
	pair_expect(&p, 1, 1, 49);
	leave(1);
	tcp_pair_deinit(&p);
}

static void shut_down_before_is_too_late(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	CHECK_INT(tcp_shutdown(&p.tcp[1], p.fd[1], SHUT_WR), ==, 0);
	CHECK_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, -EBUSY);
	pair_expect(&p, 0, 0, 60);
	CHECK_INT(pair_pull(&p, 0, (char[1]){ 0 }, 1, 0), ==, 0);
	CHECK_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, 0); /* nothing is left behind */
	tcp_pair_deinit(&p);
}

/* The peer gets no processor between its word and its look for ours. */
static void leave_a_peer_that_is_stopped_in_its_end(void)
{
	uint64_t usual = tcp_leave_nsec_wait;

	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	REQUIRE(shm_lock(&p.tcp[1].ring.own->tx_lock));
	shm_notice_set(&p.tcp[1].ring, SHM_TX_FIN);
	tcp_leave_nsec_wait = 1000000;
	CHECK_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, -ETIMEDOUT);
	tcp_leave_nsec_wait = usual;
	nothing_in_kernel(0);
}

/* Who goes on leaving, be it this connection or another one, does not wait as long once more. */
static void peers_that_are_stopped_are_waited_for_together(void)
{
	uint64_t usual = tcp_leave_nsec_wait, begun;

	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	REQUIRE(shm_lock(&p.tcp[1].ring.own->tx_lock));
	shm_notice_set(&p.tcp[1].ring, SHM_TX_FIN);
	tcp_leave_nsec_wait = NSEC_PER_SEC;
	CHECK_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, -ETIMEDOUT);
	begun = nsec_now();
	CHECK(tcp_goes_outside(&p.tcp[0]));
	CHECK_INT(nsec_now() - begun, <, NSEC_PER_SEC);
	shm_unlock(&p.tcp[1].ring.own->tx_lock);
	tcp_leave_nsec_wait = usual;
	tcp_pair_deinit(&p);
	while (nsec_now() < begun + 2 * NSEC_PER_SEC) /* the next one has its own time */
		(void)poll(NULL, 0, 100);
}

static void who_ends_while_it_is_left_is_read_later(void)
{
	leave_a_peer_that_is_stopped_in_its_end();
	CHECK(tcp_owes(&p.tcp[1]));
	CHECK(!tcp_return_last(&p.tcp[1], p.fd[1], TCP_LAST_SHUT));
	shm_unlock(&p.tcp[1].ring.own->tx_lock);
	CHECK_INT(shutdown(p.fd[1], SHUT_WR), ==, 0);
	CHECK(!tcp_goes_outside(&p.tcp[0]));
	pair_expect_kernel(&p, 0, 0, 60);
	CHECK_INT(recv(p.fd[0], (char[1]){ 0 }, 1, 0), ==, 0);
	tcp_pair_deinit(&p);
}

static void who_ends_while_it_is_left_is_read_at_once(void)
{
	leave_a_peer_that_is_stopped_in_its_end();
	CHECK_INT(tcp_reclaim(&p.tcp[0]), ==, 1);
	pair_expect(&p, 0, 0, 60);
	CHECK(!tcp_owes(&p.tcp[1]));
	shm_unlock(&p.tcp[1].ring.own->tx_lock);
	CHECK_INT(shutdown(p.fd[1], SHUT_WR), ==, 0);
	CHECK_INT(pair_pull(&p, 0, (char[1]){ 0 }, 1, 0), ==, 0);
	tcp_pair_deinit(&p);
}

/* A program that knows nothing of rings is to have all or a reset. */
static void who_has_ended_unseen_is_not_left_to_a_program_outside(void)
{
	leave_a_peer_that_is_stopped_in_its_end();
	CHECK(tcp_goes_outside(&p.tcp[0]));
	tcp_close_for_outside(&p.tcp[0], p.fd[0]);
	CHECK_INT(recv(p.fd[0], (char[1]){ 0 }, 1, 0), ==, -1);
	CHECK_INT(errno, ==, ECONNRESET);
	shm_unlock(&p.tcp[1].ring.own->tx_lock);
	tcp_pair_deinit(&p);
}

static void died_before_is_too_late(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	(void)close(p.fd[1]);
	p.fd[1] = -1;
	CHECK_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, -EBUSY);
	pair_expect(&p, 0, 0, 60);
	tcp_pair_deinit(&p);
}

static void shut_down_afterwards_sends_all(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	leave(0);
	CHECK_INT(tcp_shutdown(&p.tcp[1], p.fd[1], SHUT_WR), ==, 0);
	pair_expect_kernel(&p, 0, 0, 60);
	CHECK_INT(recv(p.fd[0], (char[1]){ 0 }, 1, 0), ==, 0);
	tcp_pair_deinit(&p);
}

static void closed_afterwards_sends_all(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	leave(0);
	tcp_close(&p.tcp[1], p.fd[1]);
	(void)close(p.fd[1]);
	p.fd[1] = -1;
	pair_expect_kernel(&p, 0, 0, 60);
	CHECK_INT(recv(p.fd[0], (char[1]){ 0 }, 1, 0), ==, 0);
	tcp_pair_deinit(&p);
}

/* Programs that have the socket by now write past whoever takes it up again. */
static void who_left_once_does_not_switch(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	leave(0);
	p.tcp[0].no_switch = false; /* a process's own: the next program's is new */
	CHECK_INT(tcp_reclaim(&p.tcp[0]), ==, 1);
	pair_expect(&p, 0, 0, 60);
	pair_send(&p, 0, 0, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[0].ring), ==, SHM_TX_KERNEL);
	pair_send_kernel(&p, 0, 10, 10);
	pair_expect(&p, 1, 0, 20);
	tcp_pair_deinit(&p);
}

/* Ends its ring for a reason of its own: what is in it can be had there only. */
static void ended_before_is_too_late(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 10);
	pair_expect(&p, 0, 0, 1);
	tcp_keep_on_kernel(&p.tcp[1]);
	pair_send(&p, 1, 10, 10);
	CHECK_INT(shm_tx_mode(&p.tcp[1].ring), ==, SHM_TX_ENDED);
	CHECK_INT(tcp_leave(&p.tcp[0], p.fd[0]), ==, -EBUSY);
	pair_expect(&p, 0, 1, 19);
	tcp_pair_deinit(&p);
}

static void unread_count_is_right_afterwards(void)
{
	uint64_t size;

	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 60);
	leave(0);
	CHECK_INT(tcp_return(&p.tcp[1], p.fd[1]), ==, 1);
	CHECK_INT(tcp_inq(&p.tcp[0], p.fd[0], &size), ==, 0);
	CHECK_INT(size, ==, 60);
	pair_expect(&p, 0, 0, 60);
	CHECK_INT(tcp_inq(&p.tcp[0], p.fd[0], &size), ==, 0);
	CHECK_INT(size, ==, 0);
	CHECK_INT(tcp_outq(&p.tcp[1], p.fd[1], &size), ==, 0);
	CHECK_INT(size, ==, 0);
	tcp_pair_deinit(&p);
}

static void left_behind_can_be_reclaimed(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 300);
	pair_expect(&p, 0, 0, 10);
	leave(0);
	CHECK(tcp_poll(&p.tcp[0], p.fd[0], POLLIN) & POLLIN);
	REQUIRE_INT(tcp_reclaim(&p.tcp[0]), ==, 1);
	CHECK(!tcp_owes(&p.tcp[1]));
	pair_expect(&p, 0, 10, 290);
	/* From then on the peer uses the kernel. */
	pair_send(&p, 1, 300, 40);
	CHECK_INT(shm_tx_mode(&p.tcp[1].ring), ==, SHM_TX_ENDED);
	pair_expect(&p, 0, 300, 40);
	leave(0);
	pair_send(&p, 1, 340, 40);
	pair_expect_kernel(&p, 0, 340, 40);
	tcp_pair_deinit(&p);
}

static void kernel_part_can_be_reclaimed(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	pair_send_kernel(&p, 1, 0, 100);
	tcp_pair_watch(&p);
	pair_send(&p, 1, 100, 200);
	leave(0);
	REQUIRE_INT(tcp_reclaim(&p.tcp[0]), ==, 1);
	pair_expect(&p, 0, 0, 300);
	tcp_pair_deinit(&p);
}

static void returned_cannot_be_reclaimed(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 300);
	leave(0);
	CHECK_INT(tcp_return(&p.tcp[1], p.fd[1]), ==, 1);
	CHECK_INT(tcp_reclaim(&p.tcp[0]), ==, 0);
	pair_expect_kernel(&p, 0, 0, 300);
	tcp_pair_deinit(&p);
}

/* The sender ends its ring in the moment in which the reclaimer has taken its flag back. */
static void ended_meanwhile_can_be_reclaimed(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 30);
	pair_expect(&p, 0, 0, 10);
	leave(0);
	shm_rx_stay(&p.tcp[0].ring);
	tcp_keep_on_kernel(&p.tcp[1]);
	pair_send(&p, 1, 30, 40);
	REQUIRE_INT(shm_tx_mode(&p.tcp[1].ring), ==, SHM_TX_ENDED);
	shm_notice_set(&p.tcp[0].ring, SHM_LEFT);
	REQUIRE_INT(tcp_reclaim(&p.tcp[0]), ==, 1);
	pair_expect(&p, 0, 10, 60);
	tcp_pair_deinit(&p);
}

/* A peer that has just seen that we have left, and says so, but not yet what it does about it. */
static void nothing_is_read_while_the_peer_decides(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 30);
	leave(0);
	shm_notice_set(&p.tcp[1].ring, SHM_DECIDES);
	CHECK_INT(tcp_reclaim(&p.tcp[0]), ==, -EAGAIN);
	shm_notice_take_back(&p.tcp[1].ring, SHM_DECIDES);
	REQUIRE_INT(tcp_reclaim(&p.tcp[0]), ==, 1);
	pair_expect(&p, 0, 0, 30);
	tcp_pair_deinit(&p);
}

static void left_for_good_is_not_reclaimed(void)
{
	begin(tcp_pair_small_rings);
	pair_send(&p, 1, 0, 300);
	leave(0);
	tcp_leave_for_good(&p.tcp[0]);
	CHECK(!tcp_may_reclaim(&p.tcp[0]));
	CHECK_INT(tcp_reclaim(&p.tcp[0]), ==, 0);
	tcp_pair_deinit(&p);
}

/* Both directions at full speed; end 0 leaves somewhere in the middle. */
#define N_BYTES (1u << 20)

static _Atomic bool left, all_received, broken;
static bool reclaims;

static void *sender(void *arg)
{
	int end = (int)(intptr_t)arg;
	unsigned seed = 7u + (unsigned)end;
	unsigned char buf[3000];
	uint64_t at = 0;
	ssize_t n;

	while (at < N_BYTES && !broken) {
		size_t len = (size_t)rand_r(&seed) % sizeof(buf) + 1;

		len = len > N_BYTES - at ? N_BYTES - at : len;
		bytes_fill(buf, at, len);
		n = end == 0 && left ? send(p.fd[0], buf, len, MSG_DONTWAIT)
				     : pair_push(&p, end, buf, len);
		if (n < 0)
			sched_yield();
		at += n > 0 ? (uint64_t)n : 0;
	}
	return NULL;
}

/* One receive the way a process of end `end` makes it: from the kernel once it has left, unless it
 * changes its mind. */
static ssize_t receive(int end, void *buf, size_t len)
{
	int e = 1;

	if (end == 1 || !left)
		return pair_pull(&p, end, buf, len, 0);
	if (tcp_has_left(&p.tcp[0]))
		e = reclaims ? tcp_reclaim(&p.tcp[0]) : 0;
	if (e < 0)
		return e;
	return e ? pair_pull(&p, 0, buf, len, 0) : recv(p.fd[0], buf, len, MSG_DONTWAIT);
}

static void *receiver(void *arg)
{
	int end = (int)(intptr_t)arg;
	unsigned seed = 70u + (unsigned)end, leave_at = (unsigned)rand() % N_BYTES;
	unsigned char buf[5000];
	uint64_t at = 0;
	ssize_t n;

	while (at < N_BYTES && !broken) {
		if (end == 0 && !left && at > leave_at) {
			while (tcp_leave(&p.tcp[0], p.fd[0]) == -EAGAIN)
				sched_yield();
			left = true;
		}
		n = receive(end, buf, (size_t)rand_r(&seed) % sizeof(buf) + 1);
		if (n == 0 || (n > 0 && !bytes_match(buf, at, (size_t)n)))
			broken = true;
		if (n < 0)
			sched_yield();
		at += n > 0 ? (uint64_t)n : 0;
	}
	if (end == 0)
		all_received = true;
	return NULL;
}

/* A program that does anything at all pays its debts. */
static void *payer(void *arg)
{
	while (!all_received) {
		(void)tcp_return(&p.tcp[1], p.fd[1]);
		sched_yield();
	}
	return arg;
}

static void rounds(void)
{
	void *(*const runs[])(void *) = { sender, receiver, sender, receiver, payer };
	pthread_t threads[5];

	for (unsigned round = 0; round < 60; round++) {
		begin(round % 2 ? tcp_pair_usual_rings : tcp_pair_small_rings);
		left = all_received = broken = false;
		for (int i = 0; i < 5; i++)
			REQUIRE_INT(pthread_create(&threads[i], NULL, runs[i],
						   (void *)(intptr_t)(i / 2 % 2)),
				    ==, 0);
		for (int i = 0; i < 5; i++)
			REQUIRE_INT(pthread_join(threads[i], NULL), ==, 0);
		REQUIRE(!broken);
		tcp_pair_deinit(&p);
	}
}

static void leaves_in_mid_stream(void)
{
	reclaims = false;
	rounds();
}

static void leaves_and_reclaims_in_mid_stream(void)
{
	reclaims = true;
	rounds();
}

static const struct test tests[] = {
	TEST(unread_bytes_come_through_the_kernel),
	TEST(own_library_goes_on_with_the_kernel),
	TEST(unseen_ring_is_returned_by_its_sender),
	TEST(nothing_switches_afterwards),
	TEST(second_to_leave_reads_its_ring_first),
	TEST(shut_down_before_is_too_late),
	TEST(peers_that_are_stopped_are_waited_for_together),
	TEST(who_ends_while_it_is_left_is_read_later),
	TEST(who_ends_while_it_is_left_is_read_at_once),
	TEST(who_has_ended_unseen_is_not_left_to_a_program_outside),
	TEST(died_before_is_too_late),
	TEST(shut_down_afterwards_sends_all),
	TEST(closed_afterwards_sends_all),
	TEST(who_left_once_does_not_switch),
	TEST(ended_before_is_too_late),
	TEST(unread_count_is_right_afterwards),
	TEST(left_behind_can_be_reclaimed),
	TEST(kernel_part_can_be_reclaimed),
	TEST(returned_cannot_be_reclaimed),
	TEST(ended_meanwhile_can_be_reclaimed),
	TEST(nothing_is_read_while_the_peer_decides),
	TEST(left_for_good_is_not_reclaimed),
	TEST(leaves_in_mid_stream),
	TEST(leaves_and_reclaims_in_mid_stream),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
