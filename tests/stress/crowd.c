/*
 * A server of several threads on one epoll set, with members of every kind of registration, and a
 * crowd of clients that ask and wait for the answer: an event that is lost stops its connection for
 * good.
 *
 * Server and clients are two processes. A connection lives for some requests, so upgrades come
 * while threads wait on the set, and descriptors and members are used again all the time. Requests
 * and answers are of every size; the answer is the request.
 */
#include "preload/kernel_count.h"
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_WORKERS 3
#define N_LINKS 256
#define N_CLIENTS_MAX 64
#define SIZE_REQUEST_MAX 200000u
#define LISTENER UINT32_MAX

/* Head and body are sent apart: without this each waits for an acknowledgement. */
static void nodelay(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
}

/* ---- the server ------------------------------------------------------------------------------ */

/* How a connection is registered, and how its interest changes. */
enum kind { MODIFIED, ADDED_AGAIN, ONE_SHOT, BY_EDGE, ONE_SHOT_BY_EDGE, N_KINDS };

struct link {
	pthread_mutex_t lock;
	int fd; /* -1: free */
	enum kind kind;
	bool writing;
	uint32_t size; /* of the request's body, known when `at` >= sizeof(size) */
	size_t at;     /* bytes of header and body received, or sent */
	unsigned char body[SIZE_REQUEST_MAX];
};

static struct link links[N_LINKS];
static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;
static int set, listener;

static void control(int op, const struct link *l, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u32 = (uint32_t)(l - links) };

	if (epoll_ctl(set, op, l->fd, &event) < 0)
		fail("epoll_ctl: %s", strerror(errno));
}

static uint32_t interest(const struct link *l)
{
	uint32_t events = l->writing ? EPOLLOUT : EPOLLIN;

	if (l->kind == BY_EDGE || l->kind == ONE_SHOT_BY_EDGE)
		events = EPOLLIN | EPOLLOUT | EPOLLET;
	if (l->kind == ONE_SHOT || l->kind == ONE_SHOT_BY_EDGE)
		events |= EPOLLONESHOT;
	return events;
}

static void hang_up(struct link *l)
{
	close(l->fd);
	l->fd = -1;
}

/* One call's worth of the request or of its answer. Its result; *ret_turned: the next part
 * begins. */
static ssize_t move(struct link *l, bool *ret_turned)
{
	bool head = l->at < sizeof(l->size);
	unsigned char *to = head ? (unsigned char *)&l->size + l->at
				 : l->body + (l->at - sizeof(l->size));
	size_t size = head ? sizeof(l->size) - l->at : l->size - (l->at - sizeof(l->size));
	ssize_t n = l->writing ? send(l->fd, to, size, MSG_DONTWAIT | MSG_NOSIGNAL)
			       : recv(l->fd, to, size, MSG_DONTWAIT);

	*ret_turned = false;
	if (n <= 0)
		return n;
	l->at += (size_t)n;
	if (l->at >= sizeof(l->size) && l->size > SIZE_REQUEST_MAX)
		fail("a request of %u bytes", l->size);
	if (l->at < sizeof(l->size) || l->at < sizeof(l->size) + l->size)
		return n;
	l->at = 0;
	l->writing = !l->writing;
	*ret_turned = true;
	return n;
}

/* A client leaves between two requests only. */
static void complain_of_end(const struct link *l, ssize_t n)
{
	fprintf(stderr, "server: the %s of descriptor %d, kind %d, ends at %zu of %u: %s\n",
		l->writing ? "answer" : "request", l->fd, (int)l->kind, l->at, l->size,
		n < 0 ? strerror(errno) : "no more bytes");
}

static void serve(struct link *l)
{
	bool by_edge = l->kind == BY_EDGE || l->kind == ONE_SHOT_BY_EDGE, turned, changed = false;
	ssize_t n;

	do {
		n = move(l, &turned);
		changed |= turned;
	} while (n > 0 && by_edge);
	if (n == 0 || (n < 0 && is_gone(errno))) {
		if (l->at > 0 || l->writing)
			complain_of_end(l, n);
		hang_up(l);
		return;
	}
	if (n < 0 && errno != EAGAIN)
		fail("server: %s", strerror(errno));
	if (l->kind == ONE_SHOT || l->kind == ONE_SHOT_BY_EDGE ||
	    (changed && l->kind == MODIFIED)) {
		control(EPOLL_CTL_MOD, l, interest(l));
	} else if (changed && l->kind == ADDED_AGAIN) {
		control(EPOLL_CTL_DEL, l, 0);
		control(EPOLL_CTL_ADD, l, interest(l));
	}
}

static struct link *free_link(void)
{
	for (struct link *l = links; l < links + N_LINKS; l++)
		if (l->fd < 0)
			return l;
	fail("too many connections");
}

static void take_in(void)
{
	static unsigned n_accepted;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	struct link *l;

	if (fd < 0)
		return;
	nodelay(fd);
	pthread_mutex_lock(&links_lock);
	l = free_link();
	pthread_mutex_lock(&l->lock);
	l->fd = fd;
	l->kind = n_accepted++ % N_KINDS;
	l->writing = false;
	l->at = 0;
	control(EPOLL_CTL_ADD, l, interest(l));
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_unlock(&links_lock);
}

