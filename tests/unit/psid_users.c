/* Several users of one node: who may use which psid, and what they get of each other. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "board.h"
#include "psid/scene.h"

#define UID_A 65533u
#define UID_B 65534u

static struct fake_client c;

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	test_skip("needs root to have clients of other users");
	return false;
}

static void users_of_the_node(void)
{
	static const char *const settings[] = { "PULC_ALLOW_USERS=root, 65534", NULL };

	if (!is_root())
		return;
	daemon_start(&psid, true, settings);
	fake_attach(&a, &psid, FAKE_SELF);
	fake_attach(&b, &psid, UID_B);
	fake_open(&c, &psid, UID_A);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_USER);
	scene_end();
}

/* A private psid is its owner's. */
static void others_of_a_private_psid(void)
{
	char path[96];

	if (!is_root())
		return;
	daemon_start(&psid, false, NULL);
	(void)snprintf(path, sizeof(path), "%s", psid.dir);
	REQUIRE(chmod(psid.dir, 0755) == 0 && chmod(psid.socket, 0666) == 0);
	fake_open(&c, &psid, UID_A);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_USER);
	scene_close();
}

static void one_user_does_not_use_up_another(void)
{
	static const char *const settings[] = { "PULC_MAX_CLIENTS_PER_USER=1", NULL };

	if (!is_root())
		return;
	daemon_start(&psid, true, settings);
	fake_attach(&a, &psid, UID_A);
	scene_check_refusal(UID_A, PULC__WIRE__REASON__REASON_LIMIT_CLIENTS);
	fake_attach(&b, &psid, UID_B);
	scene_end();
}

static void stop_is_the_owners(void)
{
	Pulc__Wire__StopRequest body = PULC__WIRE__STOP_REQUEST__INIT;
	FROM_CLIENT(msg, STOP, stop) = &body;

	if (!is_root())
		return;
	daemon_start(&psid, true, NULL);
	fake_open(&c, &psid, UID_A);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	fake_send(&c, &msg, NULL, 0);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_USER);
	fake_wait_counts(&psid, 0, 0);
	fake_open(&c, &psid, FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	fake_send(&c, &msg, NULL, 0);
	(void)EXPECT(&c, STOP);
	CHECK_INT(daemon_wait(&psid), ==, 0);
	fake_close(&c);
}

static void open_control(uid_t uid)
{
	fake_open(&c, &psid, uid);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
}

/* How many clients the control sees, those of others too if it may. */
static size_t n_clients_seen(void)
{
	Pulc__Wire__ClientsRequest body = PULC__WIRE__CLIENTS_REQUEST__INIT;
	FROM_CLIENT(msg, CLIENTS, clients) = &body;

	fake_send(&c, &msg, NULL, 0);
	return EXPECT(&c, CLIENTS)->clients->n_clients;
}

static void check_no_operator(void)
{
	Pulc__Wire__LogLevelRequest body = PULC__WIRE__LOG_LEVEL_REQUEST__INIT;
	FROM_CLIENT(msg, LOG_LEVEL, log_level) = &body;

	open_control(UID_A);
	CHECK_INT(n_clients_seen(), ==, 0);
	body.level = (char *)"debug";
	fake_send(&c, &msg, NULL, 0);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_USER);
}

/* Sees and steers, but does not end what is root's. */
static void check_operator(void)
{
	Pulc__Wire__LogLevelRequest body = PULC__WIRE__LOG_LEVEL_REQUEST__INIT;
	FROM_CLIENT(msg, LOG_LEVEL, log_level) = &body;
	Pulc__Wire__StopRequest stop = PULC__WIRE__STOP_REQUEST__INIT;
	FROM_CLIENT(stop_msg, STOP, stop) = &stop;

	open_control(UID_A);
	CHECK_INT(n_clients_seen(), ==, 1);
	body.level = (char *)"debug";
	fake_send(&c, &msg, NULL, 0);
	CHECK_STR(EXPECT(&c, LOG_LEVEL)->log_level->level, "debug");
	fake_send(&c, &stop_msg, NULL, 0);
	fake_expect_refusal(&c, PULC__WIRE__REASON__REASON_USER);
}

#define GID_OPERATORS "54321"

