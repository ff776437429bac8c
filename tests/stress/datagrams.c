/*
 * Datagrams: many senders, random sizes and calls, every byte checked.
 *
 * A server process has two sockets with a thread each. Lanes of two client processes send to one of
 * them:
 *  - exact lanes have few small datagrams under way, which fit every buffer: each must arrive,
 *    once, in order, and be answered;
 *  - flooding lanes send what they can, of every size: some may be lost, none may be doubled,
 *    changed or overtaken by a later one of its lane.
 * A lane uses a socket for a while and then another one, so flows begin and end all the time, with
 * datagrams in them.
 */
#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXACT = 0, FLOOD = 1 };

#define N_LANES_MAX 64
#define N_WINDOW_MAX 4u
#define N_OF_SOCKET_MAX 20000u
#define SIZE_EXACT_MAX 1400u
#define SIZE_FLOOD_MAX 60000u
#define N_BATCH 4
#define SECONDS_LOST 40

struct header {
	uint32_t lane, len; /* of what follows */
	uint64_t number;    /* in the lane, from 1 on */
	uint64_t key;
};

struct datagram {
	struct header header;
	unsigned char body[SIZE_FLOOD_MAX];
};

/* What all processes of a run see. */
static struct shared {
	_Atomic uint64_t size, n_sent, n_received, n_sockets;
	struct sockaddr_in addresses[2]; /* the server's */
	_Atomic bool ready;
	unsigned long n_dropped; /* by the kernel, at the beginning */
} * shared;

/* Header and body must fit each other. Returns the bytes of the body. */
static uint32_t check(const char *where, const struct datagram *d, ssize_t n)
{
	const struct header *h = &d->header;

	if (n < (ssize_t)sizeof(*h) || (size_t)n != sizeof(*h) + h->len || h->lane >= N_LANES_MAX)
		fail("%s: a datagram of %zd bytes, lane %u, %u bytes of body", where, n, h->lane,
		     h->len);
	if (memcmp(d->body, bytes_at(h->key, 0), h->len) != 0)
		fail("%s: lane %u, datagram %llu of %u bytes: wrong bytes", where, h->lane,
		     (unsigned long long)h->number, h->len);
	return h->len;
}

/* ---- receiving ------------------------------------------------------------------------------- */

struct receiver {
	int fd, epoll;
	struct rng rng;
	struct datagram *datagrams;
	struct sockaddr_in from[N_BATCH];
	ssize_t sizes[N_BATCH];
};

static void receiver_init(struct receiver *r, int fd, uint64_t seed)
{
	struct epoll_event event = { .events = EPOLLIN };

	*r = (struct receiver){ .fd = fd, .epoll = epoll_create1(0), .rng = { seed } };
	r->datagrams = malloc(N_BATCH * sizeof(struct datagram));
	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl: %s", strerror(errno));
}

static void receiver_deinit(struct receiver *r)
{
	close(r->epoll);
	free(r->datagrams);
}

static int receive_batch(struct receiver *r)
{
	struct mmsghdr msgs[N_BATCH];
	struct iovec iov[N_BATCH];
	int n;

	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < N_BATCH; i++) {
		iov[i] = (struct iovec){ &r->datagrams[i], sizeof(r->datagrams[i]) };
		msgs[i].msg_hdr = (struct msghdr){ .msg_name = &r->from[i],
						   .msg_namelen = sizeof(r->from[i]),
						   .msg_iov = &iov[i],
						   .msg_iovlen = 1 };
	}
	n = recvmmsg(r->fd, msgs, N_BATCH, MSG_WAITFORONE, NULL);
	for (int i = 0; i < n; i++)
		r->sizes[i] = msgs[i].msg_len;
	return n;
}

/* Datagrams that did not fit the kernel's queue of some processor, which are no fault of
 * anybody. */
static unsigned long count_dropped(void)
{
	unsigned long sum = 0, n;
	FILE *file = fopen("/proc/net/softnet_stat", "re");

	while (file && fscanf(file, "%*x %lx%*[^\n]", &n) == 1)
		sum += n;
	if (file)
		fclose(file);
	return sum;
}

static void await(struct receiver *r)
{
	struct pollfd pfd = { .fd = r->fd, .events = POLLIN };
	struct epoll_event event;
	int n = rng_one_in(&r->rng, 2) ? poll(&pfd, 1, SECONDS_LOST * 1000)
				       : epoll_wait(r->epoll, &event, 1, SECONDS_LOST * 1000);

	if (n == 0 && count_dropped() != shared->n_dropped)
		exit(0);
	if (n == 0)
		fail("nothing has come for %d s", SECONDS_LOST);
}

