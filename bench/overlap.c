/*
 * Does a send go on while its sender computes? Non-blocking sends of long messages, with tags or to
 * a port D, to a process that receives one after the other; and between beginning and end of each a
 * computation that takes as long as such a send.
 *
 * Three times are taken, turn by turn: a send that is waited for, the computation alone, and a send
 * with the computation in between. Before either send there is a computation, so that both meet a
 * receiver that has gone to sleep meanwhile. What the third one is shorter than the sum of the
 * others was hidden, and is told as a share of the shorter one. The lower tenth of each counts, for
 * whatever else the machine does hides nothing. Both processes are pinned, so the progress thread,
 * if it is asked for, has no processor but the computation's.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pulc/tag.h>

#include "macros.h"

#define N_ROUNDS_MAX 1000000u
#define N_CALIBRATE 50u

struct settings {
	unsigned size, msec;
	bool port, thread;
};

struct client {
	const struct settings *set;
	pulc_port *own;
	struct pulc_address to; /* a port, */
	uint32_t peer;		/* or its process */
	char *buf;
	uint64_t n_steps; /* of the computation */
};

static volatile double result;
static const struct pulc_tag wanted = { 1, PULC_TAG_EXACT, PULC_ANY_PEER };

/* ---- the receiver ---------------------------------------------------------------------------- */

/* Until a message says that it is the last. */
static int receive_all(pulc_port *port, const struct settings *set, char *buf)
{
	ssize_t n;

	do
		n = set->port ? pulc_receive(port, buf, set->size, NULL, 0)
			      : pulc_tag_receive(&wanted, buf, set->size, NULL);
	while (n == (ssize_t)set->size && !buf[0]);
	return n < 0 ? (int)n : n == (ssize_t)set->size ? 0 : -EPROTO;
}

static int serve(int listener, void *arg)
{
	const struct settings *set = arg;
	char *buf = bench_buffer(set->size);
	struct pulc_address self;
	pulc_port *port;
	int fd, r = buf ? pulc_port_open(PULC_D, 0, NULL, &port) : -ENOMEM;

	if (r < 0)
		return r;
	self = pulc_port_address(port);
	r = bench_accept(listener, &fd);
	if (r == 0)
		r = bench_send_all(fd, &self, sizeof(self));
	if (r == 0)
		r = receive_all(port, set, buf);
	free(buf);
	return r < 0 ? r : pulc_port_close(port);
}

/* ---- the sender ------------------------------------------------------------------------------ */

static void compute(uint64_t n_steps)
{
	double x = 1.5;

	for (uint64_t i = 0; i < n_steps; i++)
		x = x * 0.999999 + 0.000001;
	result = x;
}

static int begin_send(const struct client *c, pulc_op **ret_op)
{
	return c->set->port ? pulc_isend(c->own, &c->to, c->buf, c->set->size, ret_op)
			    : pulc_tag_isend(c->peer, 1, c->buf, c->set->size, ret_op);
}

/* ns, or a negative errno. */
static int64_t send_one(const struct client *c, uint64_t n_steps)
{
	uint64_t begin = nsec_now();
	pulc_op *op;
	ssize_t n = begin_send(c, &op);

	if (n < 0)
		return n;
	compute(n_steps);
	n = pulc_op_end(op, NULL);
	return n < 0 ? n : (int64_t)(nsec_now() - begin);
}

static int64_t compute_one(uint64_t n_steps)
{
	uint64_t begin = nsec_now();

	compute(n_steps);
	return (int64_t)(nsec_now() - begin);
}

/* As long as a send. 0 or a negative errno. */
static int calibrate(struct client *c)
{
	int64_t nsec = 0, nsec_send = INT64_MAX, nsec_compute = INT64_MAX;

	for (unsigned i = 0; nsec >= 0 && i < N_CALIBRATE; i++) {
		nsec = send_one(c, 0);
		nsec_send = MIN(nsec_send, nsec);
		nsec_compute = MIN(nsec_compute, compute_one(100000));
	}
	c->n_steps = (uint64_t)(100000.0 * (double)nsec_send / (double)(nsec_compute + 1));
	return nsec < 0 ? (int)nsec : 0;
}

static int measure(const struct client *c, struct bench_samples samples[3])
{
	uint64_t end = nsec_now() + c->set->msec * 1000000ull;
	int64_t nsec[3] = { 0 };

	while (nsec_now() < end) {
		nsec[0] = send_one(c, 0);
		nsec[1] = compute_one(c->n_steps);
		nsec[2] = send_one(c, c->n_steps);
		(void)compute_one(c->n_steps);
		for (unsigned i = 0; i < 3; i++) {
			if (nsec[i] < 0)
				return (int)nsec[i];
			bench_samples_add(&samples[i], (double)nsec[i] / 1000);
		}
	}
	return 0;
}

static void tell(const struct client *c, struct bench_samples samples[3])
{
	double usec[3];

	for (unsigned i = 0; i < 3; i++)
		usec[i] = bench_samples_percentile(&samples[i], 10);
	printf("kind=%s thread=%d size=%u send_usec=%.1f compute_usec=%.1f both_usec=%.1f "
	       "hidden_percent=%.1f\n",
	       c->set->port ? "D" : "T", c->set->thread, c->set->size, usec[0], usec[1], usec[2],
	       100 * (usec[0] + usec[1] - usec[2]) / MIN(usec[0], usec[1]));
	(void)fflush(stdout);
}

static int drive(struct client *c)
{
	struct bench_samples samples[3] = { 0 };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < 3; i++)
		r = bench_samples_init(&samples[i], N_ROUNDS_MAX);
	if (r == 0 && c->set->thread)
		r = pulc_progress_thread(true);
	if (r == 0)
		r = calibrate(c);
	if (r == 0)
		r = measure(c, samples);
	if (r == 0)
		tell(c, samples);
	if (r == 0) {
		c->buf[0] = 1;
		r = (int)MIN(send_one(c, 0), (int64_t)0);
	}
	for (unsigned i = 0; i < 3; i++)
		bench_samples_deinit(&samples[i]);
	return r < 0 ? r : pulc_progress_thread(false);
}

static int connect_and_drive(const struct sockaddr_in *server, void *arg)
{
	struct client c = { .set = arg };
	int fd, r = bench_connect(server, false, &fd);

	if (r == 0)
		r = bench_recv_all(fd, &c.to, sizeof(c.to)) == 0 ? 0 : -EPIPE;
	if (r == 0)
		r = pulc_port_open(PULC_D, 0, NULL, &c.own);
	if (r == 0)
		r = pulc_peer_find(&c.to, &c.peer);
	c.buf = bench_buffer(c.set->size);
	if (r == 0)
		r = c.buf ? drive(&c) : -ENOMEM;
	free(c.buf);
	return r < 0 ? r : pulc_port_close(c.own);
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	return set->size == 0 ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	struct settings set = { .size = 1 << 20, .msec = 300 };
	const struct bench_option options[] = {
		{ "port", "to a port D, instead of with a tag", .flag = &set.port },
		{ "thread", "with a progress thread", .flag = &set.thread },
		{ "size", "bytes of a message", .number = &set.size },
		{ "msec", "time to measure", .number = &set.msec },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_and_drive, .arg = &set };

	return bench_pair_main(argc, argv,
			       "How much of a long send is hidden behind a computation.", &pair,
			       ready, options, sizeof(options) / sizeof(options[0]));
}
