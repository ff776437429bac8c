/*
 * Clients that have psid keep descriptors for them: bells, messages that they don't read, sockets
 * in hand-overs that don't end; and memory that they say somebody reads. All of it is on their
 * user's account, and others have nothing of it; nor has a client that does not read, when psid has
 * no descriptor left to keep.
 */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "psid/scene.h"

#define UID_HOSTILE 65532u
#define LIMIT "PULC_MAX_DESCRIPTORS_PER_USER="

static struct fake_client hostile, other, third;

static bool has_strangers(void)
{
	if (geteuid() == 0)
		return true;
	test_skip("needs root to have a client of another user");
	return false;
}

static const struct timespec moment = { .tv_nsec = 10000000 };

/* The helpers close what psid does not keep. */
static void wait_until_closed(unsigned n_max)
{
	for (unsigned i = 0; i < 1000 && daemon_n_open(&psid) > n_max; i++)
		(void)nanosleep(&moment, NULL);
	CHECK_INT(daemon_n_open(&psid), <=, n_max);
}

static void send_bell(struct fake_client *c, uint32_t board, int event)
{
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	FROM_CLIENT(msg, BELL, bell) = &bell;

	bell.board = board;
	fake_send(c, &msg, &event, 1);
}

static void announce(struct fake_client *c, uint32_t board)
{
	Pulc__Wire__Announce body = PULC__WIRE__ANNOUNCE__INIT;
	FROM_CLIENT(msg, ANNOUNCE, announce) = &body;

	body.board = board;
	fake_send(c, &msg, NULL, 0);
}

/* So much that psid has to keep some of it: the client does not read. */
static void ask_for_too_much(struct fake_client *c)
{
	Pulc__Wire__StatusRequest body = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(msg, STATUS, status) = &body;
	int n_unread;

	for (unsigned i = 0; i < 2000; i++)
		fake_send(c, &msg, NULL, 0);
	do
		REQUIRE(ioctl(c->fd, SIOCOUTQ, &n_unread) == 0);
	while (n_unread > 0 && nanosleep(&moment, NULL) == 0);
}

/* Reads over what it has asked for. */
static const Pulc__Wire__ToClient *read_on(struct fake_client *c)
{
	const Pulc__Wire__ToClient *msg;

	do
		msg = fake_receive(c);
	while (msg && msg->body_case == PULC__WIRE__TO_CLIENT__BODY_STATUS);
	return msg;
}

static void bells(void)
{
	static const char *const settings[] = { LIMIT "40", NULL };
	int event = eventfd(0, EFD_CLOEXEC);
	unsigned before;

	if (!has_strangers())
		return;
	scene_begin(true, settings);
	before = daemon_n_open(&psid);
	fake_attach(&hostile, &psid, UID_HOSTILE);
	for (uint32_t i = 0; i < SHM_N_BOARDS; i++)
		send_bell(&hostile, i, event);
	CHECK(fake_is_quiet(&hostile));
	wait_until_closed(before + 40);
	fake_open(&other, &psid, UID_HOSTILE);
	fake_expect_refusal(&other, PULC__WIRE__REASON__REASON_DESCRIPTORS);
	scene_check_upgrade(2);
	/* A bell in the place of another is no more. */
	send_bell(&hostile, 0, event);
	CHECK(fake_is_quiet(&hostile));
	/* All are given back. */
	fake_close(&hostile);
	fake_wait_counts(&psid, 2, 1);
	for (unsigned i = 0; i < 3; i++) {
		fake_attach(&hostile, &psid, UID_HOSTILE);
		for (uint32_t k = 0; k < 37; k++)
			send_bell(&hostile, k, event);
		CHECK(fake_is_quiet(&hostile));
		fake_close(&hostile);
		fake_wait_counts(&psid, 2, 1);
	}
	(void)close(event);
	scene_end();
}

