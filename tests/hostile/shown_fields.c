/*
 * A process that lies in the pages where it shows its numbers (shm/state.h, shm/pairs.h): every
 * word of the first, and of some entries of the others, one after the other and all at once, says
 * what could hurt, and goes on changing while psid reads. What psid tells of it is bounded, and
 * about this process alone; it neither ends nor loops, and reads no other port's entry than the one
 * whose number is asked for.
 */
#include <stdatomic.h>
#include <string.h>

#include "native.h"
#include "pairs.h"
#include "psid/fake_client.h"
#include "psid/native_case.h"
#include "state.h"

#define N_STATE (sizeof(struct shm_state) / sizeof(uint64_t))
/* Entries of pairs that are lied about; the first of them are the liar's own. */
#define N_PAIRS_LIED 6u
#define N_PAIRS_WORDS (N_PAIRS_LIED * sizeof(struct shm_pair) / sizeof(uint64_t))
#define N_WORDS_MAX N_STATE
/* What psid tells of a number that is shown to it, at most. */
#define SIZE_TOLD_MAX (UINT64_MAX >> 3)
#define N_TORN 100u

/* Points. */
#define OPEN 1u
#define SEEN 2u
#define HONEST 3u

static const uint64_t lies[] = { 1, UINT32_MAX, 1ull << 32, SIZE_TOLD_MAX + 1, UINT64_MAX };
#define N_LIES (sizeof(lies) / sizeof(lies[0]))

/* What the liar is to write: shared over fork. */
static struct {
	_Atomic uint32_t turn; /* raised by the test, */
	_Atomic uint32_t done; /* and by the liar when it has obeyed */
	_Atomic uint64_t word; /* n_words: all */
	_Atomic uint64_t value;
	_Atomic bool torn; /* goes on writing */
} * order;

static void scribble(_Atomic uint64_t *words, uint64_t n_words, uint64_t word, uint64_t value)
{
	for (uint64_t i = 0; i < n_words; i++)
		if (word == n_words || i == word)
			atomic_store(&words[i], value);
}

static void lie_in(pulc_port *p, _Atomic uint64_t *words, uint64_t n_words)
{
	uint64_t truth[N_WORDS_MAX];
	uint32_t turn = 0;

	memcpy(truth, (const void *)words, n_words * sizeof(*words));
	native_reach(OPEN);
	while (!native_is_reached(SEEN)) {
		if (order->torn)
			scribble(words, n_words, n_words, lies[turn++ % N_LIES]);
		if (order->done == order->turn) {
			if (!order->torn)
				(void)usleep(50);
			continue;
		}
		memcpy((void *)words, truth, n_words * sizeof(*words));
		scribble(words, n_words, order->word, order->value);
		order->done = order->turn;
	}
	memcpy((void *)words, truth, n_words * sizeof(*words));
	MUST_IS(pulc_port_close(p), 0);
}

static void lie(void)
{
	pulc_port *p = native_open(PULC_D, "liar");

	lie_in(p, (_Atomic uint64_t *)(void *)atomic_load(&shm_state), N_STATE);
}

/* It sends to itself and to the honest one, so that entries of its own are there. */
static void lie_of_peers(void)
{
	pulc_port *p = native_open(PULC_D, "liar");
	struct pulc_address self = pulc_port_address(p), honest = native_find("honest");

	MUST_IS(pulc_send(p, &self, "x", 1, 0), 1);
	MUST_IS(pulc_send(p, &honest, "x", 1, 0), 1);
	lie_in(p, (_Atomic uint64_t *)(void *)&atomic_load(&shm_pairs)->pairs[1], N_PAIRS_WORDS);
}

/* Beside it one that does not, of whom psid goes on to tell the truth. */
static void tell_the_truth(void)
{
	pulc_port *p = native_open(PULC_D, "honest");
	struct pulc_address self = pulc_port_address(p);
	char buf[10] = "";

	MUST_IS(pulc_send(p, &self, buf, sizeof(buf), 0), sizeof(buf));
	native_reach(HONEST);
	native_await(SEEN);
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), sizeof(buf));
	MUST_IS(pulc_port_close(p), 0);
}

/* The same, once the liar has sent to it. */
static void wait_with_the_truth(void)
{
	pulc_port *p = native_open(PULC_D, "honest");
	struct pulc_address self = pulc_port_address(p), from;
	char buf[10];

	MUST_IS(pulc_receive(p, buf, 1, &from, PULC_PEEK), 1);
	MUST_IS(pulc_send(p, &self, buf, sizeof(buf), 0), sizeof(buf));
	native_reach(HONEST);
	native_await(SEEN);
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), 1);
	MUST_IS(pulc_receive(p, buf, sizeof(buf), NULL, 0), sizeof(buf));
	MUST_IS(pulc_port_close(p), 0);
}

