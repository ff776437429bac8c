/*
 * Load for a memcached: a number of connections, each with one request for the same value under
 * way.
 *
 * One thread and one epoll set, as in most such clients. The value is stored first; an answer is
 * known by its length. Requests count that are answered in a window of time that begins after the
 * warm-up, in which connections may change their paths.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_EVENTS 64
#define N_CONNECTIONS_MAX 1000u
#define SIZE_VALUE 100
#define REQUEST "get key\r\n"

struct settings {
	unsigned port;
	unsigned n_connections;
	unsigned msec;
	unsigned warmup_msec;
	bool stay;
};

struct connection {
	int fd;
	size_t n_come; /* bytes of the present answer */
};

static size_t size_answer;

/* Stores the value; what an answer looks like follows from it. */
static int store(int fd)
{
	char message[SIZE_VALUE + 64], value[SIZE_VALUE + 1], answer[16] = "";
	int r, len;

	memset(value, 'v', SIZE_VALUE);
	value[SIZE_VALUE] = '\0';
	len = snprintf(message, sizeof(message), "set key 0 0 %d\r\n%s\r\n", SIZE_VALUE, value);
	r = bench_send_all(fd, message, (size_t)len);
	if (r == 0)
		r = bench_recv_all(fd, answer, strlen("STORED\r\n"));
	if (r == 0 && strcmp(answer, "STORED\r\n") != 0)
		r = -EPROTO;
	size_answer = (size_t)snprintf(message, sizeof(message), "VALUE key 0 %d\r\n%s\r\nEND\r\n",
				       SIZE_VALUE, value);
	return r > 0 ? -ECONNRESET : r;
}

static int ask(const struct connection *c)
{
	int r = bench_send_all(c->fd, REQUEST, strlen(REQUEST));

	return r > 0 ? -ECONNRESET : r;
}

static int connect_one(const struct sockaddr_in *server, int set, struct connection *c)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	int r = bench_connect(server, false, &c->fd);

	if (r < 0)
		return r;
	return epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &event) < 0 ? -errno : 0;
}

/* Takes what has come, and asks again when that is an answer. Returns how many answers, or a
 * negative errno. */
static int take(struct connection *c)
{
	char buf[4096];
	ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);
	int r;

	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	c->n_come += (size_t)n;
	if (c->n_come < size_answer)
		return 0;
	c->n_come = 0;
	r = ask(c);
	return r < 0 ? r : 1;
}

/* Asks and takes for a while. Returns how many answers came, *ret_nsec the time it took; a negative
 * errno. */
static ssize_t run_for(int set, unsigned msec, uint64_t *ret_nsec)
{
	uint64_t began = nsec_now(), end = began + msec * 1000000ull, now = began;
	struct epoll_event events[N_EVENTS];
	ssize_t n_answers = 0;

	for (; now < end; now = nsec_now()) {
		int n = epoll_wait(set, events, N_EVENTS, 1000);

		if (n < 0)
			return -errno;
		for (int i = 0; i < n; i++) {
			int r = take(events[i].data.ptr);

			if (r < 0)
				return r;
			n_answers += r;
		}
	}
	*ret_nsec = now - began;
	return n_answers;
}

static int load(const struct sockaddr_in *server, const struct settings *set,
		struct connection *connections)
{
	int r = 0, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	uint64_t nsec;
	ssize_t n;

	if (epoll_fd < 0)
		return -errno;
	for (unsigned i = 0; r == 0 && i < set->n_connections; i++)
		r = connect_one(server, epoll_fd, &connections[i]);
	if (r == 0)
		r = store(connections[0].fd);
	for (unsigned i = 0; r == 0 && i < set->n_connections; i++)
		r = ask(&connections[i]);
	if (r < 0)
		return r;
	n = run_for(epoll_fd, set->warmup_msec, &nsec);
	if (n >= 0)
		n = run_for(epoll_fd, set->msec, &nsec);
	if (n < 0)
		return (int)n;
	printf("connections=%u answers_per_second=%.0f\n", set->n_connections,
	       (double)n * 1e9 / (double)nsec);
	(void)fflush(stdout);
	if (set->stay)
		bench_stay();
	return 0;
}

int main(int argc, char **argv)
{
	struct settings set = {
		.port = 11211, .n_connections = 50, .msec = 1000, .warmup_msec = 500
	};
	const struct bench_option options[] = {
		{ "port", "where memcached listens, on 127.0.0.1", .number = &set.port },
		{ "connections", "how many, each with a request under way",
		  .number = &set.n_connections },
		{ "msec", "time to measure", .number = &set.msec },
		{ "warmup-msec", "time before that, not counted", .number = &set.warmup_msec },
		{ "stay", "keep the connections until standard input ends", .flag = &set.stay },
	};
	struct sockaddr_in server = { .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct connection *connections;
	int r;

	r = bench_options_parse(argc, argv, "Answers a second of a memcached.", options,
				sizeof(options) / sizeof(options[0]));
	if (r != 0)
		return bench_exit_status(argv[0], r);
	if (set.port > UINT16_MAX || set.n_connections == 0 ||
	    set.n_connections > N_CONNECTIONS_MAX)
		return bench_exit_status(argv[0], -EINVAL);
	server.sin_port = htons((uint16_t)set.port);
	connections = calloc(set.n_connections, sizeof(*connections));
	r = connections ? load(&server, &set, connections) : -ENOMEM;
	free(connections);
	return bench_exit_status(argv[0], r);
}
