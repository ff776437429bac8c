/*
 * Who waits for an epoll set itself, by poll, by select or as a member of another set: on a fake
 * libpulc, whose streams say what is so. A member's kernel socket stirs between the last look at
 * the set and the kernel's answer, which is then of nothing that the program could have.
 */
#include <poll.h>
#include <sys/resource.h>
#include <sys/select.h>

#include "harness.h"
#include "preload_epoll_bed.h"
#include "symbols.h"

#define DATA 11
/* Long enough to tell a wait from an answer. */
#define MSEC 30

static struct pre_real libc;
static int stirrer = -1;

/* Once: what the kernel says of the socket is new, and the stream knows of nothing. */
static void stir(void)
{
	int fd = stirrer;

	stirrer = -1;
	if (fd >= 0)
		REQUIRE_INT(libc.write(fd, "x", 1), ==, 1);
}

static int stirred_poll(struct pollfd *fds, nfds_t n, int msec)
{
	stir();
	return libc.poll(fds, n, msec);
}

static int stirred_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask)
{
	stir();
	return libc.ppoll(fds, n, timeout, mask);
}

static int stirred_select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	stir();
	return libc.select(n, in, out, except, timeout);
}

static int stirred_pselect(int n, fd_set *in, fd_set *out, fd_set *except,
			   const struct timespec *timeout, const sigset_t *mask)
{
	stir();
	return libc.pselect(n, in, out, except, timeout, mask);
}

static int stirred_epoll_pwait(int fd, struct epoll_event *events, int max, int msec,
			       const sigset_t *mask)
{
	stir();
	return libc.epoll_pwait(fd, events, max, msec, mask);
}

static void begin_stirred(struct bed *b)
{
	begin(b, EPOLLIN);
	libc = pre_real;
	pre_real.poll = stirred_poll;
	pre_real.ppoll = stirred_ppoll;
	pre_real.select = stirred_select;
	pre_real.pselect = stirred_pselect;
	pre_real.epoll_pwait = stirred_epoll_pwait;
}

static void end_stirred(struct bed *b)
{
	pre_real = libc;
	end(b);
}

static void next_wait_is_stirred(const struct bed *b)
{
	stirrer = b->fds[1];
}

static void poll_believes_what_is_true(void)
{
	struct pollfd pfd = { .events = POLLIN };
	struct bed b;

	begin_stirred(&b);
	pfd.fd = b.ep;
	CHECK_INT(poll(&pfd, 1, 0), ==, 0);
	next_wait_is_stirred(&b);
	CHECK_INT(poll(&pfd, 1, MSEC), ==, 0);
	CHECK_INT(stirrer, ==, -1);
	fake_arrive(b.s, 1);
	CHECK_INT(poll(&pfd, 1, 30000), ==, 1);
	CHECK_INT(pfd.revents, ==, POLLIN);
	end_stirred(&b);
}

static void poll_of_a_set_and_a_stream(void)
{
	struct pollfd pfds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	int other[2];
	struct bed b;

	begin_stirred(&b);
	fake_pair(other);
	fake_attach(fake_of(other[0]));
	pfds[0].fd = b.ep;
	pfds[1].fd = other[0];
	CHECK_INT(poll(pfds, 2, 0), ==, 0);
	next_wait_is_stirred(&b);
	CHECK_INT(poll(pfds, 2, MSEC), ==, 0);
	CHECK_INT(stirrer, ==, -1);
	fake_arrive(fake_of(other[0]), 1);
	CHECK_INT(poll(pfds, 2, 30000), ==, 1);
	fake_arrive(b.s, 1);
	CHECK_INT(poll(pfds, 2, 30000), ==, 2);
	close(other[0]);
	close(other[1]);
	end_stirred(&b);
}

