/*
 * Several peers at once, whose short messages are taken right from their links: each pair stays in
 * order, and whoever sends all the time keeps nobody else from being heard.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "psid/native_case.h"

#define N_SENDERS 5u
#define N_EACH 30000u
#define N_ASKED 7000u

/* Which of the sources, and the how manyeth of its messages. */
struct numbered {
	uint32_t source, i;
};

static struct seen {
	uint32_t n[N_SENDERS + 1];
} * seen;

/* ---- in order, from several ------------------------------------------------------------------ */

static void send_numbered(uint32_t source)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	for (uint32_t i = 0; i < N_EACH; i++) {
		const struct numbered m = { source, i };

		MUST_IS(pulc_send(p, &to, &m, sizeof(m), 0), sizeof(m));
		/* Now as a stream, now one by one. */
		if (i % 1000 > 900)
			sched_yield();
	}
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void sender_1(void)
{
	send_numbered(1);
}

static void sender_2(void)
{
	send_numbered(2);
}

static void sender_3(void)
{
	send_numbered(3);
}

static void check_numbered(uint32_t n[N_SENDERS + 1], const struct numbered *m)
{
	MUST(m->source >= 1 && m->source <= N_SENDERS);
	MUST_IS(m->i, n[m->source]);
	n[m->source]++;
}