/* Events of a connection that another thread has closed meanwhile are late, no more. */
static void *work(void *arg)
{
	struct epoll_event events[8];
	struct link *l;
	int n;

	for (;;) {
		n = epoll_wait(set, events, 1 + (int)(uintptr_t)arg * 3, -1);
		for (int i = 0; i < n; i++) {
			if (events[i].data.u32 == LISTENER) {
				take_in();
				continue;
			}
			l = &links[events[i].data.u32];
			pthread_mutex_lock(&l->lock);
			if (l->fd >= 0)
				serve(l);
			pthread_mutex_unlock(&l->lock);
		}
	}
	return NULL;
}

static void be_server(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = LISTENER };
	pthread_t thread;

	fcntl(listener, F_SETFL, O_NONBLOCK);
	set = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < N_LINKS; i++) {
		pthread_mutex_init(&links[i].lock, NULL);
		links[i].fd = -1;
	}
	if (epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) < 0)
		fail("epoll_ctl: %s", strerror(errno));
	for (uintptr_t i = 1; i < N_WORKERS; i++)
		if (pthread_create(&thread, NULL, work, (void *)i) != 0)
			fail("pthread_create");
	work(NULL);
}

/* ---- the clients ----------------------------------------------------------------------------- */

static struct counts {
	_Atomic uint64_t size, size_kernel;
	_Atomic unsigned n_connections;
} * counts;

struct client {
	struct rng rng;
	uint16_t port;
	uint64_t nsec_deadline;
};

static void put_all(struct end *end, const void *buf, size_t len)
{
	ssize_t n;

	for (size_t done = 0; done < len; done += (size_t)n) {
		n = end_put(end, (const char *)buf + done, len - done);
		if (n < 0)
			fail("asking: %s", strerror((int)-n));
	}
}

static void take_all(struct end *end, void *buf, size_t len)
{
	ssize_t n;

	for (size_t done = 0; done < len; done += (size_t)n) {
		n = end_take(end, (char *)buf + done, len - done);
		if (n <= 0)
			fail("the answer ends: %s", n ? strerror((int)-n) : "no more bytes");
	}
}

static void ask(struct rng *rng, struct end *out, struct end *in, unsigned char *buf)
{
	uint32_t size = (uint32_t)rng_size(rng, rng_one_in(rng, 8) ? SIZE_REQUEST_MAX : 500);
	uint32_t answered;
	uint64_t key = rng_next(rng);

	put_all(out, &size, sizeof(size));
	put_all(out, bytes_at(key, 0), size);
	take_all(in, &answered, sizeof(answered));
	if (answered != size)
		fail("an answer of %u bytes to %u", answered, size);
	take_all(in, buf, size);
	if (memcmp(buf, bytes_at(key, 0), size) != 0)
		fail("an answer of %u bytes is wrong", size);
	counts->size += 2 * (uint64_t)size;
	pause_randomly(rng);
}

static void *visit_again_and_again(void *arg)
{
	struct client *c = arg;
	unsigned char *buf = malloc(SIZE_REQUEST_MAX);
	struct end out, in;

	while (nsec_clock() < c->nsec_deadline) {
		int fd = connect_somewhere(c->port, false);
		uint64_t n = rng_size(&c->rng, 2000);

		nodelay(fd);
		if (rng_one_in(&c->rng, 2))
			fcntl(fd, F_SETFL, O_NONBLOCK);
		end_init(&out, fd, rng_next(&c->rng), true);
		end_init(&in, fd, rng_next(&c->rng), false);
		while (n-- > 0 && nsec_clock() < c->nsec_deadline)
			ask(&c->rng, &out, &in, buf);
		counts->size_kernel += 2 * kernel_count_written(fd);
		counts->n_connections++;
		end_deinit(&out);
		end_deinit(&in);
		close(fd);
	}
	free(buf);
	return NULL;
}

static void be_clients(const struct options *options, uint16_t port)
{
	pthread_t threads[N_CLIENTS_MAX];
	struct client clients[N_CLIENTS_MAX];

	for (unsigned i = 0; i < options->n_lanes; i++) {
		clients[i] = (struct client){
			.rng = { options->seed + i },
			.port = port,
			.nsec_deadline = nsec_clock() + (uint64_t)options->seconds * 1000000000,
		};
		if (pthread_create(&threads[i], NULL, visit_again_and_again, &clients[i]) != 0)
			fail("pthread_create");
	}
	for (unsigned i = 0; i < options->n_lanes; i++)
		pthread_join(threads[i], NULL);
	exit(0);
}

int run_crowd(const struct options *options)
{
	uint16_t port;
	int status = 0, server_status = 0;
	pid_t server, clients;
	double share;

	counts = shared_memory(sizeof(*counts));
	listener = listen_somewhere(&port, false);
	server = fork();
	if (server == 0)
		be_server();
	clients = fork();
	if (clients == 0)
		be_clients(options, port);
	(void)waitpid(clients, &status, 0);
	kill(server, SIGTERM);
	(void)waitpid(server, &server_status, 0);
	if (!WIFSIGNALED(server_status) || WTERMSIG(server_status) != SIGTERM)
		fprintf(stderr, "the server ended itself: wait status 0x%x\n",
			(unsigned)server_status);
	share = counts->size ? 1 - (double)counts->size_kernel / (double)counts->size : 0;
	printf("bytes %llu connections %u ring_share %.4f\n", (unsigned long long)counts->size,
	       counts->n_connections, share);
	return status == 0 && WIFSIGNALED(server_status) && WTERMSIG(server_status) == SIGTERM ? 0
											       : 1;
}
