/*
 * A peer that lies about datagrams: every word of its side, and the records in its ring, set to
 * every value that could hurt, while we send to it, receive from it, peek, poll, count and wait.
 * Nothing may crash, hang, or read outside its rings; a flow may end, and the sockets below go on.
 *
 * The victim is end 0. It has a flow to end 1, and one from it. The liar writes end 1's slabs
 * through mappings of its own, as the process behind it could.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "geometry.h"
#include "harness.h"
#include "liar.h"
#include "rawsys.h"
#include "tcp_pair.h"
#include "udp.h"

/* One direction: sender's and receiver's side of a queue. */
struct lane {
	struct shm_slab_map own[2], seen[2];
	struct udp_flow flow[2]; /* as end 0 and end 1 know it */
	int slab_fd[2];
};

static struct {
	int fd[2];
	struct sockaddr_in addr[2];
	struct lane lanes[2]; /* from end 0 to 1, from 1 to 0 */
	struct udp rx;	      /* end 0's */
} v;

static bool grant(uint64_t size)
{
	(void)size;
	return true;
}

static bool settled(const struct udp_entry *entry)
{
	(void)entry;
	return true;
}

static void lane_init(struct lane *l)
{
	uint64_t size;

	memset(l, 0, sizeof(*l));
	for (int end = 0; end < 2; end++) {
		l->slab_fd[end] = slab_make(tcp_pair_small_rings, 1, &size);
		REQUIRE_INT(shm_slab_map(l->slab_fd[end], size, true, &l->own[end]), ==, 0);
		REQUIRE_INT(shm_slab_map(l->slab_fd[end], size, false, &l->seen[end]), ==, 0);
	}
	for (int end = 0; end < 2; end++) {
		struct udp_flow *f = &l->flow[end];

		REQUIRE_INT(shm_stream_bind(&f->ring, &l->own[end], 0, &l->seen[!end], 0), ==, 0);
		f->name.in4 = v.addr[!end];
		f->len_name = sizeof(v.addr[0]);
		f->port = ntohs(v.addr[!end].sin_port);
		f->size_max = 60000;
		f->kernel_seen = udp_kernel_sends(f->port);
		shm_notice_set(&f->ring, SHM_RX_READY);
	}
}

static void lane_deinit(struct lane *l)
{
	for (int end = 0; end < 2; end++) {
		shm_slab_unmap(&l->own[end]);
		shm_slab_unmap(&l->seen[end]);
		(void)close(l->slab_fd[end]);
	}
}

static ssize_t push(struct udp_flow *f, size_t len)
{
	static char bytes[8192];
	struct iovec iov = { .iov_base = bytes, .iov_len = len };

	return udp_push(f, &iov, 1, len);
}

