/*
 * Ports, and messages with tags, of two processes: time one way, bandwidth, rate of messages.
 *
 * The twin of pingpong.c and stream.c for programs that are written to pulc/pulc.h: the two ends
 * are the same pinned processes, and their TCP connection only tells the client that the server's
 * port is open. Both ports are of the kind that is measured. Kind T is messages with tags: then an
 * address's port stands for the number of the process.
 *
 * Ping-pong: blocking sends and receives; the first byte of the last message says that it is the
 * last. Bandwidth: both sides keep a number of operations under way, so that receives are posted
 * before their messages come. The receiver counts in a window of time after the warm-up and then
 * closes its port, which ends the sender. Rate: the same with blocking calls, one message each; who
 * reads a stream has room for more than one.
 *
 * With --idle both ends are joined with so many others, which sleep: what looking at them costs.
 *
 * With --rounds both measure the machine's floor together, before the first round and after each.
 * The message before it says so: in a ping-pong with its first byte, for the rate with its last
 * one, for the bandwidth by having one byte only.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "rounds.h"
#include "stats.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <pulc/tag.h>

#define N_BATCHES_MAX 1000000u
#define N_DEPTH_MAX 64u
/* A reader of a stream has this much room. */
#define SIZE_STREAM 4096u

/* What a message says in one of its bytes. */
enum { MORE, LAST, FLOOR };

struct settings {
	unsigned size;
	unsigned msec;
	unsigned warmup_msec;
	unsigned n_batch;
	unsigned n_depth;
	unsigned n_idle;
	const char *kind_name;
	bool bandwidth;
	bool rate;
	bool tagged;
	enum pulc_kind kind;
	struct bench_rounds rounds;
};

static const struct pulc_tag wanted = { 1, PULC_TAG_EXACT, PULC_ANY_PEER };

static int receive_tagged(char *buf, size_t size, struct pulc_address *ret_from)
{
	struct pulc_tagged message;
	ssize_t n = pulc_tag_receive(&wanted, buf, size, &message);

	if (ret_from)
		ret_from->port = message.peer;
	return n < 0 ? (int)n : 0;
}

/* One message, whatever the kind. 0 or a negative errno. */
static int receive_all(pulc_port *port, const struct settings *set, char *buf,
		       struct pulc_address *ret_from)
{
	size_t done = 0, size = set->size;

	if (set->tagged)
		return receive_tagged(buf, size, ret_from);
	while (done < size) {
		ssize_t n = pulc_receive(port, buf + done, size - done, ret_from, 0);

		if (n < 0)
			return (int)n;
		done += (size_t)n;
	}
	return 0;
}

static int send_all(pulc_port *port, const struct settings *set, const struct pulc_address *to,
		    const char *buf)
{
	ssize_t n = set->tagged ? pulc_tag_send(to->port, 1, buf, set->size)
				: pulc_send(port, to, buf, set->size, 0);

	return n < 0 ? (int)n : 0;
}

static void end_line(const struct settings *set)
{
	bench_rounds_print(&set->rounds);
	(void)putchar('\n');
	(void)fflush(stdout);
}

/* ---- ping-pong ------------------------------------------------------------------------------- */

static int answer(pulc_port *port, struct settings *set, char *buf)
{
	struct pulc_address from;
	int r;

	do {
		r = receive_all(port, set, buf, &from);
		if (r == 0)
			r = send_all(port, set, &from, buf);
		if (r == 0 && buf[0] == FLOOR)
			bench_rounds_floor_of_peer(&set->rounds);
	} while (r == 0 && buf[0] != LAST);
	return r;
}

static int round_trips(pulc_port *port, const struct pulc_address *to, const struct settings *set,
		       char *buf, unsigned n)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++) {
		r = send_all(port, set, to, buf);
		if (r == 0)
			r = receive_all(port, set, buf, NULL);
	}
	return r;
}

