/*
 * base/handshake.c in front of a link of HAL tcp: a connection is only made with the key, and what
 * follows is the link's.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "handshake.h"
#include "harness.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define NSEC_PATIENCE (60 * NSEC_PER_SEC)

static void connect_pair(int fd[2])
{
	tcp_connect_pair(fd, AF_INET);
	REQUIRE_INT(fcntl(fd[1], F_SETFL, O_NONBLOCK), ==, 0);
}

static int greet_both(struct handshake g[2], const int fd[2], int ret[2])
{
	uint64_t nsec_end = nsec_now() + NSEC_PATIENCE;

	ret[0] = ret[1] = -EAGAIN;
	while ((ret[0] == -EAGAIN || ret[1] == -EAGAIN) && nsec_now() < nsec_end)
		for (int i = 0; i < 2; i++)
			if (ret[i] == -EAGAIN)
				ret[i] = handshake_step(&g[i], fd[i]);
	return ret[0] ? ret[0] : ret[1];
}

static void holders_of_the_key_meet(void)
{
	static const uint8_t key[HANDSHAKE_KEY] = { 1, 2, 3 }, zero[HANDSHAKE_KEY];
	const struct hal_frame sent = { .word = 1, .len = HANDSHAKE_KEY, .protocol = 7 };
	struct iovec iov = { (void *)(uintptr_t)key, HANDSHAKE_KEY };
	uint64_t nsec_end = nsec_now() + NSEC_PATIENCE;
	struct handshake g[2];
	struct hal_link *link[2];
	struct hal_frame f;
	int fd[2], e[2];

	connect_pair(fd);
	for (int i = 0; i < 2; i++)
		REQUIRE_INT(handshake_init(&g[i], key, i == 0), ==, 0);
	CHECK(memcmp(g[0].ours, g[1].ours, HANDSHAKE_HELLO) != 0);
	CHECK_INT(greet_both(g, fd, e), ==, 0);
	CHECK_MEM(g[0].key, zero, HANDSHAKE_KEY);
	/* Nothing of what follows was read. */
	for (int i = 0; i < 2; i++)
		REQUIRE_INT(hal_tcp_open(fd[i], HAL_TCP_BEST, &link[i]), ==, 0);
	REQUIRE_INT(link[0]->ops->send(link[0], &sent, &iov, 1), ==, 0);
	while ((e[0] = link[1]->ops->next(link[1], &f)) == 0 && nsec_now() < nsec_end)
		CHECK_INT(link[0]->ops->progress(link[0]), ==, 0);
	REQUIRE_INT(e[0], ==, 1);
	CHECK_INT(f.word, ==, sent.word);
	CHECK_INT(f.len, ==, sent.len);
	for (int i = 0; i < 2; i++)
		link[i]->ops->close(link[i]);
}

static void strangers_do_not(void)
{
	static const uint8_t key[2][HANDSHAKE_KEY] = { { 1, 2, 3 }, { 1, 2, 4 } };
	struct handshake g[2];
	int fd[2], e[2];

	/* Another key; the same role. */
	for (int what = 0; what < 2; what++) {
		connect_pair(fd);
		for (int i = 0; i < 2; i++)
			REQUIRE_INT(
				handshake_init(&g[i], key[what == 0 ? i : 0], what == 1 || i == 0),
				==, 0);
		(void)greet_both(g, fd, e);
		CHECK_INT(e[0], ==, -EACCES);
		CHECK_INT(e[1], ==, -EACCES);
		(void)close(fd[0]);
		(void)close(fd[1]);
	}
}

static int greet_until(struct handshake *g, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int e;

	while ((e = handshake_step(g, fd)) == -EAGAIN && poll(&p, 1, 60000) > 0)
		;
	return e;
}

/* Whatever is said is sent back. */
static void an_echo_is_no_friend(void)
{
	static const uint8_t key[HANDSHAKE_KEY] = { 9 };
	struct handshake g;
	char buf[64];
	int fd[2];

	connect_pair(fd);
	REQUIRE_INT(handshake_init(&g, key, true), ==, 0);
	CHECK_INT(handshake_step(&g, fd[0]), ==, -EAGAIN);
	for (unsigned part = 0; part < 2; part++) {
		size_t len = part == 0 ? HANDSHAKE_HELLO : 8;

		REQUIRE_INT(fcntl(fd[1], F_SETFL, 0), ==, 0);
		REQUIRE_INT(recv(fd[1], buf, len, MSG_WAITALL), ==, len);
		REQUIRE_INT(send(fd[1], buf, len, 0), ==, len);
		if (part == 1)
			CHECK_INT(greet_until(&g, fd[0]), ==, -EACCES);
		else
			while (g.size_sent < HANDSHAKE_HELLO + 8)
				REQUIRE_INT(handshake_step(&g, fd[0]), ==, -EAGAIN);
	}
	(void)close(fd[0]);
	(void)close(fd[1]);
}

static void other_tongues_are_refused(void)
{
	static const uint8_t key[HANDSHAKE_KEY] = { 9 };
	char text[HANDSHAKE_HELLO] = "GET / HTTP/1.0\r\n\r\n";
	struct handshake g;
	int fd[2];

	connect_pair(fd);
	REQUIRE_INT(handshake_init(&g, key, false), ==, 0);
	REQUIRE_INT(send(fd[0], text, sizeof(text), 0), ==, sizeof(text));
	CHECK_INT(greet_until(&g, fd[1]), ==, -EBADMSG);
	(void)close(fd[0]);
	REQUIRE_INT(handshake_init(&g, key, false), ==, 0);
	CHECK_INT(greet_until(&g, fd[1]), ==, -EPIPE);
	(void)close(fd[1]);
}

static const struct test tests[] = {
	TEST(holders_of_the_key_meet),
	TEST(strangers_do_not),
	TEST(an_echo_is_no_friend),
	TEST(other_tongues_are_refused),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
