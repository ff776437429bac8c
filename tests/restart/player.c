/*
 * One end of connections, told what to do: a line on stdin, an answer on stdout ("ok ..." or "error
 * ..."). An unmodified program to the shim, that sleeps in poll over stdin and its connections as a
 * server does.
 *
 * Every byte of a direction is known by its place, so each is compared. exec and fork hand on what
 * was counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_MAX 1024
#define SIZE_PIECE 65536
#define STDIN 0
#define USEC_ASLEEP 100000 /* behind any spin */

struct end {
	int fd;
	uint64_t sent, taken;
};

static struct end ends[N_MAX];
static int n_ends, listener = -1, link_fd = -1;
static char *self;

static void answer(const char *what, long long value)
{
	if (value < 0)
		printf("error %s: %s\n", what, strerror((int)-value));
	else
		printf("ok %lld\n", value);
	fflush(stdout);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static unsigned char byte_at(uint64_t at)
{
	return (unsigned char)(at * 167 + (at >> 8) * 13 + (at >> 16));
}

static void fill(unsigned char *buf, uint64_t at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		buf[i] = byte_at(at + i);
}

static bool is_right(const unsigned char *buf, uint64_t at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (buf[i] != byte_at(at + i))
			return false;
	return true;
}

static size_t smaller(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

static long long put(struct end *end, uint64_t size)
{
	unsigned char buf[SIZE_PIECE];
	ssize_t n;

	for (uint64_t done = 0; done < size; done += (uint64_t)n) {
		size_t piece = smaller(size - done, sizeof(buf));

		fill(buf, end->sent, piece);
		n = send(end->fd, buf, piece, MSG_NOSIGNAL);
		if (n < 0)
			return -errno;
		end->sent += (uint64_t)n;
	}
	return (long long)size;
}

static void wait_by_select(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	(void)select(fd + 1, &set, NULL, NULL, NULL);
}

static void wait_by_epoll(int fd)
{
	static int epfd = -1;
	struct epoll_event event = { .events = EPOLLIN };

	if (epfd < 0)
		epfd = epoll_create1(EPOLL_CLOEXEC);
	(void)epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event);
	(void)epoll_wait(epfd, &event, 1, -1);
}

static void wait_for_bytes(int fd, const char *how)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (strcmp(how, "poll") == 0)
		(void)poll(&p, 1, -1);
	else if (strcmp(how, "select") == 0)
		wait_by_select(fd);
	else if (strcmp(how, "epoll") == 0)
		wait_by_epoll(fd);
}

/* Up to `size` bytes, or all until the end. */
static long long take(struct end *end, uint64_t size, const char *how)
{
	unsigned char buf[SIZE_PIECE];
	uint64_t done = 0;

	while (done < size) {
		ssize_t n;

		wait_for_bytes(end->fd, how);
		n = recv(end->fd, buf, smaller(size - done, sizeof(buf)), 0);
		if (n <= 0)
			return n < 0 ? -errno : (long long)done;
		if (!is_right(buf, end->taken, (size_t)n))
			return -EILSEQ;
		end->taken += (uint64_t)n;
		done += (uint64_t)n;
	}
	return (long long)done;
}

/* ---- commands -------------------------------------------------------------------------------- */

static long long add(int fd)
{
	if (fd < 0)
		return -errno;
	ends[n_ends] = (struct end){ .fd = fd };
	return n_ends++;
}

static long long start_listening(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, N_MAX) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	return ntohs(address.sin_port);
}

static long long connect_to(uint16_t port, int n)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	for (int i = 0; i < n; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
			return -errno;
		(void)add(fd);
	}
	return n;
}

static long long accept_some(int n)
{
	for (int i = 0; i < n; i++)
		if (add(accept(listener, NULL, NULL)) < 0)
			return -errno;
	return n;
}

/* Turns of one byte on every connection from `first` on. */
static long long play(bool leads, int first, int n_turns)
{
	long long e = 0;

	for (int turn = 0; turn < n_turns && e >= 0; turn++)
		for (int i = first; i < n_ends && e >= 0; i++) {
			e = leads ? put(&ends[i], 1) : take(&ends[i], 1, "recv");
			if (e == 1)
				e = leads ? take(&ends[i], 1, "recv") : put(&ends[i], 1);
			if (e == 0)
				e = -EPIPE;
		}
	return e < 0 ? e : n_turns;
}

