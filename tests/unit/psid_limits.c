/* What psid refuses, with which reason, and that others are not touched by it. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psid/scene.h"

static struct fake_client c;

static void clients_of_a_user(void)
{
	static const char *const settings[] = { "PULC_MAX_CLIENTS_PER_USER=2", NULL };
	Pulc__Wire__StatusReply status;

	scene_begin(false, settings);
	scene_check_refusal(FAKE_SELF, PULC__WIRE__REASON__REASON_LIMIT_CLIENTS);
	fake_status(&psid, &status); /* tools are counted apart */
	CHECK_INT(status.n_clients, ==, 2);
	fake_close(&a);
	fake_wait_counts(&psid, 1, 0);
	fake_attach(&a, &psid, FAKE_SELF);
	scene_end();
}

static void processes_of_the_node(void)
{
	static const char *const settings[] = { "PULC_MAX_PROCESSES=2", NULL };

	scene_begin(false, settings);
	scene_check_refusal(FAKE_SELF, PULC__WIRE__REASON__REASON_PROCESSES);
	scene_end();
}

/* One more connection: both are denied, with this reason. */
static void denied_upgrade(Pulc__Wire__Reason reason)
{
	int fds[2];

	tcp_connect_pair(fds, AF_INET);
	fake_hint(&a, fds[0], 50, true);
	fake_hint(&b, fds[1], 51, false);
	(void)EXPECT(&a, WANT);
	(void)EXPECT(&b, WANT);
	fake_socket(&a, fds[0], 50);
	fake_socket(&b, fds[1], 51);
	CHECK_INT(EXPECT(&a, DENY)->deny->reason, ==, reason);
	CHECK_INT(EXPECT(&b, DENY)->deny->reason, ==, reason);
	tcp_close_pair(fds);
}

static void areas_of_a_user(void)
{
	/* Two board areas, two slabs of one slot. */
	static const char *const settings[] = { "PULC_MAX_AREAS_PER_USER=4",
						"PULC_SLOTS_PER_SLAB=1", NULL };
	struct fake_upgrade u;
	int fds[2];

	scene_begin(false, settings);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	denied_upgrade(PULC__WIRE__REASON__REASON_LIMIT_AREAS);
	scene_check_refusal(FAKE_SELF, PULC__WIRE__REASON__REASON_LIMIT_AREAS);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_end();
}

static void check_bytes(const char *const settings[])
{
	struct fake_upgrade u;
	int fds[2];

	scene_begin(false, settings);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	denied_upgrade(PULC__WIRE__REASON__REASON_LIMIT_BYTES);
	fake_closed(&a, u.side[0].conn);
	fake_closed(&b, u.side[1].conn);
	fake_wait_counts(&psid, 2, 0);
	fake_upgrade_done(&u);
	fake_upgrade(&a, &b, fds, 4, &u); /* what was given back can be had again */
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_end();
}

/* Two board headers, two slab headers, two control pages, two rings: 32 KiB. */
static void bytes_of_a_user(void)
{
	static const char *const settings[] = { "PULC_MAX_BYTES_PER_USER=40K",
						"PULC_CREDIT_INITIAL=0", NULL };

	check_bytes(settings);
}

static void bytes_of_the_node(void)
{
	static const char *const settings[] = { "PULC_MAX_BYTES=40K", "PULC_CREDIT_INITIAL=0",
						NULL };

	check_bytes(settings);
}

static void hints_of_a_client(void)
{
	static const char *const settings[] = { "PULC_MAX_HINTS_PER_CLIENT=2", NULL };
	Pulc__Wire__StatusReply status;
	int fds[3][2];

	scene_begin(false, settings);
	for (unsigned i = 0; i < 3; i++) {
		tcp_connect_pair(fds[i], AF_INET);
		fake_hint(&a, fds[i][0], i, true);
	}
	CHECK_INT(EXPECT(&a, DENY)->deny->token, ==, 0); /* the oldest */
	CHECK_INT(a.msg->deny->reason, ==, PULC__WIRE__REASON__REASON_WAITING_PEER);
	fake_hint(&b, fds[0][1], 0, false);
	CHECK(fake_is_quiet(&b));
	fake_hint(&b, fds[2][1], 2, false);
	CHECK_INT(EXPECT(&b, WANT)->want->token, ==, 2);
	fake_status(&psid, &status);
	CHECK_INT(status.n_hints, ==, 4);
	for (unsigned i = 0; i < 3; i++) {
		(void)close(fds[i][0]);
		(void)close(fds[i][1]);
	}
	scene_end();
}

static void versions_must_fit(void)
{
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;
	FROM_CLIENT(msg, HELLO, hello) = &hello;
	Pulc__Wire__StatusReply status;

	daemon_start(&psid, false, NULL);
	hello.version = WIRE_VERSION + 41;
	hello.layout = SHM_VERSION;
	fake_open(&c, &psid, FAKE_SELF);
	fake_send(&c, &msg, NULL, 0);
	(void)EXPECT(&c, REFUSE);
	CHECK_INT(c.msg->refuse->reason, ==, PULC__WIRE__REASON__REASON_VERSION);
	CHECK(strstr(c.msg->refuse->text, "42") != NULL);
	CHECK(strstr(c.msg->refuse->text, PULC_VERSION) != NULL);
	CHECK(strstr(c.msg->refuse->text, "psid is older") != NULL);
	fake_close(&c);

	hello.version = WIRE_VERSION - 1;
	hello.layout = SHM_VERSION + 6;
	fake_open(&c, &psid, FAKE_SELF);
	fake_send(&c, &msg, NULL, 0);
	(void)EXPECT(&c, REFUSE);
	CHECK(strstr(c.msg->refuse->text, "the client is older") != NULL);
	fake_close(&c);

	hello.version = WIRE_VERSION;
	hello.layout = SHM_VERSION + 6;
	fake_open(&c, &psid, FAKE_SELF);
	fake_send(&c, &msg, NULL, 0);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_VERSION);

	hello.role = PULC__WIRE__ROLE__ROLE_CONTROL; /* who maps nothing needs no layout */
	fake_open(&c, &psid, FAKE_SELF);
	fake_send(&c, &msg, NULL, 0);
	(void)EXPECT(&c, WELCOME);
	fake_close(&c);

	hello.for_process = true; /* unless it is about to become one that does */
	fake_open(&c, &psid, FAKE_SELF);
	fake_send(&c, &msg, NULL, 0);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_VERSION);
	hello.layout = SHM_VERSION;
	fake_open(&c, &psid, FAKE_SELF);
	fake_send(&c, &msg, NULL, 0);
	(void)EXPECT(&c, WELCOME);
	fake_close(&c);
	fake_status(&psid, &status);
	CHECK_INT(status.n_refused, ==, 1); /* reason */
	scene_close();
}

static const struct test tests[] = {
	TEST(clients_of_a_user), TEST(processes_of_the_node), TEST(areas_of_a_user),
	TEST(bytes_of_a_user),	 TEST(bytes_of_the_node),     TEST(hints_of_a_client),
	TEST(versions_must_fit),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
