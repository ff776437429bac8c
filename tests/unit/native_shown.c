/*
 * What psid is shown of ports and tagged messages (pulcctl ports), while the processes that have
 * them do something else.
 */
#include <errno.h>
#include <string.h>

#include "native.h"
#include "psid/fake_client.h"
#include "psid/native_case.h"
#include "self.h"

#define BUDGET "65536"
#define N_SENDS 60u
#define LEN 5000u
#define N_TAGGED 3u

static unsigned char buf[LEN];

/* Points. */
#define FULL 1u	      /* what is to be seen is there, */
#define SEEN 2u	      /* was seen, */
#define EMPTY 3u      /* is gone, */
#define SEEN_EMPTY 4u /* and was seen to be gone */
#define TAGGED 5u

/* Each answer tells that the reader has taken what was sent before the question. */
static void ask(pulc_port *p, const struct pulc_address *to)
{
	MUST_IS(pulc_send(p, to, "?", 1, 0), 1);
	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
}

static void sender(void)
{
	const struct pulc_tag want = { .tag = 9, .mask = PULC_TAG_EXACT, .peer = PULC_ANY_PEER };
	struct pulc_address unread = native_find("unread"), heard = native_find("heard");
	pulc_port *p = native_open(PULC_D, "sender");
	uint32_t peer = native_peer_named("heard");
	pulc_op *ops[N_SENDS], *receive;
	unsigned char in[4];

	receive = native_tag_receive(want, in, sizeof(in));
	for (unsigned i = 0; i < N_TAGGED; i++)
		MUST_IS(pulc_tag_send(peer, i, buf, 100), 100);
	for (unsigned i = 0; i < N_SENDS; i++) {
		ops[i] = native_send_begin(p, &unread, buf, LEN);
		ask(p, &heard);
	}
	native_reach(FULL);
	native_await(SEEN);
	MUST_IS(pulc_op_cancel(receive), 0);
	MUST_IS(pulc_tag_end(receive, NULL), -ECANCELED);
	for (unsigned i = 0; i < N_SENDS; i++)
		MUST_IS(pulc_op_end(ops[i], NULL), LEN);
	ask(p, &heard);
	native_reach(EMPTY);
	native_await(SEEN_EMPTY);
	MUST_IS(pulc_port_close(p), 0);
}

static void answer(pulc_port *p, unsigned n)
{
	struct pulc_address from;

	for (unsigned i = 0; i < n; i++) {
		MUST_IS(pulc_receive(p, buf, 1, &from, 0), 1);
		MUST_IS(pulc_send(p, &from, "!", 1, 0), 1);
	}
}

static void reader(void)
{
	const struct pulc_tag any = { .peer = PULC_ANY_PEER };
	pulc_port *unread, *heard;

	(void)setenv("PULC_QUEUE_MAX", BUDGET, 1);
	unread = native_open(PULC_D, "unread");
	heard = native_open(PULC_D, "heard");
	answer(heard, N_SENDS);
	native_await(SEEN);
	for (unsigned i = 0; i < N_SENDS; i++)
		MUST_IS(pulc_receive(unread, buf, LEN, NULL, 0), LEN);
	for (unsigned i = 0; i < N_TAGGED; i++)
		MUST_IS(pulc_tag_receive(&any, buf, LEN, NULL), 100);
	answer(heard, 1);
	native_await(SEEN_EMPTY);
	MUST_IS(pulc_port_close(unread), 0);
	MUST_IS(pulc_port_close(heard), 0);
}

/* ---- what psid says -------------------------------------------------------------------------- */

static struct shown {
	uint64_t size_unread, size_tags, size_sent;
	uint32_t n_held, n_waits, n_tags, n_tag_receives;
} shown[3];

static void note(const Pulc__Wire__PortEntry *e)
{
	static const char *const names[] = { "unread", "heard", "sender" };

	for (unsigned i = 0; i < 3; i++)
		if (strcmp(e->name, names[i]) == 0)
			shown[i] = (struct shown){
				.size_unread = e->size_unread,
				.size_tags = e->size_tags,
				.size_sent = e->size_sent,
				.n_held = e->n_held,
				.n_waits = e->n_waits,
				.n_tags = e->n_tags,
				.n_tag_receives = e->n_tag_receives,
			};
}

