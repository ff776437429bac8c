/*
 * Everything at once in one process, beside another one that does the same: sockets, ports,
 * messages with tags, blocks, messages to oneself and a protocol of its own, in an order that seeds
 * decide. Nothing may disturb another: each kind has a count that must be whole at the end, and
 * contents that must be its own.
 *
 * 	together	prints what it has done in both processes
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/block.h>

#define NUMBER 19u /* of the protocol */
#define N_ROUNDS 300u
#define SIZE_LONG 100000u
#define SIZE_SHORT 500u
#define MSEC_PATIENCE 40000

enum { SOCKET, PORT, TAG, BLOCK, SELF, PROTOCOL, N_KINDS };
static const char *const names[N_KINDS] = {
	"socket", "port", "tags", "blocks", "itself", "protocol"
};

static char out[SIZE_LONG], in[SIZE_LONG];
static unsigned n_frames, n_own_frames;
static uint32_t n_wrong;

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			printf("line %d: errno %d\n", __LINE__, errno);                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void fill(char *buf, size_t len, unsigned kind, unsigned round)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (char)(kind * 41 + round * 7 + i);
}

static void check(const char *buf, size_t len, unsigned kind, unsigned round)
{
	for (size_t i = 0; i < len; i++)
		n_wrong += buf[i] != (char)(kind * 41 + round * 7 + i);
}

static size_t size_of(unsigned round)
{
	return round % 10 == 3 ? SIZE_LONG : SIZE_SHORT;
}

/* A frame of the protocol: the word is the round. */
static int arrived(void *arg, const struct pulc_frame *f)
{
	char text[SIZE_SHORT];

	(void)arg;
	MUST(pulc_frame_copy(f, text, sizeof(text)) == sizeof(text));
	check(text, sizeof(text), PROTOCOL, (unsigned)f->word);
	if (f->peer)
		n_frames++;
	else
		n_own_frames++;
	return 0;
}

static int send_frame(uint32_t peer, unsigned round)
{
	struct pulc_frame f = {
		.word = round, .len = SIZE_SHORT, .peer = peer, .protocol = NUMBER
	};

	fill(out, SIZE_SHORT, PROTOCOL, round);
	return pulc_protocol_send(&f, out, 0);
}

/* ---- one of each kind, to the other process; and what it has sent ---------------------------- */

struct ends {
	int fd;
	pulc_port *port;
	struct pulc_address own, other;
	uint32_t peer;
};

static void say(const struct ends *e, unsigned kind, unsigned round)
{
	size_t len = size_of(round);
	void *block;

	fill(out, len, kind, round);
	if (kind == SOCKET)
		MUST(send(e->fd, out, SIZE_SHORT, 0) == SIZE_SHORT);
	else if (kind == PORT)
		MUST(pulc_send(e->port, &e->other, out, len, 0) == (ssize_t)len);
	else if (kind == SELF)
		MUST(pulc_send(e->port, &e->own, out, len, 0) == (ssize_t)len &&
		     send_frame(0, round) == 0);
	else if (kind == PROTOCOL)
		MUST(send_frame(e->peer, round) == 0);
	else if (kind == BLOCK) {
		MUST(pulc_alloc(SIZE_LONG, 0, &block) == 0);
		fill(block, SIZE_LONG, kind, round);
		MUST(pulc_tag_give(e->peer, BLOCK, block, SIZE_LONG) == SIZE_LONG);
	}
}

/* Long ones wait for their receiver, so both begin one before either ends it. */
static void say_tagged(const struct ends *e, unsigned round)
{
	const struct pulc_tag want = { TAG, PULC_TAG_EXACT, e->peer };
	size_t len = size_of(round);
	pulc_op *ops[2];

	fill(out, len, TAG, round);
	MUST(pulc_tag_ireceive(&want, in, sizeof(in), &ops[0]) == 0);
	MUST(pulc_tag_isend(e->peer, TAG, out, len, &ops[1]) == 0);
	for (int i = 0; i < 2; i++)
		MUST(pulc_tag_end(ops[i], NULL) == (ssize_t)len);
	check(in, len, TAG, round);
}

