/*
 * Ping-pong: how long one message takes from a process to another, with ordinary socket calls.
 *
 * The client sends a message, the server sends it back, one at a time; half a round trip is the
 * one-way time. Both sides receive in the same mode:
 *
 *   blocking  recv() that sleeps until there is something
 *   spin      recv() on a non-blocking socket, again and again: the fastest that the kernel has
 *   poll      poll(), then recv() on a non-blocking socket
 *   epoll     epoll_wait(), then recv() on a non-blocking socket
 *
 * Round trips are timed in batches, because reading the clock costs a good part of a round trip
 * through shared memory; percentiles are those of the batches' means. The first --warmup-msec are
 * not counted: a connection may change its path meanwhile. With --udp a message is a datagram; an
 * empty one ends the server. With --rounds both measure the machine's floor together after a
 * message that says so in its first byte.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "rounds.h"
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_BATCHES_MAX (1u << 20)
#define N_EVENTS 16

struct end {
	int fd;
	int epoll_fd;
};

struct mode {
	const char *name;
	bool nonblock;
	/* Returns when fd may be readable: 0 or a negative errno. */
	int (*wait)(const struct end *e);
};

struct settings {
	unsigned size;
	unsigned n_iterations;
	unsigned msec;
	unsigned warmup_msec;
	unsigned n_batch;
	const char *mode_name;
	const struct mode *mode;
	bool udp;
	bool stay;
	struct bench_rounds rounds;
};

static int wait_not(const struct end *e)
{
	(void)e;
	return 0;
}

static int wait_poll(const struct end *e)
{
	struct pollfd p = { .fd = e->fd, .events = POLLIN };

	return poll(&p, 1, -1) < 0 ? -errno : 0;
}

static int wait_epoll(const struct end *e)
{
	struct epoll_event events[N_EVENTS];

	return epoll_wait(e->epoll_fd, events, N_EVENTS, -1) < 0 ? -errno : 0;
}

static const struct mode modes[] = {
	{ "blocking", false, wait_not },
	{ "spin", true, wait_not },
	{ "poll", true, wait_poll },
	{ "epoll", true, wait_epoll },
};

static const struct mode *mode_find(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, name) == 0)
			return &modes[i];
	return NULL;
}

static int end_init(struct end *e, const struct mode *mode, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	e->fd = fd;
	if (mode->nonblock && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0 || epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	return 0;
}

/* Receives a whole message. Returns 0; 1: the peer closed; or a negative errno. */
static int end_recv(const struct end *e, const struct mode *mode, char *buf, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n;
		int r = mode->wait(e);

		if (r < 0)
			return r;
		n = recv(e->fd, buf + done, size - done, 0);
		if (n == 0)
			return 1;
		if (n > 0)
			done += (size_t)n;
		else if (errno != EAGAIN)
			return errno == ECONNRESET ? 1 : -errno;
	}
	return 0;
}

static int end_send(const struct end *e, const char *buf, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = send(e->fd, buf + done, size - done, MSG_NOSIGNAL);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EAGAIN)
			return -errno;
	}
	return 0;
}

static int round_trips(const struct end *e, const struct settings *set, char *buf, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int r = end_send(e, buf, set->size);

		if (r == 0)
			r = end_recv(e, set->mode, buf, set->size);
		if (r != 0)
			return r < 0 ? r : -ECONNRESET;
	}
	return 0;
}

static int serve(int listener, void *arg)
{
	struct settings *set = arg;
	char *buf = bench_buffer(set->size);
	struct end e;
	int r, fd;

	if (!buf)
		return -ENOMEM;
	r = bench_accept(listener, &fd);
	if (r == 0)
		r = end_init(&e, set->mode, fd);
	while (r == 0) {
		r = end_recv(&e, set->mode, buf, set->size);
		if (r == 0)
			r = end_send(&e, buf, set->size);
		if (r == 0 && buf[0])
			bench_rounds_floor_of_peer(&set->rounds);
	}
	free(buf);
	return r < 0 ? r : 0;
}

static int run_for(const struct end *e, const struct settings *set, char *buf, unsigned msec)
{
	uint64_t end = nsec_now() + msec * 1000000ull;
	int r = 0;

	while (r == 0 && nsec_now() < end)
		r = round_trips(e, set, buf, 1);
	return r;
}

/* Batches until the time of a round is over, or n_iterations round trips are made. */
static int run_timed(const struct end *e, const struct settings *set, char *buf,
		     struct bench_samples *samples)
{
	uint64_t now = nsec_now(), before;
	uint64_t end = now + set->msec * 1000000ull / bench_rounds_count(&set->rounds);
	unsigned left = set->n_iterations;

