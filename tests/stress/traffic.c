/*
 * Integrity: two processes, several lanes, both directions at once.
 *
 * A lane is one connection at a time. Each round makes a new one, sends a random number of bytes
 * each way in random pieces by random calls with random pauses, ends it in one of several ways
 * and compares every byte at the other end. Upgrades happen at whatever moment of a round they do.
 * The parent only watches that bytes go on moving.
 */
#include "preload/kernel_count.h"
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTOR = 0, ACCEPTOR = 1 };
static const char *const side_names[] = { "connector", "acceptor" };

#define N_LANES_MAX 64
#define SECONDS_STALLED 40

/* What both processes of a lane see. */
struct lane {
	int listener;
	uint16_t port;
	bool v6;
	unsigned number;
	_Atomic bool over;
	/* Bytes that each side has sent in a round, plus one, set before its end. Of a few rounds,
	 * for the connector may be one ahead; each side empties its word two rounds before. */
	_Atomic uint64_t ended_at[4][2];
	_Atomic uint64_t size_moved;  /* received and right */
	_Atomic uint64_t size_kernel; /* of them sent through the kernel */
	_Atomic unsigned n_rounds, n_ring_rounds;
};

struct round {
	struct lane *lane;
	const struct options *options;
	int side, fd;
	unsigned number;
	uint64_t key[2], size[2];
	bool half_closes, acceptor_just_closes;
	uint64_t nsec_deadline;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	return rng_next(&(struct rng){ a * 0x9e3779b97f4a7c15 ^ b });
}

static void complain(const struct round *r, uint64_t at, const unsigned char *buf, size_t len)
{
	int from = !r->side;
	const unsigned char *expected = bytes_at(r->key[from], at);
	size_t i = 0, n_same = 0;
	uint64_t wrong_at;
	long shift = 0;

	while (buf[i] == expected[i])
		i++;
	/* Where else in the stream do these bytes stand? Tells loss and doubling from garbage. */
	for (long s = 1; s < 8 << 20 && !shift && len - i >= 16; s++) {
		if (memcmp(bytes_at(r->key[from], at + i + (uint64_t)s), buf + i, 16) == 0)
			shift = s;
		else if ((uint64_t)s <= at + i &&
			 memcmp(bytes_at(r->key[from], at + i - (uint64_t)s), buf + i, 16) == 0)
			shift = -s;
	}
	while (i + n_same < len && buf[i + n_same] == 0)
		n_same++;
	wrong_at = at + i;
	fail("lane %u round %u, sent by the %s: byte %llu of at most %llu is wrong (%02x for %02x, "
	     "in a piece of %zu at %llu); displaced by %ld (0: nowhere found); %zu zero bytes",
	     r->lane->number, r->number, side_names[from], (unsigned long long)wrong_at,
	     (unsigned long long)r->size[from], buf[i], expected[i], len, (unsigned long long)at,
	     shift, n_same);
}

static void *receive(void *arg)
{
	struct round *r = arg;
	int from = !r->side;
	unsigned char *buf = malloc(SIZE_PIECE_MAX);
	struct end end;
	uint64_t at = 0;

	end_init(&end, r->fd, mix(r->key[from], 1), false);
	end.progress = &r->lane->size_moved;
	for (;;) {
		ssize_t n = end_take(&end, buf, rng_size(&end.rng, SIZE_PIECE_MAX));

		if (n < 0)
			fail("lane %u round %u: the %s receiving after %llu of at most %llu bytes: "
			     "%s",
			     r->lane->number, r->number, side_names[r->side],
			     (unsigned long long)at, (unsigned long long)r->size[from],
			     strerror((int)-n));
		if (n == 0)
			break;
		if (memcmp(buf, bytes_at(r->key[from], at), (size_t)n) != 0)
			complain(r, at, buf, (size_t)n);
		at += (uint64_t)n;
		r->lane->size_moved += (uint64_t)n;
		pause_randomly(&end.rng);
	}
	if (at + 1 != r->lane->ended_at[r->number & 3][from])
		fail("lane %u round %u: the %s sees the end after %llu of %llu bytes",
		     r->lane->number, r->number, side_names[r->side], (unsigned long long)at,
		     (unsigned long long)r->lane->ended_at[r->number & 3][from] - 1);
	end_deinit(&end);
	free(buf);
	return NULL;
}

