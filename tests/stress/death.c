/*
 * Peers that die or stop.
 *
 * killed: a sender counts in shared memory what its completed calls have sent, and is killed at a
 * random moment. The survivor must get all of that, unharmed, and at most one call's bytes more;
 * then the end of the stream or a reset. Every third time the receiver is killed instead: the
 * sender must learn of it without a time-out. stopped: a peer that stands still blocks its sender,
 * no sooner than full buffers would, and takes up again where it stood.
 */
#include "stress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MSEC_TO_LEARN 3000

struct scene {
	_Atomic uint64_t size_sent; /* by completed calls */
	_Atomic uint64_t size_taken;
	_Atomic bool is_ready;
	_Atomic int paused;
};

static void exchange(int fd, int n)
{
	char c = 'x';

	for (int i = 0; i < n; i++)
		if (send(fd, &c, 1, MSG_NOSIGNAL) != 1 || recv(fd, &c, 1, 0) != 1)
			fail("exchange: %s", strerror(errno));
}

static void send_for_ever(struct scene *scene, int fd, uint64_t seed)
{
	struct end end;

	end_init(&end, fd, seed, true);
	for (;;) {
		uint64_t at = scene->size_sent;
		ssize_t n = end_put(&end, bytes_at(1, at), rng_size(&end.rng, SIZE_PIECE_MAX));

		if (n < 0)
			exit(is_gone((int)-n) ? 0 : 1);
		scene->size_sent = at + (uint64_t)n;
		scene->is_ready = true;
		pause_randomly(&end.rng);
	}
}

/* Reads to the end, whatever end it is. Returns 0 or the errno that ended it. */
static int read_all(struct scene *scene, int fd, uint64_t seed, bool slowly)
{
	unsigned char *buf = malloc(SIZE_PIECE_MAX);
	struct end end;
	ssize_t n;

	end_init(&end, fd, seed, false);
	while ((n = end_take(&end, buf, rng_size(&end.rng, SIZE_PIECE_MAX))) > 0) {
		if (memcmp(buf, bytes_at(1, scene->size_taken), (size_t)n) != 0)
			fail("a piece of %zd bytes at %llu is wrong", n,
			     (unsigned long long)scene->size_taken);
		scene->size_taken += (uint64_t)n;
		if (slowly)
			pause_randomly(&end.rng);
	}
	end_deinit(&end);
	free(buf);
	return (int)-n;
}

static pid_t start_peer(struct scene *scene, int listener, uint16_t port, uint64_t seed, bool sends)
{
	pid_t pid = fork();
	int fd;

	if (pid != 0)
		return pid;
	close(listener);
	fd = connect_somewhere(port, false);
	exchange(fd, (int)(seed % 40));
	if (sends)
		send_for_ever(scene, fd, seed);
	scene->is_ready = true;
	(void)read_all(scene, fd, seed, true);
	exit(0);
}

static void await(_Atomic bool *flag)
{
	while (!*flag)
		usleep(100);
}

static void reap(pid_t pid, int expected_signal)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) ||
	    WTERMSIG(status) != expected_signal)
		fail("the peer ended with status 0x%x", (unsigned)status);
}

static void echo_exchange(int fd, int n)
{
	char c;

	for (int i = 0; i < n; i++)
		if (recv(fd, &c, 1, 0) != 1 || send(fd, &c, 1, MSG_NOSIGNAL) != 1)
			fail("exchange: %s", strerror(errno));
}

static void sender_dies(struct scene *scene, int fd, pid_t pid, struct rng *rng)
{
	int error;

	await(&scene->is_ready);
	usleep((useconds_t)rng_size(rng, 20000));
	kill(pid, SIGKILL);
	reap(pid, SIGKILL);
	error = read_all(scene, fd, rng_next(rng), false);
	if (error && !is_gone(error))
		fail("the survivor ends with %s", strerror(error));
	if (scene->size_taken < scene->size_sent ||
	    scene->size_taken > scene->size_sent + SIZE_PIECE_MAX)
		fail("completed calls sent %llu bytes, %llu arrived (%s)",
		     (unsigned long long)scene->size_sent, (unsigned long long)scene->size_taken,
		     error ? strerror(error) : "end of stream");
}

static void receiver_dies(struct scene *scene, int fd, pid_t pid, struct rng *rng)
{
	uint64_t nsec_killed = 0;
	struct end end;
	ssize_t n = 0;

	await(&scene->is_ready);
	end_init(&end, fd, rng_next(rng), true);
	for (uint64_t i = rng_size(rng, 3000); n >= 0; i--) {
		if (i == 0) {
			kill(pid, SIGKILL);
			nsec_killed = nsec_clock();
		}
		n = end_put(&end, bytes_at(1, scene->size_sent), rng_size(&end.rng, 10000));
		if (n > 0)
			scene->size_sent += (uint64_t)n;
	}
	if (!is_gone((int)-n) || nsec_killed == 0)
		fail("sending to the dead ends with %s", strerror((int)-n));
	if (nsec_clock() - nsec_killed > MSEC_TO_LEARN * 1000000ull)
		fail("the sender learnt of the death after %llu ms",
		     (unsigned long long)(nsec_clock() - nsec_killed) / 1000000);
	reap(pid, SIGKILL);
	end_deinit(&end);
}

