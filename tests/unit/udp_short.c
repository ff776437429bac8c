/*
 * protocols/udp_short.h and the short way of udp_pull_plain: the same datagrams as by the long way,
 * in any mixture with it, and nothing that is not the usual case.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* The kernel was asked just now, however long this process does not run. */
static void looked(void)
{
	atomic_store(&v.rx.looked, pulse_about_now() + NSEC_PER_SEC);
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
	REQUIRE_INT(udp_pull_plain(&v.rx, &msg, pulse_about_now()), ==, 0);
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
	uint64_t ticks;

	fill(buf, i, len);
	return udp_push_short(&v.out, buf, len, &ticks);
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
	REQUIRE_INT(usual ? udp_pull_plain(&v.rx, &msg, pulse_about_now())
			  : udp_pull(&v.rx, v.fd, &msg, 0, &got),
		    ==, (ssize_t)len);
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

	return udp_pull_plain(&v.rx, &msg, pulse_about_now());
}

/* One that would lie around the ring's end goes the long way. */
static void moves_datagrams(void)
{
	unsigned n_short = 0;
	uint64_t ticks;

	begin();
	REQUIRE(udp_push_short(&v.out, NULL, 0, &ticks));
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
	CHECK_INT(udp_pull_plain(&v.rx, &msg, pulse_about_now()), ==, 1);
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
	atomic_store(&v.rx.looked, pulse_about_now() - NSEC_PER_SEC);
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
	CHECK_INT(udp_quiet(&v.rx, v.fd, pulse_about_now()), ==, 0);
	CHECK_INT(atomic_load(&v.rx.looked), ==, before);
	before = pulse_about_now() - 19 * NSEC_PER_USEC; /* of 20 */
	atomic_store(&v.rx.looked, before);
	CHECK_INT(udp_quiet(&v.rx, v.fd, pulse_about_now()), ==, 0);
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
	CHECK_INT(udp_quiet(&v.rx, v.fd, pulse_about_now()), ==, -EAGAIN);
	CHECK_INT(udp_quiet(&v.rx, v.fd, pulse_about_now()), ==, -EAGAIN);
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
	CHECK_INT(udp_quiet(&v.rx, v.fd, pulse_about_now()), ==, -ECONNREFUSED);
	CHECK_INT(udp_quiet(&v.rx, v.fd, pulse_about_now()), ==, 0);
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
		CHECK_INT(udp_pull_plain(&v.rx, &msg, pulse_about_now()), <=, 8);
		for (size_t k = 8; k < sizeof(buf); k++)
			REQUIRE_INT(buf[k], ==, 0x5a);
		end();
	}
}

/* ---- the order against the kernel's datagrams ------------------------------------------------ */

/* A process that is not the sender's sends through the kernel. The clock goes on before and after,
 * by more than what a time may be wrong by. */
static void kernel_brings(void)
{
	static const struct timespec moment = { .tv_nsec = 20 * NSEC_PER_USEC };

	(void)nanosleep(&moment, NULL);
	REQUIRE_INT(send(v.fd, "k", 1, 0), ==, 1);
	(void)nanosleep(&moment, NULL);
}

/* What comes next: the length of a datagram of the queue, or 0 of the kernel's. */
static size_t next_is(void)
{
	unsigned char buf[64];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct udp_got got = { 0 };
	ssize_t n = udp_pull(&v.rx, v.fd, &msg, 0, &got);

	REQUIRE_INT(n, >, 0);
	CHECK(!got.by_kernel || (n == 1 && buf[0] == 'k'));
	return got.by_kernel ? 0 : (size_t)n;
}

/* The kernel notes arrivals, and is asked again. */
static void begin_beside_the_kernel(void)
{
	struct timespec ts;

	begin();
	connect_to_itself();
	(void)ioctl(v.fd, SIOCGSTAMPNS, &ts);
	kernel_brings(); /* the kernel begins to note arrivals with a delay */
	(void)usleep(20000);
	REQUIRE_INT(recv(v.fd, &ts, sizeof(ts), MSG_DONTWAIT), ==, 1);
	atomic_store(&v.rx.first_in_kernel, UDP_UNKNOWN);
}

