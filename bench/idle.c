/*
 * Idle connections: what thousands of them cost while nothing happens.
 *
 * Two processes open many connections between each other, one at a time, and make a few round
 * trips on each so that it may be upgraded; every end is also in its process's epoll set, as a
 * server would have it. Afterwards each process tells, for itself:
 *
 *   resident  memory of its own and shared (RssAnon + RssShmem) that came since before the first
 *             connection, for each connection; page tables (VmPTE) apart
 *   mappings  entries of /proc/self/maps
 *   fork      time of a fork whose child ends at once, median
 *   cpu       share of a processor used while asleep in epoll_wait()
 *
 * The two take turns by bytes in pipes, so that the connections are the only traffic on sockets and
 * one process measures its forks while the other one sleeps.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_FORKS 15
#define N_EVENTS 64
#define MSEC_SETTLE 200
#define SIZE_MESSAGE 8

struct settings {
	unsigned n_connections;
	unsigned n_rounds;
	unsigned n_sweeps;
	unsigned idle_msec;
	bool stay;
	int to_server[2]; /* pipes */
	int to_client[2];
};

/* Memory of this process, in KiB, from /proc/self/status. */
struct memory {
	long anon;
	long shmem;
	long page_tables;
};

struct end {
	const char *side;
	const struct settings *set;
	int epoll_fd;
	int *fds;
	struct memory before;
};

static int memory_read(struct memory *ret)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "RssAnon: %ld", &ret->anon);
		(void)sscanf(line, "RssShmem: %ld", &ret->shmem);
		(void)sscanf(line, "VmPTE: %ld", &ret->page_tables);
	}
	(void)fclose(f);
	return 0;
}

static unsigned count_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned n = 0;
	int c;

	if (!f)
		return 0;
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	(void)fclose(f);
	return n;
}

static int measure_fork(double *ret_usec)
{
	struct bench_samples samples;
	int r = bench_samples_init(&samples, N_FORKS);

	for (unsigned i = 0; r == 0 && i < N_FORKS; i++) {
		uint64_t before = nsec_now();
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		bench_samples_add(&samples, (double)(nsec_now() - before) / 1000);
		if (pid < 0 || waitpid(pid, NULL, 0) < 0)
			r = -errno;
	}
	if (r == 0)
		*ret_usec = bench_samples_percentile(&samples, 50);
	bench_samples_deinit(&samples);
	return r;
}

/* Asleep over all connections, as an idle server is. Returns the percent of a processor used. */
static double measure_idle(const struct end *e)
{
	struct epoll_event events[N_EVENTS];
	uint64_t began, end, cpu;

	/* The set settles: every member was readable a moment ago, and is looked at once more. */
	(void)epoll_wait(e->epoll_fd, events, N_EVENTS, MSEC_SETTLE);
	began = nsec_now();
	end = began + e->set->idle_msec * 1000000ull;
	cpu = bench_cpu_nsec();
	for (uint64_t now = began; now < end; now = nsec_now())
		if (epoll_wait(e->epoll_fd, events, N_EVENTS, (int)((end - now) / 1000000 + 1)) < 0)
			break;
	return 100.0 * (double)(bench_cpu_nsec() - cpu) / (double)(nsec_now() - began);
}

static int end_init(struct end *e, const char *side, const struct settings *set)
{
	struct rlimit limit;

	e->side = side;
	e->set = set;
	e->fds = malloc(set->n_connections * sizeof(*e->fds));
	if (!e->fds)
		return -ENOMEM;
	for (unsigned i = 0; i < set->n_connections; i++)
		e->fds[i] = -1; /* touched, so that it does not count below */
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0)
		return -errno;
	return memory_read(&e->before);
}

static void end_deinit(struct end *e)
{
	free(e->fds);
	e->fds = NULL;
}

static int end_add(struct end *e, unsigned i, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };

	e->fds[i] = fd;
	return epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int end_report(const struct end *e, double idle_percent)
{
	struct memory now;
	double fork_usec = 0, n = e->set->n_connections;
	int r;

	r = memory_read(&now);
	if (r == 0)
		r = measure_fork(&fork_usec);
	if (r < 0)
		return r;
	printf("side=%s connections=%u resident_kib=%.3f anon_kib=%.3f shmem_kib=%.3f "
	       "page_tables_kib=%.3f mappings=%u "
	       "fork_usec=%.1f idle_cpu_percent=%.3f\n",
	       e->side, e->set->n_connections,
	       (double)(now.anon - e->before.anon + now.shmem - e->before.shmem) / n,
	       (double)(now.anon - e->before.anon) / n, (double)(now.shmem - e->before.shmem) / n,
	       (double)(now.page_tables - e->before.page_tables) / n, count_mappings(), fork_usec,
	       idle_percent);
	(void)fflush(stdout);
	return 0;
}

