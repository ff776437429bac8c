/* Lists of psid's that are longer than what it keeps for a client that does not read. */
#include <netinet/in.h>
#include <unistd.h>

#include "psid/scene.h"

#define N_HINTS 200000u /* about 15 MiB of entries */

static struct fake_client asker;

/* Connections of a's that stay with the kernel, for people to see. */
static void show_many(int socket)
{
	struct fake_hint h;

	for (unsigned i = 0; i < N_HINTS; i++) {
		fake_hint_fill(&h, socket, 1000 + i, true);
		h.hint.reason = PULC__WIRE__REASON__REASON_SHORT;
		fake_hint_send(&a, &h);
	}
	CHECK(fake_is_quiet(&a));
}

static void ask(void)
{
	Pulc__Wire__SocketsRequest body = PULC__WIRE__SOCKETS_REQUEST__INIT;
	FROM_CLIENT(msg, SOCKETS, sockets) = &body;

	fake_open(&asker, &psid, FAKE_SELF);
	fake_hello(&asker, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&asker, WELCOME);
	fake_send(&asker, &msg, NULL, 0);
}

/* Returns how many entries come. */
static unsigned read_all(void)
{
	const Pulc__Wire__SocketsReply *reply;
	unsigned n = 0;

	do {
		reply = EXPECT(&asker, SOCKETS)->sockets;
		n += reply->n_sockets;
	} while (reply->more);
	return n;
}

/* Nobody waits for one who does not read, and he is not dropped. */
static void long_ones_arrive(void)
{
	static const char *const settings[] = { "PULC_MAX_HINTS_PER_CLIENT=1000000", NULL };
	int fds[2];

	scene_begin(false, settings);
	tcp_connect_pair(fds, AF_INET);
	show_many(fds[0]);
	ask();
	scene_check_upgrade(2);
	CHECK_INT(read_all(), ==, N_HINTS);
	fake_close(&asker);
	tcp_close_pair(fds);
	scene_end();
}

/* What it is about goes while it is read. */
static void what_has_gone_is_left_out(void)
{
	static const char *const settings[] = { "PULC_MAX_HINTS_PER_CLIENT=1000000", NULL };
	const Pulc__Wire__SocketsReply *reply;
	int fds[2];
	unsigned n;

	scene_begin(false, settings);
	tcp_connect_pair(fds, AF_INET);
	show_many(fds[0]);
	ask();
	reply = EXPECT(&asker, SOCKETS)->sockets;
	CHECK(reply->more);
	fake_close(&a);
	fake_wait_counts(&psid, 1, 0);
	n = read_all();
	CHECK_INT(n, >, 0);
	CHECK_INT(n, <, N_HINTS / 2);
	fake_close(&asker);
	tcp_close_pair(fds);
	scene_end();
}

/* A second list before the first one has been read. */
static void one_at_a_time(void)
{
	static const char *const settings[] = { "PULC_MAX_HINTS_PER_CLIENT=1000000", NULL };
	Pulc__Wire__AreasRequest body = PULC__WIRE__AREAS_REQUEST__INIT;
	FROM_CLIENT(msg, AREAS, areas) = &body;
	int fds[2];

	scene_begin(false, settings);
	tcp_connect_pair(fds, AF_INET);
	show_many(fds[0]);
	ask();
	fake_send(&asker, &msg, NULL, 0);
	fake_expect_end(&asker);
	fake_close(&asker);
	tcp_close_pair(fds);
	scene_end();
}

static const struct test tests[] = {
	TEST(long_ones_arrive),
	TEST(what_has_gone_is_left_out),
	TEST(one_at_a_time),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
