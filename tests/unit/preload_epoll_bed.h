/* An epoll set with one stream of the fake libpulc in it. */
#ifndef PULC_TESTS_PRELOAD_EPOLL_BED_H
#define PULC_TESTS_PRELOAD_EPOLL_BED_H

#include <sys/epoll.h>

#include "harness.h"
#include "preload_fake.h"

#define N_EVENTS 256

struct bed {
	int ep;
	int fds[2];
	pulc_stream *s;
	struct epoll_event events[N_EVENTS];
};

static inline void add(int ep, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };

	REQUIRE_INT(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), ==, 0);
}

/* A set with one stream in it, attached after that. */
static inline void begin(struct bed *b, uint32_t events)
{
	b->ep = epoll_create1(EPOLL_CLOEXEC);
	fake_pair(b->fds);
	b->s = fake_of(b->fds[0]);
	add(b->ep, b->fds[0], events, 0x1234567890abcdefull);
	fake_attach(b->s);
	(void)epoll_wait(b->ep, b->events, N_EVENTS, 0);
}

static inline void end(struct bed *b)
{
	close(b->ep);
	close(b->fds[0]);
	close(b->fds[1]);
	CHECK_INT(fake.n_streams, ==, 0);
}

static inline int wait_now(struct bed *b)
{
	return epoll_wait(b->ep, b->events, N_EVENTS, 0);
}

#endif
