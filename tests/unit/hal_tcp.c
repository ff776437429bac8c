/*
 * hal/tcp_*.c over the loopback: both ways of moving bytes give the same frames; nothing blocks;
 * who sleeps is told; the end and nonsense are told apart.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "harness.h"
#include "macros.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define NSEC_PATIENCE (60 * NSEC_PER_SEC)
#define WATCH 0x100000001ull
/* More than a link takes before it believes that nobody sleeps. */
#define N_MANY 200u

static void connect_pair(int fd[2])
{
	tcp_connect_pair(fd, AF_INET);
	REQUIRE_INT(fcntl(fd[1], F_SETFL, O_NONBLOCK), ==, 0);
}

static bool has_uring(void)
{
	struct hal_link *link;
	int fd[2], e;

	connect_pair(fd);
	e = hal_tcp_open(fd[0], HAL_TCP_URING, &link);
	if (e == 0)
		link->ops->close(link);
	else
		(void)close(fd[0]);
	(void)close(fd[1]);
	return e == 0;
}

/* The ways that this kernel allows. */
static unsigned ways(enum hal_tcp_way way[2])
{
	way[0] = HAL_TCP_PLAIN;
	way[1] = HAL_TCP_URING;
	return has_uring() ? 2 : 1;
}

static void link_pair(struct hal_link *link[2], enum hal_tcp_way a, enum hal_tcp_way b)
{
	int fd[2];

	connect_pair(fd);
	REQUIRE_INT(hal_tcp_open(fd[0], a, &link[0]), ==, 0);
	REQUIRE_INT(hal_tcp_open(fd[1], b, &link[1]), ==, 0);
	CHECK_INT(hal_tcp_is_uring(link[0]), ==, a == HAL_TCP_URING);
}

static void close_pair(struct hal_link *link[2])
{
	for (int i = 0; i < 2; i++)
		link[i]->ops->close(link[i]);
}

static int send_bytes(struct hal_link *link, uint64_t word, uint32_t len)
{
	static unsigned char buf[70000];
	struct hal_frame f = { .word = word, .len = len, .protocol = 7, .kind = (uint16_t)word };
	struct iovec iov[2] = { { buf, len / 3 }, { buf + len / 3, len - len / 3 } };

	for (uint32_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(word * 31 + i * 7 + (i >> 8));
	return link->ops->send(link, &f, iov, 2);
}

static bool is_readable(struct hal_link *link, int msec)
{
	struct pollfd p = { .fd = link->ops->fd(link), .events = POLLIN };

	return poll(&p, 1, msec) > 0;
}

/* Asleep on the descriptor as whoever waits is: watched before the last look. */
static void sleep_on_link(struct hal_link *link, int msec)
{
	REQUIRE_INT(link->ops->watch(link, WATCH, HAL_WATCH_DATA | HAL_WATCH_SPACE), ==, 0);
	if (!link->ops->pending(link))
		(void)is_readable(link, msec);
	link->ops->unwatch(link, WATCH);
}

/* Waits for next() to answer, asleep on the descriptor. A sender, if there is one, goes on. */
static int await_next(struct hal_link *link, struct hal_link *sender, struct hal_frame *ret_f)
{
	uint64_t nsec_end = nsec_now() + NSEC_PATIENCE;
	int e;

	while ((e = link->ops->next(link, ret_f)) == 0 && nsec_now() < nsec_end) {
		CHECK_INT(link->ops->progress(link), ==, 0);
		if (sender)
			CHECK_INT(sender->ops->progress(sender), ==, 0);
		sleep_on_link(link, 100);
	}
	return e;
}

static void take_bytes(struct hal_link *link, uint64_t word, uint32_t len)
{
	static unsigned char buf[70000];
	struct iovec iov[2] = { { buf, len / 2 }, { buf + len / 2, sizeof(buf) - len / 2 } };

	CHECK_INT(link->ops->copy(link, iov, 2), ==, len);
	for (uint32_t i = 0; i < len; i++)
		REQUIRE_INT(buf[i], ==, (unsigned char)(word * 31 + i * 7 + (i >> 8)));
	link->ops->drop(link);
}

static void expect_bytes(struct hal_link *const pair[2], int to, uint64_t word, uint32_t len)
{
	struct hal_link *link = pair[to];
	struct hal_frame f;

	REQUIRE_INT(await_next(link, pair[1 - to], &f), ==, 1);
	CHECK_INT(f.word, ==, word);
	CHECK_INT(f.protocol, ==, 7);
	CHECK_INT(f.kind, ==, (uint16_t)word);
	REQUIRE_INT(f.len, ==, len);
	take_bytes(link, word, len);
}

static void frames_arrive_whole_and_in_order_by(enum hal_tcp_way a, enum hal_tcp_way b)
{
	struct hal_link *link[2];
	uint32_t max;

	link_pair(link, a, b);
	max = link[0]->caps.frame_max;
	for (uint64_t n = 0; n < 300; n++) {
		uint32_t len = n < 100 ? (uint32_t)n : (uint32_t)(n * 7919 % (max + 1));

		REQUIRE_INT(send_bytes(link[n & 1], n, len), ==, 0);
		expect_bytes(link, ~n & 1, n, len);
	}
	REQUIRE_INT(send_bytes(link[0], 1, max), ==, 0);
	expect_bytes(link, 1, 1, max);
	CHECK_INT(send_bytes(link[0], 1, max + 1), ==, -EMSGSIZE);
	close_pair(link);
}

static void frames_arrive_whole_and_in_order(void)
{
	enum hal_tcp_way way[2];
	unsigned n = ways(way);

	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < n; j++)
			frames_arrive_whole_and_in_order_by(way[i], way[j]);
}