/* One or some, by a call chosen at random. Returns how many. */
static int receive(struct receiver *r, bool may_end)
{
	socklen_t size = sizeof(r->from[0]);
	unsigned way = (unsigned)rng_below(&r->rng, 4);
	int flags = 0;

	/* Who is sure that something comes looks for how long it takes. */
	if (!may_end || way == 1) {
		await(r);
		flags = MSG_DONTWAIT;
	}
	if (way == 0 && may_end)
		return receive_batch(r);
	r->sizes[0] = recvfrom(r->fd, r->datagrams, sizeof(r->datagrams[0]), flags,
			       (struct sockaddr *)&r->from[0], &size);
	return r->sizes[0] >= 0 ? 1 : -1;
}

/* ---- the server ------------------------------------------------------------------------------ */

struct service {
	int kind, fd;
	uint64_t seed;
	uint64_t last[N_LANES_MAX];
};

static void take(struct service *s, struct receiver *r, int i)
{
	const struct datagram *d = &r->datagrams[i];
	uint32_t len = check("server", d, r->sizes[i]);
	uint64_t number = d->header.number, *last = &s->last[d->header.lane];

	if (number <= *last || (s->kind == EXACT && number != *last + 1))
		fail("lane %u: datagram %llu came after %llu", d->header.lane,
		     (unsigned long long)number, (unsigned long long)*last);
	*last = number;
	shared->size += len;
	shared->n_received++;
	if (s->kind == EXACT && sendto(s->fd, d, (size_t)r->sizes[i], 0,
				       (struct sockaddr *)&r->from[i], sizeof(r->from[i])) < 0)
		fail("answering: %s", strerror(errno));
}

static void *serve(void *arg)
{
	struct service *s = arg;
	struct receiver r;
	int n;

	receiver_init(&r, s->fd, s->seed);
	for (;;) {
		n = receive(&r, true);
		for (int i = 0; i < n; i++)
			take(s, &r, i);
		pause_randomly(&r.rng);
	}
	return NULL;
}

static void be_server(const struct options *options, const int fds[2])
{
	static struct service services[2];
	pthread_t thread;

	for (int kind = 0; kind < 2; kind++)
		services[kind] = (struct service){ .kind = kind,
						   .fd = fds[kind],
						   .seed = options->seed + 1000u + (unsigned)kind };
	if (pthread_create(&thread, NULL, serve, &services[FLOOD]) != 0)
		fail("pthread_create");
	serve(&services[EXACT]);
}

/* ---- the lanes ------------------------------------------------------------------------------- */

struct lane {
	unsigned number;
	int kind, fd;
	bool connected;
	struct rng rng;
	uint64_t n_sent, n_answered, nsec_deadline;
	struct datagram out;
};

