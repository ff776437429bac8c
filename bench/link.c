/*
 * HAL tcp beside plain sockets: the time of a message one way, and the bandwidth, over TCP
 * connections between two network namespaces.
 *
 * One process makes the connections, one end in each namespace, and forks the two ends, each
 * pinned. Both ends spin, on non-blocking calls or on the HAL, so what is compared is what the HAL
 * costs and not how anybody sleeps; or, if asked to, both sleep whenever there is nothing. A
 * message goes in frames of the size that the HAL prefers. Over several connections a round is a
 * message on each of them and then the answer on each. The first byte of the last message says that
 * it is the last.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "macros.h"
#include "tcp_link.h"

#define N_BATCHES_MAX 1000000u
#define N_LINKS_MAX 1024u
#define WATCH 1u

struct settings {
	unsigned server_cpu, client_cpu;
	unsigned size, msec, warmup_msec, n_batch, n_links;
	const char *server_netns, *client_netns, *address, *congestion;
	bool bandwidth, sockets, uring, sleep;
};

struct end {
	const struct settings *set;
	int fd;
	struct hal_link *link; /* NULL: plain sockets */
	char *buf;
};

/* ---- sleeping -------------------------------------------------------------------------------- */

static void await(int fd, short events)
{
	(void)poll(&(struct pollfd){ .fd = fd, .events = events }, 1, -1);
}

/* As whoever waits for a link does: watched before the last look. */
static void sleep_on_link(const struct end *e)
{
	const struct hal_ops *ops = e->link->ops;

	if (ops->watch(e->link, WATCH, HAL_WATCH_DATA | HAL_WATCH_SPACE) == 0 &&
	    !ops->pending(e->link))
		await(ops->fd(e->link), POLLIN);
	ops->unwatch(e->link, WATCH);
}

/* ---- one message: 0 or a negative errno ------------------------------------------------------ */

