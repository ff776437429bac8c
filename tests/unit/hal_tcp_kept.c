/* hal/tcp_*.c keeps its descriptors where it is told to: low numbers are the program's, and those
 * of a link may be moved while it is in use. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "macros.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define FD_KEPT 500
#define N_FRAMES 50u

static int *homes[8];

static int keep_high(int fd, int *home)
{
	unsigned i = 0;

	while (homes[i])
		REQUIRE_INT(++i, <, ARRAY_SIZE(homes));
	*home = fcntl(fd, F_DUPFD_CLOEXEC, FD_KEPT);
	homes[i] = home;
	return *home < 0 ? -EMFILE : 0;
}

static void release_high(int *home)
{
	for (unsigned i = 0; i < ARRAY_SIZE(homes); i++)
		if (homes[i] == home)
			homes[i] = NULL;
	(void)close(*home);
	*home = -1;
}

/* As if the program wanted their numbers. */
static void move_all(void)
{
	int fd;

	for (unsigned i = 0; i < ARRAY_SIZE(homes); i++)
		if (homes[i]) {
			fd = fcntl(*homes[i], F_DUPFD_CLOEXEC, FD_KEPT);
			(void)close(*homes[i]);
			*homes[i] = fd;
		}
}

static unsigned n_kept(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(homes); i++)
		n += homes[i] != NULL;
	return n;
}

/* A frame from one to the other, and its word back. */
static void send_over(struct hal_link *from, struct hal_link *to, uint64_t word)
{
	static char buf[20000];
	struct iovec iov = { buf, sizeof(buf) };
	struct hal_frame f = { .word = word, .len = sizeof(buf), .protocol = 7 };
	int e;

	REQUIRE_INT(from->ops->send(from, &f, &iov, 1), ==, 0);
	while ((e = to->ops->next(to, &f)) == 0)
		REQUIRE_INT(from->ops->progress(from), ==, 0);
	REQUIRE_INT(e, ==, 1);
	CHECK_INT(f.word, ==, word);
	CHECK_INT(f.len, ==, sizeof(buf));
	to->ops->drop(to);
}

static void play(enum hal_tcp_way way)
{
	struct hal_link *link[2];
	int fd[2], before, after;

	before = dup(STDIN_FILENO);
	tcp_connect_pair(fd, AF_INET);
	for (int i = 0; i < 2; i++) {
		REQUIRE_INT(hal_tcp_open(fd[i], way, &link[i]), ==, 0);
		CHECK_INT(link[i]->ops->fd(link[i]), >=, FD_KEPT);
	}
	after = dup(STDIN_FILENO);
	CHECK_INT(after, ==, before + 1);
	CHECK_INT(n_kept(), ==, 4);
	for (uint64_t i = 0; i < N_FRAMES; i++) {
		if (i == N_FRAMES / 2)
			move_all();
		send_over(link[i & 1], link[~i & 1], i);
	}
	for (int i = 0; i < 2; i++)
		link[i]->ops->close(link[i]);
	CHECK_INT(n_kept(), ==, 0);
	(void)close(before);
	(void)close(after);
}

static void plain_ones(void)
{
	play(HAL_TCP_PLAIN);
}

static void rings(void)
{
	struct hal_link *link;
	int fd[2], e;

	tcp_connect_pair(fd, AF_INET);
	e = hal_tcp_open(fd[0], HAL_TCP_URING, &link);
	(void)close(fd[1]);
	if (e == 0)
		link->ops->close(link);
	else
		(void)close(fd[0]);
	if (e == 0)
		play(HAL_TCP_URING);
	else
		test_skip("no io_uring here");
}

static const struct test tests[] = {
	TEST(plain_ones),
	TEST(rings),
};

int main(int argc, char **argv)
{
	hal_tcp_keep_fd = keep_high;
	hal_tcp_release_fd = release_high;
	return TESTS_RUN(tests, argc, argv);
}