/* Not in every namespace of users. */
static bool may_have_group(void)
{
	gid_t gid = (gid_t)strtoul(GID_OPERATORS, NULL, 10), before[64];
	int n = getgroups(64, before);

	if (n >= 0 && setgroups(1, &gid) == 0)
		return setgroups((size_t)n, before) == 0;
	test_skip("may not change its groups");
	return false;
}

static void operators_are_members_of_a_group(void)
{
	static const char *const settings[] = { "PULC_OPERATOR_GROUP=" GID_OPERATORS, NULL };
	gid_t before[64], with[65];
	int n = getgroups(64, before);

	if (!is_root() || !may_have_group())
		return;
	REQUIRE(n >= 0);
	if (n > 0)
		memcpy(with, before, (size_t)n * sizeof(gid_t));
	with[n] = (gid_t)strtoul(GID_OPERATORS, NULL, 10);
	daemon_start(&psid, true, settings);
	fake_attach(&a, &psid, FAKE_SELF);
	check_no_operator();
	REQUIRE(setgroups((size_t)n + 1, with) == 0);
	check_operator();
	REQUIRE(setgroups((size_t)n, before) == 0);
	check_no_operator();
	fake_close(&a);
	scene_close();
}

/* It may be the group that a user has first of all. */
static void operators_may_have_it_as_their_own_group(void)
{
	static const char *const settings[] = { "PULC_OPERATOR_GROUP=" GID_OPERATORS, NULL };
	gid_t before = getegid();

	if (!is_root() || !may_have_group())
		return;
	daemon_start(&psid, true, settings);
	fake_attach(&a, &psid, FAKE_SELF);
	REQUIRE(setegid((gid_t)strtoul(GID_OPERATORS, NULL, 10)) == 0);
	check_operator();
	REQUIRE(setegid(before) == 0);
	fake_close(&a);
	scene_close();
}

static bool opens_for_writing_as(uid_t uid, int fd)
{
	char path[64];
	int again, saved = -1;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	REQUIRE(seteuid(uid) == 0);
	again = open(path, O_RDWR | O_CLOEXEC);
	saved = errno;
	REQUIRE(seteuid(0) == 0);
	errno = saved;
	if (again >= 0)
		(void)close(again);
	return again >= 0;
}

/*
 * They are connected like others, but can't write each other's memory, and psid rings between
 * them.
 */
static void two_users_connect(void)
{
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	Pulc__Wire__Announce announce = PULC__WIRE__ANNOUNCE__INIT;
	Pulc__Wire__Ring ring = PULC__WIRE__RING__INIT;
	FROM_CLIENT(bell_msg, BELL, bell) = &bell;
	FROM_CLIENT(announce_msg, ANNOUNCE, announce) = &announce;
	FROM_CLIENT(ring_msg, RING, ring) = &ring;
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), fds[2];
	struct shm_boards *boards;
	struct fake_upgrade u;
	uint32_t bit;

	if (!is_root())
		return;
	daemon_start(&psid, true, NULL);
	fake_attach(&a, &psid, UID_A);
	fake_attach(&b, &psid, UID_B);
	REQUIRE(shm_boards_map(b.fds[0], &boards) == 0);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	CHECK(!opens_for_writing_as(UID_B, u.side[1].peer_fd));
	fake_send(&b, &bell_msg, &event, 1);
	fake_send(&b, &announce_msg, NULL, 0);
	CHECK(fake_is_quiet(&b));
	ring.client = b.id;
	ring.bit = 12;
	fake_send(&a, &ring_msg, NULL, 0);
	CHECK(fake_is_quiet(&a)); /* and no Introduce before */
	REQUIRE(shm_board_take(shm_board_of(boards, 0), &bit));
	CHECK_INT(bit, ==, 12);
	shm_boards_unmap(boards);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	(void)close(event);
	scene_end();
}

static const struct test tests[] = {
	TEST(users_of_the_node),
	TEST(others_of_a_private_psid),
	TEST(one_user_does_not_use_up_another),
	TEST(stop_is_the_owners),
	TEST(operators_are_members_of_a_group),
	TEST(operators_may_have_it_as_their_own_group),
	TEST(two_users_connect),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