static bool is_told(void)
{
	struct pollfd p = { .fd = STDIN, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Sends until the next command comes, then ends the direction. */
static long long flood(struct end *end)
{
	unsigned int seed = (unsigned int)end->fd;
	long long e = 0;

	while (!is_told() && e >= 0)
		e = put(end, 1 + (uint64_t)rand_r(&seed) % (3 * SIZE_PIECE));
	(void)shutdown(end->fd, SHUT_WR);
	return e < 0 ? e : (long long)end->sent;
}

static void *drain(void *arg)
{
	static long long result;

	result = take(arg, UINT64_MAX, "recv");
	return &result;
}

/* Both directions at once; answers what it has sent and what it has got. */
static void duplex(struct end *end)
{
	pthread_t thread;
	long long sent;
	void *taken;

	if (pthread_create(&thread, NULL, drain, end) != 0) {
		answer("thread", -errno);
		return;
	}
	sent = flood(end);
	(void)pthread_join(thread, &taken);
	if (sent < 0 || *(long long *)taken < 0) {
		answer("duplex", sent < 0 ? sent : *(long long *)taken);
		return;
	}
	printf("ok %lld %llu\n", sent, (unsigned long long)end->taken);
	fflush(stdout);
}

/* ---- a set that a thread sleeps in ----------------------------------------------------------- */

static int set = -1;
static pthread_t sleeper;

static void *sleep_in_set(void *arg)
{
	static long long heard;
	struct epoll_event event;

	(void)arg;
	heard = epoll_wait(set, &event, 1, -1) == 1 ? (long long)event.data.u32 : -errno;
	return &heard;
}

static long long join_set(uint32_t which)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = which };

	return epoll_ctl(set, EPOLL_CTL_ADD, ends[which].fd, &event) < 0 ? -errno : 0;
}

/* With one member; others join while the thread sleeps. */
static long long begin_set(uint32_t which)
{
	int e;

	set = epoll_create1(EPOLL_CLOEXEC);
	if (set < 0 || join_set(which) < 0)
		return -errno;
	e = pthread_create(&sleeper, NULL, sleep_in_set, NULL);
	(void)usleep(USEC_ASLEEP);
	return -e;
}

/* Which end the thread has heard of. */
static long long end_set(void)
{
	void *heard;

	(void)pthread_join(sleeper, &heard);
	return *(long long *)heard;
}

/* ---- processes ------------------------------------------------------------------------------- */

static long long execute(void)
{
	static char text[N_MAX * 64];
	size_t len = 0;
	char link[16];

	for (int i = 0; i < n_ends; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%d:%llu:%llu ", ends[i].fd,
					(unsigned long long)ends[i].sent,
					(unsigned long long)ends[i].taken);
	(void)snprintf(link, sizeof(link), "%d", link_fd);
	(void)execl(self, self, link, text, (char *)NULL);
	return -errno;
}

static void resume(const char *text)
{
	unsigned long long sent, taken;
	int fd, n;

	while (sscanf(text, "%d:%llu:%llu %n", &fd, &sent, &taken, &n) == 3) {
		ends[n_ends++] = (struct end){ fd, sent, taken };
		text += n;
	}
}

/* The child goes on; the parent waits for it, with its copies open or closed. */
static void divide(bool holds)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		return;
	for (int i = 0; !holds && i < n_ends; i++)
		(void)close(ends[i].fd);
	/* In libc's sleep, as somebody who does not look at his connections. */
	(void)waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static long long give(const struct end *end)
{
	struct end copy = *end;
	struct iovec iov = { &copy, sizeof(copy) };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.header), &end->fd, sizeof(int));
	if (sendmsg(link_fd, &msg, 0) < 0)
		return -errno;
	(void)close(end->fd);
	return 0;
}