static int send_plain(const struct end *e)
{
	size_t done = 0;
	ssize_t n;

	while (done < e->set->size) {
		n = send(e->fd, e->buf + done, e->set->size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0 && e->set->sleep)
			await(e->fd, POLLOUT);
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int receive_plain(const struct end *e)
{
	size_t done = 0;
	ssize_t n;

	while (done < e->set->size) {
		n = recv(e->fd, e->buf + done, e->set->size - done, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return n == 0 ? -ECONNRESET : -errno;
		if (n < 0 && e->set->sleep)
			await(e->fd, POLLIN);
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int send_frames(const struct end *e)
{
	uint32_t left = e->set->size;
	struct hal_frame f = { .protocol = 1 };
	struct iovec iov;
	int r;

	while (left > 0) {
		f.len = MIN(left, e->link->caps.frame_good);
		iov = (struct iovec){ e->buf + e->set->size - left, f.len };
		r = e->link->ops->send(e->link, &f, &iov, 1);
		if (r == -EAGAIN && e->set->sleep)
			sleep_on_link(e);
		if (r == -EAGAIN)
			r = e->link->ops->progress(e->link);
		else
			left -= f.len;
		if (r < 0)
			return r;
	}
	return 0;
}

static int receive_frames(const struct end *e)
{
	size_t done = 0;
	struct hal_frame f;
	struct iovec iov;
	int r;

	while (done < e->set->size) {
		r = e->link->ops->next(e->link, &f);
		if (r == 0 && hal_link_flush(e->link) == -EAGAIN)
			r = e->link->ops->progress(e->link);
		if (r < 0)
			return r;
		if (r == 0 && e->set->sleep)
			sleep_on_link(e);
		if (r == 0)
			continue;
		iov = (struct iovec){ e->buf + done, e->set->size - done };
		done += e->link->ops->copy(e->link, &iov, 1);
		e->link->ops->drop(e->link);
	}
	return 0;
}

static int send_message(const struct end *e, bool last)
{
	e->buf[0] = last;
	return e->link ? send_frames(e) : send_plain(e);
}

static int receive_message(const struct end *e)
{
	return e->link ? receive_frames(e) : receive_plain(e);
}

/* ---- the two ends ---------------------------------------------------------------------------- */

/* A message on each link. */
static int send_round(const struct end *ends, bool last)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < ends->set->n_links; i++)
		r = send_message(&ends[i], last);
	return r;
}

static int receive_round(const struct end *ends)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < ends->set->n_links; i++)
		r = receive_message(&ends[i]);
	return r;
}

static int answer(const struct end *ends)
{
	int r;

	do {
		r = receive_round(ends);
		if (r == 0)
			r = send_round(ends, ends->buf[0]);
	} while (r == 0 && !ends->buf[0]);
	return r;
}

static int play(const struct end *ends)
{
	const struct settings *set = ends->set;
	uint64_t begin = nsec_now(), warm = begin + set->warmup_msec * 1000000ull;
	uint64_t end = warm + set->msec * 1000000ull, at;
	struct bench_samples samples;
	unsigned n_rounds = 0;
	int r = bench_samples_init(&samples, N_BATCHES_MAX);

	while (r == 0 && (at = nsec_now()) < end) {
		for (unsigned i = 0; r == 0 && i < set->n_batch; i++, n_rounds++) {
			r = send_round(ends, false);
			if (r == 0)
				r = receive_round(ends);
		}
		if (at >= warm)
			bench_samples_add(&samples, (double)(nsec_now() - at) / 2 / set->n_batch /
							    set->n_links);
	}
	if (r == 0)
		r = send_round(ends, true);
	if (r == 0)
		r = receive_round(ends);
	if (r == 0)
		printf("way=%s size=%u links=%u rounds=%u one_way_ns=%.1f\n",
		       ends->link ? "hal" : "sockets", set->size, set->n_links, n_rounds,
		       bench_samples_percentile(&samples, 50));
	(void)fflush(stdout);
	bench_samples_deinit(&samples);
	return r;
}

static int take(const struct end *e)
{
	uint64_t warm = nsec_now() + e->set->warmup_msec * 1000000ull, began = 0;
	double size = 0;
	int r;

	do {
		r = receive_message(e);
		if (began)
			size += e->set->size;
		else if (nsec_now() >= warm)
			began = nsec_now();
	} while (r == 0 && !e->buf[0]);
	if (r == 0)
		printf("way=%s size=%u gbs=%.3f\n", e->link ? "hal" : "sockets", e->set->size,
		       size / (double)(nsec_now() - began));
	(void)fflush(stdout);
	e->buf[0] = 1;
	return r < 0 ? r : send_message(e, true);
}

static int give(const struct end *e)
{
	uint64_t end = nsec_now() + (e->set->warmup_msec + e->set->msec) * 1000000ull;
	int r = 0;

	while (r == 0 && nsec_now() < end)
		r = send_message(e, false);
	if (r == 0)
		r = send_message(e, true);
	return r < 0 ? r : receive_message(e);
}

static int open_ends(const struct settings *set, const int *fds, struct end *ends)
{
	char *buf = bench_buffer(set->size);
	int r = buf ? 0 : -ENOMEM;

	for (unsigned i = 0; r == 0 && i < set->n_links; i++) {
		ends[i] = (struct end){ .set = set, .fd = fds[i], .buf = buf };
		if (!set->sockets)
			r = hal_tcp_open(fds[i], set->uring ? HAL_TCP_URING : HAL_TCP_PLAIN,
					 &ends[i].link);
	}
	return r;
}

static void close_ends(struct end *ends)
{
	for (unsigned i = 0; i < N_LINKS_MAX; i++) {
		/* close() cannot wait. */
		while (ends[i].link && hal_link_flush(ends[i].link) == -EAGAIN)
			(void)ends[i].link->ops->progress(ends[i].link);
		if (ends[i].link)
			ends[i].link->ops->close(ends[i].link);
	}
	free(ends[0].buf);
}

static int run_end(const struct settings *set, const int *fds, bool server)
{
	static struct end ends[N_LINKS_MAX];
	int r = bench_pin(server ? set->server_cpu : set->client_cpu);

	if (r == 0)
		r = open_ends(set, fds, ends);
	if (r == 0 && set->bandwidth)
		r = server ? take(ends) : give(ends);
	else if (r == 0)
		r = server ? answer(ends) : play(ends);
	close_ends(ends);
	return r;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* 0 or a negative errno. name: a file, as `ip netns` makes them; "": stay. */
static int enter_netns(const char *name)
{
	int fd, r;

	if (!name[0])
		return 0;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = setns(fd, CLONE_NEWNET) < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

static int listen_there(const struct settings *set, struct sockaddr_in *ret_address)
{
	socklen_t len = sizeof(*ret_address);
	int fd, r = enter_netns(set->server_netns);

	*ret_address = (struct sockaddr_in){ .sin_family = AF_INET };
	if (r < 0 || inet_pton(AF_INET, set->address, &ret_address->sin_addr) != 1)
		return r < 0 ? r : -EINVAL;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)ret_address, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)ret_address, &len) < 0) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	return fd;
}

