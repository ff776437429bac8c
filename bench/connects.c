/*
 * Short connections: connect, one request, one answer, close, one after the other.
 *
 * Nothing of such a connection is worth an upgrade; what is measured is what PULC's presence
 * adds to each of its calls. The client closes first, as most clients do, and the number of
 * connections is bounded: each leaves a port in TIME_WAIT.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE_MAX_REQUEST 65536u
#define N_CONNECTIONS_MAX 25000u /* Linux offers 28,232 ports by default */

struct settings {
	unsigned server_cpu;
	unsigned client_cpu;
	unsigned size;
	unsigned n_connections;
};

static char message[SIZE_MAX_REQUEST];

static int serve(int listener, void *arg)
{
	const struct settings *set = arg;

	for (unsigned i = 0; i < set->n_connections; i++) {
		int fd, r = bench_accept(listener, &fd);

		if (r < 0)
			return r;
		while ((r = bench_recv_all(fd, message, set->size)) == 0) {
			r = bench_send_all(fd, message, set->size);
			if (r != 0)
				break;
		}
		(void)close(fd);
		if (r < 0)
			return r;
	}
	return 0;
}

static int one_request(const struct sockaddr_in *server, size_t size)
{
	int fd, r = bench_connect(server, false, &fd);

	if (r < 0)
		return r;
	r = bench_send_all(fd, message, size);
	if (r == 0)
		r = bench_recv_all(fd, message, size);
	(void)close(fd);
	return r > 0 ? -ECONNRESET : r;
}

static int connect_often(const struct sockaddr_in *server, void *arg)
{
	const struct settings *set = arg;
	uint64_t began = nsec_now();
	double usec;

	for (unsigned i = 0; i < set->n_connections; i++) {
		int r = one_request(server, set->size);

		if (r < 0)
			return r;
	}
	usec = (double)(nsec_now() - began) / 1000;
	printf("size=%u connections=%u usec_each=%.2f per_second=%.0f\n", set->size,
	       set->n_connections, usec / set->n_connections, set->n_connections / usec * 1e6);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings set = { .size = 64, .n_connections = 5000 };
	const struct bench_option options[] = {
		{ "connections", "how many, one after the other", .number = &set.n_connections },
		{ "size", "bytes of a request and of its answer", .number = &set.size },
		{ "server-cpu", "processor of the server", .number = &set.server_cpu },
		{ "client-cpu", "processor of the client", .number = &set.client_cpu },
	};
	struct bench_pair pair = { .serve = serve, .connect = connect_often, .arg = &set };
	int r;

	bench_pair_default_cpus(&set.server_cpu, &set.client_cpu);
	r = bench_options_parse(argc, argv, "Connections a second: connect, one request, close.",
				options, sizeof(options) / sizeof(options[0]));
	if (r != 0)
		return bench_exit_status(argv[0], r);
	if (set.size == 0 || set.size > SIZE_MAX_REQUEST || set.n_connections == 0 ||
	    set.n_connections > N_CONNECTIONS_MAX)
		return bench_exit_status(argv[0], -EINVAL);
	memset(message, 'x', set.size);
	pair.server_cpu = set.server_cpu;
	pair.client_cpu = set.client_cpu;
	return bench_exit_status(argv[0], bench_pair_run(&pair));
}
