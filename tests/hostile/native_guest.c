/*
 * Shared ports: a guest that sends every frame that it must not send, and an owner that answers so.
 * The link of such a one ends, and the port's honest guests notice nothing.
 */
#include <errno.h>
#include <string.h>

#include "native.h"
#include "psid/native_guests.h"

#define SIZE_HEAD 32u

/* Of a frame: what it has beside the right key, port and number. */
struct lie {
	unsigned kind;
	uint32_t len;
	union {
		struct guest_ask ask; /* key: what the right one is wrong by */
		struct guest_answer answer;
	};
	unsigned n;  /* so many of them, */
	bool one_id; /* all of one number */
	bool harmless;
	bool more_before; /* behind an honest beginning */
};

static const struct lie *lie;
static unsigned char buf[65536];
static struct {
	_Atomic uint64_t key;
} * shared;

static void send_raw(struct peer *peer, uint32_t port, uint32_t id, const struct lie *l)
{
	const struct hal_frame f = {
		.word = (uint64_t)port << 32 | id,
		.len = l->len,
		.protocol = PROTOCOL_GUEST,
		.kind = (uint16_t)l->kind,
	};
	struct iovec iov = { buf, l->len };
	int e = -EAGAIN;

	memcpy(buf, &l->ask, sizeof(l->ask));
	while (e == -EAGAIN) {
		MUST(native_lock());
		e = peer->link ? peer_send(peer, &f, &iov, l->len > 0) : -ECONNRESET;
		native_unlock();
	}
	MUST(e == 0 || e == -ECONNRESET || e == -EPIPE);
}

/* ---- a guest lies ---------------------------------------------------------------------------- */

#define MORE_THAN_MAY (GUEST_N_MAX + 1025u)

static const struct lie guest_lies[] = {
	{ GUEST_SEND, SIZE_HEAD - 1, .n = 1 },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = GUEST_SEND_MAX + 1 }, .n = 1 },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = UINT64_MAX }, .n = 1 },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = 8, .flags = GUEST_PEEK }, .n = 1 },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = 8, .flags = 1ull << 32 }, .n = 1 },
	{ GUEST_SEND, SIZE_HEAD + 9, .ask = { .size = 8 }, .n = 1 },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = GUEST_SEND_MAX }, .n = 2 },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = 1 }, .n = MORE_THAN_MAY },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = 8 }, .n = 2, .one_id = true },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .key = 1, .size = GUEST_SEND_MAX }, .n = 17 },
	{ GUEST_SEND_MORE, 8, .n = 1 },
	{ GUEST_SEND_MORE, 0, .n = 1, .more_before = true },
	{ GUEST_SEND_MORE, 9, .n = 1, .more_before = true },
	{ GUEST_RECEIVE, SIZE_HEAD, .n = 1, .more_before = true },
	{ GUEST_TAKEN, 0, .n = 1, .more_before = true },
	{ GUEST_RECEIVE, SIZE_HEAD - 1, .n = 1 },
	{ GUEST_RECEIVE, SIZE_HEAD + 1, .n = 1 },
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .size = PORT_MESSAGE_MAX + 1 }, .n = 1 },
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .size = 8, .flags = GUEST_PART }, .n = 1 },
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .size = 8 }, .n = MORE_THAN_MAY },
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .size = 8 }, .n = 2, .one_id = true },
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .key = 1, .size = 8 }, .n = 17 },
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .key = UINT64_MAX / 3, .size = 8 }, .n = 17 },
	{ GUEST_TAKEN, 0, .n = 1 },
	{ GUEST_TAKEN, 8, .n = 1 },
	{ GUEST_WITHDRAW, 8, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD - 1, .n = 1 },
	{ 0, SIZE_HEAD, .n = 1 },
	{ GUEST_ANSWER_MORE + 1, SIZE_HEAD, .n = 1 },
	{ 0xffff, 0, .n = 1 },
	/* Those that are told so, or are too late. */
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .key = 1, .size = 8 }, .n = 16, .harmless = true },
	{ GUEST_WITHDRAW, 0, .n = 3, .harmless = true },
	{ GUEST_ANSWER, SIZE_HEAD, .ask = { .size = 8 }, .n = 3, .harmless = true },
	{ GUEST_ANSWER_MORE, 8, .n = 3, .harmless = true },
	{ GUEST_SEND, SIZE_HEAD, .ask = { .size = 1 }, .n = 1000, .harmless = true },
	{ GUEST_RECEIVE, SIZE_HEAD, .ask = { .port = 77, .size = 8 }, .n = 3, .harmless = true },
};
#define N_GUEST_LIES (sizeof(guest_lies) / sizeof(guest_lies[0]))

