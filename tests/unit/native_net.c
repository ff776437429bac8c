/*
 * Links to other nodes that are asked together: one of them was ended in between, and has not left
 * the row.
 */
#include <errno.h>
#include <sys/socket.h>
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

static const struct test tests[] = {
	TEST(one_that_was_ended_is_passed_over),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