int run_killed(const struct options *options)
{
	uint64_t nsec_deadline = nsec_clock() + (uint64_t)options->seconds * 1000000000, size = 0;
	struct scene *scene = shared_memory(sizeof(*scene));
	struct rng rng = { options->seed };
	unsigned n_rounds = 0;

	for (; nsec_clock() < nsec_deadline; n_rounds++) {
		bool sender = rng_below(&rng, 3) != 0;
		uint64_t seed = rng_next(&rng);
		uint16_t port;
		int listener = listen_somewhere(&port, false), fd;
		pid_t pid;

		memset(scene, 0, sizeof(*scene));
		pid = start_peer(scene, listener, port, seed, sender);
		fd = accept(listener, NULL, NULL);
		close(listener);
		echo_exchange(fd, (int)(seed % 40));
		if (sender)
			sender_dies(scene, fd, pid, &rng);
		else
			receiver_dies(scene, fd, pid, &rng);
		size += scene->size_taken;
		close(fd);
	}
	printf("bytes %llu connections %u\n", (unsigned long long)size, n_rounds);
	return 0;
}

/* ---- stopped --------------------------------------------------------------------------------- */

#define SIZE_FULL_MAX ((uint64_t)256 << 20)

/* Sends what there is room for. 0 or the error that ended it. */
static int send_what_fits(struct scene *scene, int fd, struct rng *rng, uint64_t size_max)
{
	ssize_t n;

	while (scene->size_sent <= size_max) {
		n = send(fd, bytes_at(1, scene->size_sent), rng_size(rng, 65536),
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno;
		scene->size_sent += (uint64_t)n;
	}
	return 0;
}

/*
 * Sends until there is no more room; the peer stands still meanwhile. Room that poll tells of is
 * there: a connection comes to rings also while its peer stands still.
 */
static void fill_up(struct scene *scene, int fd, struct rng *rng)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	uint64_t size_max = scene->size_sent + SIZE_FULL_MAX, before;
	int error;

	do {
		before = scene->size_sent;
		error = send_what_fits(scene, fd, rng, size_max);
		if (error == 0)
			fail("a stopped peer takes more than %llu bytes",
			     (unsigned long long)SIZE_FULL_MAX);
		if (error != EAGAIN)
			fail("sending to a stopped peer: %s", strerror(error));
		if (scene->size_sent == before && pfd.revents)
			fail("poll says 0x%x of a full connection to a stopped peer",
			     (unsigned)pfd.revents);
	} while (poll(&pfd, 1, 20) != 0);
}

static void stop_and_go(struct scene *scene, int fd, pid_t pid, struct rng *rng)
{
	struct end end;

	end_init(&end, fd, rng_next(rng), true);
	for (uint64_t i = rng_size(rng, 100); i > 0; i--) {
		ssize_t n = end_put(&end, bytes_at(1, scene->size_sent), rng_size(rng, 30000));

		if (n < 0)
			fail("sending: %s", strerror((int)-n));
		scene->size_sent += (uint64_t)n;
	}
	end_deinit(&end);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	fill_up(scene, fd, rng);
	kill(pid, SIGCONT);
	if (poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, MSEC_TO_LEARN) != 1)
		fail("no room although the peer reads again");
}

int run_stopped(const struct options *options)
{
	uint64_t nsec_deadline = nsec_clock() + (uint64_t)options->seconds * 1000000000, size = 0;
	struct scene *scene = shared_memory(sizeof(*scene));
	struct rng rng = { options->seed };
	unsigned n_rounds = 0;
	int status;

	for (; nsec_clock() < nsec_deadline; n_rounds++) {
		uint64_t seed = rng_next(&rng);
		uint16_t port;
		int listener = listen_somewhere(&port, false), fd;
		pid_t pid;

		memset(scene, 0, sizeof(*scene));
		pid = start_peer(scene, listener, port, seed, false);
		fd = accept(listener, NULL, NULL);
		close(listener);
		echo_exchange(fd, (int)(seed % 40));
		await(&scene->is_ready);
		for (int i = 0; i < 5; i++)
			stop_and_go(scene, fd, pid, &rng);
		close(fd);
		if (waitpid(pid, &status, 0) != pid || status != 0)
			fail("the peer ended with status 0x%x", (unsigned)status);
		if (scene->size_taken != scene->size_sent)
			fail("sent %llu, arrived %llu", (unsigned long long)scene->size_sent,
			     (unsigned long long)scene->size_taken);
		size += scene->size_taken;
	}
	printf("bytes %llu connections %u\n", (unsigned long long)size, n_rounds);
	return 0;
}
