/*
 * One socket, many users: two processes (parent and child by fork) of two threads each on either
 * end, all sending and all receiving.
 *
 * turns: a lock and a shared position make the users take turns, so that every byte can be
 * compared. melee: nobody takes turns, all are asleep in recv at once; the bytes are counted by
 * value.
 */
#include "preload/kernel_count.h"
#include "stress.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_THREADS = 2, N_PROCESSES = 2 };

/* One direction of the connection. */
struct direction {
	pthread_mutex_t out_lock, in_lock;
	_Atomic uint64_t out_at, in_at;
	_Atomic uint64_t n_sent[256], n_received[256];
	_Atomic unsigned n_senders;
};

struct family {
	struct direction direction[2]; /* [side that sends] */
	_Atomic uint64_t size_kernel;
	uint64_t nsec_deadline;
	bool takes_turns;
};

struct member {
	struct family *family;
	int side, fd;
	uint64_t seed;
};

static void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(lock, &attr);
}

static void put_turn(struct direction *d, struct end *end)
{
	size_t size = rng_size(&end->rng, 65536);
	ssize_t n;

	pthread_mutex_lock(&d->out_lock);
	n = end_put(end, bytes_at(7, d->out_at), size);
	if (n < 0)
		fail("sending: %s", strerror((int)-n));
	d->out_at += (uint64_t)n;
	pthread_mutex_unlock(&d->out_lock);
}

/* False at the end of the stream. */
static bool take_turn(struct direction *d, struct end *end, unsigned char *buf)
{
	size_t size = rng_size(&end->rng, 65536);
	ssize_t n;

	pthread_mutex_lock(&d->in_lock);
	n = end_take(end, buf, size);
	if (n < 0)
		fail("receiving: %s", strerror((int)-n));
	if (n > 0 && memcmp(buf, bytes_at(7, d->in_at), (size_t)n) != 0)
		fail("a piece of %zd bytes at %llu is wrong", n, (unsigned long long)d->in_at);
	d->in_at += (uint64_t)n;
	pthread_mutex_unlock(&d->in_lock);
	return n > 0;
}

static void put_freely(struct direction *d, struct end *end)
{
	unsigned char buf[100];
	size_t size = rng_size(&end->rng, sizeof(buf));
	ssize_t n;

	for (size_t i = 0; i < size; i++)
		buf[i] = (unsigned char)rng_next(&end->rng);
	n = send(end->fd, buf, size, MSG_NOSIGNAL);
	for (ssize_t i = 0; i < n; i++)
		d->n_sent[buf[i]]++;
	if (n < 0)
		fail("sending: %s", strerror(errno));
}

static bool take_freely(struct direction *d, struct end *end)
{
	unsigned char buf[100];
	ssize_t n = recv(end->fd, buf, rng_size(&end->rng, sizeof(buf)), 0);

	for (ssize_t i = 0; i < n; i++)
		d->n_received[buf[i]]++;
	if (n < 0)
		fail("receiving: %s", strerror(errno));
	return n > 0;
}

static void *send_part(void *arg)
{
	struct member *m = arg;
	struct direction *d = &m->family->direction[m->side];
	struct end end;

	end_init(&end, m->fd, m->seed, true);
	while (nsec_clock() < m->family->nsec_deadline) {
		if (m->family->takes_turns)
			put_turn(d, &end);
		else
			put_freely(d, &end);
		pause_randomly(&end.rng);
	}
	end_deinit(&end);
	if (--d->n_senders == 0) {
		m->family->size_kernel += kernel_count_written(m->fd);
		if (shutdown(m->fd, SHUT_WR) < 0)
			fail("shutdown: %s", strerror(errno));
	}
	return NULL;
}

static void *receive_part(void *arg)
{
	struct member *m = arg;
	struct direction *d = &m->family->direction[!m->side];
	unsigned char *buf = malloc(65536);
	struct end end;

	end_init(&end, m->fd, ~m->seed, false);
	while (m->family->takes_turns ? take_turn(d, &end, buf) : take_freely(d, &end))
		pause_randomly(&end.rng);
	end_deinit(&end);
	free(buf);
	return NULL;
}