static void receive_numbered(void)
{
	uint32_t n[N_SENDERS + 1] = { 0 };
	pulc_port *p = native_open(PULC_D, "sink");
	struct numbered m;

	for (uint32_t i = 0; i < 3 * N_EACH; i++) {
		MUST_IS(pulc_receive(p, &m, sizeof(m), NULL, 0), sizeof(m));
		check_numbered(n, &m);
	}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void several_streams_in_order(void)
{
	NATIVE_RUN(receive_numbered, sender_1, sender_2, sender_3);
}

/* ---- questions of several, each of which waits for its answer -------------------------------- */

static void ask(uint32_t source)
{
	struct pulc_address to = native_find("server"), from;
	pulc_port *p = native_open(PULC_D, NULL);
	struct numbered m, answer;

	for (uint32_t i = 0; i < N_ASKED; i++) {
		m = (struct numbered){ source, i };
		MUST_IS(pulc_send(p, &to, &m, sizeof(m), 0), sizeof(m));
		MUST_IS(pulc_receive(p, &answer, sizeof(answer), &from, 0), sizeof(answer));
		MUST_IS(from.port, to.port);
		MUST(memcmp(&answer, &m, sizeof(m)) == 0);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void asker_1(void)
{
	ask(1);
}

static void asker_2(void)
{
	ask(2);
}

static void asker_3(void)
{
	ask(3);
}

static void answer_all(void)
{
	uint32_t n[N_SENDERS + 1] = { 0 };
	pulc_port *p = native_open(PULC_D, "server");
	struct pulc_address from;
	struct numbered m;

	for (uint32_t i = 0; i < 3 * N_ASKED; i++) {
		MUST_IS(pulc_receive(p, &m, sizeof(m), &from, 0), sizeof(m));
		check_numbered(n, &m);
		MUST_IS(pulc_send(p, &from, &m, sizeof(m), 0), sizeof(m));
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void several_ask_one(void)
{
	NATIVE_RUN(answer_all, asker_1, asker_2, asker_3);
}

/* ---- the same with tags: from anybody, and from one while the others' wait ------------------- */

static void ask_with_tag(uint32_t source)
{
	pulc_port *p = native_open(PULC_D, source == 1	 ? "asker 1"
					   : source == 2 ? "asker 2"
							 : "asker 3");
	uint32_t server = native_peer_named("server");
	const struct pulc_tag want = { 7, PULC_TAG_EXACT, server };
	struct numbered m, answer;

	for (uint32_t i = 0; i < N_ASKED; i++) {
		m = (struct numbered){ source, i };
		MUST_IS(pulc_tag_send(server, source, &m, sizeof(m)), sizeof(m));
		MUST_IS(pulc_tag_receive(&want, &answer, sizeof(answer), NULL), sizeof(answer));
		MUST(memcmp(&answer, &m, sizeof(m)) == 0);
	}
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void tag_asker_1(void)
{
	ask_with_tag(1);
}

static void tag_asker_2(void)
{
	ask_with_tag(2);
}

static void tag_asker_3(void)
{
	ask_with_tag(3);
}

static void take_question(uint32_t peer, uint32_t n[N_SENDERS + 1])
{
	const struct pulc_tag want = { 0, 0, peer };
	struct pulc_tagged from;
	struct numbered m;

	MUST_IS(pulc_tag_receive(&want, &m, sizeof(m), &from), sizeof(m));
	MUST_IS(from.tag, m.source);
	check_numbered(n, &m);
	MUST_IS(pulc_tag_send(from.peer, 7, &m, sizeof(m)), sizeof(m));
}

static void answer_tags(void)
{
	uint32_t n[N_SENDERS + 1] = { 0 };
	pulc_port *p = native_open(PULC_D, "server");
	uint32_t one = native_peer_named("asker 2");

	/* Those of one come first by wish, and all others after them. */
	for (uint32_t i = 0; i < N_ASKED / 2; i++)
		take_question(one, n);
	for (uint32_t i = 0; i < 3 * N_ASKED - N_ASKED / 2; i++)
		take_question(PULC_ANY_PEER, n);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void several_ask_with_tags(void)
{
	NATIVE_RUN(answer_tags, tag_asker_1, tag_asker_2, tag_asker_3);
}

/* ---- one who sends all the time -------------------------------------------------------------- */

/* Of the flood: more than a turn takes and than its credit lets it have queued when the other's
 * message is found. Who is kept out waits for as many as are ever sent. */
#define N_BEFORE_MAX 200000u
#define N_ROUNDS 50u

static void flood(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "flood");
	struct numbered m = { 1, 0 };

	while (!native_is_reached(1)) {
		ssize_t n = pulc_send(p, &to, &m, sizeof(m), PULC_DONTWAIT);

		if (n != sizeof(m))
			MUST_IS(n, -EAGAIN);
		m.i += n == sizeof(m);
	}
	MUST_IS(pulc_port_close(p), 0);
	native_reach(2);
}

/* Says of each that it is on its way. */
static void send_some(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	struct numbered m = { 2, 0 };

	native_find("flood");
	for (; m.i < N_ROUNDS; m.i++) {
		MUST_IS(pulc_send(p, &to, &m, sizeof(m), 0), sizeof(m));
		__atomic_store_n(&seen->n[2], m.i + 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&seen->n[1], __ATOMIC_ACQUIRE) <= m.i)
			sched_yield();
	}
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_through_flood(void)
{
	uint32_t n[N_SENDERS + 1] = { 0 }, n_before = 0;
	pulc_port *p = native_open(PULC_D, "sink");
	struct numbered m;

	while (n[2] < N_ROUNDS) {
		bool is_sent = __atomic_load_n(&seen->n[2], __ATOMIC_ACQUIRE) > n[2];

		MUST_IS(pulc_receive(p, &m, sizeof(m), NULL, 0), sizeof(m));
		check_numbered(n, &m);
		n_before = m.source == 1 && is_sent ? n_before + 1 : 0;
		MUST(n_before <= N_BEFORE_MAX);
		__atomic_store_n(&seen->n[1], n[2], __ATOMIC_RELEASE);
	}
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void a_flood_keeps_nobody_out(void)
{
	seen = native_share(sizeof(*seen));
	NATIVE_RUN(receive_through_flood, flood, send_some);
	native_unshare(seen, sizeof(*seen));
}

/* ---- one who joins while another one sends all the time -------------------------------------- */

static void join_late(void)
{
	struct pulc_address to = native_find("sink");
	struct numbered m = { 2, 0 };
	pulc_port *p;

	native_await(3);
	p = native_open(PULC_D, NULL);
	MUST_IS(pulc_send(p, &to, &m, sizeof(m), 0), sizeof(m));
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_late_one(void)
{
	uint32_t n[N_SENDERS + 1] = { 0 };
	pulc_port *p = native_open(PULC_D, "sink");
	struct numbered m;

	while (n[2] == 0) {
		MUST_IS(pulc_receive(p, &m, sizeof(m), NULL, 0), sizeof(m));
		check_numbered(n, &m);
		if (n[1] == N_EACH)
			native_reach(3);
	}
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void a_flood_keeps_no_newcomer_out(void)
{
	NATIVE_RUN(receive_late_one, flood, join_late);
}

static const struct test tests[] = {
	TEST(several_streams_in_order),	     TEST(several_ask_one),
	TEST(several_ask_with_tags),	     TEST(a_flood_keeps_nobody_out),
	TEST(a_flood_keeps_no_newcomer_out),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
