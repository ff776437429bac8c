/* What the kernel's counters say of a connection that was dissolved, and of what came before its
 * end. */
#include "tcp_count.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "tcp_connect.h"

#define BEFORE "before the ring"
#define N_BEFORE (sizeof(BEFORE) - 1)

static int fds[2]; /* the sender's, the receiver's */

static void begin(void)
{
	tcp_connect_pair(fds, AF_INET);
	REQUIRE_INT(send(fds[0], BEFORE, N_BEFORE, 0), ==, N_BEFORE);
}

static void dissolve(void)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct pollfd p = { .fd = fds[1], .events = POLLIN };

	REQUIRE_INT(connect(fds[0], &nobody, sizeof(nobody)), ==, 0);
	while (!(p.revents & POLLHUP)) {
		p.revents = 0;
		REQUIRE_INT(poll(&p, 1, -1), ==, 1);
	}
}

static int option(int level, int name)
{
	socklen_t len = sizeof(int);
	int value = -1;

	REQUIRE_INT(getsockopt(fds[1], level, name, &value, &len), ==, 0);
	return value;
}

/* Bytes of the kernel's before the ring, of which `left` are to come yet, whatever has come behind
 * it. */
static void check_left(uint64_t left)
{
	uint64_t found = UINT64_MAX;

	CHECK_INT(tcp_count_left(fds[1], N_BEFORE, true, &found), ==, 0);
	CHECK_INT(found, ==, left);
	CHECK_INT(option(SOL_SOCKET, SO_OOBINLINE), ==, 0);
	CHECK_INT(option(IPPROTO_TCP, TCP_INQ), ==, 0);
}

static void receive(size_t len)
{
	char buf[N_BEFORE];

	REQUIRE_INT(recv(fds[1], buf, len, MSG_WAITALL), ==, len);
}

static void urgent_data_behind_the_ring(void)
{
	begin();
	REQUIRE_INT(send(fds[0], "!", 1, MSG_OOB), ==, 1);
	dissolve();
	check_left(N_BEFORE);
	receive(6);
	check_left(N_BEFORE - 6);
	receive(N_BEFORE - 6);
	check_left(0);
	/* None of this has taken the error. */
	CHECK_INT(option(SOL_SOCKET, SO_ERROR), ==, ECONNRESET);
	tcp_close_pair(fds);
}

static void an_end_behind_the_ring(void)
{
	begin();
	REQUIRE_INT(shutdown(fds[0], SHUT_WR), ==, 0);
	dissolve();
	check_left(N_BEFORE);
	receive(N_BEFORE - 1);
	check_left(1);
	receive(1);
	check_left(0);
	CHECK_INT(option(SOL_SOCKET, SO_ERROR), ==, EPIPE);
	tcp_close_pair(fds);
}

static void bytes_and_an_end_behind_the_ring(void)
{
	begin();
	REQUIRE_INT(send(fds[0], "behind", 6, 0), ==, 6);
	REQUIRE_INT(shutdown(fds[0], SHUT_WR), ==, 0);
	dissolve();
	check_left(N_BEFORE);
	receive(N_BEFORE);
	check_left(0);
	tcp_close_pair(fds);
}

static void an_error_that_was_told_already(void)
{
	begin();
	REQUIRE_INT(send(fds[0], "behind", 6, 0), ==, 6);
	dissolve();
	CHECK_INT(option(SOL_SOCKET, SO_ERROR), ==, ECONNRESET);
	check_left(N_BEFORE);
	tcp_close_pair(fds);
}

static void more_was_received_than_came_before(void)
{
	uint64_t found;

	begin();
	REQUIRE_INT(send(fds[0], "behind", 6, 0), ==, 6);
	dissolve();
	receive(N_BEFORE);
	receive(1);
	CHECK_INT(tcp_count_left(fds[1], N_BEFORE, true, &found), ==, -EBADMSG);
	tcp_close_pair(fds);
}

static const struct test tests[] = {
	TEST(urgent_data_behind_the_ring),	  TEST(an_end_behind_the_ring),
	TEST(bytes_and_an_end_behind_the_ring),	  TEST(an_error_that_was_told_already),
	TEST(more_was_received_than_came_before),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
