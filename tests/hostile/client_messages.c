/*
 * A client that says everything it must not: psid drops it, counts it, and goes on serving the
 * others. Each case runs against one psid, with a witness who must not notice anything.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "macros.h"
#include "psid/fake_client.h"

static struct daemon psid;
static struct fake_client witness;
static uint64_t n_malformed;

static void begin(void)
{
	daemon_start(&psid, false, NULL);
	fake_attach(&witness, &psid, FAKE_SELF);
	n_malformed = 0;
}

static void end(void)
{
	CHECK(fake_is_quiet(&witness));
	fake_close(&witness);
	fake_wait_counts(&psid, 0, 0);
	CHECK_INT(daemon_stop(&psid), ==, 0);
}

/* psid hangs up, and has counted one more. */
static void expect_dropped(struct fake_client *c)
{
	Pulc__Wire__StatusReply status;

	fake_expect_end(c);
	fake_close(c);
	fake_status(&psid, &status);
	CHECK_INT(status.n_malformed, ==, ++n_malformed);
	CHECK(fake_is_quiet(&witness));
}

static void send_raw(struct fake_client *c, const void *buf, size_t len, const int *fds, size_t n)
{
	REQUIRE_INT(wire_send(c->fd, buf, len, fds, n), ==, 0);
}

static void garbage(void)
{
	static const unsigned char texts[][12] = {
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", /* no field */
		"\x0a\x7f\x01",					/* longer than it is */
		"\x0a\x02\x08",					/* cut off */
		"hello, psid",					/* well */
		"\x08\x01",	/* a number where a message belongs */
		"\xfa\x01\x00", /* a message of the future */
	};
	static const size_t lengths[] = { 11, 3, 3, 11, 2, 3 };
	struct fake_client c;

	begin();
	for (unsigned attached = 0; attached < 2; attached++)
		for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
			if (attached)
				fake_attach(&c, &psid, FAKE_SELF);
			else
				fake_open(&c, &psid, FAKE_SELF);
			send_raw(&c, texts[i], lengths[i], NULL, 0);
			expect_dropped(&c);
		}
	end();
}

/*
 * Random bytes, and real messages with random bytes changed. Whatever psid makes of them, it
 * lives.
 */
static void random_bytes(void)
{
	struct fake_client c;
	unsigned char buf[256];
	struct fake_hint h;
	int fds[2];

	begin();
	srandom(7);
	tcp_connect_pair(fds, AF_INET);
	fake_hint_fill(&h, fds[0], 1, true);
	for (unsigned i = 0; i < 300; i++) {
		FROM_CLIENT(msg, HINT, hint) = &h.hint;
		size_t len = pulc__wire__from_client__pack(&msg, buf);

		if (i % 2)
			for (size_t k = 0; k < len; k++)
				buf[k] = (unsigned char)random();
		for (unsigned k = 0; k < 3; k++)
			buf[(size_t)random() % len] ^= (unsigned char)(1 + random() % 255);
		fake_attach(&c, &psid, FAKE_SELF);
		send_raw(&c, buf, len, NULL, 0);
		fake_close(&c);
	}
	tcp_close_pair(fds);
	end();
}

static void too_large(void)
{
	static unsigned char buf[WIRE_SIZE_MAX + 1];
	struct fake_client c;

	begin();
	fake_attach(&c, &psid, FAKE_SELF);
	REQUIRE(send(c.fd, buf, sizeof(buf), MSG_NOSIGNAL) == sizeof(buf));
	expect_dropped(&c);
	/* An empty datagram is taken for the end. */
	fake_attach(&c, &psid, FAKE_SELF);
	REQUIRE(send(c.fd, buf, 0, MSG_NOSIGNAL) == 0);
	fake_expect_end(&c);
	fake_close(&c);
	/* A message that unfolds to more memory than one may. */
	fake_attach(&c, &psid, FAKE_SELF);
	{
		static uint64_t conns[8000];
		Pulc__Wire__Adopt adopt = PULC__WIRE__ADOPT__INIT;
		FROM_CLIENT(msg, ADOPT, adopt) = &adopt;

		adopt.conns = conns;
		adopt.n_conns = ARRAY_SIZE(conns);
		fake_send(&c, &msg, NULL, 0);
	}
	expect_dropped(&c);
	end();
}