/* The last one's time stands beside the queue, that of one before in its follower. */
static void the_oldest_goes_first_wherever_its_time_stands(void)
{
	begin_beside_the_kernel();
	REQUIRE(push_short(1, 8));
	kernel_brings();
	REQUIRE(push_short(2, 9));
	REQUIRE(push_short(3, 10));
	kernel_brings();
	CHECK_INT(next_is(), ==, 8);
	CHECK_INT(next_is(), ==, 0);
	CHECK_INT(next_is(), ==, 9);
	CHECK_INT(next_is(), ==, 10);
	CHECK_INT(next_is(), ==, 0);
	end();
}

/* A sender that has not said yet when it sent may be about to. */
static void what_is_not_dated_yet_is_the_latest(void)
{
	struct shm_side *peer;

	begin_beside_the_kernel();
	peer = v.pair.tcp[0].ring.own;
	REQUIRE(push_short(1, 8));
	kernel_brings();
	atomic_store(&peer->dated, SHM_UNDATED);
	CHECK_INT(next_is(), ==, 0);
	CHECK_INT(next_is(), ==, 8);
	end();
}

/* Several flows for a while: exact times between others, none of which is lost. */
static void times_survive_exact_ones_between_them(void)
{
	begin_beside_the_kernel();
	REQUIRE(push_short(1, 8));
	kernel_brings();
	shm_notice_take_back(&v.pair.tcp[1].ring, SHM_RX_LONE);
	REQUIRE_INT(push_long(2, 9), ==, 9);
	shm_notice_set(&v.pair.tcp[1].ring, SHM_RX_LONE);
	CHECK(!push_short(3, 10)); /* the first one's time would be lost */
	REQUIRE_INT(push_long(3, 10), ==, 10);
	CHECK(!push_short(4, 11));
	CHECK_INT(next_is(), ==, 8);
	CHECK_INT(next_is(), ==, 0);
	REQUIRE_INT(push_long(4, 11), ==, 11);
	CHECK(push_short(5, 12));
	kernel_brings();
	for (size_t len = 9; len <= 12; len++)
		CHECK_INT(next_is(), ==, len);
	CHECK_INT(next_is(), ==, 0);
	end();
}

/* A time beside the queue that is too early is one that it cannot have. */
static void a_lie_gets_nobody_far_ahead(void)
{
	struct shm_side *peer;

	begin_beside_the_kernel();
	peer = v.pair.tcp[0].ring.own;
	kernel_brings();
	REQUIRE(push_short(1, 8));
	v.in.floor_stamp = real_now();
	atomic_store(&peer->date, 1);
	CHECK_INT(next_is(), ==, 0);
	CHECK_INT(next_is(), ==, 8);
	end();
}

/* Nobody else can send to a connected socket, so it is asked for ten times as seldom; if its peer
 * is one process. */
static void a_connected_socket_is_asked_less_often(void)
{
	unsigned char buf[8];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	uint64_t now = 1000 * NSEC_PER_SEC;

	begin();
	atomic_store(&v.rx.connected, true);
	atomic_store(&v.rx.looked, now - 50 * NSEC_PER_USEC);
	REQUIRE(push_short(1, 8));
	CHECK_INT(udp_pull_plain(&v.rx, &msg, now), ==, 8);
	REQUIRE(push_short(2, 8));
	shm_add_holder(&v.pair.tcp[0].ring);
	CHECK_INT(udp_pull_plain(&v.rx, &msg, now), ==, -EAGAIN);
	(void)shm_drop_holder(&v.pair.tcp[0].ring);
	expect(2, 8, true);
	end();
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
	TEST(the_oldest_goes_first_wherever_its_time_stands),
	TEST(what_is_not_dated_yet_is_the_latest),
	TEST(times_survive_exact_ones_between_them),
	TEST(a_lie_gets_nobody_far_ahead),
	TEST(a_connected_socket_is_asked_less_often),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