/* One has itself introduced again and again to another one, who does not read. */
static void introductions(void)
{
	static const char *const settings[] = { LIMIT "100", NULL };
	int event = eventfd(0, EFD_CLOEXEC), fds[2];
	struct fake_upgrade u;
	unsigned before, n = 0;

	if (!has_strangers())
		return;
	scene_begin(true, settings);
	before = daemon_n_open(&psid);
	fake_attach(&hostile, &psid, UID_HOSTILE);
	fake_attach(&other, &psid, UID_HOSTILE);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&hostile, &other, fds, 2, &u);
	ask_for_too_much(&other);
	for (unsigned i = 0; i < 2000; i++) {
		send_bell(&hostile, 0, event);
		announce(&hostile, 0);
	}
	CHECK(fake_is_quiet(&hostile));
	wait_until_closed(before + 100);
	scene_check_upgrade(4);
	/* It reads after all: it is there, and has missed some of them. */
	send_bell(&other, 1, event); /* for its own, of no use to anybody */
	while (read_on(&other)->body_case == PULC__WIRE__TO_CLIENT__BODY_INTRODUCE &&
	       other.msg->introduce->client == hostile.id && ++n < 50)
		;
	CHECK_INT(n, ==, 50);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	fake_close(&hostile);
	fake_close(&other);
	(void)close(event);
	scene_end();
}

/* psid itself is short of descriptors while somebody does not read. */
static void introductions_without_descriptors(void)
{
	struct rlimit limit = { 0 }, few;
	int event = eventfd(0, EFD_CLOEXEC), fds[2];
	struct fake_upgrade u;

	scene_begin(false, NULL);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&a, &b, fds, 2, &u);
	send_bell(&a, 0, event);
	ask_for_too_much(&b);
	CHECK(fake_is_quiet(&a));
	REQUIRE(prlimit(psid.pid, RLIMIT_NOFILE, NULL, &limit) == 0);
	few = (struct rlimit){ 16, limit.rlim_max };
	REQUIRE(prlimit(psid.pid, RLIMIT_NOFILE, &few, NULL) == 0);
	announce(&a, 0);
	CHECK(fake_is_quiet(&a));
	REQUIRE(prlimit(psid.pid, RLIMIT_NOFILE, &limit, NULL) == 0);
	announce(&a, 0);
	REQUIRE(read_on(&b) != NULL);
	CHECK_INT(b.msg->body_case, ==, PULC__WIRE__TO_CLIENT__BODY_INTRODUCE);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	scene_check_upgrade(4);
	(void)close(event);
	scene_end();
}