static void hear_port(const struct ends *e, const struct pulc_address *from, unsigned kind,
		      unsigned round)
{
	const struct iovec iov = { in, sizeof(in) };
	size_t len = size_of(round);

	MUST(pulc_receivev(e->port, &iov, 1, from, NULL, 0) == (ssize_t)len);
	check(in, len, kind, round);
}

static void hear(const struct ends *e, unsigned kind, unsigned round)
{
	const struct pulc_tag want = { BLOCK, PULC_TAG_EXACT, e->peer };
	const void *block;

	if (kind == SOCKET) {
		MUST(recv(e->fd, in, SIZE_SHORT, MSG_WAITALL) == SIZE_SHORT);
		check(in, SIZE_SHORT, kind, round);
	} else if (kind == PORT)
		hear_port(e, &e->other, kind, round);
	else if (kind == SELF)
		hear_port(e, &e->own, kind, round);
	else if (kind == BLOCK) {
		MUST(pulc_tag_take(&want, SIZE_LONG, &block, NULL) == SIZE_LONG);
		check(block, SIZE_LONG, kind, round);
		MUST(pulc_free(block) == 0);
	}
}

/* Both sides say one of each, and then hear the other's; in an order of their own. */
static void play(const struct ends *e, unsigned order)
{
	uint64_t seen = 0;

	for (unsigned round = 0; round < N_ROUNDS; round++) {
		for (unsigned i = 0; i < N_KINDS; i++)
			say(e, (i + order + round) % N_KINDS, round);
		say_tagged(e, round);
		for (unsigned i = 0; i < N_KINDS; i++)
			hear(e, (i * 5 + order + round) % N_KINDS, round);
	}
	while (n_frames < N_ROUNDS)
		MUST(pulc_progress(&seen, MSEC_PATIENCE) == 1);
}

/* ---- the two processes ----------------------------------------------------------------------- */

static int listener(struct sockaddr_in *address)
{
	socklen_t size = sizeof(*address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	MUST(fd >= 0 && bind(fd, (struct sockaddr *)address, size) == 0 && listen(fd, 1) == 0);
	MUST(getsockname(fd, (struct sockaddr *)address, &size) == 0);
	return fd;
}

/* Moves on until f has nothing to wait for: over a transport that loses frames, the other side may
 * need an acknowledgement, or something once more. */
static void until(bool (*f)(int fd), int fd)
{
	uint64_t seen = 0;
	int e;

	while (!f(fd)) {
		e = pulc_progress(&seen, 1);
		MUST(e >= 0 || e == -EDEADLK);
	}
}

static bool has_come(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);

	MUST(n == 1 || (n < 0 && errno == EAGAIN));
	return n == 1;
}

/* Both sides are here. */
static void meet(int fd)
{
	char c = 'x';

	MUST(send(fd, &c, 1, 0) == 1);
	until(has_come, fd);
}

static bool is_over(int pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

static int one_side(int fd, const char *name, const char *other, unsigned order)
{
	const struct pulc_protocol protocol = { .arrived = arrived };
	struct ends e = { .fd = fd };

	MUST(pulc_protocol_register(NUMBER, &protocol) == 0);
	MUST(pulc_port_open(PULC_D, 0, name, &e.port) == 0);
	/* Both ports are there. */
	meet(fd);
	MUST(pulc_find(other, &e.other) == 0 && pulc_peer_find(&e.other, &e.peer) == 0);
	e.own = pulc_port_address(e.port);
	play(&e, order);
	/* Nobody leaves before the other one has all of it. */
	meet(fd);
	MUST(pulc_port_close(e.port) == 0);
	MUST(n_frames == N_ROUNDS && n_own_frames == N_ROUNDS && n_wrong == 0);
	for (unsigned i = 0; i < N_KINDS; i++)
		printf("%s%s", names[i], i + 1 < N_KINDS ? ", " : "\n");
	return close(fd);
}

int main(void)
{
	struct sockaddr_in address;
	int fd = listener(&address), status, sock;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0) {
		sock = socket(AF_INET, SOCK_STREAM, 0);
		MUST(connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0);
		return one_side(sock, "together-1", "together-0", 3) != 0;
	}
	sock = accept(fd, NULL, NULL);
	MUST(sock >= 0);
	status = one_side(sock, "together-0", "together-1", 0);
	MUST(status == 0);
	until(is_over, pid);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	return close(fd);
}