static void lying_guest(void)
{
	struct pulc_address to = native_find("victim");
	pulc_port *p = native_open(PULC_D, "liar");
	struct lie l = *lie, honest = { GUEST_SEND, SIZE_HEAD, .ask = { .size = 8 }, .n = 1 };
	struct peer *peer;
	uint32_t client;

	MUST_IS(pulc_send(p, &to, "hi", 2, 0), 2);
	MUST_IS(pulc_peer_find(&to, &client), 0);
	peer = native_peer(client);
	native_await(1);
	l.ask.key += atomic_load(&shared->key);
	honest.ask.key = atomic_load(&shared->key);
	if (l.more_before)
		send_raw(peer, to.port, 7, &honest);
	for (uint32_t i = 0; i < l.n; i++)
		send_raw(peer, to.port, l.more_before || l.one_id ? 7 : 100 + i, &l);
	native_reach(3);
	native_await(4);
}

static void honest_guest(pulc_port *p)
{
	struct pulc_address self = pulc_port_address(p), from;

	MUST_IS(pulc_send(p, &self, "honest", 6, 0), 6);
	MUST_IS(pulc_receivev(p, &(struct iovec){ buf, 8 }, 1, &self, &from, 0), 6);
	MUST(memcmp(buf, "honest", 6) == 0 && from.port == self.port);
}

static void lied_to_owner(void)
{
	pulc_port *p = native_open(PULC_D, "victim");
	struct pulc_address liar;
	ssize_t e;

	atomic_store(&shared->key, p->key);
	MUST_IS(pulc_receive(p, buf, 8, &liar, 0), 2);
	MUST_IS(pulc_send(p, &liar, "x", 1, 0), 1);
	native_reach(1);
	while (lie->harmless && !native_is_reached(3))
		serve();
	do {
		serve();
		e = pulc_send(p, &liar, "x", 1, PULC_DONTWAIT);
	} while (!lie->harmless && (e == 1 || e == -EAGAIN));
	MUST_IS(e, lie->harmless ? 1 : -EBADMSG);
	MUST_IS(end_of(start(honest_guest, p)), 0);
	native_reach(4);
	MUST_IS(pulc_port_close(p), 0);
}

static void guests_lie(void)
{
	shared = native_share(sizeof(*shared));
	for (size_t i = 0; i < N_GUEST_LIES; i++) {
		lie = &guest_lies[i];
		NATIVE_RUN(lied_to_owner, lying_guest);
	}
	native_unshare(shared, sizeof(*shared));
}

/* ---- an owner lies --------------------------------------------------------------------------- */

static const struct lie owner_lies[] = {
	{ GUEST_ANSWER, SIZE_HEAD - 1, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD, .answer = { .result = -4096 }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD, .answer = { .result = INT64_MIN }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD, .answer = { .result = 1 }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD, .answer = { .result = -EIO, .len = 1 }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD + 1, .answer = { .result = -EIO }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD + 8, .answer = { .size = 9, .len = 9 }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD + 8, .answer = { .size = 4, .len = 8 }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD + 8, .answer = { .size = 8, .len = 7 }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD, .answer = { .size = UINT64_MAX, .len = 8 }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD, .answer = { .size = 8, .len = UINT64_MAX }, .n = 1 },
	{ GUEST_ANSWER, SIZE_HEAD + 4, .answer = { .size = 8, .len = 8 }, .n = 2 },
	{ GUEST_ANSWER_MORE, 8, .n = 1 },
	{ GUEST_ANSWER_MORE, 0, .n = 1, .more_before = true },
	{ GUEST_ANSWER_MORE, 5, .n = 1, .more_before = true },
	{ GUEST_TAKEN, 0, .n = 1 },
};
#define N_OWNER_LIES (sizeof(owner_lies) / sizeof(owner_lies[0]))

/* Its first request has the number 1. */
static void lied_to_guest(pulc_port *p)
{
	unsigned char eight[8];
	pulc_op *op = native_receive_begin(p, eight, 8, NULL);

	native_reach(1);
	MUST_IS(pulc_op_end(op, NULL), -EBADMSG);
}

static void lying_owner(void)
{
	static const struct lie begin = { GUEST_ANSWER, SIZE_HEAD + 4,
					  .answer = { .size = 8, .len = 8 } };
	pulc_port *p = native_open(PULC_D, NULL);
	pid_t pid = start(lied_to_guest, p);
	struct peer *peer = NULL;
	int status;

	native_await(1);
	while (!peer) {
		MUST(native_lock());
		native_look_at_channel();
		native_take_news();
		peer = TAILQ_FIRST(native_peers());
		native_unlock();
	}
	if (lie->more_before)
		send_raw(peer, p->number, 1, &begin);
	for (unsigned i = 0; i < lie->n; i++)
		send_raw(peer, p->number, 1, lie);
	MUST_IS(waitpid(pid, &status, 0), pid);
	MUST_IS(status, 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void owners_lie(void)
{
	for (size_t i = 0; i < N_OWNER_LIES; i++) {
		lie = &owner_lies[i];
		NATIVE_RUN(lying_owner);
	}
}

static const struct test tests[] = {
	TEST(guests_lie),
	TEST(owners_lie),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