static void check_entry(const Pulc__Wire__PortEntry *e)
{
	const uint64_t sizes[] = { e->size_unread, e->size_tags, e->size_tcp_received,
				   e->size_tcp_sent, e->size_unsent };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		CHECK_INT(sizes[i], <=, SIZE_TOLD_MAX);
	/* Sums of one that is bounded and of what psid counts itself. */
	CHECK_INT(e->size_received, <=, 2 * SIZE_TOLD_MAX);
	CHECK_INT(e->size_sent, <=, 2 * SIZE_TOLD_MAX);
	CHECK_INT(e->size_queued, <=, 2 * SIZE_TOLD_MAX);
	CHECK(strcmp(e->name, "liar") == 0 || strcmp(e->name, "honest") == 0);
	if (strcmp(e->name, "honest") != 0)
		return;
	CHECK_INT(e->size_unread, >, 0);
	CHECK_INT(e->size_unread, <, 5000);
	CHECK_INT(e->n_held, ==, 0);
	CHECK_INT(e->n_tags, ==, 0);
}

/* Each is told of once. */
static void look(struct fake_client *c)
{
	Pulc__Wire__PortsRequest body = PULC__WIRE__PORTS_REQUEST__INIT;
	FROM_CLIENT(msg, PORTS, ports) = &body;
	const Pulc__Wire__PortsReply *reply;
	size_t n = 0;

	fake_send(c, &msg, NULL, 0);
	do {
		reply = EXPECT(c, PORTS)->ports;
		for (size_t i = 0; i < reply->n_ports; i++)
			check_entry(reply->ports[i]);
		n += reply->n_ports;
	} while (reply->more);
	CHECK_INT(n, ==, 2);
}

/* Of its own ports, of whom it is joined with, and no more than there can be. */
static void check_peer(const Pulc__Wire__PortPeerEntry *e)
{
	bool is_honest = strcmp(e->name, "honest") == 0;

	CHECK_INT(e->size_credit, <=, SHM_PORT_WINDOW);
	CHECK_INT(e->size_tag_credit, <=, SHM_TAG_WINDOW);
	CHECK_INT(e->size_unread, <=, SIZE_TOLD_MAX);
	CHECK_INT(e->size_received, <=, SIZE_TOLD_MAX);
	CHECK_INT(e->size_sent, <=, SIZE_TOLD_MAX);
	CHECK_INT(e->client, !=, e->peer_client);
	if (e->port == 0)
		CHECK(e->name[0] == '\0' && e->peer_port == 0 && !e->sends && !e->receives);
	else
		CHECK(is_honest || strcmp(e->name, "liar") == 0);
	if (!is_honest)
		return;
	CHECK(e->receives && !e->holds && !e->waits);
	CHECK_INT(e->size_unread, >, 0);
	CHECK_INT(e->size_unread, <, 5000);
}

static void look_at_peers(struct fake_client *c)
{
	Pulc__Wire__PortPeersRequest body = PULC__WIRE__PORT_PEERS_REQUEST__INIT;
	FROM_CLIENT(msg, PORT_PEERS, port_peers) = &body;
	const Pulc__Wire__PortPeersReply *reply;
	size_t n = 0;

	fake_send(c, &msg, NULL, 0);
	do {
		reply = EXPECT(c, PORT_PEERS)->port_peers;
		for (size_t i = 0; i < reply->n_peers; i++)
			check_peer(reply->peers[i]);
		n += reply->n_peers;
	} while (reply->more);
	/* The honest one's two, and what can be made of the liar's entries. */
	CHECK_INT(n, >=, 2);
	CHECK_INT(n, <=, 2 + N_PAIRS_LIED + 1);
}

static void give_order(uint64_t word, uint64_t value)
{
	order->word = word;
	order->value = value;
	order->turn++;
	while (order->done != order->turn)
		(void)usleep(100);
}

static void ask_about(uint64_t n_words, void (*ask)(struct fake_client *c))
{
	struct fake_client c;

	native_await(OPEN);
	native_await(HONEST);
	fake_open(&c, native_daemon(), FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	for (uint64_t word = 0; word <= n_words; word++)
		for (unsigned i = 0; i < N_LIES; i++) {
			give_order(word, lies[i]);
			ask(&c);
		}
	order->torn = true;
	for (unsigned i = 0; i < N_TORN; i++)
		ask(&c);
	order->torn = false;
	fake_close(&c);
	native_reach(SEEN);
}

static void ask_about_each(const pid_t *pids)
{
	(void)pids;
	ask_about(N_STATE, look);
}

static void ask_about_peers(const pid_t *pids)
{
	(void)pids;
	ask_about(N_PAIRS_WORDS, look_at_peers);
}

static void what_a_process_shows_of_itself(void)
{
	native_role *const roles[] = { lie, tell_the_truth };

	order = native_share(sizeof(*order));
	native_run_with(roles, 2, ask_about_each);
	native_unshare(order, sizeof(*order));
}

static void what_a_process_shows_of_its_peers(void)
{
	native_role *const roles[] = { lie_of_peers, wait_with_the_truth };

	order = native_share(sizeof(*order));
	native_run_with(roles, 2, ask_about_peers);
	native_unshare(order, sizeof(*order));
}

static const struct test tests[] = {
	TEST(what_a_process_shows_of_its_peers),
	TEST(what_a_process_shows_of_itself),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