/* Until nothing goes any more, then until everything has come; several times around all buffers. */
static void full_is_full_until_something_is_taken(void)
{
	struct hal_link *link[2];
	enum hal_tcp_way way[2];
	uint64_t sent, taken;
	struct hal_frame f;

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		for (unsigned round = 0; round < 2; round++) {
			int e = 0;

			for (sent = 0; sent < 100000 && e == 0; sent += e == 0)
				e = send_bytes(link[0], sent, (uint32_t)(sent * 7919 % 30000));
			REQUIRE_INT(e, ==, -EAGAIN);
			CHECK_INT(sent, >, 20);
			for (taken = 0; taken < sent; taken++) {
				REQUIRE_INT(await_next(link[1], link[0], &f), ==, 1);
				REQUIRE_INT(f.word, ==, taken);
				take_bytes(link[1], taken, f.len);
			}
			CHECK_INT(link[1]->ops->next(link[1], &f), ==, 0);
			CHECK_INT(link[0]->ops->progress(link[0]), ==, 0);
			CHECK_INT(hal_link_flush(link[0]), ==, 0);
		}
		close_pair(link);
	}
}

/* The descriptor tells of room too. */
static void who_waits_for_room_is_told(void)
{
	struct hal_link *link[2];
	enum hal_tcp_way way[2];
	struct hal_frame f;
	uint64_t nsec_end = nsec_now() + NSEC_PATIENCE;
	int e;

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		while ((e = send_bytes(link[0], 1, 60000)) == 0)
			;
		REQUIRE_INT(e, ==, -EAGAIN);
		for (; e == -EAGAIN && nsec_now() < nsec_end; e = send_bytes(link[0], 1, 60000)) {
			if (link[1]->ops->next(link[1], &f) == 1)
				link[1]->ops->drop(link[1]);
			CHECK_INT(link[1]->ops->progress(link[1]), ==, 0);
			sleep_on_link(link[0], 10);
			CHECK_INT(link[0]->ops->progress(link[0]), ==, 0);
		}
		CHECK_INT(e, ==, 0);
		CHECK(link[0]->ops->room(link[0]));
		close_pair(link);
	}
}

/* ---- who sleeps, and who does not ------------------------------------------------------------ */

/* Frames that the receiver finds by looking. */
static void take_many_awake(struct hal_link *link[2])
{
	struct hal_frame f;

	for (uint64_t n = 0; n < N_MANY; n++) {
		REQUIRE_INT(send_bytes(link[0], n, 8), ==, 0);
		while (link[1]->ops->next(link[1], &f) == 0)
			;
		REQUIRE_INT(f.word, ==, n);
		take_bytes(link[1], n, 8);
	}
}

