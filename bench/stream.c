/*
 * One-way stream: messages a second, and bytes a second, from a process to another.
 *
 * The sender sends messages of one size as fast as send() takes them, the receiver takes them with
 * recv() of the same size (or of --recv-size). The receiver counts what it got in a window of time
 * that begins after the warm-up; the sender goes on a little longer, so that the window's end is as
 * busy as its beginning. With --udp each message is a datagram; those count that arrive.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_CALLS_A_LOOK 64u /* the clock is read once in so many calls ... */
#define SIZE_A_LOOK 65536u /* ... or bytes, whichever is first */
#define MSEC_MARGIN 300u   /* a receiver that is scheduled late must not see the end */

struct settings {
	unsigned size;
	unsigned recv_size;
	unsigned msec;
	unsigned warmup_msec;
	bool udp;
	bool stay;
};

/* How many calls of `size` bytes to make between two looks at the clock. */
static unsigned calls_a_look(unsigned size)
{
	return size * N_CALLS_A_LOOK <= SIZE_A_LOOK ? N_CALLS_A_LOOK : SIZE_A_LOOK / size + 1;
}

/* Receives for a while. Returns the bytes got, *ret_nsec the time it took; a negative errno. */
static ssize_t receive_for(int fd, const struct settings *set, char *buf, unsigned msec,
			   uint64_t *ret_nsec)
{
	uint64_t began = nsec_now(), end = began + msec * 1000000ull, now = began;
	unsigned n_calls = calls_a_look(set->recv_size);
	ssize_t size = 0;

	for (; now < end; now = nsec_now()) {
		for (unsigned i = 0; i < n_calls; i++) {
			ssize_t n = recv(fd, buf, set->recv_size, 0);

			if (n <= 0)
				return n < 0 ? -errno
					     : -ECONNRESET; /* the sender lives longer than this */
			size += n;
		}
	}
	*ret_nsec = now - began;
	return size;
}

static int drain(int fd, char *buf, size_t size)
{
	ssize_t n;

	do
		n = recv(fd, buf, size, 0);
	while (n > 0);
	return n < 0 ? -errno : 0;
}

static void report(const struct settings *set, double size, double nsec)
{
	printf("size=%u recv_size=%u messages_per_usec=%.3f gbs=%.3f\n", set->size, set->recv_size,
	       size / set->size / nsec * 1000, size / nsec);
	(void)fflush(stdout);
}

static int serve(int listener, void *arg)
{
	const struct settings *set = arg;
	char *buf = bench_buffer(set->recv_size);
	uint64_t nsec;
	ssize_t n;
	int r, fd;

	if (!buf)
		return -ENOMEM;
	r = bench_accept(listener, &fd);
	if (r == 0) {
		n = receive_for(fd, set, buf, set->warmup_msec, &nsec);
		if (n >= 0)
			n = receive_for(fd, set, buf, set->msec, &nsec);
		if (n >= 0)
			report(set, (double)n, (double)nsec);
		r = n < 0 ? (int)n : drain(fd, buf, set->recv_size);
	}
	free(buf);
	return r;
}

static int send_for(int fd, const char *buf, unsigned size, unsigned msec)
{
	uint64_t end = nsec_now() + msec * 1000000ull;
	unsigned n_calls = calls_a_look(size);

	while (nsec_now() < end)
		for (unsigned i = 0; i < n_calls; i++)
			if (send(fd, buf, size, MSG_NOSIGNAL) < 0)
				return -errno;
	return 0;
}

static int connect_and_send(const struct sockaddr_in *server, void *arg)
{
	const struct settings *set = arg;
	char *buf = bench_buffer(set->size);
	int r, fd;

	if (!buf)
		return -ENOMEM;
	r = bench_connect(server, set->udp, &fd);
	if (r == 0)
		r = send_for(fd, buf, set->size, set->warmup_msec + set->msec + MSEC_MARGIN);
	if (r == 0 && set->stay)
		bench_stay();
	if (r == 0 && set->udp)
		bench_end_udp(fd);
	free(buf);
	return r;
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	if (set->recv_size == 0)
		set->recv_size = set->size;
	pair->udp = set->udp;
	return set->size == 0 ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	struct settings set = { .size = 8, .msec = 300, .warmup_msec = 300 };
	const struct bench_option options[] = {
		{ "size", "bytes of each send()", .number = &set.size },
		{ "recv-size", "bytes asked for by each recv(); 0: --size",
		  .number = &set.recv_size },
		{ "msec", "time to measure", .number = &set.msec },
		{ "warmup-msec", "time before that, not counted", .number = &set.warmup_msec },
		{ "udp", "datagrams instead of a connection", .flag = &set.udp },
		{ "stay", "keep the connection until standard input ends", .flag = &set.stay },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_and_send, .arg = &set };

	return bench_pair_main(
		argc, argv,
		"Messages and bytes a second, one way, between two processes over TCP or UDP.",
		&pair, ready, options, sizeof(options) / sizeof(options[0]));
}