static int select_now(int fd, long msec)
{
	struct timeval timeout = { .tv_sec = msec / 1000, .tv_usec = msec % 1000 * 1000 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	return select(fd + 1, &in, NULL, NULL, &timeout);
}

static void select_believes_what_is_true(void)
{
	struct timespec timeout = { .tv_nsec = MSEC * 1000000l };
	struct bed b;
	fd_set in;

	begin_stirred(&b);
	CHECK_INT(select_now(b.ep, 0), ==, 0);
	next_wait_is_stirred(&b);
	CHECK_INT(select_now(b.ep, MSEC), ==, 0);
	CHECK_INT(stirrer, ==, -1);
	next_wait_is_stirred(&b);
	FD_ZERO(&in);
	FD_SET(b.ep, &in);
	CHECK_INT(pselect(b.ep + 1, &in, NULL, NULL, &timeout, NULL), ==, 0);
	CHECK(!FD_ISSET(b.ep, &in));
	fake_arrive(b.s, 1);
	CHECK_INT(select_now(b.ep, 30000), ==, 1);
	end_stirred(&b);
}

/* A set in a set, registered so: false news are none, true ones come. */
static void nested(uint32_t events)
{
	struct epoll_event event;
	int outer = epoll_create1(0);
	struct bed b;
	char c;

	begin_stirred(&b);
	add(outer, b.ep, events, DATA);
	CHECK_INT(epoll_wait(outer, &event, 1, 0), ==, 0);
	for (int i = 0; i < 3; i++) {
		next_wait_is_stirred(&b);
		CHECK_INT(epoll_wait(outer, &event, 1, i == 1 ? MSEC : 0), ==, 0);
		CHECK_INT(stirrer, ==, -1);
	}
	fake_arrive(b.s, 1);
	REQUIRE_INT(epoll_wait(outer, &event, 1, 30000), ==, 1);
	CHECK_INT(event.data.u64, ==, DATA);
	CHECK_INT(event.events, ==, EPOLLIN);
	CHECK_INT(wait_now(&b), ==, 1);
	CHECK_INT(recv(b.fds[0], &c, 1, 0), ==, 1);
	CHECK_INT(epoll_wait(outer, &event, 1, 0), ==, 0);
	close(outer);
	end_stirred(&b);
}

static void nested_by_level(void)
{
	nested(EPOLLIN);
}

static void nested_by_edge(void)
{
	nested(EPOLLIN | EPOLLET);
}

static void nested_one_shot(void)
{
	nested(EPOLLIN | EPOLLONESHOT);
}

/* The kernel asks sets in sets itself, as deep as they go. */
static void nested_twice(void)
{
	int outer = epoll_create1(0), middle = epoll_create1(0);
	struct pollfd pfd = { .fd = outer, .events = POLLIN };
	struct epoll_event event;
	struct bed b;

	begin_stirred(&b);
	add(middle, b.ep, EPOLLIN, DATA);
	add(outer, middle, EPOLLIN, DATA);
	next_wait_is_stirred(&b);
	CHECK_INT(epoll_wait(outer, &event, 1, MSEC), ==, 0);
	CHECK_INT(stirrer, ==, -1);
	next_wait_is_stirred(&b);
	CHECK_INT(poll(&pfd, 1, MSEC), ==, 0);
	CHECK_INT(stirrer, ==, -1);
	fake_arrive(b.s, 1);
	CHECK_INT(poll(&pfd, 1, 30000), ==, 1);
	CHECK_INT(epoll_wait(outer, &event, 1, 30000), ==, 1);
	close(outer);
	close(middle);
	end_stirred(&b);
}

/* What is ready may be the other one that has this data: it is reported. */
static void nested_beside_its_like(void)
{
	struct epoll_event event;
	int outer = epoll_create1(0), pipes[2];
	struct bed b;

	begin_stirred(&b);
	REQUIRE_INT(pipe(pipes), ==, 0);
	add(outer, b.ep, EPOLLIN, DATA);
	add(outer, pipes[0], EPOLLIN | EPOLLET, DATA);
	CHECK_INT(epoll_wait(outer, &event, 1, 0), ==, 0);
	CHECK_INT(write(pipes[1], "x", 1), ==, 1);
	CHECK_INT(epoll_wait(outer, &event, 1, 30000), ==, 1);
	CHECK_INT(event.data.u64, ==, DATA);
	close(pipes[0]);
	close(pipes[1]);
	close(outer);
	end_stirred(&b);
}

/* Its place is another's now. */
static void nested_deleted(void)
{
	struct epoll_event event;
	int outer = epoll_create1(0), pipes[2];
	struct bed b;

	begin_stirred(&b);
	REQUIRE_INT(pipe(pipes), ==, 0);
	add(outer, b.ep, EPOLLIN, DATA);
	REQUIRE_INT(epoll_ctl(outer, EPOLL_CTL_DEL, b.ep, NULL), ==, 0);
	add(outer, pipes[0], EPOLLIN | EPOLLET, DATA);
	CHECK_INT(write(pipes[1], "x", 1), ==, 1);
	CHECK_INT(epoll_wait(outer, &event, 1, 30000), ==, 1);
	fake_arrive(b.s, 1);
	CHECK_INT(epoll_wait(outer, &event, 1, 0), ==, 0);
	close(pipes[0]);
	close(pipes[1]);
	close(outer);
	end_stirred(&b);
}

/* Long enough for a busy machine: who waits for all of it was not told. */
#define MSEC_HANGING 3000

static void *arrive_when_asleep(void *arg)
{
	struct bed *b = arg;

	usleep(MSEC * 1000);
	fake_arrive(b->s, 1);
	return NULL;
}

/* wait: one that may last. Nobody can ring; what is there is told, and what comes later, and then
 * that there is no more. */
static void told_without_a_bell(struct bed *b, int (*wait)(int fd, long msec), int fd)
{
	pthread_t thread;
	char c;

	CHECK_INT(wait(fd, 0), ==, 0);
	for (int i = 0; i < 2; i++) {
		fake_arrive(b->s, 1);
		CHECK_INT(wait(fd, i ? MSEC_HANGING : 0), ==, 1);
		CHECK_INT(wait_now(b), ==, 1);
		CHECK_INT(recv(b->fds[0], &c, 1, 0), ==, 1);
		CHECK_INT(wait(fd, i ? MSEC : 0), ==, 0);
		pthread_create(&thread, NULL, arrive_when_asleep, b);
		CHECK_INT(wait(fd, MSEC_HANGING), ==, 1);
		pthread_join(thread, NULL);
		CHECK_INT(wait_now(b), ==, 1);
		CHECK_INT(recv(b->fds[0], &c, 1, 0), ==, 1);
		CHECK_INT(wait(fd, 0), ==, 0);
	}
}

static int poll_one(int fd, long msec)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, (int)msec);
}