static void send_all(struct round *r)
{
	uint64_t at = 0, size_kernel;
	struct end end;

	end_init(&end, r->fd, mix(r->key[r->side], 2), true);
	end.progress = &r->lane->size_moved;
	while (at < r->size[r->side] && nsec_clock() < r->nsec_deadline) {
		uint64_t left = r->size[r->side] - at, size = rng_size(&end.rng, SIZE_PIECE_MAX);
		ssize_t n = end_put(&end, bytes_at(r->key[r->side], at), size < left ? size : left);

		if (n < 0)
			fail("lane %u round %u: the %s sending after %llu of %llu bytes: %s",
			     r->lane->number, r->number, side_names[r->side],
			     (unsigned long long)at, (unsigned long long)r->size[r->side],
			     strerror((int)-n));
		at += (uint64_t)n;
		pause_randomly(&end.rng);
	}
	size_kernel = kernel_count_written(r->fd);
	r->lane->size_kernel += size_kernel < at ? size_kernel : at;
	r->lane->n_ring_rounds += r->side == ACCEPTOR && size_kernel < at;
	r->lane->ended_at[r->number & 3][r->side] = at + 1;
	end_deinit(&end);
}

static void play_round(struct round *r)
{
	pthread_t receiver;

	if (pthread_create(&receiver, NULL, receive, r) != 0)
		fail("pthread_create");
	send_all(r);
	/* A half-closed connection is not upgraded any more: most wait for the other direction. */
	while (!r->half_closes && r->lane->ended_at[r->number & 3][!r->side] == 0)
		usleep(200);
	if (!(r->side == ACCEPTOR && r->acceptor_just_closes) && shutdown(r->fd, SHUT_WR) < 0)
		fail("shutdown: %s", strerror(errno));
	pthread_join(receiver, NULL);
	if (close(r->fd) < 0)
		fail("close: %s", strerror(errno));
}

/* Waits for the next connection; -1 when there will be none. */
static int accept_next(struct lane *lane)
{
	struct pollfd pfd = { .fd = lane->listener, .events = POLLIN };

	while (poll(&pfd, 1, 100) != 1)
		if (lane->over)
			return -1;
	return accept(lane->listener, NULL, NULL);
}

static void plan_round(struct round *r)
{
	struct rng rng = { mix(r->options->seed, (uint64_t)r->lane->number << 32 | r->number) };

	r->lane->ended_at[(r->number + 2) & 3][r->side] = 0;
	for (int side = 0; side < 2; side++) {
		r->key[side] = rng_next(&rng);
		r->size[side] = rng_size(&rng, r->options->size_round);
	}
	r->half_closes = rng_one_in(&rng, 4);
	r->acceptor_just_closes = rng_one_in(&rng, 3);
	if (r->side == ACCEPTOR)
		(void)rng_next(&rng);
	if (rng_one_in(&rng, 2))
		fcntl(r->fd, F_SETFL, O_NONBLOCK);
	if (rng_one_in(&rng, 2))
		setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

static void *play_lane(void *arg)
{
	struct round r = *(struct round *)arg;

	for (;; r.number++) {
		if (r.side == CONNECTOR && nsec_clock() >= r.nsec_deadline)
			break;
		r.fd = r.side == CONNECTOR ? connect_somewhere(r.lane->port, r.lane->v6)
					   : accept_next(r.lane);
		if (r.fd < 0)
			break;
		plan_round(&r);
		play_round(&r);
		r.lane->n_rounds += r.side == CONNECTOR;
	}
	r.lane->over = true;
	return NULL;
}

static void play_side(const struct options *options, struct lane *lanes, int side)
{
	pthread_t threads[N_LANES_MAX];
	struct round rounds[N_LANES_MAX];
	uint64_t nsec_deadline = nsec_clock() + (uint64_t)options->seconds * 1000000000;

	if (side == ACCEPTOR && options->acceptor_uid &&
	    (setgid(options->acceptor_uid) < 0 || setuid(options->acceptor_uid) < 0))
		fail("becoming user %u: %s", options->acceptor_uid, strerror(errno));
	for (unsigned i = 0; i < options->n_lanes; i++) {
		rounds[i] = (struct round){ .lane = &lanes[i],
					    .options = options,
					    .side = side,
					    .nsec_deadline = nsec_deadline };
		if (pthread_create(&threads[i], NULL, play_lane, &rounds[i]) != 0)
			fail("pthread_create");
	}
	for (unsigned i = 0; i < options->n_lanes; i++)
		pthread_join(threads[i], NULL);
	exit(0);
}

static uint64_t size_moved(const struct lane *lanes, unsigned n_lanes)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n_lanes; i++)
		sum += lanes[i].size_moved + lanes[i].n_rounds;
	return sum;
}

