/*
 * Many messages of several sizes and sources at once, waited for in every way: each comes once,
 * whole and in order.
 */
#include <errno.h>
#include <string.h>

#include "psid/native_case.h"

#define LEN_LONG (3u << 20)

static unsigned char buf[LEN_LONG], other_buf[LEN_LONG];

/* ---- a mixture ------------------------------------------------------------------------------- */

#define N_MIXED 4000u
#define N_OPEN 8u

static uint32_t chance(uint32_t *state, uint32_t n)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % n;
}

static size_t mixed_len(uint32_t i)
{
	return i % 97 == 0 ? 300000 : i % 11 == 0 ? 20000 : 4 + i % 900;
}

static void mixed_fill(unsigned char *to, uint32_t i)
{
	native_fill(to, mixed_len(i), i);
	memcpy(to, &i, sizeof(i));
}

static size_t end_send(pulc_op *op, uint32_t number, uint32_t *n_cancelled)
{
	ssize_t n = pulc_op_end(op, NULL);

	if (n == -ECANCELED)
		++*n_cancelled;
	else
		MUST_IS(n, mixed_len(number));
	return n == -ECANCELED ? 0 : 1;
}

/* Waits, begins, cancels; the last message says how many went before it. */
static void send_mixed(void)
{
	static unsigned char room[N_OPEN][300000];
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "mixed");
	uint32_t state = 1, n_cancelled = 0, n_sent = 0, numbers[N_OPEN], last[2];
	pulc_op *ops[N_OPEN] = { NULL };

	for (uint32_t i = 1; i <= N_MIXED; i++) {
		unsigned k = i % N_OPEN;

		if (ops[k])
			n_sent += end_send(ops[k], numbers[k], &n_cancelled);
		ops[k] = NULL;
		mixed_fill(room[k], i);
		if (chance(&state, 3) == 0) {
			MUST_IS(pulc_send(p, &to, room[k], mixed_len(i), 0), mixed_len(i));
			n_sent++;
			continue;
		}
		numbers[k] = i;
		ops[k] = native_send_begin(p, &to, room[k], mixed_len(i));
		if (chance(&state, 20) == 0)
			MUST_IS(pulc_op_cancel(ops[k]), 0);
	}
	for (unsigned k = 0; k < N_OPEN; k++)
		if (ops[k])
			n_sent += end_send(ops[k], numbers[k], &n_cancelled);
	MUST_IS(n_sent + n_cancelled, N_MIXED);
	last[0] = UINT32_MAX;
	last[1] = n_sent;
	MUST_IS(pulc_send(p, &to, last, sizeof(last), 0), sizeof(last));
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static uint32_t seen_number, seen_count;

/* True: it was the last one. */
static bool check_mixed(const unsigned char *got, ssize_t n)
{
	uint32_t number, count;

	MUST(n >= (ssize_t)sizeof(number));
	memcpy(&number, got, sizeof(number));
	if (number == UINT32_MAX) {
		memcpy(&count, got + sizeof(number), sizeof(count));
		MUST_IS(seen_count, count);
		return true;
	}
	MUST(number > seen_number);
	MUST_IS(n, mixed_len(number));
	native_fill(other_buf, (size_t)n, number);
	MUST(memcmp(got + 4, other_buf + 4, (size_t)n - 4) == 0);
	seen_number = number;
	seen_count++;
	return false;
}

