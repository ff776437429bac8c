/*
 * protocols/udp_short.h and the short way of udp_pull_plain: the same datagrams as by the long way,
 * in any mixture with it, and nothing that is not the usual case.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "tcp_pair.h"
#include "udp_short.h"

#define N_MIXED 40000u
#define SIZE_LONG_MAX (SHM_SHORT_MOST + 200)
#define USUAL_NOTICE (SHM_RX_READY | SHM_RX_LONE)

static const uint32_t size_ring[SHM_N_RINGS] = { 4096, 8192, 16384, 32768, 65536 };

static struct {
	struct tcp_pair pair; /* its rings, as a flow's */
	struct udp_flow out, in;
	struct udp rx;
	int fd;
} v;

static bool grant(uint64_t size)
{
	(void)size;
	return true;
}

static uint64_t real_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* The kernel was asked just now. */
static void looked(void)
{
	atomic_store(&v.rx.looked, real_now());
	atomic_store(&v.rx.n_since, 0);
}

static void begin(void)
{
	struct iovec none = { 0 };
	struct msghdr msg = { .msg_iov = &none, .msg_iovlen = 1 };

	udp_take_credit = grant;
	memset(&v, 0, sizeof(v));
	tcp_pair_init(&v.pair, size_ring);
	v.out = (struct udp_flow){ .ring = v.pair.tcp[0].ring, .size_max = 8192 };
	v.in = (struct udp_flow){ .ring = v.pair.tcp[1].ring, .next_at = UINT32_MAX };
	v.in.name.in4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = 7 };
	v.in.len_name = sizeof(v.in.name.in4);
	v.out.kernel_seen = udp_kernel_sends(v.out.port);
	shm_notice_set(&v.pair.tcp[1].ring, USUAL_NOTICE);
	atomic_store(&v.rx.flows[0], &v.in);
	atomic_store(&v.rx.n_flows, 1);
	v.rx.first_in_kernel = UDP_NONE;
	v.rx.sends_seen = udp_kernel_sends(v.rx.port);
	v.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	REQUIRE_INT(v.fd, >=, 0);
	/* The first one begins the ring. */
	REQUIRE_INT(udp_push(&v.out, &none, 1, 0), ==, 0);
	looked();
	REQUIRE_INT(udp_pull_plain(&v.rx, &msg), ==, 0);
}

static void end(void)
{
	(void)close(v.fd);
	tcp_pair_deinit(&v.pair);
}

static void fill(unsigned char *buf, uint32_t i, size_t len)
{
	for (size_t k = 0; k < len; k++)
		buf[k] = (unsigned char)(i * 31 + k);
}

static bool push_short(uint32_t i, size_t len)
{
	unsigned char buf[SHM_SHORT_MOST];

	fill(buf, i, len);
	return udp_push_short(&v.out, buf, len);
}

static ssize_t push_long(uint32_t i, size_t len)
{
	unsigned char buf[SIZE_LONG_MAX];
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	fill(buf, i, len);
	return udp_push(&v.out, &iov, 1, len);
}

/* In the usual way, or else the general one. */
static void expect(uint32_t i, size_t len, bool usual)
{
	unsigned char buf[SIZE_LONG_MAX + 1], wanted[SIZE_LONG_MAX];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) - 1 };
	struct sockaddr_in from = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_name = &from, .msg_namelen = sizeof(from)
	};
	struct udp_got got = { 0 };

	looked();
	buf[len] = 0xa5;
	fill(wanted, i, len);
	REQUIRE_INT(usual ? udp_pull_plain(&v.rx, &msg) : udp_pull(&v.rx, v.fd, &msg, 0, &got), ==,
		    (ssize_t)len);
	CHECK(memcmp(buf, wanted, len) == 0);
	CHECK_INT(buf[len], ==, 0xa5);
	CHECK_INT(msg.msg_flags, ==, 0);
	CHECK_INT(from.sin_port, ==, 7);
}

static ssize_t pull_nothing(void)
{
	unsigned char buf[8];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return udp_pull_plain(&v.rx, &msg);
}