static bool ended_well(pid_t pid, int status, const pid_t pids[2])
{
	if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		fprintf(stderr, "the %s ended with status 0x%x\n", side_names[pid != pids[0]],
			(unsigned)status);
	return status == 0;
}

/* True when both processes ended well; ends them all when one did not, or when nothing moves. */
static bool watch_over(const struct lane *lanes, unsigned n_lanes, pid_t pids[2])
{
	uint64_t last = 0;
	unsigned n_still = 0, n_left = 2;
	bool good = true;
	int status;
	pid_t pid;

	while (n_left > 0 && good && n_still < SECONDS_STALLED * 10) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid > 0) {
			n_left--;
			good = ended_well(pid, status, pids);
			continue;
		}
		n_still = size_moved(lanes, n_lanes) == last ? n_still + 1 : 0;
		last = size_moved(lanes, n_lanes);
		usleep(100000);
	}
	if (n_left > 0 && good)
		fprintf(stderr, "nothing has moved for %d s\n", SECONDS_STALLED);
	for (int i = 0; n_left > 0 && i < 2; i++)
		kill(pids[i], SIGKILL);
	while ((pid = waitpid(-1, &status, 0)) > 0)
		good &= ended_well(pid, status, pids);
	return good && n_left == 0;
}

static void report(const struct lane *lanes, unsigned n_lanes)
{
	uint64_t size = 0, size_kernel = 0;
	unsigned n_rounds = 0, n_ring_rounds = 0;

	for (unsigned i = 0; i < n_lanes; i++) {
		size += lanes[i].size_moved;
		size_kernel += lanes[i].size_kernel;
		n_rounds += lanes[i].n_rounds;
		n_ring_rounds += lanes[i].n_ring_rounds;
	}
	printf("bytes %llu connections %u on_rings %u ring_share %.4f\n", (unsigned long long)size,
	       n_rounds, n_ring_rounds, size ? 1 - (double)size_kernel / (double)size : 0);
}

int run_traffic(const struct options *options)
{
	struct lane *lanes = shared_memory(N_LANES_MAX * sizeof(*lanes));
	pid_t pids[2];
	bool good;

	for (unsigned i = 0; i < options->n_lanes; i++) {
		lanes[i].number = i;
		lanes[i].v6 = i % 4 == 3;
		lanes[i].listener = listen_somewhere(&lanes[i].port, lanes[i].v6);
	}
	for (int side = 0; side < 2; side++) {
		pids[side] = fork();
		if (pids[side] == 0)
			play_side(options, lanes, side);
	}
	good = watch_over(lanes, options->n_lanes, pids);
	report(lanes, options->n_lanes);
	return good ? 0 : 1;
}
