/*
 * The descriptor for a program's own loop: poll, epoll in both modes and libuv sleep on it, and
 * miss nothing.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <uv.h>

#include "psid/native_case.h"

#define N_ROUNDS 1500u
#define MSEC_PATIENCE 40000

static pulc_port *port;
static uint64_t seen;
static unsigned n_received;

/* Everything that is there; each message is answered. True: it was the last. */
static bool serve(void)
{
	struct pulc_address from;
	uint32_t number;
	ssize_t n;

	while ((n = pulc_receive(port, &number, sizeof(number), &from, PULC_DONTWAIT)) > 0) {
		MUST_IS(n, sizeof(number));
		MUST_IS(number, n_received++);
		MUST_IS(pulc_send(port, &from, &number, sizeof(number), 0), sizeof(number));
	}
	MUST_IS(n, -EAGAIN);
	return n_received == N_ROUNDS;
}

/* Until it is all right to sleep. True: it is over. */
static bool serve_and_arm(void)
{
	int e;

	for (;;) {
		if (serve())
			return true;
		e = pulc_arm(&seen);
		if (e == 0)
			return false;
		MUST_IS(e, 1);
	}
}

static int begin(void)
{
	int fd;

	MUST_IS(pulc_arm(&seen), -EBADF);
	port = native_open(PULC_D, "server");
	fd = pulc_fd();
	MUST(fd >= 0);
	MUST_IS(pulc_fd(), fd);
	return fd;
}

static void end(void)
{
	pulc_disarm();
	pulc_disarm();
	native_await(1);
	MUST_IS(pulc_port_close(port), 0);
}

static void serve_with_poll(void)
{
	struct pollfd p = { .fd = begin(), .events = POLLIN };

	while (!serve_and_arm()) {
		MUST_IS(poll(&p, 1, MSEC_PATIENCE), 1);
		pulc_disarm();
	}
	end();
}

static void serve_with_epoll(unsigned mode)
{
	struct epoll_event event = { .events = EPOLLIN | mode };
	int fd = begin(), epoll = epoll_create1(EPOLL_CLOEXEC);

	MUST_IS(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	while (!serve_and_arm()) {
		MUST_IS(epoll_wait(epoll, &event, 1, MSEC_PATIENCE), 1);
		pulc_disarm();
	}
	end();
	(void)close(epoll);
}

static void serve_with_level(void)
{
	serve_with_epoll(0);
}

static void serve_with_edge(void)
{
	serve_with_epoll(EPOLLET);
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
	MUST_IS(status, 0);
	MUST_IS(events, UV_READABLE);
	pulc_disarm();
	if (serve_and_arm())
		uv_close((uv_handle_t *)handle, NULL);
}

static void serve_with_uv(void)
{
	uv_poll_t handle;
	uv_loop_t loop;

	MUST_IS(uv_loop_init(&loop), 0);
	MUST_IS(uv_poll_init(&loop, &handle, begin()), 0);
	if (!serve_and_arm())
		MUST_IS(uv_poll_start(&handle, UV_READABLE, on_readable), 0);
	MUST_IS(uv_run(&loop, UV_RUN_DEFAULT), 0);
	MUST_IS(uv_loop_close(&loop), 0);
	end();
}

/* One question after the other: each may come while the server goes to sleep. Bursts in between. */
static void ask(void)
{
	struct pulc_address server = native_find("server");
	pulc_port *p = native_open(PULC_D, NULL);
	uint32_t answer;

	for (uint32_t i = 0; i < N_ROUNDS;) {
		unsigned burst = i % 7 == 0 ? 5 : 1;

		for (uint32_t k = i; k < i + burst && k < N_ROUNDS; k++)
			MUST_IS(pulc_send(p, &server, &k, sizeof(k), 0), sizeof(k));
		for (; burst > 0 && i < N_ROUNDS; burst--, i++) {
			MUST_IS(pulc_receive(p, &answer, sizeof(answer), NULL, 0), sizeof(answer));
			MUST_IS(answer, i);
		}
	}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void poll_sleeps_on_it(void)
{
	NATIVE_RUN(serve_with_poll, ask);
}

static void epoll_sleeps_on_it(void)
{
	NATIVE_RUN(serve_with_level, ask);
	NATIVE_RUN(serve_with_edge, ask);
}

static void libuv_sleeps_on_it(void)
{
	NATIVE_RUN(serve_with_uv, ask);
}

/* ---- other news ------------------------------------------------------------------------------ */

static unsigned n_gone;

static int arrived(void *arg, const struct pulc_frame *f)
{
	(void)arg, (void)f;
	native_reach(2);
	return 0;
}

static void gone(void *arg, uint32_t peer, int error)
{
	(void)arg, (void)peer, (void)error;
	n_gone++;
}

/* A peer that ends while we sleep; its one frame has gone to a handler. */
static void sleep_until_it_ends(void)
{
	const struct pulc_protocol protocol = { arrived, gone, NULL };
	struct pollfd p = { .fd = begin(), .events = POLLIN };
	int e;

	MUST_IS(pulc_protocol_register(20, &protocol), 0);
	while (n_gone == 0) {
		e = pulc_arm(&seen);
		if (e == 0) {
			MUST_IS(poll(&p, 1, MSEC_PATIENCE), 1);
			pulc_disarm();
		}
	}
	MUST_IS(pulc_port_close(port), 0);
}

static void join_and_end(void)
{
	struct pulc_address server = native_find("server");
	struct pulc_frame f = { .protocol = 20 };

	MUST_IS(pulc_peer_find(&server, &f.peer), 0);
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	native_await(2);
}

static void a_peers_end_wakes(void)
{
	NATIVE_RUN(sleep_until_it_ends, join_and_end);
}

static const struct test tests[] = {
	TEST(poll_sleeps_on_it),
	TEST(epoll_sleeps_on_it),
	TEST(libuv_sleeps_on_it),
	TEST(a_peers_end_wakes),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