static int play_for(pulc_port *port, const struct pulc_address *to, const struct settings *set,
		    char *buf, struct bench_samples *samples)
{
	unsigned n_rounds = bench_rounds_count(&set->rounds);
	uint64_t now = nsec_now(), before;
	uint64_t end = now + (samples ? set->msec * 1000000ull / n_rounds
				      : set->warmup_msec * 1000000ull);
	int r = 0;

	while (r == 0 && now < end) {
		before = now;
		r = round_trips(port, to, set, buf, set->n_batch);
		now = nsec_now();
		if (samples)
			bench_samples_add(samples, (double)(now - before) / (2.0 * set->n_batch));
	}
	return r;
}

static int measure_floor(pulc_port *port, const struct pulc_address *to, struct settings *set,
			 char *buf)
{
	int r;

	if (!set->rounds.n)
		return 0;
	buf[0] = FLOOR;
	r = round_trips(port, to, set, buf, 1);
	buf[0] = MORE;
	return r < 0 ? r : bench_rounds_floor(&set->rounds);
}

static int play_rounds(pulc_port *port, const struct pulc_address *to, struct settings *set,
		       char *buf, struct bench_samples *samples)
{
	int r = measure_floor(port, to, set, buf);

	for (unsigned i = 0; r == 0 && i < bench_rounds_count(&set->rounds); i++) {
		size_t n_first = samples->n;

		r = play_for(port, to, set, buf, samples);
		bench_rounds_add(&set->rounds,
				 bench_samples_percentile_since(samples, n_first, 50));
		if (r == 0)
			r = measure_floor(port, to, set, buf);
	}
	return r;
}

static int play(pulc_port *port, const struct pulc_address *to, struct settings *set, char *buf)
{
	struct bench_samples samples;
	int r = bench_samples_init(&samples, N_BATCHES_MAX);

	if (r < 0)
		return r;
	r = play_for(port, to, set, buf, NULL);
	if (r == 0)
		r = play_rounds(port, to, set, buf, &samples);
	if (r == 0) {
		printf("kind=%s size=%u one_way_ns=%.1f p99_ns=%.1f", set->kind_name, set->size,
		       bench_samples_percentile(&samples, 50),
		       bench_samples_percentile(&samples, 99));
		end_line(set);
		buf[0] = LAST;
		r = round_trips(port, to, set, buf, 1);
	}
	bench_samples_deinit(&samples);
	return r;
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

static int post(pulc_port *port, const struct settings *set, char *buf, pulc_op **ret_op)
{
	return set->tagged ? pulc_tag_ireceive(&wanted, buf, set->size, ret_op)
			   : pulc_ireceive(port, buf, set->size, ret_op);
}

static int post_all(pulc_port *port, const struct settings *set, char *buf, pulc_op **ops)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < set->n_depth; i++)
		r = post(port, set, buf + (size_t)i * set->size, &ops[i]);
	return r;
}

/* One message. Returns its bytes, or a negative errno. */
static ssize_t take(pulc_port *port, const struct settings *set, char *buf, pulc_op **ops,
		    unsigned *at)
{
	unsigned i = (*at)++ % set->n_depth;
	ssize_t n = pulc_op_end(ops[i], NULL);
	int r;

	ops[i] = NULL;
	r = n < 0 ? (int)n : post(port, set, buf + (size_t)i * set->size, &ops[i]);
	return r < 0 ? r : n;
}

/* Until the time is over. Returns the bytes, or a negative errno. */
static ssize_t take_for(pulc_port *port, const struct settings *set, char *buf, pulc_op **ops,
			unsigned *at, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;
	ssize_t size = 0, n;

	while (nsec_now() < end) {
		n = take(port, set, buf, ops, at);
		if (n < 0)
			return n;
		size += n;
	}
	return size;
}

static int floor_of_takes(pulc_port *port, struct settings *set, char *buf, pulc_op **ops,
			  unsigned *at)
{
	ssize_t n = 1;

	if (!set->rounds.n)
		return 0;
	bench_rounds_ask(&set->rounds);
	do
		n = take(port, set, buf, ops, at);
	while (n > 1);
	return n < 0 ? (int)n : bench_rounds_floor(&set->rounds);
}

