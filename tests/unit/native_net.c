/*
 * Links to other nodes. Of those that are asked together one was ended in between, and has not left
 * the row; and a process closes its port and ends while its peer has not read yet.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "native.h"
#include "tcp_connect.h"
#include "tcp_link.h"

#define N_PEERS (NATIVE_N_FAR_MANY + 1)

static int others[N_PEERS];

static struct peer *join(unsigned i)
{
	struct hal_link *link;
	struct peer *peer;
	int fd[2];

	tcp_connect_pair(fd, AF_INET);
	others[i] = fd[1];
	REQUIRE_INT(hal_tcp_open(fd[0], HAL_TCP_PLAIN, &link), ==, 0);
	peer = peer_new(link, 1 + i);
	REQUIRE(peer != NULL);
	peer->node = 1;
	native_peer_join(peer);
	return peer;
}

static void leave(struct peer *peer, unsigned i)
{
	native_peer_leave(peer);
	peer_break(peer, -ECONNRESET);
	peer_unref(peer);
	(void)close(others[i]);
}

static void one_that_was_ended_is_passed_over(void)
{
	struct peer *peers[N_PEERS];

	peers[0] = join(0);
	/* A sleeper's look, when there are few. */
	CHECK_INT(native_net_fd(), >=, 0);
	REQUIRE(native_lock());
	peer_break(peers[0], -EBADMSG);
	for (unsigned i = 1; i < N_PEERS; i++)
		peers[i] = join(i);
	CHECK(native_net_is_many());
	CHECK(native_net_look() == NULL);
	REQUIRE_INT(write(others[1], "x", 1), ==, 1);
	while (native_net_look() != peers[1])
		;
	CHECK(!native_net_is_quiet(peers[1]));
	for (unsigned i = 0; i < N_PEERS; i++)
		leave(peers[i], i);
	native_unlock();
}

/* ---- the end --------------------------------------------------------------------------------- */

#define OURS 70000u
#define THEIRS 80u
#define LEN 30000u
#define N_SENT_MAX 1000u
#define MSEC_UNREAD 200

/* What the link takes, more than the kernel does. Returns how much that is. */
static size_t send_until_full(struct port *port, struct peer *peer)
{
	static char buf[LEN];
	const struct iovec iov = { buf, LEN };
	struct port_out *out = port_out_new(port, THEIRS, PORT_D, peer);
	struct port_sending s;
	size_t n = 0;

	do
		s = (struct port_sending){ .iov = &iov, .n = 1, .size = LEN };
	while (port_push(out, &s) == 0 && ++n < N_SENT_MAX);
	return n;
}

static void send_close_and_end(int fd, int tell)
{
	struct pulc_port *p = calloc(1, sizeof(*p));
	struct port *port = port_new(OURS, PORT_D);
	struct hal_link *link;
	struct peer *peer;
	size_t n;

	if (!p || !port || hal_tcp_open(fd, HAL_TCP_PLAIN, &link) < 0)
		_exit(1);
	peer = peer_new(link, 1);
	peer->node = 1;
	native_peer_join(peer);
	n = send_until_full(port, peer);
	if (write(tell, &n, sizeof(n)) != sizeof(n))
		_exit(1);
	*p = (struct pulc_port){ .port = port, .number = OURS };
	LIST_INIT(&p->ops);
	native_port_list(p);
	_exit(pulc_port_close(p) < 0);
}

/* Messages of that length that have come to the end of the stream. */
static size_t count_messages(struct hal_link *link)
{
	struct hal_frame f;
	size_t n = 0;
	int e;

	while ((e = link->ops->next(link, &f)) >= 0) {
		if (e == 0)
			continue;
		n += f.len == LEN;
		link->ops->drop(link);
	}
	CHECK_INT(e, ==, -EPIPE);
	return n;
}

static void what_was_sent_comes_though_its_sender_ends(void)
{
	int fd[2], tell[2], status, small = 1;
	struct hal_link *link;
	size_t n_sent = 0;
	pid_t pid;

	tcp_connect_pair(fd, AF_INET);
	REQUIRE_INT(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), ==, 0);
	REQUIRE_INT(pipe(tell), ==, 0);
	pid = fork();
	if (pid == 0) {
		(void)close(fd[1]);
		send_close_and_end(fd[0], tell[1]);
	}
	(void)close(fd[0]);
	(void)close(tell[1]);
	REQUIRE_INT(read(tell[0], &n_sent, sizeof(n_sent)), ==, sizeof(n_sent));
	CHECK_INT(n_sent, >, 1);
	CHECK_INT(n_sent, <, N_SENT_MAX);
	/* Nothing is read yet: who does not mind has ended by then. */
	(void)poll(&(struct pollfd){ .fd = tell[0], .events = POLLIN }, 1, MSEC_UNREAD);
	REQUIRE_INT(hal_tcp_open(fd[1], HAL_TCP_PLAIN, &link), ==, 0);
	CHECK_INT(count_messages(link), ==, n_sent);
	link->ops->close(link);
	REQUIRE_INT(waitpid(pid, &status, 0), ==, pid);
	CHECK_INT(status, ==, 0);
	(void)close(tell[0]);
}

static const struct test tests[] = {
	TEST(what_was_sent_comes_though_its_sender_ends),
	TEST(one_that_was_ended_is_passed_over),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
