/*
 * Clients that promise what they don't keep, hint connections that are not what they say, and take
 * what they can. psid is neither fooled nor used up, and the honest get their connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psid/scene.h"

#define UID_HOSTILE 65532u

static struct fake_client hostile;

static void begin(const char *const settings[])
{
	scene_begin(false, settings);
	fake_attach(&hostile, &psid, FAKE_SELF);
}

static void end(void)
{
	fake_close(&hostile);
	scene_end();
}

static void expect_denied(struct fake_client *c, struct fake_hint *h, Pulc__Wire__Reason reason)
{
	fake_hint_send(c, h);
	CHECK_INT(EXPECT(c, DENY)->deny->reason, ==, reason);
}

static void drop(struct fake_client *c, uint64_t token)
{
	Pulc__Wire__Drop body = PULC__WIRE__DROP__INIT;
	FROM_CLIENT(msg, DROP, drop) = &body;

	body.token = token;
	fake_send(c, &msg, NULL, 0);
}

/* ---- promises not kept ----------------------------------------------------------------------- */

/* One end never sends its socket. The other's is not kept, and later both can have their
 * upgrade. */
static void the_one_that_never_comes(void)
{
	static const char *const settings[] = { "PULC_HAND_OVER_MSEC=200", NULL };
	struct fake_upgrade u;
	int fds[2];

	begin(settings);
	tcp_connect_pair(fds, AF_INET);
	fake_hint(&a, fds[0], 2, true);
	fake_hint(&b, fds[1], 2, false);
	(void)EXPECT(&a, WANT);
	(void)EXPECT(&b, WANT);
	fake_socket(&a, fds[0], 2);
	CHECK_INT(EXPECT(&a, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_WAITING_PEER);
	fake_hint(&a, fds[0], 2, true);
	CHECK(fake_is_quiet(&a)); /* not asked again while the other owes its socket */
	fake_socket(&b, fds[1], 2);
	CHECK_INT(EXPECT(&b, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_WAITING_PEER);
	fake_upgrade(&a, &b, fds, 2, &u);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	end();
}

/* An end that can't give its socket says so, and the other is not kept waiting. */
static void the_one_that_will_not(void)
{
	struct fake_upgrade u;
	struct fake_hint h;
	int fds[2];

	begin(NULL);
	tcp_connect_pair(fds, AF_INET);
	fake_hint(&a, fds[0], 2, true);
	fake_hint(&b, fds[1], 2, false);
	(void)EXPECT(&a, WANT);
	(void)EXPECT(&b, WANT);
	fake_socket(&a, fds[0], 2);
	CHECK(fake_is_quiet(&a));
	fake_hint_fill(&h, fds[1], 2, false);
	h.hint.reason = PULC__WIRE__REASON__REASON_SHARED;
	fake_hint_send(&b, &h);
	CHECK_INT(EXPECT(&a, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_WAITING_PEER);
	CHECK(fake_is_quiet(&b));
	fake_upgrade(&a, &b, fds, 2, &u); /* later it can */
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	end();
}

/* Somebody claims the other end of a foreign connection, whose cookie he has guessed. */
static void squatters(void)
{
	static const char *const settings[] = { "PULC_HAND_OVER_MSEC=200", NULL };
	struct fake_upgrade u;
	int fds[2];

	begin(settings);
	tcp_connect_pair(fds, AF_INET);
	fake_hint(&hostile, fds[1], 7, false);
	fake_hint(&a, fds[0], 2, true);
	(void)EXPECT(&hostile, WANT);
	(void)EXPECT(&a, WANT);
	fake_socket(&a, fds[0], 2);
	(void)EXPECT(&a, DENY);
	/* Now he is known for it: the one who has the socket goes first. */
	fake_close(&b);
	fake_attach(&b, &psid, FAKE_SELF);
	fake_socket(&hostile, fds[0], 7);
	(void)EXPECT(&hostile, DENY);
	fake_hint(&hostile, fds[1], 7, false);
	fake_upgrade(&b, &a, (int[]){ fds[1], fds[0] }, 2, &u);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	end();
}

/* A new client has broken no promise, though its user has; b has, and is whose socket it is. */
static void squatters_who_come_back(void)
{
	enum { N = 3 };
	struct fake_client again[N];
	struct fake_hint h;
	int fds[2];

	if (geteuid() != 0) {
		test_skip("needs root to have a client of another user");
		return;
	}
	scene_begin(true, NULL);
	tcp_connect_pair(fds, AF_INET);
	fake_hint_fill(&h, fds[1], 1, false);
	h.hint.cookie += 1000;
	fake_hint(&a, fds[0], 2, true);
	expect_denied(&b, &h, PULC__WIRE__REASON__REASON_STALE);
	drop(&a, 2);
	CHECK(fake_is_quiet(&a));
	fake_attach(&again[0], &psid, UID_HOSTILE);
	fake_hint(&again[0], fds[1], 7, false);
	fake_hint(&b, fds[1], 2, false);
	for (unsigned i = 1; i < N; i++) {
		fake_attach(&again[i], &psid, UID_HOSTILE);
		fake_hint(&again[i], fds[1], 7, false);
	}
	CHECK(fake_is_quiet(&b)); /* psid has heard the others */
	fake_hint(&a, fds[0], 2, true);
	(void)EXPECT(&a, WANT);
	(void)EXPECT(&b, WANT);
	for (unsigned i = 0; i < N; i++) {
		CHECK(fake_is_quiet(&again[i]));
		fake_close(&again[i]);
	}
	tcp_close_pair(fds);
	scene_end();
}

/* He says that he has connected, as the true end does, which would be the end of its hopes. */
static void squatters_who_say_the_same(void)
{
	static const char *const settings[] = { "PULC_HAND_OVER_MSEC=200", NULL };
	struct fake_upgrade u;
	int fds[2];

	begin(settings);
	tcp_connect_pair(fds, AF_INET);
	fake_hint(&hostile, fds[1], 7, true);
	fake_hint(&a, fds[0], 2, true);
	(void)EXPECT(&hostile, WANT);
	(void)EXPECT(&a, WANT);
	fake_socket(&a, fds[0], 2);
	CHECK_INT(EXPECT(&a, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_WAITING_PEER);
	fake_upgrade(&a, &b, fds, 2, &u);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	end();
}

static void stale_hints(void)
{
	struct fake_hint h;
	int fds[2];

	begin(NULL);
	tcp_connect_pair(fds, AF_INET);

	/* A wrong cookie: denied as soon as it would be matched; the honest end goes on waiting. */
	fake_hint(&a, fds[0], 1, true);
	fake_hint_fill(&h, fds[1], 2, false);
	h.hint.cookie += 1000;
	expect_denied(&hostile, &h, PULC__WIRE__REASON__REASON_STALE);
	h.hint.cookie = 0;
	expect_denied(&hostile, &h, PULC__WIRE__REASON__REASON_STALE);

	/* Closed since, the tuple perhaps in use again. */
	fake_hint_fill(&h, fds[1], 2, false);
	(void)close(fds[1]);
	expect_denied(&hostile, &h, PULC__WIRE__REASON__REASON_STALE);
	CHECK(fake_is_quiet(&a));
	(void)close(fds[0]);

	/* Both ends, which they have, say that they connected. */
	tcp_connect_pair(fds, AF_INET);
	fake_hint(&a, fds[0], 3, true);
	fake_hint(&b, fds[1], 3, true);
	(void)EXPECT(&a, WANT);
	(void)EXPECT(&b, WANT);
	fake_socket(&a, fds[0], 3);
	fake_socket(&b, fds[1], 3);
	CHECK_INT(EXPECT(&a, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_COUNTERS);
	CHECK_INT(EXPECT(&b, DENY)->deny->reason, ==, PULC__WIRE__REASON__REASON_COUNTERS);

	/* A connection that is upgraded already. */
	{
		struct fake_upgrade u;

		fake_upgrade(&a, &b, fds, 4, &u);
		fake_hint(&a, fds[0], 5, true);
		fake_hint_fill(&h, fds[1], 5, false);
		expect_denied(&hostile, &h, PULC__WIRE__REASON__REASON_SHARED);
		fake_upgrade_done(&u);
	}
	tcp_close_pair(fds);
	end();
}

static void connections_of_other_kinds(void)
{
	struct fake_hint h;
	int fds[2], old;

	begin(NULL);
	tcp_connect_pair(fds, AF_INET6);
	fake_hint_fill(&h, fds[0], 1, true);
	memcpy(h.local, (uint8_t[16]){ 0xfe, 0x80, [15] = 1 }, 16);
	expect_denied(&a, &h, PULC__WIRE__REASON__REASON_DEVICE);
	fake_hint_fill(&h, fds[0], 1, true);
	h.hint.netns_cookie++;
	expect_denied(&a, &h, PULC__WIRE__REASON__REASON_NETNS);
	fake_hint_fill(&h, fds[0], 1, true);
	h.tuple.remote_port = h.tuple.local_port; /* connected to itself */
	expect_denied(&a, &h, PULC__WIRE__REASON__REASON_UNSUPPORTED);
	tcp_close_pair(fds);

	tcp_connect_pair(fds, AF_INET);
	if (setsockopt(fds[1], SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) == 0) {
		fake_hint(&a, fds[0], 1, true);
		fake_hint_fill(&h, fds[1], 1, false);
		expect_denied(&b, &h, PULC__WIRE__REASON__REASON_DEVICE);
	}
	tcp_close_pair(fds);

	/* A real one of another network namespace. */
	old = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (unshare(CLONE_NEWNET) == 0) {
		struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
		int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

		REQUIRE(ioctl(control, SIOCSIFFLAGS, &lo) == 0);
		(void)close(control);
		tcp_connect_pair(fds, AF_INET);
		REQUIRE(setns(old, CLONE_NEWNET) == 0);
		fake_hint_fill(&h, fds[0], 2, true);
		expect_denied(&a, &h, PULC__WIRE__REASON__REASON_NETNS);
		tcp_close_pair(fds);
	}
	(void)close(old);

	tcp_connect_pair(fds, AF_INET);
	if (setsockopt(fds[0], IPPROTO_TCP, TCP_ULP, "tls", 4) == 0) {
		fake_hint(&b, fds[1], 3, false);
		fake_hint_fill(&h, fds[0], 3, true);
		expect_denied(&a, &h, PULC__WIRE__REASON__REASON_ULP);
	}
	tcp_close_pair(fds);
	end();
}

/* ---- too much -------------------------------------------------------------------------------- */

/* A client that asks and never reads is dropped; psid does not grow without bound. */
static void answers_nobody_reads(void)
{
	Pulc__Wire__WantCredit body = PULC__WIRE__WANT_CREDIT__INIT;
	FROM_CLIENT(msg, WANT_CREDIT, want_credit) = &body;
	int r = 0;

	begin(NULL);
	for (unsigned i = 0; i < 1000000 && r != -EPIPE; i++) {
		r = wire_send_from_client(hostile.fd, &msg, NULL, 0);
		if (r == -EAGAIN)
			CHECK(fake_is_quiet(&a));
	}
	CHECK_INT(r, ==, -EPIPE);
	scene_check_upgrade(2);
	end();
}

/* One that spins never does. */
static bool falls_asleep(const struct daemon *d)
{
	char state = daemon_state(d);

	for (unsigned i = 0; i < 2000 && state != 'S'; i++) {
		(void)poll(NULL, 0, 1);
		state = daemon_state(d);
	}
	return state == 'S';
}

/* No descriptors left: psid waits instead of spinning, serves the clients that it has, and
 * recovers. */
static void no_descriptors_left(void)
{
	enum { N = 40 };
	struct rlimit limit = { 64, 64 };
	struct fake_client crowd[N];

	begin(NULL);
	REQUIRE(prlimit(psid.pid, RLIMIT_NOFILE, &limit, NULL) == 0);
	for (unsigned i = 0; i < N; i++)
		fake_open(&crowd[i], &psid, FAKE_SELF);
	for (unsigned i = 0; i < 20; i++) {
		CHECK(fake_is_quiet(&a));
		CHECK(falls_asleep(&psid));
	}
	scene_check_upgrade(1);
	for (unsigned i = 0; i < N; i++)
		fake_close(&crowd[i]);
	scene_check_upgrade(2);
	end();
}

static const struct test tests[] = {
	TEST(the_one_that_never_comes),
	TEST(the_one_that_will_not),
	TEST(squatters),
	TEST(squatters_who_come_back),
	TEST(squatters_who_say_the_same),
	TEST(stale_hints),
	TEST(connections_of_other_kinds),
	TEST(answers_nobody_reads),
	TEST(no_descriptors_left),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