/* Nobody watches: the kernel need not tell, pending() still knows. */
static void who_only_looks_pays_for_no_sleeper(void)
{
	struct hal_link *link[2];

	link_pair(link, HAL_TCP_PLAIN, HAL_TCP_PLAIN);
	take_many_awake(link);
	REQUIRE_INT(send_bytes(link[0], 1, 8), ==, 0);
	while (!link[1]->ops->pending(link[1]))
		;
	CHECK(!is_readable(link[1], 0));
	expect_bytes(link, 1, 1, 8);
	close_pair(link);
}

/* Who falls asleep behind that is told: of what had come before, what comes after, the end. */
static void who_sleeps_after_looking_is_told(void)
{
	enum { BEFORE, AFTER, END };
	struct hal_link *link[2];
	enum hal_tcp_way way[2];
	struct hal_frame f;

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		for (int what = BEFORE; what <= END; what++) {
			take_many_awake(link);
			if (what == BEFORE)
				REQUIRE_INT(send_bytes(link[0], 1, 8), ==, 0);
			REQUIRE_INT(link[1]->ops->watch(link[1], WATCH, HAL_WATCH_DATA), ==, 0);
			if (what != BEFORE)
				CHECK(!is_readable(link[1], 0));
			if (what == AFTER)
				REQUIRE_INT(send_bytes(link[0], 1, 8), ==, 0);
			if (what == END)
				link[0]->ops->close(link[0]);
			CHECK(is_readable(link[1], 60000));
			link[1]->ops->unwatch(link[1], WATCH);
			if (what != END)
				expect_bytes(link, 1, 1, 8);
		}
		CHECK_INT(await_next(link[1], NULL, &f), ==, -EPIPE);
		link[1]->ops->close(link[1]);
	}
}

/* One thread sleeps, another takes what comes: the sleeper's watch stands. */
static void a_sleeper_is_not_forgotten_for_others_who_look(void)
{
	struct hal_link *link[2];
	enum hal_tcp_way way[2];

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		REQUIRE_INT(link[1]->ops->watch(link[1], WATCH, HAL_WATCH_DATA), ==, 0);
		/* The same again is one; to end what was never begun is nothing. */
		REQUIRE_INT(link[1]->ops->watch(link[1], WATCH, HAL_WATCH_DATA), ==, 0);
		link[1]->ops->unwatch(link[1], WATCH + 1);
		take_many_awake(link);
		REQUIRE_INT(send_bytes(link[0], 1, 8), ==, 0);
		CHECK(is_readable(link[1], 60000));
		link[1]->ops->unwatch(link[1], WATCH);
		expect_bytes(link, 1, 1, 8);
		close_pair(link);
	}
}

/* A link that only sends, and was not in the set, tells its sleeper of room. */
static void room_is_told_after_looking(void)
{
	struct hal_link *link[2];
	enum hal_tcp_way way[2];
	struct hal_frame f;
	int e;

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		take_many_awake((struct hal_link *[]){ link[1], link[0] });
		while ((e = send_bytes(link[0], 1, 60000)) == 0)
			;
		REQUIRE_INT(e, ==, -EAGAIN);
		REQUIRE_INT(link[0]->ops->watch(link[0], WATCH, HAL_WATCH_SPACE), ==, 0);
		while (!is_readable(link[0], 1))
			if (link[1]->ops->next(link[1], &f) == 1)
				link[1]->ops->drop(link[1]);
		link[0]->ops->unwatch(link[0], WATCH);
		CHECK_INT(link[0]->ops->progress(link[0]), ==, 0);
		close_pair(link);
	}
}

/* As many watches as there is room for; the next is refused, until one ends. */
static void watches_are_counted(void)
{
	struct hal_link *link[2];
	uint64_t n = 0;

	link_pair(link, HAL_TCP_PLAIN, HAL_TCP_PLAIN);
	while (n < 100 && link[1]->ops->watch(link[1], WATCH + n, HAL_WATCH_DATA) == 0)
		n++;
	CHECK_INT(n, >=, 8);
	CHECK_INT(n, <, 100);
	CHECK_INT(link[1]->ops->watch(link[1], WATCH + n, HAL_WATCH_DATA), ==, -ENOSPC);
	link[1]->ops->unwatch(link[1], WATCH + 3);
	CHECK_INT(link[1]->ops->watch(link[1], WATCH + n, HAL_WATCH_DATA), ==, 0);
	close_pair(link);
}

