/*
 * HAL tcp beside plain sockets: the time of a message one way, and the bandwidth, over one TCP connection between two network namespaces.
 *
 * One process makes the connection, one end in each namespace, and forks the two ends, each pinned. Both ends spin, on non-blocking calls or on
 * the HAL, so what is compared is what the HAL costs and not how anybody sleeps. A message goes in frames of the size that the HAL prefers.
 * The first byte of the last message says that it is the last.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
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

struct settings {
	unsigned server_cpu, client_cpu;
	unsigned size, msec, warmup_msec, n_batch;
	const char *server_netns, *client_netns, *address, *congestion;
	bool bandwidth, sockets, uring;
};

struct end {
	const struct settings *set;
	int fd;
	struct hal_link *link; /* NULL: plain sockets */
	char *buf;
};

/* ---- one message: 0 or a negative errno ---------------------------------------------------------- */

static int send_plain(const struct end *e)
{
	size_t done = 0;
	ssize_t n;

	while (done < e->set->size) {
		n = send(e->fd, e->buf + done, e->set->size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return -errno;
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
		if (r == 0 && hal_tcp_flush(e->link) == -EAGAIN)
			r = e->link->ops->progress(e->link);
		if (r < 0)
			return r;
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

/* ---- the two ends ------------------------------------------------------------------------------- */

static int answer(const struct end *e)
{
	int r;

	do {
		r = receive_message(e);
		if (r == 0)
			r = send_message(e, e->buf[0]);
	} while (r == 0 && !e->buf[0]);
	return r;
}

static int play(const struct end *e)
{
	uint64_t begin = nsec_now(), warm = begin + e->set->warmup_msec * 1000000ull;
	uint64_t end = warm + e->set->msec * 1000000ull, at;
	struct bench_samples samples;
	int r = bench_samples_init(&samples, N_BATCHES_MAX);

	while (r == 0 && (at = nsec_now()) < end) {
		for (unsigned i = 0; r == 0 && i < e->set->n_batch; i++) {
			r = send_message(e, false);
			if (r == 0)
				r = receive_message(e);
		}
		if (at >= warm)
			bench_samples_add(&samples,
					  (double)(nsec_now() - at) / 2 / e->set->n_batch);
	}
	if (r == 0)
		r = send_message(e, true);
	if (r == 0)
		r = receive_message(e);
	if (r == 0)
		printf("way=%s size=%u one_way_ns=%.1f\n", e->link ? "hal" : "sockets",
		       e->set->size, bench_samples_percentile(&samples, 50));
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

static int run_end(const struct settings *set, int fd, bool server)
{
	struct end e = { .set = set, .fd = fd, .buf = bench_buffer(set->size) };
	int r = bench_pin(server ? set->server_cpu : set->client_cpu);

	if (!e.buf)
		return -ENOMEM;
	if (r == 0 && !set->sockets)
		r = hal_tcp_open(fd, set->uring ? HAL_TCP_URING : HAL_TCP_PLAIN, &e.link);
	if (r == 0 && set->bandwidth)
		r = server ? take(&e) : give(&e);
	else if (r == 0)
		r = server ? answer(&e) : play(&e);
	/* close() cannot wait. */
	while (e.link && hal_tcp_flush(e.link) == -EAGAIN)
		(void)e.link->ops->progress(e.link);
	if (e.link)
		e.link->ops->close(e.link);
	free(e.buf);
	return r;
}

/* ---- the connection ------------------------------------------------------------------------------ */

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
	if (bind(fd, (struct sockaddr *)ret_address, len) < 0 || listen(fd, 1) < 0 ||
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

static int make_connection(const struct settings *set, int fds[2])
{
	struct sockaddr_in address;
	int listener = listen_there(set, &address), r;

	if (listener < 0)
		return listener;
	r = enter_netns(set->client_netns);
	if (r == 0)
		r = bench_connect(&address, false, &fds[1]);
	if (r == 0)
		r = bench_accept(listener, &fds[0]);
	(void)close(listener);
	for (int i = 0; r == 0 && i < 2; i++)
		r = set_congestion(fds[i], set->congestion);
	return r;
}

static int run(const struct settings *set)
{
	pid_t pids[2], parent = getpid();
	int fds[2], status, r = make_connection(set, fds);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			return -errno;
		if (pids[i] == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void)close(fds[!i]);
			_exit(getppid() != parent
				      ? 1
				      : bench_exit_status("link", run_end(set, fds[i], i == 0)));
		}
	}
	(void)close(fds[0]);
	(void)close(fds[1]);
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
				.address = "127.0.0.1",
				.server_netns = "",
				.client_netns = "",
				.congestion = "" };
	const struct bench_option options[] = {
		{ "sockets", "plain sockets instead of the HAL", .flag = &set.sockets },
		{ "uring", "the HAL's way over io_uring, instead of plain calls",
		  .flag = &set.uring },
		{ "bandwidth", "one way, instead of a ping-pong", .flag = &set.bandwidth },
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
		r = set.size == 0 || set.n_batch == 0 ? -EINVAL : run(&set);
	return bench_exit_status(argv[0], r);
}
