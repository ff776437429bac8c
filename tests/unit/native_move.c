/*
 * Ports that pass from one process to another while others send to them and hear from them: in
 * order, nothing lost, nothing twice.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "psid/native_case.h"

#define N_SENDERS 3u
#define N_MESSAGES 400u
#define N_TURNS 6u
#define MSEC_PATIENCE 45000

static unsigned char buf[1 << 20];

/* What the roles know of each other, and what was received of whom: shared over fork. */
static struct {
	uint32_t next[N_SENDERS];
	struct pulc_address answers[N_SENDERS];
	_Atomic uint32_t n_done;
} * shared;

static void begin(void)
{
	shared = native_share(sizeof(*shared));
}

static void end(void)
{
	native_unshare(shared, sizeof(*shared));
}

static size_t size_of(uint32_t sender, uint32_t number)
{
	if (number % 50 == 49)
		return 300000 + sender;
	return 8 + (number * 97 + sender) % (number % 7 == 6 ? 30000 : 300);
}

static unsigned char byte_of(uint32_t sender, uint32_t number)
{
	return (unsigned char)(sender * 31 + number);
}

/* ---- a stream of numbered messages ----------------------------------------------------------- */

struct numbered {
	uint32_t sender, number;
};

static void fill(uint32_t sender, uint32_t number)
{
	const struct numbered head = { sender, number };

	memset(buf, byte_of(sender, number), size_of(sender, number));
	memcpy(buf, &head, sizeof(head));
}

static void send_numbered(unsigned sender)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("passed");
	uint32_t answer;

	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		size_t size = size_of(sender, i);
		pulc_op *op;

		fill(sender, i);
		if (i % 3 == 0) {
			op = native_send_begin(p, &to, buf, size);
			MUST_IS(pulc_op_end(op, NULL), size);
		} else {
			MUST_IS(pulc_send(p, &to, buf, size, 0), size);
		}
	}
	/* From whomever has the port then. */
	MUST_IS(pulc_receivev(p, &(struct iovec){ &answer, 4 }, 1, &to, NULL, 0), 4);
	MUST_IS(answer, N_MESSAGES);
	MUST_IS(pulc_port_close(p), 0);
}

static void sender_0(void)
{
	send_numbered(0);
}

static void sender_1(void)
{
	send_numbered(1);
}

static void sender_2(void)
{
	send_numbered(2);
}

static void check(ssize_t n)
{
	struct numbered head;

	MUST(n >= (ssize_t)sizeof(head));
	memcpy(&head, buf, sizeof(head));
	MUST(head.sender < N_SENDERS);
	MUST_IS(head.number, shared->next[head.sender]);
	MUST_IS(n, size_of(head.sender, head.number));
	for (size_t i = sizeof(head); i < (size_t)n; i++)
		MUST_IS(buf[i], byte_of(head.sender, head.number));
	shared->next[head.sender]++;
}

static void receive_one(pulc_port *p)
{
	struct pulc_address from;
	ssize_t n = pulc_receive(p, buf, sizeof(buf), &from, 0);
	struct numbered head;

	check(n);
	memcpy(&head, buf, sizeof(head));
	shared->answers[head.sender] = from;
	atomic_fetch_add(&shared->n_done, 1);
}

/* A few of them, then the port goes to the other one. The last has the rest. */
static void pass(pulc_port *p, uint32_t number, unsigned other)
{
	for (unsigned turn = 0; turn < N_TURNS; turn++) {
		if (!p)
			MUST_IS(pulc_port_take(number, MSEC_PATIENCE, &p), 0);
		for (unsigned i = 0; i < 60 + 7 * turn; i++)
			receive_one(p);
		MUST_IS(pulc_port_give(p, native_pid_of(other), MSEC_PATIENCE), 0);
		p = NULL;
	}
}

