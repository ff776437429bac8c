/*
 * Two pinned processes with TCP or UDP between them.
 *
 * A benchmark's two ends are processes of their own, as two programs would be, forked before
 * there is any socket: nothing of the connection is shared with the process that waits for them.
 * The server listens on a port that the kernel chose, so that runs don't collide, and tells it
 * through a pipe. If the waiting process dies, so do both.
 *
 * Only the calls that any program makes are used here. In particular close() is libc's: a
 * descriptor of a benchmark is the program's, not PULC's own.
 */
#include "pair.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_BACKLOG 1024
#define SIZE_PAGE 4096u
#define N_OPTIONS_CPU 2

void bench_pair_default_cpus(unsigned *ret_server, unsigned *ret_client)
{
	unsigned found[2] = { 0, 0 }, n = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	(void)sched_getaffinity(0, sizeof(set), &set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			found[n++] = cpu;
	*ret_server = found[0];
	*ret_client = n == 2 ? found[1] : found[0];
}

void *bench_buffer(size_t size)
{
	volatile char *buf = calloc(1, size);

	for (size_t i = 0; buf && i < size; i += SIZE_PAGE)
		buf[i] = 0;
	return (void *)buf;
}

int bench_pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

static int set_nodelay(int fd)
{
	int one = 1;

	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ? -errno : 0;
}

/* Connects to the sender of the datagram that comes first. */
static int accept_udp(int fd)
{
	struct sockaddr_in peer;
	socklen_t size = sizeof(peer);
	char none;

	if (recvfrom(fd, &none, 0, MSG_PEEK, (struct sockaddr *)&peer, &size) < 0)
		return -errno;
	return connect(fd, (struct sockaddr *)&peer, size) < 0 ? -errno : 0;
}

static bool is_udp(int fd)
{
	int type = 0;
	socklen_t size = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

int bench_accept(int listener, int *ret_fd)
{
	int r, fd;

	if (is_udp(listener)) {
		*ret_fd = listener;
		return accept_udp(listener);
	}

	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = set_nodelay(fd);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

int bench_connect(const struct sockaddr_in *server, bool udp, int *ret_fd)
{
	int r, fd;

	fd = socket(AF_INET, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = udp ? 0 : set_nodelay(fd);
	if (r == 0 && connect(fd, (const struct sockaddr *)server, sizeof(*server)) < 0)
		r = -errno;
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

void bench_end_udp(int fd)
{
	const struct timespec msec = { .tv_nsec = 1000000 };

	for (unsigned i = 0; i < 1000 && send(fd, "", 0, 0) == 0; i++)
		(void)nanosleep(&msec, NULL);
}

int bench_send_all(int fd, const void *buf, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = send(fd, (const char *)buf + done, size - done, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EPIPE || errno == ECONNRESET ? 1 : -errno;
		done += (size_t)n;
	}
	return 0;
}

int bench_recv_all(int fd, void *buf, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = recv(fd, (char *)buf + done, size - done, 0);

		if (n < 0)
			return -errno;
		if (n == 0)
			return 1;
		done += (size_t)n;
	}
	return 0;
}

void bench_stay(void)
{
	char dropped[64];

	while (read(STDIN_FILENO, dropped, sizeof(dropped)) > 0)
		;
}

static int run_server(const struct bench_pair *pair, int to_client)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(addr);
	int r, listener;

	r = bench_pin(pair->server_cpu);
	if (r < 0)
		return r;
	listener = socket(AF_INET, (pair->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
	if (listener < 0)
		return -errno;
	if (bind(listener, (struct sockaddr *)&addr, size) < 0 ||
	    (!pair->udp && listen(listener, N_BACKLOG) < 0) ||
	    getsockname(listener, (struct sockaddr *)&addr, &size) < 0)
		return -errno;
	if (write(to_client, &addr, sizeof(addr)) != (ssize_t)sizeof(addr))
		return -EPIPE;
	(void)close(to_client);
	return pair->serve(listener, pair->arg);
}

static int run_client(const struct bench_pair *pair, int from_server)
{
	struct sockaddr_in addr;
	int r;

	r = bench_pin(pair->client_cpu);
	if (r < 0)
		return r;
	if (read(from_server, &addr, sizeof(addr)) != (ssize_t)sizeof(addr))
		return -EPIPE; /* the server says why */
	(void)close(from_server);
	return pair->connect(&addr, pair->arg);
}

/* Waits for both; the first failure ends the other. */
static int wait_for_both(pid_t server, pid_t client)
{
	int r = 0;

	for (int i = 0; i < 2; i++) {
		int status;
		pid_t pid = wait(&status);

		if (pid < 0)
			return -errno;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		if (r == 0 && i == 0)
			(void)kill(pid == server ? client : server, SIGKILL);
		r = -ECHILD;
	}
	return r;
}

/* Forks; the child dies with its parent. Returns as fork does, but a negative errno. */
static pid_t fork_bound(void)
{
	pid_t parent = getpid(), pid;

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			(void)raise(SIGKILL); /* it died before the request */
	}
	return pid;
}

int bench_pair_run(const struct bench_pair *pair)
{
	int port[2];
	pid_t server, client;

	if (pipe(port) < 0)
		return -errno;
	server = fork_bound();
	if (server < 0)
		return server;
	if (server == 0) {
		(void)close(port[0]);
		return run_server(pair, port[1]);
	}
	(void)close(port[1]);
	client = fork_bound();
	if (client < 0) {
		(void)kill(server, SIGKILL);
		return client;
	}
	if (client == 0)
		return run_client(pair, port[0]);
	(void)close(port[0]);
	return wait_for_both(server, client);
}

int bench_pair_main(int argc, char **argv, const char *purpose, struct bench_pair *pair,
		    int (*ready)(struct bench_pair *pair), const struct bench_option *options,
		    size_t n_options)
{
	struct bench_option all[BENCH_N_OPTIONS_MAX] = {
		{ "server-cpu", "processor of the server", .number = &pair->server_cpu },
		{ "client-cpu", "processor of the client", .number = &pair->client_cpu },
	};
	int r;

	if (n_options + N_OPTIONS_CPU > BENCH_N_OPTIONS_MAX)
		return bench_exit_status(argv[0], -E2BIG);
	memcpy(all + N_OPTIONS_CPU, options, n_options * sizeof(*options));
	bench_pair_default_cpus(&pair->server_cpu, &pair->client_cpu);
	r = bench_options_parse(argc, argv, purpose, all, n_options + N_OPTIONS_CPU);
	if (r == 0)
		r = ready(pair);
	else if (r > 0)
		return EXIT_SUCCESS;
	return bench_exit_status(argv[0], r < 0 ? r : bench_pair_run(pair));
}