/* 0 or a negative errno. "": as the system has it. */
static int set_congestion(int fd, const char *name)
{
	if (name[0] &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) < 0)
		return -errno;
	return 0;
}

/* One end of each in either row. */
static int make_connections(const struct settings *set, int fds[2][N_LINKS_MAX])
{
	struct sockaddr_in address;
	int listener = listen_there(set, &address), r;

	if (listener < 0)
		return listener;
	r = enter_netns(set->client_netns);
	for (unsigned i = 0; r == 0 && i < set->n_links; i++) {
		r = bench_connect(&address, false, &fds[1][i]);
		if (r == 0)
			r = bench_accept(listener, &fds[0][i]);
		for (int k = 0; r == 0 && k < 2; k++)
			r = set_congestion(fds[k][i], set->congestion);
	}
	(void)close(listener);
	return r;
}

static void close_all(const struct settings *set, const int *fds)
{
	for (unsigned i = 0; i < set->n_links; i++)
		(void)close(fds[i]);
}

static int run(const struct settings *set)
{
	static int fds[2][N_LINKS_MAX];
	pid_t pids[2], parent = getpid();
	int status, r = make_connections(set, fds);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			return -errno;
		if (pids[i] == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			close_all(set, fds[!i]);
			_exit(getppid() != parent
				      ? 1
				      : bench_exit_status("link", run_end(set, fds[i], i == 0)));
		}
	}
	for (int i = 0; i < 2; i++)
		close_all(set, fds[i]);
	for (int i = 0; i < 2; i++)
		if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
			r = -EPROTO;
	return r;
}

int main(int argc, char **argv)
{
	struct settings set = { .size = 8,
				.msec = 300,
				.warmup_msec = 300,
				.n_batch = 32,
				.n_links = 1,
				.address = "127.0.0.1",
				.server_netns = "",
				.client_netns = "",
				.congestion = "" };
	const struct bench_option options[] = {
		{ "sockets", "plain sockets instead of the HAL", .flag = &set.sockets },
		{ "uring", "the HAL's way over io_uring, instead of plain calls",
		  .flag = &set.uring },
		{ "bandwidth", "one way, instead of a ping-pong", .flag = &set.bandwidth },
		{ "sleep", "both ends sleep when there is nothing, instead of spinning",
		  .flag = &set.sleep },
		{ "links", "connections, a message on each in turn", .number = &set.n_links },
		{ "size", "bytes of a message", .number = &set.size },
		{ "msec", "time to measure", .number = &set.msec },
		{ "warmup-msec", "time before that, not counted", .number = &set.warmup_msec },
		{ "batch", "round trips timed together", .number = &set.n_batch },
		{ "address", "of the server", .text = &set.address },
		{ "server-netns", "file of the server's network namespace",
		  .text = &set.server_netns },
		{ "client-netns", "file of the client's", .text = &set.client_netns },
		{ "congestion", "the connection's congestion control; none: as the system has it",
		  .text = &set.congestion },
		{ "server-cpu", "processor of the server", .number = &set.server_cpu },
		{ "client-cpu", "processor of the client", .number = &set.client_cpu },
	};
	int r;

	bench_pair_default_cpus(&set.server_cpu, &set.client_cpu);
	r = bench_options_parse(argc, argv,
				"HAL tcp and plain sockets between two network namespaces.",
				options, sizeof(options) / sizeof(options[0]));
	if (r == 0)
		r = set.size == 0 || set.n_batch == 0 || set.n_links == 0 ||
				    set.n_links > N_LINKS_MAX
			    ? -EINVAL
			    : run(&set);
	return bench_exit_status(argv[0], r);
}