static int wait_for_one(int fd, long msec)
{
	struct epoll_event event;

	return epoll_wait(fd, &event, 1, (int)msec);
}

static void without_a_bell(int (*wait)(int fd, long msec), uint32_t nested, uint32_t events)
{
	int outer = epoll_create1(0);
	struct bed b;

	fake.no_waitset = true;
	begin(&b, events);
	if (nested)
		add(outer, b.ep, nested, DATA);
	told_without_a_bell(&b, wait, nested ? outer : b.ep);
	close(outer);
	end(&b);
	fake.no_waitset = false;
}

static void poll_without_a_bell(void)
{
	without_a_bell(poll_one, 0, EPOLLIN);
	without_a_bell(poll_one, 0, EPOLLIN | EPOLLOUT | EPOLLET);
}

static void select_without_a_bell(void)
{
	without_a_bell(select_now, 0, EPOLLIN);
}

static void nested_without_a_bell(void)
{
	without_a_bell(wait_for_one, EPOLLIN, EPOLLIN);
	without_a_bell(wait_for_one, EPOLLIN | EPOLLET, EPOLLIN);
	without_a_bell(wait_for_one, EPOLLIN, EPOLLIN | EPOLLET);
	without_a_bell(poll_one, EPOLLIN, EPOLLIN);
}

/* Nor is a descriptor to be had for what a set has besides. */
static void poll_without_descriptors(void)
{
	struct rlimit limit, low;
	struct bed b;

	b.ep = epoll_create1(EPOLL_CLOEXEC);
	fake_pair(b.fds);
	b.s = fake_of(b.fds[0]);
	add(b.ep, b.fds[0], EPOLLIN, 4);
	getrlimit(RLIMIT_NOFILE, &limit);
	low = limit;
	low.rlim_cur = (rlim_t)b.fds[1] + 1;
	setrlimit(RLIMIT_NOFILE, &low);
	fake_attach(b.s);
	CHECK_INT(wait_now(&b), ==, 0);
	told_without_a_bell(&b, poll_one, b.ep);
	setrlimit(RLIMIT_NOFILE, &limit);
	end(&b);
}

static const struct test tests[] = {
	TEST(poll_believes_what_is_true),
	TEST(poll_of_a_set_and_a_stream),
	TEST(select_believes_what_is_true),
	TEST(nested_by_level),
	TEST(nested_by_edge),
	TEST(nested_one_shot),
	TEST(nested_twice),
	TEST(nested_beside_its_like),
	TEST(nested_deleted),
	TEST(poll_without_a_bell),
	TEST(poll_without_descriptors),
	TEST(select_without_a_bell),
	TEST(nested_without_a_bell),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