/* Returns the GB/s, or a negative errno. */
static double take_rounds(pulc_port *port, struct settings *set, char *buf, pulc_op **ops,
			  unsigned *at)
{
	unsigned n_rounds = bench_rounds_count(&set->rounds);
	double size = 0, nsec = 0;
	ssize_t n = floor_of_takes(port, set, buf, ops, at);

	for (unsigned i = 0; n >= 0 && i < n_rounds; i++) {
		uint64_t began = nsec_now(), took;

		n = take_for(port, set, buf, ops, at, set->msec * 1000000ull / n_rounds);
		took = nsec_now() - began;
		bench_rounds_add(&set->rounds, (double)n / (double)took);
		size += (double)n;
		nsec += (double)took;
		if (n >= 0)
			n = floor_of_takes(port, set, buf, ops, at);
	}
	return n < 0 ? (double)n : size / nsec;
}

static int take_window(pulc_port *port, struct settings *set, char *buf)
{
	pulc_op *ops[N_DEPTH_MAX] = { NULL };
	unsigned at = 0;
	double rate = 0;
	ssize_t n = post_all(port, set, buf, ops);

	if (n == 0)
		n = take_for(port, set, buf, ops, &at, set->warmup_msec * 1000000ull);
	if (n >= 0)
		rate = take_rounds(port, set, buf, ops, &at);
	if (n >= 0 && rate >= 0) {
		printf("kind=%s size=%u gbs=%.3f", set->kind_name, set->size, rate);
		end_line(set);
	}
	for (unsigned i = 0; i < set->n_depth; i++)
		if (ops[i] && pulc_op_cancel(ops[i]) == 0)
			(void)pulc_op_end(ops[i], NULL);
	return n < 0 ? (int)n : rate < 0 ? (int)rate : 0;
}

static int begin_send(pulc_port *port, const struct settings *set, const struct pulc_address *to,
		      const char *buf, size_t size, pulc_op **ret_op)
{
	return set->tagged ? pulc_tag_isend(to->port, 1, buf, size, ret_op)
			   : pulc_isend(port, to, buf, size, ret_op);
}

static ssize_t end_send(pulc_op **op)
{
	ssize_t n = *op ? pulc_op_end(*op, NULL) : 0;

	*op = NULL;
	return n;
}

/* The last message of a round; all others are on their way. */
static ssize_t help_with_floor(pulc_port *port, const struct pulc_address *to, struct settings *set,
			       const char *buf, pulc_op **ops, unsigned at)
{
	ssize_t n = begin_send(port, set, to, buf, 1, &ops[at]);

	for (unsigned i = 0; n >= 0 && i < set->n_depth; i++)
		n = end_send(&ops[i]);
	if (n >= 0)
		bench_rounds_floor_of_peer(&set->rounds);
	return n;
}

/* Until the receiver closes its port, or is gone. */
static int send_on(pulc_port *port, const struct pulc_address *to, struct settings *set,
		   const char *buf)
{
	pulc_op *ops[N_DEPTH_MAX] = { NULL };
	ssize_t n = 0;

	for (unsigned i = 0; n >= 0; i = (i + 1) % set->n_depth) {
		n = end_send(&ops[i]);
		if (n >= 0 && bench_rounds_asked(&set->rounds))
			n = help_with_floor(port, to, set, buf, ops, i);
		if (n >= 0)
			n = begin_send(port, set, to, buf + (size_t)i * set->size, set->size,
				       &ops[i]);
	}
	for (unsigned i = 0; i < set->n_depth; i++)
		(void)end_send(&ops[i]);
	return n == -ECONNREFUSED || n == -ECONNRESET ? 0 : (int)n;
}

/* ---- rate ------------------------------------------------------------------------------------ */

/* What there is, up to the room for it. Returns the bytes, or a negative errno. */
static ssize_t count_one(pulc_port *port, const struct settings *set, char *buf)
{
	return set->tagged	     ? pulc_tag_receive(&wanted, buf, set->size, NULL)
	       : set->kind == PULC_D ? pulc_receive(port, buf, set->size, NULL, 0)
				     : pulc_receive(port, buf, SIZE_STREAM, NULL, 0);
}