static void finish(pulc_port *p)
{
	uint32_t n = N_MESSAGES;

	while (atomic_load(&shared->n_done) < N_SENDERS * N_MESSAGES)
		receive_one(p);
	for (unsigned i = 0; i < N_SENDERS; i++) {
		MUST_IS(shared->next[i], N_MESSAGES);
		MUST_IS(pulc_send(p, &shared->answers[i], &n, 4, 0), 4);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void owner_first(void)
{
	native_known_as(0);
	pass(native_open(PULC_D, "passed"), 0, 1);
}

static void owner_second(void)
{
	pulc_port *p = NULL;

	native_known_as(1);
	for (unsigned turn = 0; turn < N_TURNS; turn++) {
		MUST_IS(pulc_port_take(0, MSEC_PATIENCE, &p), 0);
		for (unsigned i = 0; i < 20; i++)
			receive_one(p);
		if (turn < N_TURNS - 1)
			MUST_IS(pulc_port_give(p, native_pid_of(0), MSEC_PATIENCE), 0);
	}
	finish(p);
}

static void passed_within_a_stream(void)
{
	begin();
	NATIVE_RUN(owner_first, owner_second, sender_0, sender_1, sender_2);
	end();
}

/* ---- a port that others hear from ------------------------------------------------------------ */

#define N_SAID 20u

/* Says some numbers, sends something to itself, and gives the port away, again and again; the
 * second one has it in the end. */
static pulc_port *speak(unsigned i, pulc_port *p)
{
	struct pulc_address to = native_find("listener"), self = native_find("voice");
	pulc_port *mine = native_open(PULC_D, NULL);

	native_known_as(i);
	for (unsigned turn = 0; turn < N_TURNS; turn++) {
		if (!p)
			MUST_IS(pulc_port_take(self.port, MSEC_PATIENCE, &p), 0);
		for (unsigned k = 0; k < N_SAID; k++, shared->next[0]++) {
			memcpy(buf, &shared->next[0], 4);
			MUST_IS(pulc_send(p, &to, buf, 5000 * (k % 3) + 4, 0), 5000 * (k % 3) + 4);
		}
		MUST_IS(pulc_send(mine, &self, "own", 3, 0), 3);
		if (i == 1 && turn == N_TURNS - 1)
			break;
		MUST_IS(pulc_port_give(p, native_pid_of(1 - i), MSEC_PATIENCE), 0);
		p = NULL;
		/* And when it is another's. */
		MUST_IS(pulc_send(mine, &self, "other", 5, 0), 5);
	}
	native_reach(i);
	native_await(1 - i);
	MUST_IS(pulc_port_close(mine), 0);
	return p;
}

static void speaker_first(void)
{
	MUST(!speak(0, native_open(PULC_D, "voice")));
}

static void speaker_second(void)
{
	pulc_port *p = speak(1, NULL);

	for (unsigned i = 0; i < 4 * N_TURNS - 1; i++) {
		ssize_t n = pulc_receive(p, buf, sizeof(buf), NULL, 0);

		MUST(n == 3 || n == 5);
	}
	MUST_IS(pulc_port_close(p), 0);
}

static void listener(void)
{
	pulc_port *p = native_open(PULC_D, "listener");
	struct pulc_address from = native_find("voice");
	struct iovec iov = { buf, sizeof(buf) };
	uint32_t number;
	ssize_t e;

	for (uint32_t i = 0; i < 2 * N_TURNS * N_SAID; i++) {
		MUST_IS(pulc_receivev(p, &iov, 1, &from, NULL, 0), 5000 * (i % N_SAID % 3) + 4);
		memcpy(&number, buf, 4);
		MUST_IS(number, i);
	}
	/* It is the end of the last one that it hears of, not that of those before; or it asks for
	 * it when it is closed already. */
	e = pulc_receivev(p, &iov, 1, &from, NULL, 0);
	MUST(e == -EPIPE || e == -ECONNREFUSED);
	MUST_IS(pulc_port_close(p), 0);
}

static void sources_go_on(void)
{
	begin();
	NATIVE_RUN(speaker_first, speaker_second, listener);
	end();
}

/* ---- streams --------------------------------------------------------------------------------- */

#define SIZE_STREAM (3u << 20)
static enum pulc_kind stream_kind;

static unsigned char stream_byte(size_t at)
{
	return (unsigned char)(at * 7 + (at >> 11));
}

static void stream_sender(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to = native_find("stream");
	size_t at = 0, len;
	uint64_t seen = 0;

	while (at < SIZE_STREAM) {
		len = 1 + at * 31 % 200000;
		len = len < SIZE_STREAM - at ? len : SIZE_STREAM - at;
		for (size_t i = 0; i < len; i++)
			buf[i] = stream_byte(at + i);
		MUST_IS(pulc_send(p, &to, buf, len, 0), len);
		at += len;
	}
	/* The port may pass when all is sent: that asks for an answer of ours. */
	while (!native_is_reached(5))
		(void)pulc_progress(&seen, 1);
	MUST_IS(pulc_port_close(p), 0);
}

static size_t read_stream(pulc_port *p, size_t at, size_t until)
{
	while (at < until) {
		size_t room = until - at < sizeof(buf) ? until - at : sizeof(buf);
		ssize_t n = pulc_receive(p, buf, room < 70000 ? room : 70000, NULL, 0);

		MUST(n > 0);
		for (ssize_t i = 0; i < n; i++)
			MUST_IS(buf[i], stream_byte(at + (size_t)i));
		at += (size_t)n;
	}
	return at;
}

static void stream_first(void)
{
	pulc_port *p = native_open(stream_kind, "stream");

	shared->next[0] = (uint32_t)read_stream(p, 0, 700001);
	MUST_IS(pulc_port_give(p, native_pid_of(1), MSEC_PATIENCE), 0);
	MUST_IS(pulc_port_take(0, MSEC_PATIENCE, &p), 0);
	(void)read_stream(p, shared->next[0], SIZE_STREAM);
	native_reach(5);
	MUST_IS(pulc_port_close(p), 0);
}

static void stream_second(void)
{
	pulc_port *p;

	native_known_as(1);
	MUST_IS(pulc_port_take(0, MSEC_PATIENCE, &p), 0);
	shared->next[0] = (uint32_t)read_stream(p, shared->next[0], 1500001);
	MUST_IS(pulc_port_give(p, native_pid_of(0), MSEC_PATIENCE), 0);
}

static void stream_first_known(void)
{
	native_known_as(0);
	stream_first();
}

static void streams_pass(void)
{
	for (stream_kind = PULC_S; stream_kind <= PULC_M; stream_kind++) {
		begin();
		NATIVE_RUN(stream_first_known, stream_second, stream_sender);
		end();
	}
}

static const struct test tests[] = {
	TEST(passed_within_a_stream),
	TEST(sources_go_on),
	TEST(streams_pass),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