/* One that would lie around the ring's end goes the long way. */
static void moves_datagrams(void)
{
	unsigned n_short = 0;

	begin();
	REQUIRE(udp_push_short(&v.out, NULL, 0));
	expect(0, 0, true);
	for (uint32_t len = 0; len <= SHM_SHORT_MOST; len++) {
		if (push_short(len, len))
			n_short++;
		else
			REQUIRE_INT(push_long(len, len), ==, len);
		CHECK(n_short > len || len > SHM_SHORT_DATAGRAM);
		expect(len, len, true);
	}
	CHECK_INT(n_short, >, SHM_SHORT_MOST / 2);
	CHECK_INT(pull_nothing(), ==, -EAGAIN);
	end();
}

/* By both ways on both sides, several under way, around the ring's end. */
static void mixes_with_the_long_way(void)
{
	size_t lens[N_MIXED];
	uint32_t sent = 0, received = 0;

	begin();
	srandom(1);
	while (received < N_MIXED) {
		size_t len = (size_t)random() % (SHM_SHORT_DATAGRAM + 1);

		if (sent < N_MIXED && random() % 2) {
			if (random() % 3 == 0)
				len = (size_t)random() % (SIZE_LONG_MAX + 1);
			if (len <= SHM_SHORT_MOST && random() % 4 && push_short(sent, len))
				lens[sent++] = len;
			else if (push_long(sent, len) >= 0)
				lens[sent++] = len;
		} else if (received < sent) {
			expect(received, lens[received], random() % 2);
			received++;
		}
	}
	end();
}

static void a_short_buffer_gets_a_part_and_is_told(void)
{
	unsigned char buf[2] = { 0 };
	struct iovec iov = { .iov_base = buf, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	begin();
	REQUIRE(push_short(1, 8));
	looked();
	CHECK_INT(udp_pull_plain(&v.rx, &msg), ==, 1);
	CHECK_INT(msg.msg_flags, ==, MSG_TRUNC);
	CHECK_INT(buf[1], ==, 0);
	CHECK_INT(pull_nothing(), ==, -EAGAIN);
	end();
}

static void heeds_what_the_receiver_says(void)
{
	static const uint32_t said[] = { SHM_CLOSED, SHM_DEAD, SHM_WANT_KERNEL, SHM_LEFT };

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		begin();
		REQUIRE(push_short(1, 8));
		shm_notice_set(&v.pair.tcp[1].ring, said[i]);
		CHECK(!push_short(2, 8));
		end();
	}
}

/* Times must be exact where others are compared with them. */
static void is_for_a_receiver_of_one_flow(void)
{
	begin();
	shm_notice_take_back(&v.pair.tcp[1].ring, SHM_RX_LONE);
	CHECK(!push_short(1, 8));
	CHECK_INT(push_long(1, 8), ==, 8);
	expect(1, 8, true);
	end();
}

/* The record after it has to say so. */
static void is_not_for_the_first_after_the_kernel(void)
{
	begin();
	udp_note_kernel_send(v.out.port);
	CHECK(!push_short(1, 8));
	end();
}

/* From the middle of the queue on a sender slows down. */
static void leaves_half_of_the_queue(void)
{
	uint32_t n = 0;

	begin();
	while (push_short(n, 8))
		n++;
	CHECK_INT(n * shm_queue_size(8), <=, size_ring[0] / 2);
	CHECK_INT(n * shm_queue_size(8), >=, size_ring[0] / 4);
	for (uint32_t i = 0; i < n; i++)
		expect(i, 8, true);
	end();
}

static void a_look_that_is_due_is_not_put_off(void)
{
	begin();
	REQUIRE(push_short(1, 8));
	atomic_store(&v.rx.looked, real_now() - NSEC_PER_SEC);
	CHECK_INT(pull_nothing(), ==, -EAGAIN);
	expect(1, 8, false);
	end();
}