static void the_end_comes_behind_the_last_frame(void)
{
	struct hal_link *link[2];
	enum hal_tcp_way way[2];
	struct hal_frame f;

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		/* Not read by the one that closes: no reason for a reset. */
		REQUIRE_INT(send_bytes(link[1], 5, 1000), ==, 0);
		REQUIRE_INT(send_bytes(link[0], 1, 60000), ==, 0);
		REQUIRE_INT(send_bytes(link[0], 2, 10), ==, 0);
		while (hal_link_flush(link[0]) == -EAGAIN)
			for (int i = 0; i < 2; i++)
				CHECK_INT(link[i]->ops->progress(link[i]), ==, 0);
		link[0]->ops->close(link[0]);
		link[0] = NULL;
		expect_bytes(link, 1, 1, 60000);
		expect_bytes(link, 1, 2, 10);
		CHECK_INT(await_next(link[1], NULL, &f), ==, -EPIPE);
		CHECK(link[1]->ops->pending(link[1]));
		CHECK_INT(send_bytes(link[1], 3, 10), ==, -EPIPE);
		link[1]->ops->close(link[1]);
	}
}

/* Requests of a thread that has ended are made again. */
static void *send_and_end(void *arg)
{
	struct hal_link **link = arg;
	struct hal_frame f;

	REQUIRE_INT(link[1]->ops->next(link[1], &f), ==, 0);
	REQUIRE_INT(send_bytes(link[0], 1, 100), ==, 0);
	expect_bytes(link, 1, 1, 100);
	return NULL;
}

static void links_outlive_threads(void)
{
	struct hal_link *link[2];
	enum hal_tcp_way way[2];
	pthread_t thread;

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		for (unsigned i = 0; i < 3; i++) {
			REQUIRE_INT(pthread_create(&thread, NULL, send_and_end, link), ==, 0);
			REQUIRE_INT(pthread_join(thread, NULL), ==, 0);
		}
		for (unsigned i = 0; i < 10; i++) {
			REQUIRE_INT(send_bytes(link[0], i, 20000), ==, 0);
			expect_bytes(link, 1, i, 20000);
		}
		close_pair(link);
	}
}

/* A child forgets its parent's link, and the peer notices nothing. */
static void a_child_forgets(void)
{
	struct hal_link *link[2];
	enum hal_tcp_way way[2];
	int status;
	pid_t pid;

	for (unsigned n = ways(way); n > 0; n--) {
		link_pair(link, way[n - 1], way[n - 1]);
		REQUIRE_INT(send_bytes(link[0], 1, 100), ==, 0);
		pid = fork();
		if (pid == 0) {
			link[0]->ops->forget(link[0]);
			link[1]->ops->forget(link[1]);
			_exit(0);
		}
		REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
		CHECK_INT(status, ==, 0);
		expect_bytes(link, 1, 1, 100);
		for (unsigned i = 0; i < 50; i++) {
			REQUIRE_INT(send_bytes(link[i & 1], i, 20000), ==, 0);
			expect_bytes(link, ~i & 1, i, 20000);
		}
		close_pair(link);
	}
}

/* ---- a peer that is none of ours ------------------------------------------------------------- */

/* One byte at a time, and then half a frame and the end. */
static void pieces_are_joined(void)
{
	static const unsigned char wire[] = { 5, 0, 0, 0, 7, 0,	 3,  0,	 3,  0, 0, 0,
					      0, 0, 0, 0, 3, 10, 17, 24, 31, 9, 0, 0 };
	enum hal_tcp_way way[2];
	struct hal_link *link;
	struct hal_frame f;
	int fd[2];

	for (unsigned n = ways(way); n > 0; n--) {
		connect_pair(fd);
		REQUIRE_INT(hal_tcp_open(fd[1], way[n - 1], &link), ==, 0);
		for (size_t i = 0; i < sizeof(wire); i++) {
			REQUIRE_INT(send(fd[0], wire + i, 1, 0), ==, 1);
			CHECK_INT(link->ops->progress(link), ==, 0);
		}
		REQUIRE_INT(await_next(link, NULL, &f), ==, 1);
		CHECK_INT(f.word, ==, 3);
		CHECK_INT(f.len, ==, 5);
		CHECK_INT(f.kind, ==, 3);
		link->ops->drop(link);
		(void)close(fd[0]);
		CHECK_INT(await_next(link, NULL, &f), ==, -EPIPE);
		link->ops->close(link);
	}
}