static void out_of_order(void)
{
	Pulc__Wire__StatusRequest body = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(msg, STATUS, status) = &body;
	Pulc__Wire__StopRequest stop = PULC__WIRE__STOP_REQUEST__INIT;
	FROM_CLIENT(stop_msg, STOP, stop) = &stop;
	struct fake_client c;
	int fds[2];

	begin();
	fake_open(&c, &psid, FAKE_SELF); /* before Hello */
	fake_send(&c, &msg, NULL, 0);
	expect_dropped(&c);

	fake_attach(&c, &psid, FAKE_SELF); /* Hello twice */
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_PROCESS);
	expect_dropped(&c);

	tcp_connect_pair(fds, AF_INET); /* a tool takes no part */
	fake_open(&c, &psid, FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	fake_hint(&c, fds[0], 1, true);
	expect_dropped(&c);
	tcp_close_pair(fds);

	fake_attach(&c, &psid, FAKE_SELF); /* a process gives no orders */
	fake_send(&c, &stop_msg, NULL, 0);
	expect_dropped(&c);

	fake_open(&c, &psid, FAKE_SELF); /* a role of the future */
	fake_hello(&c, (Pulc__Wire__Role)9);
	expect_dropped(&c);
	end();
}

static void wrong_tuples(void)
{
	struct fake_client c;
	struct fake_hint h;
	int fds[2];

	begin();
	tcp_connect_pair(fds, AF_INET);
	for (unsigned i = 0; i < 6; i++) {
		fake_hint_fill(&h, fds[0], 1, true);
		switch (i) {
		case 0:
			h.tuple.local_addr.len = 4;
			break;
		case 1:
			h.tuple.remote_addr.len = 0;
			break;
		case 2:
			h.tuple.local_port = 65536;
			break;
		case 3:
			h.tuple.remote_port = 0;
			break;
		case 4:
			h.hint.tuple = NULL;
			break;
		case 5:
			h.tuple.local_port = 1u << 31;
			break;
		}
		fake_attach(&c, &psid, FAKE_SELF);
		fake_hint_send(&c, &h);
		expect_dropped(&c);
	}
	tcp_close_pair(fds);
	end();
}

static void wrong_boards(void)
{
	static const uint32_t boards[] = { SHM_N_BOARDS, UINT32_MAX };
	Pulc__Wire__Bell bell = PULC__WIRE__BELL__INIT;
	Pulc__Wire__Announce announce = PULC__WIRE__ANNOUNCE__INIT;
	Pulc__Wire__Ring ring = PULC__WIRE__RING__INIT;
	FROM_CLIENT(bell_msg, BELL, bell) = &bell;
	FROM_CLIENT(announce_msg, ANNOUNCE, announce) = &announce;
	FROM_CLIENT(ring_msg, RING, ring) = &ring;
	int event = eventfd(0, EFD_CLOEXEC);
	struct fake_client c;

	begin();
	for (unsigned i = 0; i < ARRAY_SIZE(boards); i++) {
		bell.board = announce.board = ring.board = boards[i];
		fake_attach(&c, &psid, FAKE_SELF);
		fake_send(&c, &bell_msg, &event, 1);
		expect_dropped(&c);
		fake_attach(&c, &psid, FAKE_SELF);
		fake_send(&c, &announce_msg, NULL, 0);
		expect_dropped(&c);
		fake_attach(&c, &psid, FAKE_SELF);
		fake_send(&c, &ring_msg, NULL, 0);
		expect_dropped(&c);
	}
	ring.board = 0;
	ring.bit = SHM_BOARD_BITS;
	fake_attach(&c, &psid, FAKE_SELF);
	fake_send(&c, &ring_msg, NULL, 0);
	expect_dropped(&c);
	(void)close(event);
	end();
}

