/*
 * A receiver of HAL tcp that takes a few frames and then asks whether there are more, as whoever is
 * about to sleep does: what has arrived and finds no room yet in the link's memory counts, for no
 * news of it will come.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define N_FRAMES 6u
#define LEN 60000u
#define N_TURNS 10000u

static struct hal_link *link_of[2];

static void move_on(void)
{
	for (unsigned i = 0; i < 2; i++)
		CHECK_INT(link_of[i]->ops->progress(link_of[i]), ==, 0);
}

static void send_all(void)
{
	static char buf[LEN];
	const struct iovec iov = { buf, LEN };
	struct hal_frame f = { .len = LEN, .protocol = 7 };
	struct hal_link *from = link_of[0];
	unsigned n_turns = 0;

	for (; f.word < N_FRAMES; f.word++)
		while (from->ops->send(from, &f, &iov, 1) < 0) {
			REQUIRE_INT(n_turns++, <, N_TURNS);
			move_on();
		}
	for (unsigned i = 0; i < N_TURNS && hal_link_flush(from) < 0; i++)
		move_on();
	REQUIRE_INT(hal_link_flush(from), ==, 0);
}

/* All that was sent has arrived: nothing comes between a look and the next one. */
static bool has_arrived(int fd_from)
{
	int n = 0;

	REQUIRE_INT(ioctl(fd_from, SIOCOUTQ, &n), ==, 0);
	return n == 0;
}

/* Whatever the kernel has finished for us is told when a call of ours returns. */
static bool is_pending(const struct hal_link *link)
{
	(void)syscall(SYS_getppid);
	return link->ops->pending(link);
}

static void play(enum hal_tcp_way way)
{
	struct hal_frame f;
	struct hal_link *to;
	unsigned n = 0;
	int fd[2];

	tcp_connect_pair(fd, AF_INET);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE_INT(hal_tcp_open(fd[i], way, &link_of[i]), ==, 0);
	to = link_of[1];
	send_all();
	for (unsigned i = 0; i < N_TURNS && n < N_FRAMES; i++) {
		bool all_there = has_arrived(fd[0]), was = is_pending(to);
		int e = to->ops->next(to, &f);

		REQUIRE(e >= 0);
		if (e == 0)
			continue;
		CHECK(was || !all_there);
		CHECK_INT(f.word, ==, n++);
		to->ops->drop(to);
	}
	CHECK_INT(n, ==, N_FRAMES);
	for (unsigned i = 0; i < 2; i++)
		link_of[i]->ops->close(link_of[i]);
}

static void by_plain_calls(void)
{
	play(HAL_TCP_PLAIN);
}

/* By rings, where the kernel allows them. */
static void by_the_best_way(void)
{
	play(HAL_TCP_BEST);
}

static const struct test tests[] = {
	TEST(by_plain_calls),
	TEST(by_the_best_way),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
