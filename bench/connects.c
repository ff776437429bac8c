/*
 * Short connections: connect, a request and its answer, or a few, close, one connection after the
 * other.
 *
 * Nothing of such a connection is worth an upgrade; what is measured is what PULC's presence adds
 * to each of its calls. The client closes first, as most clients do, and the number of connections
 * is bounded: each leaves a port in TIME_WAIT. Three kinds of server: one process that serves one
 * connection after the other, one that forks a child for each connection, and several that were
 * forked before and accept at the same socket.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE_MAX_REQUEST 65536u
#define N_WORKERS 4u
#define N_CONNECTIONS_MAX 25000u /* Linux offers 28,232 ports by default */

struct settings;

struct server_kind {
	const char *name;
	/* Serves all connections. Returns 0 or a negative errno. */
	int (*serve)(int listener, const struct settings *set);
};

struct settings {
	unsigned size;
	unsigned n_connections;
	unsigned n_requests;
	const char *kind_name;
	const struct server_kind *kind;
};

static char message[SIZE_MAX_REQUEST];

/* Answers until the client closes. Returns 0 or a negative errno. */
static int serve_one(int fd, size_t size)
{
	int r;

	while ((r = bench_recv_all(fd, message, size)) == 0) {
		r = bench_send_all(fd, message, size);
		if (r != 0)
			break;
	}
	(void)close(fd);
	return r < 0 ? r : 0;
}

static int serve_in_turn(int listener, const struct settings *set)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < set->n_connections; i++) {
		int fd;

		r = bench_accept(listener, &fd);
		if (r == 0)
			r = serve_one(fd, set->size);
	}
	return r;
}

/* Waits for all children. Returns 0 or a negative errno: one has failed. */
static int wait_for_children(void)
{
	int status, r = 0;

	while (wait(&status) > 0)
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			r = -ECHILD;
	return r;
}

static int serve_by_children(int listener, const struct settings *set)
{
	for (unsigned i = 0; i < set->n_connections; i++) {
		int fd, r = bench_accept(listener, &fd);
		pid_t pid;

		if (r < 0)
			return r;
		pid = fork();
		if (pid < 0)
			return -errno;
		if (pid == 0)
			_exit(serve_one(fd, set->size) < 0);
		(void)close(fd);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	return wait_for_children();
}

/* A worker takes the number of a connection before it waits for one, so that all end when all are
 * served. */
static int work(int listener, const struct settings *set, _Atomic unsigned *next)
{
	int r = 0;

	while (r == 0 && atomic_fetch_add(next, 1) < set->n_connections) {
		int fd;

		r = bench_accept(listener, &fd);
		if (r == 0)
			r = serve_one(fd, set->size);
	}
	return r;
}

static int serve_by_workers(int listener, const struct settings *set)
{
	_Atomic unsigned *next = mmap(NULL, sizeof(*next), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (next == MAP_FAILED)
		return -errno;
	for (unsigned i = 0; i < N_WORKERS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0)
			_exit(work(listener, set, next) < 0);
	}
	return wait_for_children();
}

static const struct server_kind kinds[] = {
	{ "turn", serve_in_turn },
	{ "fork", serve_by_children },
	{ "prefork", serve_by_workers },
};

static const struct server_kind *kind_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

static int serve(int listener, void *arg)
{
	const struct settings *set = arg;

	return set->kind->serve(listener, set);
}

static int one_connection(const struct sockaddr_in *server, const struct settings *set)
{
	int fd, r = bench_connect(server, false, &fd);

	if (r < 0)
		return r;
	for (unsigned i = 0; r == 0 && i < set->n_requests; i++) {
		r = bench_send_all(fd, message, set->size);
		if (r == 0)
			r = bench_recv_all(fd, message, set->size);
	}
	(void)close(fd);
	return r > 0 ? -ECONNRESET : r;
}

static int connect_often(const struct sockaddr_in *server, void *arg)
{
	const struct settings *set = arg;
	uint64_t began = nsec_now();
	double usec;

	for (unsigned i = 0; i < set->n_connections; i++) {
		int r = one_connection(server, set);

		if (r < 0)
			return r;
	}
	usec = (double)(nsec_now() - began) / 1000;
	printf("size=%u connections=%u usec_each=%.2f per_second=%.0f\n", set->size,
	       set->n_connections, usec / set->n_connections, set->n_connections / usec * 1e6);
	return 0;
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	set->kind = kind_find(set->kind_name);
	if (!set->kind || set->n_requests == 0 || set->size == 0 || set->size > SIZE_MAX_REQUEST ||
	    set->n_connections == 0 || set->n_connections > N_CONNECTIONS_MAX)
		return -EINVAL;
	memset(message, 'x', set->size);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings set = {
		.size = 64, .n_connections = 5000, .n_requests = 1, .kind_name = "turn"
	};
	const struct bench_option options[] = {
		{ "connections", "how many, one after the other", .number = &set.n_connections },
		{ "requests", "requests of each connection", .number = &set.n_requests },
		{ "server", "how it serves: turn, fork or prefork", .text = &set.kind_name },
		{ "size", "bytes of a request and of its answer", .number = &set.size },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_often, .arg = &set };

	return bench_pair_main(argc, argv, "Connections a second: connect, one request, close.",
			       &pair, ready, options, sizeof(options) / sizeof(options[0]));
}
