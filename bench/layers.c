/*
 * One message of any size between two processes, layer by layer: the bare HAL, ports of the kinds D
 * and S, messages with tags, and sockets, which are the kernel's or PULC's as the program was
 * started.
 *
 * Two patterns. A ping-pong: the message goes there and one of the same size comes back; half of
 * that is the time. An exchange: both send one and receive the other's at the same time; the whole
 * is the time. After pulc-1998, 5, whose figures these are, at each layer of this system.
 *
 * The two processes of bench/pair.c play batches of one such time after the other. Before each the
 * driver says over their connection how many, as many as take some milliseconds; a first message of
 * each, to meet the other end, is not counted.
 */
#include "layers.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <pulc/tag.h>

#include "clock.h"
#include "macros.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#define N_BATCHES_MAX 100000u
#define N_OF_BATCH_MAX 10000ull
#define NSEC_PER_MSEC (1000 * NSEC_PER_USEC)
#define NSEC_BATCH (2 * NSEC_PER_MSEC)

struct settings {
	unsigned size, msec, warmup_msec;
	const char *way_name;
	const struct bench_way *way;
	bool exchange, stay;
};

/* ---- sockets: both ends spin ----------------------------------------------------------------- */

static int socket_open(struct bench_end *end)
{
	(void)end;
	return 0;
}

/* A part of what is left; nothing is none. */
static int socket_step(ssize_t n, size_t *left)
{
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	*left -= (size_t)n;
	return 0;
}

static int socket_move(struct bench_end *end, bool send_it, bool receive_it)
{
	size_t to_send = send_it ? end->size : 0, to_come = receive_it ? end->size : 0;
	int r = 0;

	while (r == 0 && to_send + to_come > 0) {
		if (to_send > 0)
			r = socket_step(send(end->fd, end->out + end->size - to_send, to_send,
					     MSG_DONTWAIT | MSG_NOSIGNAL),
					&to_send);
		if (r == 0 && to_come > 0)
			r = socket_step(
				recv(end->fd, end->in + end->size - to_come, to_come, MSG_DONTWAIT),
				&to_come);
	}
	return r;
}

static void socket_close(struct bench_end *end)
{
	(void)end;
}

/* ---- ports and tags -------------------------------------------------------------------------- */

struct port_end {
	pulc_port *port;
	struct pulc_address peer;
	uint32_t process; /* the peer's number, for tags */
};

static const struct pulc_tag wanted = { 1, PULC_TAG_EXACT, PULC_ANY_PEER };

static int port_open(struct bench_end *end, enum pulc_kind kind)
{
	struct port_end *p = calloc(1, sizeof(*p));
	struct pulc_address own;
	int r = p ? pulc_port_open(kind, 0, NULL, &p->port) : -ENOMEM;

	end->state = p;
	if (r < 0)
		return r;
	own = pulc_port_address(p->port);
	r = bench_send_all(end->fd, &own, sizeof(own));
	if (r == 0)
		r = bench_recv_all(end->fd, &p->peer, sizeof(p->peer)) == 0 ? 0 : -EPIPE;
	return r < 0 ? r : pulc_peer_find(&p->peer, &p->process);
}

static int port_open_d(struct bench_end *end)
{
	return port_open(end, PULC_D);
}

static int port_open_s(struct bench_end *end)
{
	return port_open(end, PULC_S);
}