static void garbage_is_refused(void)
{
	unsigned char wire[512];
	enum hal_tcp_way way[2];
	struct hal_link *link;
	struct hal_frame f;
	int fd[2], e;

	srandom(4711);
	for (unsigned n = ways(way); n > 0; n--) {
		for (unsigned round = 0; round < 50; round++) {
			connect_pair(fd);
			REQUIRE_INT(hal_tcp_open(fd[1], way[n - 1], &link), ==, 0);
			for (size_t i = 0; i < sizeof(wire); i++)
				wire[i] = (unsigned char)random();
			wire[2] |= 2; /* of the first length */
			REQUIRE_INT(send(fd[0], wire, sizeof(wire), 0), ==, sizeof(wire));
			e = await_next(link, NULL, &f);
			CHECK_INT(e, ==, -EBADMSG);
			CHECK_INT(send_bytes(link, 1, 1), ==, -EBADMSG);
			CHECK_INT(link->ops->next(link, &f), ==, -EBADMSG);
			link->ops->close(link);
			(void)close(fd[0]);
		}
	}
}

/* A reset is an end, too. */
static void a_reset_is_the_end(void)
{
	const struct linger at_once = { .l_onoff = 1 };
	enum hal_tcp_way way[2];
	struct hal_link *link;
	struct hal_frame f;
	int fd[2];

	for (unsigned n = ways(way); n > 0; n--) {
		connect_pair(fd);
		REQUIRE_INT(hal_tcp_open(fd[1], way[n - 1], &link), ==, 0);
		REQUIRE_INT(setsockopt(fd[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), ==,
			    0);
		(void)close(fd[0]);
		CHECK_INT(await_next(link, NULL, &f), ==, -EPIPE);
		CHECK_INT(send_bytes(link, 1, 1), ==, -EPIPE);
		link->ops->close(link);
	}
}

static void only_stream_sockets(void)
{
	struct hal_link *link;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK_INT(hal_tcp_open(fd, HAL_TCP_BEST, &link), ==, -EINVAL);
	CHECK_INT(hal_tcp_open(-1, HAL_TCP_BEST, &link), ==, -EINVAL);
	(void)close(fd);
}

/* ---- where io_uring is forbidden ------------------------------------------------------------- */

static bool forbid_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In the child: its exit status. */
static int without_uring(int fd[2])
{
	struct hal_link *link[2];
	struct hal_frame f;

	if (!forbid_uring())
		return 77;
	if (hal_tcp_open(fd[0], HAL_TCP_URING, &link[0]) != -EPERM)
		return 1;
	if (hal_tcp_open(fd[0], HAL_TCP_BEST, &link[0]) < 0 ||
	    hal_tcp_open(fd[1], HAL_TCP_BEST, &link[1]) < 0 || hal_tcp_is_uring(link[0]))
		return 2;
	if (send_bytes(link[0], 1, 1000) < 0 || await_next(link[1], NULL, &f) != 1)
		return 3;
	close_pair(link);
	return f.len == 1000 ? 0 : 4;
}

static void forbidden_uring_is_done_without(void)
{
	int fd[2], status;
	pid_t pid;

	connect_pair(fd);
	pid = fork();
	if (pid == 0)
		_exit(without_uring(fd));
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	(void)close(fd[0]);
	(void)close(fd[1]);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		test_skip("no seccomp here");
	else
		CHECK_INT(status, ==, 0);
}

static const struct test tests[] = {
	TEST(frames_arrive_whole_and_in_order),
	TEST(full_is_full_until_something_is_taken),
	TEST(who_waits_for_room_is_told),
	TEST(who_only_looks_pays_for_no_sleeper),
	TEST(who_sleeps_after_looking_is_told),
	TEST(a_sleeper_is_not_forgotten_for_others_who_look),
	TEST(room_is_told_after_looking),
	TEST(watches_are_counted),
	TEST(the_end_comes_behind_the_last_frame),
	TEST(links_outlive_threads),
	TEST(a_child_forgets),
	TEST(pieces_are_joined),
	TEST(garbage_is_refused),
	TEST(a_reset_is_the_end),
	TEST(only_stream_sockets),
	TEST(forbidden_uring_is_done_without),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