/* What may be said at a bad moment, because messages cross: nothing happens. */
static void unknown_names(void)
{
	Pulc__Wire__Drop drop = PULC__WIRE__DROP__INIT;
	Pulc__Wire__Note note = PULC__WIRE__NOTE__INIT;
	Pulc__Wire__Ring ring = PULC__WIRE__RING__INIT;
	Pulc__Wire__ReturnCredit credit = PULC__WIRE__RETURN_CREDIT__INIT;
	Pulc__Wire__Adopt adopt = PULC__WIRE__ADOPT__INIT;
	uint64_t conns[3] = { 0, 1, UINT64_MAX };
	FROM_CLIENT(drop_msg, DROP, drop) = &drop;
	FROM_CLIENT(note_msg, NOTE, note) = &note;
	FROM_CLIENT(ring_msg, RING, ring) = &ring;
	FROM_CLIENT(credit_msg, RETURN_CREDIT, return_credit) = &credit;
	FROM_CLIENT(adopt_msg, ADOPT, adopt) = &adopt;
	struct fake_client c;

	begin();
	fake_attach(&c, &psid, FAKE_SELF);
	drop.token = note.conn = UINT64_MAX;
	note.reason = (Pulc__Wire__Reason)-1;
	ring.client = witness.id;
	credit.size = UINT64_MAX;
	adopt.conns = conns;
	adopt.n_conns = 3;
	adopt.parent = witness.id;
	fake_closed(&c, 1);
	fake_closed(&c, UINT64_MAX);
	fake_send(&c, &drop_msg, NULL, 0);
	fake_send(&c, &note_msg, NULL, 0);
	fake_send(&c, &ring_msg, NULL, 0);
	fake_send(&c, &credit_msg, NULL, 0);
	fake_send(&c, &adopt_msg, NULL, 0);
	CHECK(fake_is_quiet(&c));
	fake_close(&c);
	end();
}

/* Reports asked for and never read: the memory they may take is bounded, and psid does not wait. */
static void reports_nobody_reads(void)
{
	Pulc__Wire__SocketsRequest body = PULC__WIRE__SOCKETS_REQUEST__INIT;
	FROM_CLIENT(msg, SOCKETS, sockets) = &body;
	struct fake_client c;
	int r = 0;

	begin();
	fake_open(&c, &psid, FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	for (unsigned i = 0; i < 100000 && r != -EPIPE; i++) {
		r = wire_send_from_client(c.fd, &msg, NULL, 0);
		if (r == -EAGAIN)
			CHECK(fake_is_quiet(&witness));
	}
	CHECK_INT(r, ==, -EPIPE);
	expect_dropped(&c);
	end();
}

/* A keeper whose job would take more processors than can be counted. */
static void keeps_too_much(void)
{
	Pulc__Wire__Keep keep = PULC__WIRE__KEEP__INIT;
	FROM_CLIENT(msg, KEEP, keep) = &keep;
	struct fake_client c;

	begin();
	keep.job = (char *)"17@here";
	for (unsigned i = 0; i < 2; i++) {
		keep.n_tasks = i ? 65536 : 65537;
		keep.n_cpus = i ? 65536 : 1;
		fake_open(&c, &psid, FAKE_SELF);
		fake_hello(&c, PULC__WIRE__ROLE__ROLE_KEEPER);
		(void)EXPECT(&c, WELCOME);
		fake_send(&c, &msg, NULL, 0);
		expect_dropped(&c);
	}
	end();
}

/* Says one and the same connection as often as a message takes, and that as fast as it can: psid
 * looks into memory for each. */
static void talk(struct fake_client *c, uint64_t conn)
{
	Pulc__Wire__Adopt adopt = PULC__WIRE__ADOPT__INIT;
	FROM_CLIENT(msg, ADOPT, adopt) = &adopt;
	struct pollfd room = { .fd = c->fd, .events = POLLOUT };
	static unsigned char buf[WIRE_SIZE_MAX];
	uint64_t conns[1900];
	size_t len;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < ARRAY_SIZE(conns); i++)
		conns[i] = conn;
	adopt.conns = conns;
	adopt.n_conns = ARRAY_SIZE(conns);
	len = pulc__wire__from_client__pack(&msg, buf);
	while (wire_send(c->fd, buf, len, NULL, 0) == 0 || poll(&room, 1, -1) == 1)
		;
}