static void receive_mixed(void)
{
	static unsigned char room[N_OPEN][300000];
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_address from = native_find("mixed");
	uint32_t state = 2;
	bool over = false;

	while (!over) {
		unsigned n = chance(&state, N_OPEN + 1);
		pulc_op *ops[N_OPEN];
		ssize_t len;

		for (unsigned k = 0; k < n; k++)
			ops[k] = native_receive_begin(p, room[k], sizeof(room[k]),
						      chance(&state, 2) ? &from : NULL);
		for (unsigned k = 0; k < n; k++) {
			if (over || chance(&state, 6) == 0) {
				/* It and all behind it, else a later one would overtake. */
				for (unsigned j = n; j-- > k;)
					MUST_IS(pulc_op_cancel(ops[j]), 0);
			}
			len = pulc_op_end(ops[k], NULL);
			if (len != -ECANCELED)
				over = check_mixed(room[k], len);
		}
		if (over)
			break;
		len = pulc_receive(p, buf, sizeof(buf), NULL, 0);
		over = check_mixed(buf, len);
	}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void a_mixture(void)
{
	NATIVE_RUN(send_mixed, receive_mixed);
}

/* ---- a long message from one source and short ones from another ------------------------------ */

#define N_LONG 30u

static void send_long(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "long");

	for (unsigned i = 0; i < N_LONG; i++) {
		native_fill(buf, LEN_LONG, i);
		MUST_IS(pulc_send(p, &to, buf, LEN_LONG, 0), LEN_LONG);
	}
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

/* For as long as the other's messages come. */
static void send_short(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "short");

	while (!native_is_reached(1)) {
		ssize_t n = pulc_send(p, &to, "short", 5, PULC_DONTWAIT);

		if (n != 5)
			MUST_IS(n, -EAGAIN);
	}
	MUST_IS(pulc_port_close(p), 0);
	native_reach(2);
}

static void receive_both(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_address from, long_one = native_find("long"), short_one = native_find("short");
	unsigned n_long = 0;
	ssize_t n;

	while (n_long < N_LONG) {
		n = pulc_receive(p, buf, sizeof(buf), &from, 0);
		if (from.port == short_one.port) {
			MUST_IS(n, 5);
			MUST(memcmp(buf, "short", 5) == 0);
			continue;
		}
		MUST_IS(from.port, long_one.port);
		MUST_IS(n, LEN_LONG);
		MUST(native_holds(buf, LEN_LONG, n_long++));
	}
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void long_and_short(void)
{
	NATIVE_RUN(send_long, send_short, receive_both);
}

/* ---- bursts ---------------------------------------------------------------------------------- */

#define N_BURSTS 20000u
#define N_BURST_MAX 12u
#define N_UNANSWERED 100u

static enum pulc_kind burst_kind;

/* Streams, and at the end of each an answer is waited for: the last message too must come without
 * any that follows. */
static void send_bursts(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, "bursts");
	uint64_t n_sent = 0, answer;
	uint32_t state = 3;

	for (unsigned i = 1; i <= N_BURSTS; i++) {
		for (unsigned n = 1 + chance(&state, N_BURST_MAX); n; n--, n_sent++)
			MUST_IS(pulc_send(p, &to, &n_sent, sizeof(n_sent), 0), sizeof(n_sent));
		if (i % N_UNANSWERED)
			continue;
		answer = UINT64_MAX;
		MUST_IS(pulc_send(p, &to, &answer, sizeof(answer), 0), sizeof(answer));
		MUST_IS(pulc_receive(p, &answer, sizeof(answer), NULL, 0), sizeof(answer));
		MUST_IS(answer, n_sent);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void receive_bursts(void)
{
	pulc_port *p = native_open(burst_kind, "sink");
	uint64_t n_got = 0, got[512];
	struct pulc_address from;
	unsigned n_answers = 0;
	ssize_t n;

	while (n_answers < N_BURSTS / N_UNANSWERED) {
		n = pulc_receive(p, got, sizeof(got), &from, 0);
		MUST(n > 0 && n % (ssize_t)sizeof(*got) == 0);
		for (size_t i = 0; i < (size_t)n / sizeof(*got); i++) {
			if (got[i] != UINT64_MAX) {
				MUST_IS(got[i], n_got++);
				continue;
			}
			n_answers++;
			MUST_IS(pulc_send(p, &from, &n_got, sizeof(n_got), 0), sizeof(n_got));
		}
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void bursts_of_messages(void)
{
	burst_kind = PULC_D;
	NATIVE_RUN(send_bursts, receive_bursts);
}

static void bursts_of_a_stream(void)
{
	burst_kind = PULC_S;
	NATIVE_RUN(send_bursts, receive_bursts);
}

static const struct test tests[] = {
	TEST(a_mixture),
	TEST(long_and_short),
	TEST(bursts_of_messages),
	TEST(bursts_of_a_stream),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