static long long get(void)
{
	struct end end;
	struct iovec iov = { &end, sizeof(end) };
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	if (recvmsg(link_fd, &msg, 0) != sizeof(end))
		return -errno;
	memcpy(&end.fd, CMSG_DATA(&control.header), sizeof(int));
	ends[n_ends] = end;
	return n_ends++;
}

/* What only the kernel can serve. */
static long long stamp(const struct end *end)
{
	int on = 1;

	return setsockopt(end->fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* From now on the kernel has little room for what it sends. */
static long long narrow(const struct end *end)
{
	int size = 65536;

	return setsockopt(end->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0 ? -errno : 0;
}

/* The number that the program gets next. */
static long long next_number(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)close(fd);
	return fd;
}

static void obey(const char *line)
{
	char word[16] = "", how[16] = "recv";
	unsigned long long a = 0, b = 0;

	(void)sscanf(line, "%15s %llu %llu %15s", word, &a, &b, how);
	if (strcmp(word, "listen") == 0)
		answer(word, start_listening());
	else if (strcmp(word, "connect") == 0)
		answer(word, connect_to((uint16_t)a, (int)b));
	else if (strcmp(word, "accept") == 0)
		answer(word, accept_some((int)a));
	else if (strcmp(word, "lead") == 0 || strcmp(word, "follow") == 0)
		answer(word, play(word[0] == 'l', (int)a, (int)b));
	else if (strcmp(word, "put") == 0)
		answer(word, put(&ends[a], b));
	else if (strcmp(word, "take") == 0)
		answer(word, take(&ends[a], b, how));
	else if (strcmp(word, "duplex") == 0)
		duplex(&ends[a]);
	else if (strcmp(word, "exec") == 0)
		answer(word, execute());
	else if (strcmp(word, "fork") == 0)
		divide(a != 0);
	else if (strcmp(word, "give") == 0)
		answer(word, give(&ends[a]));
	else if (strcmp(word, "get") == 0)
		answer(word, get());
	else if (strcmp(word, "stamp") == 0)
		answer(word, stamp(&ends[a]));
	else if (strcmp(word, "narrow") == 0)
		answer(word, narrow(&ends[a]));
	else if (strcmp(word, "shut") == 0)
		answer(word, shutdown(ends[a].fd, SHUT_WR) < 0 ? -errno : 0);
	else if (strcmp(word, "close") == 0)
		answer(word, close(ends[a].fd) < 0 ? -errno : 0);
	else if (strcmp(word, "set") == 0)
		answer(word, begin_set((uint32_t)a));
	else if (strcmp(word, "join") == 0)
		answer(word, join_set((uint32_t)a));
	else if (strcmp(word, "heard") == 0)
		answer(word, end_set());
	else if (strcmp(word, "number") == 0)
		answer(word, next_number());
	else if (strcmp(word, "pid") == 0)
		answer(word, getpid());
	else if (strcmp(word, "stop") != 0)
		answer(word, -EINVAL);
}

/* As a server does: over everything at once. */
static void sleep_until_told(void)
{
	static struct pollfd fds[N_MAX + 1];

	fds[0] = (struct pollfd){ .fd = STDIN, .events = POLLIN };
	for (int i = 0; i < n_ends; i++)
		fds[i + 1] = (struct pollfd){ .fd = ends[i].fd };
	do {
		(void)poll(fds, (nfds_t)n_ends + 1, -1);
		for (int i = 0; i < n_ends; i++)
			if (fds[i + 1].revents)
				fds[i + 1].fd = -1;
	} while (!fds[0].revents);
}

/* A line, byte by byte: nothing is left in a buffer for exec to lose. */
static bool read_line(char *line, size_t size)
{
	size_t len = 0;

	for (;;) {
		if (read(STDIN, line + len, 1) != 1)
			return false;
		if (line[len] == '\n')
			break;
		len += len < size - 1;
	}
	line[len] = '\0';
	return true;
}

int main(int argc, char **argv)
{
	char line[128];

	self = argv[0];
	if (argc > 1)
		link_fd = atoi(argv[1]);
	if (argc > 2) {
		resume(argv[2]);
		answer("exec", 0);
	}
	for (;;) {
		sleep_until_told();
		if (!read_line(line, sizeof(line)))
			return 0;
		obey(line);
	}
}