static void play_process(struct family *family, int side, int fd, uint64_t seed)
{
	pthread_t senders[N_THREADS], receivers[N_THREADS];
	struct member members[N_THREADS];

	for (int i = 0; i < N_THREADS; i++) {
		members[i] = (struct member){ family, side, fd, seed + (uint64_t)i };
		if (pthread_create(&senders[i], NULL, send_part, &members[i]) != 0 ||
		    pthread_create(&receivers[i], NULL, receive_part, &members[i]) != 0)
			fail("pthread_create");
	}
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(senders[i], NULL);
		pthread_join(receivers[i], NULL);
	}
}

/*
 * One end alone, before it forks: bytes back and forth until they go through rings, for a
 * connection that is shared before its upgrade may stay on the kernel.
 */
static void warm_up(int fd, bool leads)
{
	uint64_t nsec_deadline = nsec_clock() + 500000000, before;
	char c = 0;

	for (int n_ring = 0; c == 0;) {
		if (!leads && recv(fd, &c, 1, 0) != 1)
			fail("warming up: %s", strerror(errno));
		if (leads && (n_ring > 1 || nsec_clock() > nsec_deadline))
			c = 1;
		before = kernel_count_written(fd);
		if (send(fd, &c, 1, 0) != 1 || (leads && recv(fd, &c, 1, 0) != 1))
			fail("warming up: %s", strerror(errno));
		n_ring = kernel_count_written(fd) == before ? n_ring + 1 : 0;
	}
}

/* One end: alone at first, then with a child. */
static void play_side(struct family *family, int side, int fd, uint64_t seed)
{
	struct rng rng = { seed };
	pid_t pid;
	int status;

	warm_up(fd, side == 0);
	pid = fork();
	play_process(family, side, fd, rng_next(&rng) + (uint64_t)pid);
	if (pid == 0)
		exit(0);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		fail("a child ended with status 0x%x", (unsigned)status);
	exit(0);
}

static bool sums_agree(struct family *family)
{
	for (int side = 0; side < 2; side++) {
		struct direction *d = &family->direction[side];

		if (d->out_at != d->in_at)
			return false;
		for (int value = 0; value < 256; value++)
			if (d->n_sent[value] != d->n_received[value])
				return false;
	}
	return true;
}

static uint64_t size_of(const struct family *family)
{
	uint64_t sum = 0;

	for (int side = 0; side < 2; side++) {
		sum += family->direction[side].in_at;
		for (int value = 0; value < 256; value++)
			sum += family->direction[side].n_received[value];
	}
	return sum;
}

static int run_family(const struct options *options, bool takes_turns)
{
	struct family *family = shared_memory(sizeof(*family));
	int listener, fd, status, n_bad = 0;
	uint16_t port;

	family->takes_turns = takes_turns;
	family->nsec_deadline = nsec_clock() + (uint64_t)options->seconds * 1000000000;
	for (int side = 0; side < 2; side++) {
		family->direction[side].n_senders = N_THREADS * N_PROCESSES;
		lock_init(&family->direction[side].out_lock);
		lock_init(&family->direction[side].in_lock);
	}
	listener = listen_somewhere(&port, false);
	for (int side = 0; side < 2; side++) {
		if (fork() != 0)
			continue;
		fd = side == 0 ? connect_somewhere(port, false) : accept(listener, NULL, NULL);
		close(listener);
		play_side(family, side, fd, options->seed + (uint64_t)side);
	}
	close(listener);
	while (wait(&status) > 0)
		n_bad += status != 0;
	if (n_bad == 0 && !sums_agree(family)) {
		fprintf(stderr, "bytes sent and bytes received differ\n");
		n_bad++;
	}
	printf("bytes %llu connections 1 ring_share %.4f\n", (unsigned long long)size_of(family),
	       size_of(family) ? 1 - (double)family->size_kernel / (double)size_of(family) : 0);
	return n_bad ? 1 : 0;
}

int run_turns(const struct options *options)
{
	return run_family(options, true);
}

int run_melee(const struct options *options)
{
	return run_family(options, false);
}
