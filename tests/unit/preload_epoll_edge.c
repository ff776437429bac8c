/* Edge-triggered members of the shim's epoll sets that the kernel says something of in the midst of
 * a look, on a fake libpulc. */
#include <poll.h>

#include "epoll_set.h"
#include "preload_epoll_bed.h"
#include "rawsys.h"

#define EDGES (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

static struct {
	pulc_stream *of; /* after a look at this one */
	int fds[2];
} ending;

/* The peer ends; the kernel has it when this returns. */
static void end_of_the_other(pulc_stream *s)
{
	struct pollfd pfd = { .fd = ending.fds[0], .events = POLLRDHUP };

	if (s != ending.of)
		return;
	ending.of = NULL;
	atomic_store(&fake_of(ending.fds[0])->exact, POLLRDHUP);
	(void)raw_syscall(SYS_shutdown, ending.fds[1], SHUT_WR);
	(void)raw_syscall(SYS_ppoll, &pfd, 1, NULL, NULL, 8);
}

/* Of two that memory finds to be ready the kernel is asked for the second one, and hears of the
 * first one, which was looked at already. */
static void end_that_is_heard_behind_a_look_is_told(void)
{
	struct epoll_event event = { .events = EDGES, .data.u64 = 1 };
	uint32_t told = 0;
	struct bed b;
	int n;

	begin(&b, EDGES);
	atomic_store(&b.s->exact, POLLOUT); /* the kernel knows more, so it is asked each time */
	REQUIRE_INT(epoll_ctl(b.ep, EPOLL_CTL_MOD, b.fds[0], &event), ==, 0);
	REQUIRE_INT(wait_now(&b), ==, 1);
	fake_pair(ending.fds);
	add(b.ep, ending.fds[0], EDGES, 2);
	fake_attach(fake_of(ending.fds[0]));
	fake_arrive(fake_of(ending.fds[0]), 1);
	REQUIRE_INT(wait_now(&b), ==, 1);
	CHECK_INT(wait_now(&b), ==, 0);
	fake_arrive(b.s, 1);
	fake_arrive(fake_of(ending.fds[0]), 1);
	ending.of = b.s;
	fake.looked = end_of_the_other;
	for (int i = 0; i < 3; i++) {
		n = wait_now(&b);
		for (int j = 0; j < n; j++)
			told |= b.events[j].data.u64 == 2 ? b.events[j].events : 0;
	}
	fake.looked = NULL;
	CHECK(ending.of == NULL);
	CHECK_INT(told, ==, EPOLLIN | EPOLLRDHUP);
	close(ending.fds[0]);
	close(ending.fds[1]);
	end(&b);
}

static const struct test tests[] = {
	TEST(end_that_is_heard_behind_a_look_is_told),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