/* Until the time is over, as is looked at now and then. Returns the bytes, or a negative errno. */
static ssize_t count_for(pulc_port *port, const struct settings *set, char *buf, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;
	ssize_t size = 0, n;

	do {
		for (unsigned i = 0; i < set->n_batch; i++) {
			n = count_one(port, set, buf);
			if (n < 0)
				return n;
			size += n;
		}
	} while (nsec_now() < end);
	return size;
}

static int floor_of_counts(pulc_port *port, struct settings *set, char *buf)
{
	ssize_t n;

	if (!set->rounds.n)
		return 0;
	bench_rounds_ask(&set->rounds);
	do
		n = count_one(port, set, buf);
	while (n > 0 && buf[n - 1] != FLOOR);
	if (n == 0) /* the sender has ended */
		return -ECONNRESET;
	return n < 0 ? (int)n : bench_rounds_floor(&set->rounds);
}

/* Returns the messages a ns, or a negative errno. */
static double count_rounds(pulc_port *port, struct settings *set, char *buf)
{
	unsigned n_rounds = bench_rounds_count(&set->rounds);
	double count = 0, nsec = 0;
	ssize_t n = floor_of_counts(port, set, buf);

	for (unsigned i = 0; n >= 0 && i < n_rounds; i++) {
		uint64_t began = nsec_now(), took;

		n = count_for(port, set, buf, set->msec * 1000000ull / n_rounds);
		took = nsec_now() - began;
		bench_rounds_add(&set->rounds, 1000.0 * (double)n / set->size / (double)took);
		count += (double)n / set->size;
		nsec += (double)took;
		if (n >= 0)
			n = floor_of_counts(port, set, buf);
	}
	return n < 0 ? (double)n : count / nsec;
}

static int count_window(pulc_port *port, struct settings *set, char *buf)
{
	ssize_t n = count_for(port, set, buf, set->warmup_msec * 1000000ull);
	double rate = n < 0 ? (double)n : count_rounds(port, set, buf);

	if (rate < 0)
		return (int)rate;
	printf("kind=%s size=%u mps=%.3f", set->kind_name, set->size, 1000 * rate);
	end_line(set);
	return 0;
}

static int send_many(pulc_port *port, const struct pulc_address *to, struct settings *set,
		     char *buf)
{
	int r = 0;

	while (r == 0) {
		bool asked = bench_rounds_asked(&set->rounds);

		buf[set->size - 1] = asked ? FLOOR : MORE;
		r = send_all(port, set, to, buf);
		if (r == 0 && asked)
			bench_rounds_floor_of_peer(&set->rounds);
	}
	return r == -ECONNREFUSED || r == -ECONNRESET ? 0 : r;
}

/* ---- the two ends ---------------------------------------------------------------------------- */

static int with_port(const struct settings *set, pulc_port **ret_port, char **ret_buf)
{
	size_t size = (size_t)set->n_depth * set->size;

	*ret_buf = bench_buffer(size < SIZE_STREAM ? SIZE_STREAM : size);
	if (!*ret_buf)
		return -ENOMEM;
	return pulc_port_open(set->kind, 0, NULL, ret_port);
}

static int serve(int listener, void *arg)
{
	struct settings *set = arg;
	struct pulc_address self;
	pulc_port *port;
	char *buf;
	int fd, r = with_port(set, &port, &buf);

	if (r < 0)
		return r;
	self = pulc_port_address(port);
	r = bench_accept(listener, &fd);
	if (r == 0)
		r = bench_send_all(fd, &self, sizeof(self));
	if (r == 0)
		r = set->rate	     ? count_window(port, set, buf)
		    : set->bandwidth ? take_window(port, set, buf)
				     : answer(port, set, buf);
	free(buf);
	return r < 0 ? r : pulc_port_close(port);
}