/* One round trip on a connection, begun by the client. */
static int ping(int fd)
{
	char message[SIZE_MESSAGE] = { 0 };
	int r = bench_send_all(fd, message, sizeof(message));

	if (r == 0)
		r = bench_recv_all(fd, message, sizeof(message));
	return r > 0 ? -ECONNRESET : r;
}

static int pong(int fd)
{
	char message[SIZE_MESSAGE];
	int r = bench_recv_all(fd, message, sizeof(message));

	if (r == 0)
		r = bench_send_all(fd, message, sizeof(message));
	return r > 0 ? -ECONNRESET : r;
}

/* Both sides go through the connections in the same order. */
static int sweep(const struct end *e, int (*turn)(int fd))
{
	int r = 0;

	for (unsigned s = 0; r == 0 && s < e->set->n_sweeps; s++)
		for (unsigned i = 0; r == 0 && i < e->set->n_connections; i++)
			r = turn(e->fds[i]);
	return r;
}

static int tell(int fd)
{
	return write(fd, "", 1) == 1 ? 0 : -EPIPE;
}

static int await(int fd)
{
	char c;

	return read(fd, &c, 1) == 1 ? 0 : -EPIPE;
}

static int serve_all(struct end *e, int listener)
{
	const struct settings *set = e->set;
	double idle;
	int r = 0, fd;

	for (unsigned i = 0; r == 0 && i < set->n_connections; i++) {
		r = bench_accept(listener, &fd);
		if (r == 0)
			r = end_add(e, i, fd);
		for (unsigned k = 0; r == 0 && k < set->n_rounds; k++)
			r = pong(fd);
	}
	if (r == 0)
		r = sweep(e, pong);
	idle = r == 0 ? measure_idle(e) : 0;
	if (r == 0)
		r = end_report(e, idle);
	if (r == 0)
		r = tell(set->to_client[1]);
	return r < 0 ? r : await(set->to_server[0]); /* the client has finished */
}

static int connect_all(struct end *e, const struct sockaddr_in *server)
{
	const struct settings *set = e->set;
	double idle;
	int r = 0, fd;

	for (unsigned i = 0; r == 0 && i < set->n_connections; i++) {
		r = bench_connect(server, false, &fd);
		if (r == 0)
			r = end_add(e, i, fd);
		for (unsigned k = 0; r == 0 && k < set->n_rounds; k++)
			r = ping(fd);
	}
	if (r == 0)
		r = sweep(e, ping);
	idle = r == 0 ? measure_idle(e) : 0;
	if (r == 0)
		r = await(set->to_client[0]);
	if (r == 0)
		r = end_report(e, idle);
	if (r == 0 && set->stay)
		bench_stay();
	return r < 0 ? r : tell(set->to_server[1]);
}

static int serve(int listener, void *arg)
{
	struct end e = { 0 };
	int r = end_init(&e, "server", arg);

	if (r == 0)
		r = serve_all(&e, listener);
	end_deinit(&e);
	return r;
}

static int connect_to(const struct sockaddr_in *server, void *arg)
{
	struct end e = { 0 };
	int r = end_init(&e, "client", arg);

	if (r == 0)
		r = connect_all(&e, server);
	end_deinit(&e);
	return r;
}

static int ready(struct bench_pair *pair)
{
	struct settings *set = pair->arg;

	if (set->n_connections == 0 || set->idle_msec == 0)
		return -EINVAL;
	return pipe(set->to_server) < 0 || pipe(set->to_client) < 0 ? -errno : 0;
}

int main(int argc, char **argv)
{
	struct settings set = {
		.n_connections = 1000, .n_rounds = 16, .n_sweeps = 4, .idle_msec = 1000
	};
	const struct bench_option options[] = {
		{ "connections", "how many", .number = &set.n_connections },
		{ "rounds", "round trips on each one when it is new", .number = &set.n_rounds },
		{ "sweeps", "round trips on each one after all are there",
		  .number = &set.n_sweeps },
		{ "idle-msec", "time to be idle", .number = &set.idle_msec },
		{ "stay", "keep the connections until standard input ends", .flag = &set.stay },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_to, .arg = &set };

	return bench_pair_main(argc, argv,
			       "What many idle TCP connections cost each of two processes.", &pair,
			       ready, options, sizeof(options) / sizeof(options[0]));
}