static bool send_one(struct lane *l)
{
	struct header *h = &l->out.header;
	struct iovec iov[2] = { { h, sizeof(*h) }, { l->out.body, 0 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;

	*h = (struct header){ .lane = l->number,
			      .len = (uint32_t)rng_size(&l->rng, l->kind == EXACT ? SIZE_EXACT_MAX
										  : SIZE_FLOOD_MAX),
			      .number = l->n_sent + 1,
			      .key = rng_next(&l->rng) };
	memcpy(l->out.body, bytes_at(h->key, 0), h->len);
	iov[1].iov_len = h->len;
	if (!l->connected) {
		msg.msg_name = &shared->addresses[l->kind];
		msg.msg_namelen = sizeof(shared->addresses[l->kind]);
	}
	if (rng_one_in(&l->rng, 2))
		n = sendmsg(l->fd, &msg, 0);
	else
		n = sendto(l->fd, &l->out, sizeof(*h) + h->len, 0, msg.msg_name, msg.msg_namelen);
	if (n < 0 && l->kind == FLOOD && (errno == ENOBUFS || errno == EAGAIN))
		return false;
	if (n != (ssize_t)sizeof(*h) + h->len)
		fail("lane %u: sending: %s", l->number, strerror(errno));
	l->n_sent++;
	shared->n_sent++;
	return true;
}

static void hear_answer(struct lane *l, struct receiver *r)
{
	(void)receive(r, false);
	check("client", r->datagrams, r->sizes[0]);
	if (r->datagrams->header.lane != l->number ||
	    r->datagrams->header.number != l->n_answered + 1)
		fail("lane %u: answer %llu of lane %u came after %llu", l->number,
		     (unsigned long long)r->datagrams->header.number, r->datagrams->header.lane,
		     (unsigned long long)l->n_answered);
	l->n_answered++;
}

/* What one socket is used for. */
static void play_exactly(struct lane *l, uint64_t n)
{
	uint64_t window = 1 + rng_below(&l->rng, N_WINDOW_MAX), end = l->n_sent + n;
	struct receiver r;

	receiver_init(&r, l->fd, rng_next(&l->rng));
	while (l->n_answered < end) {
		if (l->n_sent < end && nsec_clock() >= l->nsec_deadline)
			end = l->n_sent;
		if (l->n_sent < end && l->n_sent - l->n_answered < window)
			(void)send_one(l);
		else if (l->n_answered < l->n_sent)
			hear_answer(l, &r);
		pause_randomly(&l->rng);
	}
	receiver_deinit(&r);
}

static void flood(struct lane *l, uint64_t n)
{
	while (n-- > 0 && nsec_clock() < l->nsec_deadline) {
		(void)send_one(l);
		if (rng_one_in(&l->rng, 20))
			usleep((useconds_t)rng_size(&l->rng, 2000));
	}
}

static void *play_lane(void *arg)
{
	struct lane *l = arg;
	const struct sockaddr_in *to = &shared->addresses[l->kind];
	uint64_t n;

	while (nsec_clock() < l->nsec_deadline) {
		l->fd = socket(AF_INET, SOCK_DGRAM, 0);
		l->connected = rng_one_in(&l->rng, 2);
		if (l->connected && connect(l->fd, (struct sockaddr *)to, sizeof(*to)) < 0)
			fail("connect: %s", strerror(errno));
		shared->n_sockets++;
		n = rng_size(&l->rng, N_OF_SOCKET_MAX);
		if (l->kind == EXACT)
			play_exactly(l, n);
		else
			flood(l, n);
		close(l->fd);
	}
	return NULL;
}

/* Every second lane. */
static void be_clients(const struct options *options, unsigned first)
{
	static struct lane lanes[N_LANES_MAX];
	pthread_t threads[N_LANES_MAX];

	for (unsigned i = first; i < options->n_lanes; i += 2) {
		lanes[i].number = i;
		lanes[i].kind = i / 2 % 2 ? FLOOD : EXACT;
		lanes[i].rng.state = options->seed + i;
		lanes[i].nsec_deadline = nsec_clock() + (uint64_t)options->seconds * 1000000000;
		if (pthread_create(&threads[i], NULL, play_lane, &lanes[i]) != 0)
			fail("pthread_create");
	}
	for (unsigned i = first; i < options->n_lanes; i += 2)
		pthread_join(threads[i], NULL);
	exit(0);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void open_sockets(int fds[2])
{
	socklen_t size = sizeof(shared->addresses[0]);

	for (int kind = 0; kind < 2; kind++) {
		shared->addresses[kind] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
		};
		fds[kind] = socket(AF_INET, SOCK_DGRAM, 0);
		if (bind(fds[kind], (struct sockaddr *)&shared->addresses[kind], size) < 0 ||
		    getsockname(fds[kind], (struct sockaddr *)&shared->addresses[kind], &size) < 0)
			fail("bind: %s", strerror(errno));
	}
}

int run_datagrams(const struct options *options)
{
	int fds[2], status, result = 0;
	pid_t server, pid, clients[2];

	shared = shared_memory(sizeof(*shared));
	shared->n_dropped = count_dropped();
	/* The server's own: nobody else may have them. */
	server = fork();
	if (server == 0) {
		open_sockets(fds);
		shared->ready = true;
		be_server(options, fds);
	}
	while (!shared->ready)
		usleep(1000);
	for (unsigned i = 0; i < 2; i++) {
		clients[i] = fork();
		if (clients[i] == 0)
			be_clients(options, i);
	}
	for (int n = 0; n < 2;) {
		pid = waitpid(-1, &status, 0);
		result |= status != 0;
		n += pid != server;
		if (pid == server)
			for (int i = 0; i < 2; i++)
				kill(clients[i], SIGKILL);
	}
	kill(server, SIGKILL);
	while (waitpid(-1, &status, 0) > 0)
		;
	printf("bytes %llu connections %llu sent %llu received %llu\n",
	       (unsigned long long)shared->size, (unsigned long long)shared->n_sockets,
	       (unsigned long long)shared->n_sent, (unsigned long long)shared->n_received);
	return result;
}