/* Joined with both ends, until this process's parent ends. */
static void __attribute__((noreturn)) be_idle(const struct pulc_address *ends, size_t n, int fd)
{
	uint32_t peer;
	pulc_port *port;
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = pulc_port_open(PULC_D, 0, NULL, &port);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = pulc_peer_find(&ends[i], &peer);
	(void)bench_send_all(fd, &r, sizeof(r));
	for (;;)
		(void)pause();
}

static int add_idle(const struct settings *set, const struct pulc_address *ends, size_t n)
{
	int r = 0, fds[2];

	for (unsigned i = 0; r == 0 && i < set->n_idle; i++) {
		pid_t pid;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
			return -errno;
		pid = fork();
		if (pid == 0)
			be_idle(ends, n, fds[1]);
		(void)close(fds[1]);
		if (pid < 0 || bench_recv_all(fds[0], &r, sizeof(r)) != 0)
			r = -EPIPE;
		(void)close(fds[0]);
	}
	return r;
}

static int connect_and_drive(const struct sockaddr_in *server, void *arg)
{
	struct settings *set = arg;
	struct pulc_address to;
	pulc_port *port;
	char *buf;
	int fd, r = with_port(set, &port, &buf);

	if (r < 0)
		return r;
	r = bench_connect(server, false, &fd);
	if (r == 0)
		r = bench_recv_all(fd, &to, sizeof(to)) == 0 ? 0 : -EPIPE;
	if (r == 0)
		r = add_idle(set, (struct pulc_address[]){ to, pulc_port_address(port) }, 2);
	if (r == 0 && set->tagged)
		r = pulc_peer_find(&to, &to.port);
	if (r == 0)
		r = set->rate	     ? send_many(port, &to, set, buf)
		    : set->bandwidth ? send_on(port, &to, set, buf)
				     : play(port, &to, set, buf);
	free(buf);
	return r < 0 ? r : pulc_port_close(port);
}

static bool find_kind(struct settings *set)
{
	static const char names[] = "SMDT";
	const char *at = set->kind_name[0] ? strchr(names, set->kind_name[0]) : NULL;

	if (!at || set->kind_name[1])
		return false;
	set->tagged = *at == 'T';
	set->kind = set->tagged ? PULC_D : (enum pulc_kind)(PULC_S + (at - names));
	return true;
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	if (!find_kind(set) || !set->size || !set->n_batch || !set->n_depth ||
	    set->n_depth > N_DEPTH_MAX)
		return -EINVAL;
	if (set->rounds.n && set->bandwidth) {
		if (set->kind != PULC_D || set->size == 1)
			/* its messages would not be told from the last one of a round */
			return -EINVAL;
		set->rounds.size_copy = set->size;
	}
	return bench_rounds_init(&set->rounds);
}

int main(int argc, char **argv)
{
	struct settings set = { .size = 8,
				.msec = 300,
				.warmup_msec = 300,
				.n_batch = 32,
				.n_depth = 4,
				.kind_name = "D" };
	const struct bench_option options[] = {
		{ "kind", "of the ports: S, M or D; T: tagged messages", .text = &set.kind_name },
		{ "bandwidth", "one way, instead of a ping-pong", .flag = &set.bandwidth },
		{ "rate", "one way, as many messages as there can be", .flag = &set.rate },
		{ "size", "bytes of a message", .number = &set.size },
		{ "msec", "time to measure", .number = &set.msec },
		{ "warmup-msec", "time before that, not counted", .number = &set.warmup_msec },
		{ "batch", "round trips timed together, or messages between two looks at the time",
		  .number = &set.n_batch },
		{ "rounds", "divide the time, with the machine's floor between",
		  .number = &set.rounds.n },
		{ "idle", "other processes that both ends are joined with, and that sleep",
		  .number = &set.n_idle },
		{ "depth", "operations under way, for bandwidth", .number = &set.n_depth },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_and_drive, .arg = &set };

	return bench_pair_main(argc, argv,
			       "One-way time of a message, bandwidth, or rate, between two ports.",
			       &pair, ready, options, sizeof(options) / sizeof(options[0]));
}