	while (set->n_iterations ? left > 0 : now < end) {
		unsigned n = left > 0 && left < set->n_batch ? left : set->n_batch;
		int r;

		before = nsec_now();
		r = round_trips(e, set, buf, n);
		if (r < 0)
			return r;
		now = nsec_now();
		bench_samples_add(samples, (double)(now - before) / (2.0 * n));
		left -= left > 0 ? n : 0;
	}
	return 0;
}

static int measure_floor(const struct end *e, struct settings *set, char *buf)
{
	int r;

	if (!set->rounds.n)
		return 0;
	buf[0] = 1;
	r = round_trips(e, set, buf, 1);
	buf[0] = 0;
	return r < 0 ? r : bench_rounds_floor(&set->rounds);
}

static int run_rounds(const struct end *e, struct settings *set, char *buf,
		      struct bench_samples *samples)
{
	int r = measure_floor(e, set, buf);

	for (unsigned i = 0; r == 0 && i < bench_rounds_count(&set->rounds); i++) {
		size_t first = samples->n;

		r = run_timed(e, set, buf, samples);
		bench_rounds_add(&set->rounds, bench_samples_percentile_since(samples, first, 50));
		if (r == 0)
			r = measure_floor(e, set, buf);
	}
	return r;
}

static void report(const struct settings *set, struct bench_samples *s)
{
	printf("mode=%s size=%u one_way_ns=%.1f p10_ns=%.1f p90_ns=%.1f p99_ns=%.1f max_ns=%.1f",
	       set->mode->name, set->size, bench_samples_percentile(s, 50),
	       bench_samples_percentile(s, 10), bench_samples_percentile(s, 90),
	       bench_samples_percentile(s, 99), bench_samples_percentile(s, 100));
	bench_rounds_print(&set->rounds);
	(void)putchar('\n');
	(void)fflush(stdout);
}

static int drive(const struct end *e, struct settings *set, char *buf)
{
	struct bench_samples samples;
	int r;

	r = bench_samples_init(&samples, N_BATCHES_MAX);
	if (r < 0)
		return r;
	r = run_for(e, set, buf, set->warmup_msec);
	if (r == 0)
		r = run_rounds(e, set, buf, &samples);
	if (r == 0) {
		report(set, &samples);
		if (set->stay)
			bench_stay();
	}
	if (set->udp)
		bench_end_udp(e->fd);
	bench_samples_deinit(&samples);
	return r;
}

static int connect_and_drive(const struct sockaddr_in *server, void *arg)
{
	struct settings *set = arg;
	char *buf = bench_buffer(set->size);
	struct end e;
	int r, fd;

	if (!buf)
		return -ENOMEM;
	r = bench_connect(server, set->udp, &fd);
	if (r == 0)
		r = end_init(&e, set->mode, fd);
	if (r == 0)
		r = drive(&e, set, buf);
	free(buf);
	return r;
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	set->mode = mode_find(set->mode_name);
	pair->udp = set->udp;
	if (!set->mode || set->size == 0 || set->n_batch == 0 ||
	    (set->rounds.n && set->n_iterations))
		return -EINVAL;
	return bench_rounds_init(&set->rounds);
}

int main(int argc, char **argv)
{
	struct settings set = {
		.size = 8, .msec = 300, .warmup_msec = 300, .n_batch = 32, .mode_name = "blocking"
	};
	const struct bench_option options[] = {
		{ "mode", "how to receive: blocking, spin, poll or epoll", .text = &set.mode_name },
		{ "size", "bytes of a message", .number = &set.size },
		{ "msec", "time to measure", .number = &set.msec },
		{ "iterations", "round trips to measure; 0: as many as fit in --msec",
		  .number = &set.n_iterations },
		{ "warmup-msec", "time before that, not counted", .number = &set.warmup_msec },
		{ "batch", "round trips timed together", .number = &set.n_batch },
		{ "rounds", "divide the time, with the machine's floor between",
		  .number = &set.rounds.n },
		{ "udp", "datagrams instead of a connection", .flag = &set.udp },
		{ "stay", "keep the connection until standard input ends", .flag = &set.stay },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_and_drive, .arg = &set };

	return bench_pair_main(argc, argv,
			       "One-way time of a message between two processes over TCP or UDP.",
			       &pair, ready, options, sizeof(options) / sizeof(options[0]));
}