static ssize_t pull(int flags)
{
	static char bytes[65536];
	struct iovec iov = { .iov_base = bytes, .iov_len = sizeof(bytes) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct udp_got got = { .nsec_trust = 0 };
	ssize_t n = flags ? -EAGAIN : udp_pull_plain(&v.rx, &msg, pulse_about_now());

	return n >= 0 ? n : udp_pull(&v.rx, v.fd[0], &msg, flags, &got);
}

static void begin(void)
{
	udp_take_credit = grant;
	udp_settle_kernel = settled;
	for (int end = 0; end < 2; end++) {
		socklen_t len = sizeof(v.addr[end]);

		v.addr[end] = (struct sockaddr_in){ .sin_family = AF_INET,
						    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		v.fd[end] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		REQUIRE(v.fd[end] >= 0 &&
			bind(v.fd[end], (struct sockaddr *)&v.addr[end], len) == 0);
		REQUIRE(getsockname(v.fd[end], (struct sockaddr *)&v.addr[end], &len) == 0);
	}
	for (int i = 0; i < 2; i++)
		lane_init(&v.lanes[i]);
	memset(&v.rx, 0, sizeof(v.rx));
	v.rx.port = ntohs(v.addr[0].sin_port);
	REQUIRE(udp_add(&v.rx, v.fd[0], &v.lanes[1].flow[0]));
}

static void end(void)
{
	for (int i = 0; i < 2; i++) {
		lane_deinit(&v.lanes[i]);
		(void)close(v.fd[i]);
	}
}

/* Everything that an honest process does. */
static void live(void)
{
	struct udp_flow *to = &v.lanes[0].flow[0], *from = &v.lanes[1].flow[0];
	uint64_t watches[SHM_N_WATCHES];
	uint32_t size;

	for (int i = 0; i < 3; i++) {
		(void)push(to, 10);
		(void)push(to, 900);
		(void)pull(MSG_PEEK);
		(void)udp_poll(&v.rx, v.fd[0], POLLIN | POLLOUT);
		(void)udp_inq(&v.rx, v.fd[0], &size);
		(void)pull(0);
		(void)pull(MSG_TRUNC);
		(void)udp_mark(&v.rx);
		(void)udp_is_drained(from);
		(void)shm_collect_rx(&to->ring, watches);
		(void)shm_collect_tx(&from->ring, watches);
		if (udp_is_left(to))
			(void)udp_send_again(to, v.fd[0]);
	}
}

static _Atomic uint64_t *word_of(const struct lane *l, size_t i)
{
	return (_Atomic uint64_t *)shm_slab_side(&l->own[1], 0) + i;
}

static void an_honest_peer(void)
{
	begin();
	REQUIRE_INT(push(&v.lanes[1].flow[1], 20), ==, 20);
	REQUIRE_INT(push(&v.lanes[1].flow[1], 300), ==, 300);
	CHECK_INT(pull(MSG_PEEK), ==, 20);
	CHECK_INT(pull(0), ==, 20);
	CHECK_INT(pull(0), ==, 300);
	CHECK_INT(pull(0), ==, -EAGAIN);
	end();
}

static void each_word_each_value(void)
{
	for (size_t i = 0; i < sizeof(struct shm_side) / 8; i++) {
		for (size_t k = 0; k < LIAR_N_VALUES; k++) {
			begin();
			(void)push(&v.lanes[1].flow[1], 20);
			for (int lane = 0; lane < 2; lane++) {
				atomic_store(word_of(&v.lanes[lane], i), liar_values[k]);
				live();
				atomic_store(word_of(&v.lanes[lane], i), liar_values[k] + 1);
				live();
			}
			end();
		}
	}
	CHECK(true);
}

/* A record's own words: its time, its length, its flags. */
static void each_record_each_value(void)
{
	for (size_t k = 0; k < LIAR_N_VALUES; k++) {
		for (size_t i = 0; i < 2; i++) {
			begin();
			(void)push(&v.lanes[1].flow[1], 20);
			atomic_store(word_of(&v.lanes[1], offsetof(struct shm_side, inline_at) / 8),
				     SHM_NO_INLINE);
			atomic_store((_Atomic uint64_t *)v.lanes[1].flow[1].ring.tx_ring[0] + i,
				     liar_values[k]);
			live();
			end();
		}
	}
	CHECK(true);
}

/* A length beyond what was published ends the flow; the kernel's datagrams still come. */
static void a_length_that_lies_ends_the_flow(void)
{
	struct udp_flow *from = &v.lanes[1].flow[0];

	begin();
	(void)push(&v.lanes[1].flow[1], 20);
	atomic_store(word_of(&v.lanes[1], offsetof(struct shm_side, inline_at) / 8), SHM_NO_INLINE);
	atomic_store((_Atomic uint64_t *)v.lanes[1].flow[1].ring.tx_ring[0] + 1, 4000);
	CHECK_INT(pull(0), ==, -EAGAIN);
	CHECK(udp_is_drained(from));
	CHECK(shm_own_notice(&from->ring) & SHM_WANT_KERNEL);
	REQUIRE(sendto(v.fd[1], "real", 4, 0, (struct sockaddr *)&v.addr[0], sizeof(v.addr[0])) ==
		4);
	CHECK_INT(pull(0), ==, 4);
	CHECK_INT(push(&v.lanes[1].flow[1], 20), ==, -ESHUTDOWN);
	end();
}

/* A record of times long past goes before others by two turns of the rings, and no more. */
static void old_times_are_bounded(void)
{
	struct udp_flow *liar = &v.lanes[1].flow[1], *from = &v.lanes[1].flow[0];
	uint64_t floor = 0;

	begin();
	for (int i = 0; i < 600; i++) {
		REQUIRE_INT(push(liar, 20), ==, 20);
		REQUIRE_INT(pull(0), ==, 20);
		CHECK(from->floor_stamp >= floor);
		floor = from->floor_stamp;
	}
	CHECK(floor > 0);
	end();
}

/* Gives back, with a tail that lies: what is sent again lies within our ring. */
static void a_return_of_more_than_was_sent(void)
{
	struct udp_flow *to = &v.lanes[0].flow[0];
	char byte;
	int n;

	for (size_t k = 0; k < LIAR_N_VALUES; k++) {
		begin();
		REQUIRE_INT(push(to, 20), ==, 20);
		REQUIRE_INT(push(to, 30), ==, 30);
		shm_slab_side(&v.lanes[0].own[1], 0)->tail = liar_values[k];
		shm_notice_set(&v.lanes[0].flow[1].ring, SHM_LEFT | SHM_WANT_KERNEL);
		CHECK(udp_is_left(to));
		CHECK_INT(udp_send_again(to, v.fd[0]), ==, 0);
		CHECK_INT(udp_send_again(to, v.fd[0]), ==, 0);
		CHECK_INT(push(to, 20), ==, -ESHUTDOWN);
		for (n = 0; recv(v.fd[1], &byte, 1, MSG_DONTWAIT) >= 0; n++)
			;
		/* Two, and what the zeros behind a wrong place look like. */
		CHECK(n <= 96 / 16);
		end();
	}
}

static void an_honest_return(void)
{
	struct udp_flow *to = &v.lanes[0].flow[0], *their = &v.lanes[0].flow[1];
	char bytes[64];

	begin();
	for (int i = 1; i <= 3; i++)
		REQUIRE_INT(push(to, (size_t)i * 10), ==, i * 10);
	udp_leave(their);
	CHECK_INT(push(to, 5), ==, -ESHUTDOWN);
	CHECK_INT(udp_send_again(to, v.fd[0]), ==, 0);
	CHECK_INT(udp_send_again(to, v.fd[0]), ==, 0);
	for (int i = 1; i <= 3; i++)
		CHECK_INT(recv(v.fd[1], bytes, sizeof(bytes), MSG_DONTWAIT), ==, i * 10);
	CHECK_INT(recv(v.fd[1], bytes, sizeof(bytes), MSG_DONTWAIT), ==, -1);
	end();
}

/* Over both control pages and rings. */
static void garbage_while_we_work(void)
{
	struct liar liar = { .n_words = shm_slot_size(tcp_pair_small_rings) / 8 };

	for (int round = 0; round < 10; round++) {
		begin();
		for (int lane = 0; lane < 2; lane++)
			liar.words[lane] = word_of(&v.lanes[lane], 0);
		liar_start(&liar);
		for (int i = 0; i < 200; i++) {
			v.lanes[1].flow[0].broken = false;
			live();
		}
		liar_stop(&liar);
		end();
	}
	CHECK(true);
}

static const struct test tests[] = {
	TEST(an_honest_peer),	      TEST(each_word_each_value),
	TEST(each_record_each_value), TEST(a_length_that_lies_ends_the_flow),
	TEST(old_times_are_bounded),  TEST(a_return_of_more_than_was_sent),
	TEST(an_honest_return),	      TEST(garbage_while_we_work),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