/* Who reads is not told of a connection that the other end could not be told of. */
static void upgrades(void)
{
	/* Each has its channel, its process and its boards; two slabs. */
	static const char *const settings[] = { LIMIT "9", NULL };
	int fds[2];

	scene_begin(false, settings);
	ask_for_too_much(&b);
	tcp_connect_pair(fds, AF_INET);
	fake_hint(&a, fds[0], 2, true);
	fake_hint(&b, fds[1], 3, false);
	(void)EXPECT(&a, WANT);
	fake_socket(&a, fds[0], 2);
	REQUIRE(read_on(&b) != NULL);
	CHECK_INT(b.msg->body_case, ==, PULC__WIRE__TO_CLIENT__BODY_WANT);
	ask_for_too_much(&b);
	fake_socket(&b, fds[1], 3);
	CHECK_INT(EXPECT(&a, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_DESCRIPTORS);
	REQUIRE(read_on(&b) != NULL);
	CHECK_INT(b.msg->body_case, ==, PULC__WIRE__TO_CLIENT__BODY_DENY);
	CHECK_INT(b.msg->deny->reason, ==, PULC__WIRE__REASON__REASON_DESCRIPTORS);
	tcp_close_pair(fds);
	fake_close(&a);
	fake_close(&b);
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

/* One end of each connection is shown, the other one never. */
static void hand_overs(void)
{
	enum { N = 60, N_KEPT = 34 }; /* of 40 less what two clients are */
	static const char *const settings[] = { LIMIT "40", "PULC_HAND_OVER_MSEC=60000", NULL };
	int fds[N][2];

	if (!has_strangers())
		return;
	scene_begin(true, settings);
	fake_attach(&hostile, &psid, UID_HOSTILE);
	fake_attach(&other, &psid, UID_HOSTILE);
	for (unsigned i = 0; i < N; i++) {
		tcp_connect_pair(fds[i], AF_INET);
		fake_hint(&hostile, fds[i][0], i, true);
		fake_hint(&other, fds[i][1], i, false);
		(void)EXPECT(&hostile, WANT);
		fake_socket(&hostile, fds[i][0], i);
		if (i < N_KEPT)
			continue;
		CHECK_INT(EXPECT(&hostile, DENY)->deny->reason, ==,
			  PULC__WIRE__REASON__REASON_DESCRIPTORS);
	}
	fake_open(&third, &psid, UID_HOSTILE);
	fake_expect_refusal(&third, PULC__WIRE__REASON__REASON_DESCRIPTORS);
	fake_close(&hostile);
	fake_close(&other);
	for (unsigned i = 0; i < N; i++)
		tcp_close_pair(fds[i]);
	scene_check_upgrade(4);
	scene_end();
}

/* Clients that ask, do not read and go, while somebody else keeps their sockets. */
static void messages_of_the_gone(void)
{
	enum { N = 38 }; /* each keeps one, and one that comes needs three */
	static const char *const settings[] = { LIMIT "40", NULL };
	static struct fake_client gone[N];
	Pulc__Wire__FromClient nonsense = PULC__WIRE__FROM_CLIENT__INIT;
	unsigned before;

	if (!has_strangers())
		return;
	scene_begin(true, settings);
	before = daemon_n_open(&psid);
	for (unsigned i = 0; i < N; i++) {
		fake_attach(&gone[i], &psid, UID_HOSTILE);
		ask_for_too_much(&gone[i]);
		fake_kill(&gone[i]);
		fake_send(&gone[i], &nonsense, NULL, 0);
		fake_wait_counts(&psid, 2, 0);
	}
	scene_check_refusal(UID_HOSTILE, PULC__WIRE__REASON__REASON_DESCRIPTORS);
	scene_check_upgrade(2);
	for (unsigned i = 0; i < N; i++)
		fake_close(&gone[i]);
	wait_until_closed(before + 4); /* a and b have memory by now */
	fake_attach(&other, &psid, UID_HOSTILE);
	fake_close(&other);
	scene_end();
}

/* Connections whose end is said to be held by many, who have not read all, over and over. */
static void ends_said_to_be_held(void)
{
	/* Less than all of their slots would be. */
	static const char *const settings[] = { "PULC_MAX_BYTES_PER_USER=512K",
						"PULC_CREDIT_INITIAL=0", NULL };
	struct fake_upgrade first, u;
	struct shm_side *side;
	int fds[2];

	if (!has_strangers())
		return;
	scene_begin(true, settings);
	fake_attach(&hostile, &psid, UID_HOSTILE);
	for (unsigned i = 0; i < 60; i++) {
		tcp_connect_pair(fds, AF_INET);
		fake_upgrade(&a, &hostile, fds, 2 + 2 * i, i == 0 ? &first : &u);
		u = i == 0 ? first : u;
		u.side[1].own_fd = first.side[1].own_fd;
		side = fake_own_side(&u, 1);
		atomic_store(&side->notice, SHM_RX_READY);
		atomic_store(&side->rx_taken, 77);
		atomic_store(fake_own_holders(&u, 1), 100);
		tcp_close_pair(fds);
		fake_closed(&hostile, u.side[1].conn);
		fake_closed(&a, u.side[0].conn);
		fake_wait_counts(&psid, 3, 0);
	}
	scene_check_upgrade(400);
	fake_upgrade_done(&first);
	fake_close(&hostile);
	scene_end();
}

static const struct test tests[] = {
	TEST(bells),
	TEST(introductions),
	TEST(introductions_without_descriptors),
	TEST(messages_of_the_gone),
	TEST(ends_said_to_be_held),
	TEST(upgrades),
	TEST(hand_overs),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