/* A message of a stream may come in parts. */
static int receive_rest(const struct port_end *p, struct bench_end *end)
{
	size_t done = 0;
	ssize_t n = 0;

	while (n >= 0 && done < end->size) {
		n = pulc_receive(p->port, end->in + done, end->size - done, NULL, 0);
		done += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? (int)n : 0;
}

static int port_send(const struct port_end *p, const struct bench_end *end)
{
	ssize_t n = pulc_send(p->port, &p->peer, end->out, end->size, 0);

	return n < 0 ? (int)n : 0;
}

static int port_receive(const struct port_end *p, struct bench_end *end)
{
	return end->size ? receive_rest(p, end) : (int)pulc_receive(p->port, end->in, 0, NULL, 0);
}

/* Nobody waits in a send while the other one does. */
static int port_exchange(const struct port_end *p, struct bench_end *end)
{
	pulc_op *op;
	ssize_t n;
	int r = pulc_isend(p->port, &p->peer, end->out, end->size, &op);

	if (r < 0)
		return r;
	r = port_receive(p, end);
	n = pulc_op_end(op, NULL);
	return r < 0 ? r : n < 0 ? (int)n : 0;
}

static int port_move(struct bench_end *end, bool send_it, bool receive_it)
{
	const struct port_end *p = end->state;

	if (send_it && receive_it)
		return port_exchange(p, end);
	return send_it ? port_send(p, end) : port_receive(p, end);
}

static int tag_exchange(const struct port_end *p, struct bench_end *end)
{
	pulc_op *op;
	ssize_t sent, came;
	int r = pulc_tag_ireceive(&wanted, end->in, end->size, &op);

	if (r < 0)
		return r;
	sent = pulc_tag_send(p->process, 1, end->out, end->size);
	came = pulc_op_end(op, NULL);
	return sent < 0 ? (int)sent : came < 0 ? (int)came : 0;
}

static int tag_move(struct bench_end *end, bool send_it, bool receive_it)
{
	const struct port_end *p = end->state;
	ssize_t n;

	if (send_it && receive_it)
		return tag_exchange(p, end);
	n = send_it ? pulc_tag_send(p->process, 1, end->out, end->size)
		    : pulc_tag_receive(&wanted, end->in, end->size, NULL);
	return n < 0 ? (int)n : 0;
}

static void port_close(struct bench_end *end)
{
	struct port_end *p = end->state;

	if (p && p->port)
		(void)pulc_port_close(p->port);
	free(p);
}

static const struct bench_way way_d = { "D", NULL, port_open_d, port_move, port_close };
static const struct bench_way way_s = { "S", NULL, port_open_s, port_move, port_close };
static const struct bench_way way_t = { "T", NULL, port_open_d, tag_move, port_close };
static const struct bench_way way_socket = { "socket", NULL, socket_open, socket_move,
					     socket_close };
static const struct bench_way *const ways[] = { &bench_way_hal, &way_d, &way_s, &way_t,
						&way_socket };

/* ---- batches --------------------------------------------------------------------------------- */

static int play_one(const struct settings *set, struct bench_end *end)
{
	int r;

	if (set->exchange)
		return set->way->move(end, true, true);
	r = set->way->move(end, !end->server, end->server);
	return r < 0 ? r : set->way->move(end, end->server, !end->server);
}

static int play_batch(const struct settings *set, struct bench_end *end, uint32_t n,
		      uint64_t *ret_nsec)
{
	uint64_t began;
	int r = play_one(set, end);

	began = nsec_now();
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = play_one(set, end);
	*ret_nsec = nsec_now() - began;
	return r;
}

/* Until it is asked for none. */
static int follow(const struct settings *set, struct bench_end *end)
{
	uint64_t nsec;
	uint32_t n;
	int r;

	do {
		r = bench_recv_all(end->fd, &n, sizeof(n)) == 0 ? 0 : -EPIPE;
		if (r == 0 && n > 0)
			r = play_batch(set, end, n, &nsec);
	} while (r == 0 && n > 0);
	return r;
}

static int drive_for(const struct settings *set, struct bench_end *end, unsigned msec, uint32_t *n,
		     struct bench_samples *samples)
{
	uint64_t until = nsec_now() + msec * NSEC_PER_MSEC, took;
	int r;

	do {
		r = bench_send_all(end->fd, n, sizeof(*n));
		if (r == 0)
			r = play_batch(set, end, *n, &took);
		if (r == 0 && samples)
			bench_samples_add(samples, (double)took / *n / (set->exchange ? 1 : 2));
		*n = (uint32_t)MIN(*n * NSEC_BATCH / (took + 1) + 1, N_OF_BATCH_MAX);
	} while (r == 0 && nsec_now() < until);
	return r;
}

static int drive(const struct settings *set, struct bench_end *end)
{
	struct bench_samples samples;
	uint32_t n = 1, none = 0;
	int r = bench_samples_init(&samples, N_BATCHES_MAX);

	if (r < 0)
		return r;
	r = drive_for(set, end, set->warmup_msec, &n, NULL);
	if (r == 0)
		r = drive_for(set, end, set->msec, &n, &samples);
	if (r == 0)
		printf("way=%s size=%u nsec=%.1f\n", set->way->name, set->size,
		       bench_samples_percentile(&samples, 50));
	(void)fflush(stdout);
	bench_samples_deinit(&samples);
	if (r == 0 && set->stay)
		bench_stay();
	return r < 0 ? r : bench_send_all(end->fd, &none, sizeof(none));
}

/* ---- the two ends ---------------------------------------------------------------------------- */

static int run_end(const struct settings *set, struct bench_end *end)
{
	int r;

	end->size = set->size;
	end->out = bench_buffer(MAX(set->size, 1u));
	end->in = bench_buffer(MAX(set->size, 1u));
	r = end->out && end->in ? set->way->open(end) : -ENOMEM;
	if (r == 0)
		r = end->server ? follow(set, end) : drive(set, end);
	set->way->close(end);
	free(end->out);
	free(end->in);
	return r;
}

static int serve(int listener, void *arg)
{
	struct bench_end end = { .server = true };
	int r = bench_accept(listener, &end.fd);

	return r < 0 ? r : run_end(arg, &end);
}

static int connect_and_drive(const struct sockaddr_in *server, void *arg)
{
	struct bench_end end = { .server = false };
	int r = bench_connect(server, false, &end.fd);

	return r < 0 ? r : run_end(arg, &end);
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (strcmp(set->way_name, ways[i]->name) == 0)
			set->way = ways[i];
	if (!set->way || set->size > PULC_MESSAGE_MAX)
		return -EINVAL;
	if (set->size == 0 && (set->way == &way_s || set->way == &way_socket))
		return -EINVAL; /* a stream has no messages of nothing */
	return set->way->prepare ? set->way->prepare() : 0;
}

int main(int argc, char **argv)
{
	struct settings set = { .size = 8, .msec = 50, .warmup_msec = 50, .way_name = "D" };
	const struct bench_option options[] = {
		{ "way", "hal, D, S, T (tags) or socket", .text = &set.way_name },
		{ "exchange", "both send at the same time, instead of a ping-pong",
		  .flag = &set.exchange },
		{ "stay", "keep the connection until standard input ends", .flag = &set.stay },
		{ "size", "bytes of a message", .number = &set.size },
		{ "msec", "time to measure", .number = &set.msec },
		{ "warmup-msec", "time before that, not counted", .number = &set.warmup_msec },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_and_drive, .arg = &set };

	return bench_pair_main(argc, argv, "The time of a message of any size, layer by layer.",
			       &pair, ready, options, sizeof(options) / sizeof(options[0]));
}