/* The others are heard in between. */
static void talks_without_end(void)
{
	enum { N = 40, MSEC_EACH = 50 };
	struct fake_client talker, peer;
	struct fake_upgrade u;
	uint64_t nsec_began;
	int fds[2];
	pid_t pid;

	begin();
	fake_attach(&talker, &psid, FAKE_SELF);
	fake_attach(&peer, &psid, FAKE_SELF);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&talker, &peer, fds, 2, &u);
	atomic_store(&fake_own_side(&u, 0)->notice, SHM_RX_READY);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		talk(&talker, u.side[0].conn);
		_exit(0);
	}
	nsec_began = nsec_now();
	for (unsigned i = 0; i < N; i++)
		CHECK(fake_is_quiet(&witness));
	CHECK_INT(nsec_now() - nsec_began, <, (uint64_t)N * MSEC_EACH * 1000000);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	fake_close(&talker);
	fake_close(&peer);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	end();
}

/* Messages that take long: psid looks into memory for each word of them. */
static void say_much(struct fake_client *c, uint64_t conn)
{
	Pulc__Wire__Adopt adopt = PULC__WIRE__ADOPT__INIT;
	FROM_CLIENT(msg, ADOPT, adopt) = &adopt;
	static uint64_t conns[WIRE_ADOPT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(conns); i++)
		conns[i] = conn;
	adopt.conns = conns;
	adopt.n_conns = ARRAY_SIZE(conns);
	for (unsigned i = 0; i < 4; i++)
		fake_send(c, &msg, NULL, 0);
}

/* Many clients of one user, all of which have said something, take no more of a turn than one: who
 * comes behind them is answered before most of them are heard to the end, which is nonsense and
 * counted, and then all of them are. */
static void many_talk_at_once(void)
{
	enum { N = 200 };
	Pulc__Wire__StatusRequest request = PULC__WIRE__STATUS_REQUEST__INIT;
	FROM_CLIENT(question, STATUS, status) = &request;
	static struct fake_client crowd[N];
	Pulc__Wire__StatusReply after;
	struct fake_upgrade u;
	int fds[2];

	if (geteuid() != 0) {
		test_skip("needs root to have a client of another user");
		return;
	}
	daemon_start(&psid, true, NULL);
	fake_attach(&witness, &psid, FAKE_SELF);
	for (unsigned i = 0; i < N; i++)
		fake_attach(&crowd[i], &psid, 65532);
	tcp_connect_pair(fds, AF_INET);
	fake_upgrade(&crowd[0], &crowd[1], fds, 2, &u);
	atomic_store(&fake_own_side(&u, 0)->notice, SHM_RX_READY);
	(void)kill(psid.pid, SIGSTOP);
	for (unsigned i = 0; i < N; i++) {
		say_much(&crowd[i], u.side[0].conn);
		send_raw(&crowd[i], "\x08\x01", 2, NULL, 0); /* a number where a message belongs */
	}
	fake_send(&witness, &question, NULL, 0);
	(void)kill(psid.pid, SIGCONT);
	CHECK_INT(EXPECT(&witness, STATUS)->status->n_malformed, <, N / 2);
	for (unsigned i = 0; i < N; i++) {
		fake_expect_end(&crowd[i]);
		fake_close(&crowd[i]);
	}
	fake_status(&psid, &after);
	CHECK_INT(after.n_malformed, ==, N);
	fake_upgrade_done(&u);
	tcp_close_pair(fds);
	end();
}

static const struct test tests[] = {
	TEST(garbage),		 TEST(random_bytes),	     TEST(too_large),
	TEST(out_of_order),	 TEST(wrong_tuples),	     TEST(wrong_boards),
	TEST(unknown_names),	 TEST(reports_nobody_reads), TEST(keeps_too_much),
	TEST(talks_without_end), TEST(many_talk_at_once),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
