/*
 * A link of HAL tcp that is closed with much unsent: what the other end gets is the beginning of
 * what was sent, and nothing of it twice. One thing by plain calls; by io_uring a worker of the
 * kernel's may be at a send while the link is taken down.
 */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "macros.h"
#include "tcp_link.h"

#define LEN_CUT 48573u
#define N_CUT 14u
#define N_ROUNDS 3000u /* by io_uring one in some thousands meets it */

static int send_bytes(struct hal_link *link, uint64_t word)
{
	static unsigned char buf[LEN_CUT];
	const struct hal_frame f = { .word = word, .len = LEN_CUT };
	const struct iovec iov = { buf, LEN_CUT };

	memset(buf, 0xff, sizeof(buf));
	return link->ops->send(link, &f, &iov, 1);
}

/* Bytes that have come of frames with the words 0, 1, ... are those. */
static void check_cut(const unsigned char *bytes, size_t len)
{
	uint64_t word;
	uint32_t size;

	for (size_t at = 0, k = 0; at + 16 <= len; at += 16 + size, k++) {
		memcpy(&size, bytes + at, sizeof(size));
		memcpy(&word, bytes + at + 8, sizeof(word));
		REQUIRE_INT(word, ==, k);
	}
}

static size_t drain(int fd, unsigned char *to, size_t size)
{
	size_t done = 0;
	ssize_t n;

	while ((n = recv(fd, to + done, MIN(size - done, (size_t)4096), MSG_DONTWAIT)) > 0)
		done += (size_t)n;
	return done;
}

/* Closed while a send that has just been given room may be under way in the kernel. */
static void cut_by(enum hal_tcp_way way)
{
	static unsigned char bytes[N_CUT * (16 + LEN_CUT)];
	struct hal_link *link;
	struct hal_frame f;
	uint64_t word = 0;
	size_t len = 0;
	int fd[2];

	REQUIRE_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), ==, 0);
	REQUIRE_INT(hal_tcp_open(fd[0], way, &link), ==, 0);
	for (unsigned i = 0; i < N_CUT; i++) {
		word += send_bytes(link, word) == 0;
		if (i == N_CUT / 2)
			len += drain(fd[1], bytes + len, sizeof(bytes) - len);
	}
	REQUIRE_INT(shutdown(fd[1], SHUT_WR), ==, 0);
	(void)link->ops->next(link, &f);
	len += drain(fd[1], bytes + len, sizeof(bytes) - len);
	link->ops->close(link);
	len += drain(fd[1], bytes + len, sizeof(bytes) - len);
	check_cut(bytes, len);
	(void)close(fd[1]);
}

static void nothing_is_sent_twice(void)
{
	for (unsigned i = 0; i < N_ROUNDS; i++)
		cut_by(HAL_TCP_BEST);
	cut_by(HAL_TCP_PLAIN);
}

static const struct test tests[] = {
	TEST(nothing_is_sent_twice),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