static void look(void)
{
	Pulc__Wire__PortsRequest body = PULC__WIRE__PORTS_REQUEST__INIT;
	FROM_CLIENT(msg, PORTS, ports) = &body;
	const Pulc__Wire__PortsReply *reply;
	struct fake_client c;

	fake_open(&c, native_daemon(), FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	fake_send(&c, &msg, NULL, 0);
	do {
		reply = EXPECT(&c, PORTS)->ports;
		for (size_t i = 0; i < reply->n_ports; i++)
			note(reply->ports[i]);
	} while (reply->more);
	fake_close(&c);
}

static void see(const pid_t *pids)
{
	(void)pids;
	native_await(FULL);
	look();
	CHECK_INT(shown[0].size_unread, >, 50000);
	CHECK_INT(shown[0].n_held, ==, 1);
	CHECK_INT(shown[0].n_waits, ==, 0);
	CHECK_INT(shown[1].size_unread, ==, 0);
	CHECK_INT(shown[1].n_tags, ==, N_TAGGED);
	CHECK_INT(shown[1].size_tags, ==, N_TAGGED * 100);
	CHECK_INT(shown[1].n_tag_receives, ==, 0);
	CHECK_INT(shown[2].n_waits, ==, 1);
	CHECK_INT(shown[2].n_tag_receives, ==, 1);
	CHECK_INT(shown[2].size_sent, >, 50000);
	native_reach(SEEN);
	native_await(EMPTY);
	look();
	CHECK_INT(shown[0].size_unread, ==, 0);
	CHECK_INT(shown[0].n_held, ==, 0);
	CHECK_INT(shown[1].n_tags, ==, 0);
	CHECK_INT(shown[1].size_tags, ==, 0);
	CHECK_INT(shown[2].n_waits, ==, 0);
	CHECK_INT(shown[2].n_tag_receives, ==, 0);
	native_reach(SEEN_EMPTY);
}

static void unread_messages_and_who_waits(void)
{
	native_role *const roles[] = { sender, reader };

	native_run_with(roles, 2, see);
}

/* ---- more ports than are shown --------------------------------------------------------------- */

/* What a forked child does is not shown as its parent's. */
static void open_many(void)
{
	pulc_port *ports[SHM_N_PORTS_SHOWN + 10];
	struct pulc_address self;
	pid_t child;

	for (unsigned i = 0; i < SHM_N_PORTS_SHOWN + 10; i++)
		ports[i] = native_open(PULC_D, i == 0			    ? "unread"
					       : i == SHM_N_PORTS_SHOWN + 9 ? "heard"
									    : NULL);
	for (unsigned i = 0; i < SHM_N_PORTS_SHOWN + 10; i++) {
		self = pulc_port_address(ports[i]);
		MUST_IS(pulc_send(ports[i], &self, "x", 1, 0), 1);
	}
	child = fork();
	if (child == 0) {
		pulc_port *p = native_open(PULC_D, "sender");

		self = pulc_port_address(p);
		MUST_IS(pulc_send(p, &self, "x", 1, 0), 1);
		MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
		native_reach(FULL);
		native_await(SEEN);
		_exit(0);
	}
	native_await(SEEN);
	for (unsigned i = 0; i < SHM_N_PORTS_SHOWN + 10; i++) {
		MUST_IS(pulc_receive(ports[i], buf, 1, NULL, 0), 1);
		MUST_IS(pulc_port_close(ports[i]), 0);
	}
	/* Its entries are free again. */
	ports[0] = native_open(PULC_D, "unread");
	self = pulc_port_address(ports[0]);
	MUST_IS(pulc_send(ports[0], &self, "x", 1, 0), 1);
	native_reach(EMPTY);
	native_await(SEEN_EMPTY);
}

static void see_some(const pid_t *pids)
{
	(void)pids;
	native_await(FULL);
	look();
	CHECK_INT(shown[0].size_unread, >, 0);
	CHECK_INT(shown[1].size_unread, ==, 0);
	CHECK_INT(shown[2].size_unread, ==, 0);
	native_reach(SEEN);
	native_await(EMPTY);
	look();
	CHECK_INT(shown[0].size_unread, >, 0);
	native_reach(SEEN_EMPTY);
}

static void as_many_as_there_is_room_for(void)
{
	native_role *const roles[] = { open_many };

	native_run_with(roles, 1, see_some);
}

/* ---- peers: who has no credit, and with whom ------------------------------------------------- */

static Pulc__Wire__PortPeerEntry pairs[16];
static char pair_names[16][16];
static size_t n_pairs;

static void note_pair(const Pulc__Wire__PortPeerEntry *e)
{
	REQUIRE(n_pairs < 16);
	pairs[n_pairs] = *e;
	(void)snprintf(pair_names[n_pairs], sizeof(pair_names[0]), "%s", e->name);
	CHECK(e->peer_node[0] == '\0');
	CHECK(strcmp(e->path, e->peer_client ? "shm" : "self") == 0);
	n_pairs++;
}

static void look_at_peers(void)
{
	Pulc__Wire__PortPeersRequest body = PULC__WIRE__PORT_PEERS_REQUEST__INIT;
	FROM_CLIENT(msg, PORT_PEERS, port_peers) = &body;
	const Pulc__Wire__PortPeersReply *reply;
	struct fake_client c;

	n_pairs = 0;
	fake_open(&c, native_daemon(), FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	fake_send(&c, &msg, NULL, 0);
	do {
		reply = EXPECT(&c, PORT_PEERS)->port_peers;
		for (size_t i = 0; i < reply->n_peers; i++)
			note_pair(reply->peers[i]);
	} while (reply->more);
	fake_close(&c);
}

/* The one line of that port, or of no port (""), of that process, on that path. */
static const Pulc__Wire__PortPeerEntry *pair_of(const char *name, pid_t pid, const char *path)
{
	const Pulc__Wire__PortPeerEntry *found = NULL;

	for (size_t i = 0; i < n_pairs; i++)
		if (strcmp(pair_names[i], name) == 0 && pairs[i].pid == (uint32_t)pid &&
		    (pairs[i].peer_client == 0) == (strcmp(path, "self") == 0)) {
			CHECK(!found);
			found = &pairs[i];
		}
	REQUIRE(found != NULL);
	return found;
}

#define COST (LEN + 64)
/* As many begin as find some credit left. */
#define N_PORT ((SHM_PORT_WINDOW - 1) / COST + 1)
#define N_TAGS ((SHM_TAG_WINDOW - 1) / COST + 1)

/* Sends until there is no credit any more, by port and by tag, and begins one more of each. */
static void hurry(void)
{
	struct pulc_address to = native_find("slow"), self;
	uint32_t peer = native_peer_named("slow");
	pulc_port *p = native_open(PULC_D, "hurry");
	pulc_op *last, *last_tagged;

	self = pulc_port_address(p);
	MUST_IS(pulc_send(p, &self, "x", 1, 0), 1);
	for (unsigned i = 0; i < N_PORT; i++)
		MUST_IS(pulc_send(p, &to, buf, LEN, 0), LEN);
	for (unsigned i = 0; i < N_TAGS; i++)
		MUST_IS(pulc_tag_send(peer, 1, buf, LEN), LEN);
	last = native_send_begin(p, &to, buf, LEN);
	last_tagged = native_tag_send(peer, 1, buf, LEN);
	native_reach(FULL);
	native_await(SEEN);
	MUST_IS(pulc_op_end(last, NULL), LEN);
	MUST_IS(pulc_tag_end(last_tagged, NULL), LEN);
	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
	native_reach(EMPTY);
	native_await(SEEN_EMPTY);
	MUST_IS(pulc_port_close(p), 0);
}

/* Receives nothing before it is told to. */
static void be_slow(void)
{
	const struct pulc_tag any = { .peer = PULC_ANY_PEER },
			      none = { .tag = 3, .mask = PULC_TAG_EXACT, .peer = PULC_ANY_PEER };
	pulc_port *p = native_open(PULC_D, "slow");
	struct pulc_address from;

	while (!native_is_reached(FULL))
		MUST_IS(pulc_tag_probe(&none, 1, NULL), 0);
	native_await(SEEN);
	for (unsigned i = 0; i < N_PORT + 1; i++)
		MUST_IS(pulc_receive(p, buf, LEN, &from, 0), LEN);
	for (unsigned i = 0; i < N_TAGS + 2; i++)
		MUST(pulc_tag_receive(&any, buf, LEN, NULL) > 0);
	MUST_IS(pulc_send(p, &from, "!", 1, 0), 1);
	native_await(SEEN_EMPTY);
	MUST_IS(pulc_port_close(p), 0);
}

/* No port of its own has any part in this. */
static void send_tagged_only(void)
{
	MUST_IS(pulc_tag_send(native_peer_named("slow"), 2, buf, 1), 1);
	native_reach(TAGGED);
	native_await(SEEN_EMPTY);
}

static void see_peers(const pid_t *pids)
{
	const Pulc__Wire__PortPeerEntry *e;

	native_await(FULL);
	native_await(TAGGED);
	look_at_peers();
	CHECK_INT(n_pairs, ==, 5);
	e = pair_of("hurry", pids[0], "shm");
	CHECK_INT(e->peer_pid, ==, pids[1]);
	CHECK_INT(e->peer_port, ==, pair_of("slow", pids[1], "shm")->port);
	CHECK(e->sends && !e->receives && e->waits && !e->held);
	CHECK_INT(e->size_credit, ==, 0);
	CHECK(e->tags && e->tag_waits);
	CHECK_INT(e->size_tag_credit, ==, 0);
	CHECK_INT(e->size_sent, >, SHM_PORT_WINDOW);
	e = pair_of("hurry", pids[0], "self");
	CHECK(e->sends && e->receives && !e->waits && !e->tags);
	CHECK_INT(e->size_credit, ==, SHM_PORT_WINDOW - 1 - 64);
	CHECK_INT(e->size_unread, >, 0);
	e = pair_of("slow", pids[1], "shm");
	CHECK_INT(e->peer_pid, ==, pids[0]);
	CHECK(!e->sends && e->receives && !e->holds);
	CHECK_INT(e->size_unread + e->size_queued, >=, N_PORT * LEN);
	e = pair_of("", pids[1], "shm");
	CHECK_INT(e->peer_pid, ==, pids[2]);
	CHECK(!e->sends && !e->receives);
	e = pair_of("", pids[2], "shm");
	CHECK_INT(e->peer_pid, ==, pids[1]);
	CHECK(e->tags && !e->tag_waits && e->port == 0 && e->peer_port == 0);
	CHECK_INT(e->size_tag_credit, ==, SHM_TAG_WINDOW - 1 - 64);
	native_reach(SEEN);
	native_await(EMPTY);
	look_at_peers();
	e = pair_of("hurry", pids[0], "shm");
	CHECK(e->sends && e->receives && !e->waits && !e->tag_waits);
	CHECK_INT(e->size_credit, >, SHM_PORT_WINDOW / 2);
	CHECK_INT(e->size_tag_credit, >, SHM_TAG_WINDOW / 2);
	CHECK_INT(pair_of("hurry", pids[0], "self")->size_unread, ==, 0);
	CHECK_INT(pair_of("slow", pids[1], "shm")->size_unread, ==, 0);
	native_reach(SEEN_EMPTY);
}

static void credit_of_each_peer(void)
{
	native_role *const roles[] = { hurry, be_slow, send_tagged_only };

	native_run_with(roles, 3, see_peers);
}

/* ---- peers that come and go ------------------------------------------------------------------ */

/* Each that has exchanged tagged messages has an entry, which is free again when it is gone. */
static void meet_many(void)
{
	pulc_port *p = native_open(PULC_D, "many");
	struct hal_link *link;
	struct peer *peer;

	for (uint32_t i = 1; i <= 2 * SHM_N_PAIRS; i++) {
		MUST_IS(hal_self_open(&link), 0);
		peer = peer_new(link, i);
		MUST(peer && tag_peer_of(peer));
		MUST(peer->tags->shown % SHM_N_PAIRS != 0);
		peer_break(peer, -ECONNRESET);
		peer_unref(peer);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void an_entry_is_free_when_its_peer_is_gone(void)
{
	NATIVE_RUN(meet_many);
}

static const struct test tests[] = {
	TEST(unread_messages_and_who_waits),
	TEST(as_many_as_there_is_room_for),
	TEST(credit_of_each_peer),
	TEST(an_entry_is_free_when_its_peer_is_gone),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