/* Who waits asks before the next datagram makes it wait. */
static void a_look_that_is_near_is_made_at_once(void)
{
	uint64_t before;

	begin();
	before = atomic_load(&v.rx.looked);
	CHECK_INT(udp_quiet(&v.rx, v.fd), ==, 0);
	CHECK_INT(atomic_load(&v.rx.looked), ==, before);
	before = atomic_load(&v.rx.last_stamp) - 19 * NSEC_PER_USEC;
	atomic_store(&v.rx.looked, before);
	CHECK_INT(udp_quiet(&v.rx, v.fd), ==, 0);
	CHECK_INT(atomic_load(&v.rx.looked), >, before);
	end();
}

/* The socket is connected to itself. */
static void connect_to_itself(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	REQUIRE_INT(bind(v.fd, (struct sockaddr *)&at, sizeof(at)), ==, 0);
	REQUIRE_INT(getsockname(v.fd, (struct sockaddr *)&at, &len), ==, 0);
	REQUIRE_INT(connect(v.fd, (struct sockaddr *)&at, sizeof(at)), ==, 0);
}

static void a_datagram_in_the_kernel_is_not_waited_before(void)
{
	begin();
	connect_to_itself();
	REQUIRE_INT(send(v.fd, "k", 1, 0), ==, 1);
	atomic_store(&v.rx.looked, 0);
	CHECK_INT(udp_quiet(&v.rx, v.fd), ==, -EAGAIN);
	CHECK_INT(udp_quiet(&v.rx, v.fd), ==, -EAGAIN);
	end();
}

/* The look takes it from the kernel, so the program hears of it now or never. */
static void an_error_that_is_pending_is_told(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int closed = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	begin();
	REQUIRE_INT(bind(closed, (struct sockaddr *)&at, sizeof(at)), ==, 0);
	REQUIRE_INT(getsockname(closed, (struct sockaddr *)&at, &len), ==, 0);
	(void)close(closed);
	REQUIRE_INT(connect(v.fd, (struct sockaddr *)&at, sizeof(at)), ==, 0);
	REQUIRE_INT(send(v.fd, "k", 1, 0), ==, 1);
	atomic_store(&v.rx.looked, 0);
	CHECK_INT(udp_quiet(&v.rx, v.fd), ==, -ECONNREFUSED);
	CHECK_INT(udp_quiet(&v.rx, v.fd), ==, 0);
	end();
}

/* Length and head lie: nothing is written beyond the buffer. */
static void believes_no_nonsense(void)
{
	static const uint64_t heads[] = { 1, 15, 16, 17, 48, 49, 1ull << 40, UINT64_MAX };
	static const uint32_t lens[] = { 33, 4096, UINT32_MAX - 15, UINT32_MAX };
	unsigned char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(heads) * ARRAY_SIZE(lens); i++) {
		struct iovec iov = { .iov_base = buf, .iov_len = 8 };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		struct shm_side *peer;
		uint64_t at;

		begin();
		peer = v.pair.tcp[0].ring.own;
		at = shm_taken(&v.in.ring);
		memset(buf, 0x5a, sizeof(buf));
		atomic_store(&peer->inlined[0], real_now());
		atomic_store(&peer->inlined[1], lens[i % ARRAY_SIZE(lens)]);
		atomic_store(&peer->inline_at, at);
		atomic_store(&peer->head, at + heads[i / ARRAY_SIZE(lens)]);
		looked();
		CHECK_INT(udp_pull_plain(&v.rx, &msg), <=, 8);
		for (size_t k = 8; k < sizeof(buf); k++)
			REQUIRE_INT(buf[k], ==, 0x5a);
		end();
	}
}

static const struct test tests[] = {
	TEST(moves_datagrams),
	TEST(mixes_with_the_long_way),
	TEST(a_short_buffer_gets_a_part_and_is_told),
	TEST(heeds_what_the_receiver_says),
	TEST(is_for_a_receiver_of_one_flow),
	TEST(is_not_for_the_first_after_the_kernel),
	TEST(leaves_half_of_the_queue),
	TEST(a_look_that_is_due_is_not_put_off),
	TEST(a_look_that_is_near_is_made_at_once),
	TEST(a_datagram_in_the_kernel_is_not_waited_before),
	TEST(an_error_that_is_pending_is_told),
	TEST(believes_no_nonsense),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
