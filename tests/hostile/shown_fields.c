/*
 * A process that lies in the page where it shows its numbers (shm/state.h): every word of it, one after the other and all at once, says what could hurt, and
 * goes on changing while psid reads. What psid tells of it is bounded, and about this process alone; it neither ends nor loops, and reads no other port's entry
 * than the one whose number is asked for.
 */
#include <stdatomic.h>
#include <string.h>

#include "native.h"
#include "psid/fake_client.h"
#include "psid/native_case.h"
#include "state.h"

#define N_WORDS (sizeof(struct shm_state) / sizeof(uint64_t))
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
	_Atomic uint64_t word; /* N_WORDS: all */
	_Atomic uint64_t value;
	_Atomic bool torn; /* goes on writing */
} * order;

static void scribble(_Atomic uint64_t *words, uint64_t word, uint64_t value)
{
	for (uint64_t i = 0; i < N_WORDS; i++)
		if (word == N_WORDS || i == word)
			atomic_store(&words[i], value);
}

static void lie(void)
{
	pulc_port *p = native_open(PULC_D, "liar");
	_Atomic uint64_t *words = (_Atomic uint64_t *)(void *)atomic_load(&shm_state);
	struct shm_state truth;
	uint32_t turn = 0;

	memcpy(&truth, (const void *)words, sizeof(truth));
	native_reach(OPEN);
	while (!native_is_reached(SEEN)) {
		if (order->torn)
			scribble(words, N_WORDS, lies[turn++ % N_LIES]);
		if (order->done == order->turn) {
			if (!order->torn)
				(void)usleep(50);
			continue;
		}
		memcpy((void *)words, &truth, sizeof(truth));
		scribble(words, order->word, order->value);
		order->done = order->turn;
	}
	memcpy((void *)words, &truth, sizeof(truth));
	MUST_IS(pulc_port_close(p), 0);
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

static void give_order(uint64_t word, uint64_t value)
{
	order->word = word;
	order->value = value;
	order->turn++;
	while (order->done != order->turn)
		(void)usleep(100);
}

static void ask_about_each(const pid_t *pids)
{
	struct fake_client c;

	(void)pids;
	native_await(OPEN);
	native_await(HONEST);
	fake_open(&c, native_daemon(), FAKE_SELF);
	fake_hello(&c, PULC__WIRE__ROLE__ROLE_CONTROL);
	(void)EXPECT(&c, WELCOME);
	for (uint64_t word = 0; word <= N_WORDS; word++)
		for (unsigned i = 0; i < N_LIES; i++) {
			give_order(word, lies[i]);
			look(&c);
		}
	order->torn = true;
	for (unsigned i = 0; i < N_TORN; i++)
		look(&c);
	order->torn = false;
	fake_close(&c);
	native_reach(SEEN);
}

static void what_a_process_shows_of_itself(void)
{
	native_role *const roles[] = { lie, tell_the_truth };

	order = native_share(sizeof(*order));
	native_run_with(roles, 2, ask_about_each);
	native_unshare(order, sizeof(*order));
}

static const struct test tests[] = {
	TEST(what_a_process_shows_of_itself),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
