/*
 * Messages of a word between two that tell in one line, which go by the link's lane: answered one
 * by one, and many at once, to a reader who has room for one and to one who has room for more.
 */
#include <string.h>

#include "psid/native_case.h"

#define WORD 8u
/* Of answers, until both tell in one line. */
#define N_WARM 500u
#define N_WORDS 3000u
/* A reader with room takes several of them in a call. */
#define N_A_CALL 4u

static enum pulc_kind kind;
static size_t size_room;

static uint64_t word_of(unsigned i)
{
	return i * 0x9e3779b97f4a7c15u;
}

static void send_word(pulc_port *p, const struct pulc_address *to, unsigned i)
{
	uint64_t word = word_of(i);

	MUST_IS(pulc_send(p, to, &word, WORD, 0), WORD);
}

static struct pulc_address receive_word(pulc_port *p, unsigned i)
{
	struct pulc_address from;
	uint64_t word = 0;

	MUST_IS(pulc_receive(p, &word, WORD, &from, 0), WORD);
	MUST(word == word_of(i));
	return from;
}

/* All words, which have been sent by now. Returns how many calls it takes. */
static unsigned read_words(pulc_port *p)
{
	static uint64_t words[N_WORDS];
	const size_t size = sizeof(words);
	unsigned n_calls = 0;
	size_t done = 0;

	while (done < size) {
		size_t room = size_room < size - done ? size_room : size - done;
		ssize_t n = pulc_receive(p, (char *)words + done, room, NULL, 0);

		MUST(n > 0);
		done += (size_t)n;
		n_calls++;
	}
	for (unsigned i = 0; i < N_WORDS; i++)
		MUST(words[i] == word_of(i));
	return n_calls;
}

static void reader(void)
{
	pulc_port *p = native_open(kind, "words");
	struct pulc_address from;
	unsigned n_calls;

	for (unsigned i = 0; i < N_WARM; i++) {
		from = receive_word(p, i);
		send_word(p, &from, i);
	}
	native_await(1);
	n_calls = read_words(p);
	if (kind == PULC_D || size_room == WORD)
		MUST_IS(n_calls, N_WORDS);
	else
		MUST(n_calls <= N_WORDS / N_A_CALL);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void writer(void)
{
	struct pulc_address to = native_find("words");
	pulc_port *p = native_open(PULC_D, NULL);

	for (unsigned i = 0; i < N_WARM; i++) {
		send_word(p, &to, i);
		(void)receive_word(p, i);
	}
	for (unsigned i = 0; i < N_WORDS; i++)
		send_word(p, &to, i);
	native_reach(1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void come_in_order_whatever_the_room(void)
{
	for (kind = PULC_S; kind <= PULC_D; kind++)
		for (size_room = WORD; size_room <= 4096; size_room *= 8)
			NATIVE_RUN(reader, writer);
}

static const struct test tests[] = {
	TEST(come_in_order_whatever_the_room),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
