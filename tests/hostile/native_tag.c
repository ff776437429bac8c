/*
 * A peer that sends every frame of the protocol of tagged messages that it must not send: its link
 * ends with -EBADMSG for whoever needs it, in the middle of long messages in both directions, and
 * nobody else notices.
 */
#include <pulc/block.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "layout.h"
#include "native.h"
#include "psid/native_case.h"

#define LEN_LONG 100000u
#define TAG_LONG 5u
#define TAG_NEVER 77u
#define TAG_OTHERS 9u

struct lie {
	unsigned kind;
	uint32_t len;
	uint64_t word;
	uint64_t payload[7];
	unsigned n; /* so many of them */
	bool harmless;
};

/* The victim's first offer and what it first asked for have the number 1. */
static const struct lie lies[] = {
	{ TAG_EAGER, TAG_EAGER_MAX + 1, 3, { 0, 0 }, 1, false },
	{ TAG_EAGER, 0, 3, { 0, 0 }, TAG_WINDOW / TAG_OVERHEAD + 300, false },
	{ TAG_EAGER, TAG_EAGER_MAX, 3, { 0, 0 }, 80, false },
	{ TAG_OFFER, 47, 3, { 1, 1 }, 1, false },
	{ TAG_OFFER, 49, 3, { 1, 1 }, 1, false },
	{ TAG_OFFER, 48, 3, { 0, 100 }, 1, false },
	{ TAG_OFFER, 48, 3, { 7, UINT64_MAX }, TAG_WINDOW / TAG_OVERHEAD + 300, false },
	{ TAG_PUSH, 8, 1, { 1, 1 }, 1, false },
	{ TAG_PUSH, 16, 1, { 1, 0 }, 1, false },
	{ TAG_PUSH, 16, 1, { 1, LEN_LONG + 1 }, 1, false },
	{ TAG_PUSH, 16, 2, { 1, 1 }, 1, false },
	{ TAG_DATA, 10, 0, { 0, 0 }, 1, false },
	{ TAG_DATA, 10, 2, { 0, 0 }, 1, false },
	{ TAG_DATA, 10, UINT64_MAX, { 0, 0 }, 1, false },
	{ TAG_DATA, 0, 1, { 0, 0 }, 1, false },
	{ TAG_DATA, 16000, 1, { 0, 0 }, 7, false },
	{ TAG_DONE, 0, 2, { 0, 0 }, 1, false },
	{ TAG_DONE, 1, 1, { 0, 0 }, 1, false },
	{ TAG_WITHDRAW, 4, 1, { 0, 0 }, 1, false },
	{ TAG_WITHDRAWN, 0, 1, { 0, 0 }, 1, false }, /* nobody has asked for that */
	{ TAG_WITHDRAWN, 0, 2, { 0, 0 }, 1, false },
	{ TAG_CREDIT, 0, 1ull << 40, { 0, 0 }, 1, false },
	{ TAG_CREDIT, 0, UINT64_MAX, { 0, 0 }, 1, false },
	{ TAG_CREDIT, 8, 0, { 0, 0 }, 1, false },
	{ TAG_BLOCK, 48, 3, { 1, 100 }, 1, false },
	{ TAG_BLOCK, 57, 3, { 1, 100 }, 1, false },
	{ TAG_BLOCK, 56, 3, { 0, 100 }, 1, false },
	{ TAG_BLOCK, 56, 3, { 7, 100, 0, 0, 0, 0, SHM_SIZE_MESSAGES - 99 }, 1, false },
	{ TAG_BLOCK, 56, 3, { 7, 100, 0, 0, 0, 0, UINT64_MAX }, 1, false },
	{ TAG_BLOCK, 56, 3, { 7, UINT64_MAX, 0, 0, 0, 0, 4096 }, 1, false },
	{ TAG_BLOCK, 56, 3, { 7, SHM_SIZE_MESSAGES + 1 }, 1, false },
	{ TAG_BLOCK, 56, 3, { 7, 100 }, TAG_WINDOW / TAG_OVERHEAD + 300, false },
	{ 9, 0, 0, { 0, 0 }, 1, false },
	{ 0xffff, 16, 0, { 0, 0 }, 1, false },
	/* Lies that cost only the liar. */
	{ TAG_WITHDRAW, 0, 99, { 0, 0 }, 1, true },
	{ TAG_PUSH, 16, 1, { 12345, 10 }, 3, true },
	{ TAG_OFFER, 48, 3, { 7, UINT64_MAX }, 3, true },	 /* one number for several */
	{ TAG_BLOCK, 56, 3, { 7, SHM_SIZE_MESSAGES }, 3, true }, /* all of its area */
};
#define N_LIES (sizeof(lies) / sizeof(lies[0]))

static const struct lie *lie;
static unsigned char buf[LEN_LONG], other_buf[LEN_LONG];

/* Past the checks of the library, which takes nothing meanwhile: an answer to a lie would end the
 * link on the liar's side. */
static int send_raw(uint32_t client, const struct lie *l)
{
	const struct hal_frame f = {
		.word = l->word,
		.len = l->len,
		.protocol = PROTOCOL_TAG,
		.kind = (uint16_t)l->kind,
	};
	struct iovec iov = { buf, l->len };
	struct peer *peer;
	int e = -EAGAIN;

	memcpy(buf, l->payload, sizeof(l->payload));
	while (e == -EAGAIN) {
		MUST(native_lock());
		peer = native_peer(client);
		e = peer ? peer_send(peer, &f, &iov, l->len > 0) : -ECONNRESET;
		native_unlock();
	}
	return e;
}

static void be_a_liar(void)
{
	/* An honest offer, and nothing of it comes but lies. */
	const struct lie offer = { TAG_OFFER, 48, TAG_LONG, { 1, LEN_LONG }, 1, true };
	uint32_t victim = native_peer_named("victim");
	void *block;
	int e = 0;

	MUST_IS(pulc_tag_send(victim, 1, "hello", 5), 5);
	native_await(1);
	/* So the victim has its area. */
	MUST_IS(pulc_alloc(4096, 0, &block), 0);
	MUST_IS(pulc_tag_give(victim, 2, block, 4096), 4096);
	MUST_IS(send_raw(victim, &offer), 0);
	native_await(2);
	for (unsigned i = 0; i < lie->n && e == 0; i++)
		e = send_raw(victim, lie);
	MUST(lie->harmless ? e == 0 : e == 0 || e == -ECONNRESET || e == -EPIPE);
	native_reach(3);
	native_await(4);
}

static void be_the_victim(void)
{
	pulc_port *p = native_open(PULC_D, "victim");
	struct pulc_tag want = { .tag = 1, .mask = PULC_TAG_EXACT, .peer = PULC_ANY_PEER };
	struct pulc_tagged m;
	pulc_op *ops[3], *any;
	char c[8];

	MUST_IS(pulc_tag_receive(&want, c, sizeof(c), &m), 5);
	want.tag = TAG_OTHERS;
	MUST_IS(pulc_tag_ireceive(&want, c, 8, &any), 0);
	MUST_IS(pulc_tag_isend(m.peer, 1, buf, LEN_LONG, &ops[0]), 0);
	want = (struct pulc_tag){ TAG_LONG, PULC_TAG_EXACT, m.peer };
	MUST_IS(pulc_tag_ireceive(&want, other_buf, LEN_LONG, &ops[1]), 0);
	want.tag = TAG_NEVER;
	MUST_IS(pulc_tag_ireceive(&want, c, sizeof(c), &ops[2]), 0);
	native_reach(1);
	while (!ops[1]->tag_receive.message)
		MUST_IS(pulc_op_test(ops[1]), 0);
	MUST_IS(pulc_op_test(ops[1]), 0); /* is asked for */
	native_reach(2);
	if (lie->harmless) {
		native_await(3);
		for (unsigned i = 0; i < 3; i++)
			MUST_IS(pulc_op_test(ops[i]), 0);
	}
	for (unsigned i = 0; i < 3 && !lie->harmless; i++)
		MUST_IS(pulc_op_end(ops[i], NULL), -EBADMSG);
	native_reach(5);
	MUST_IS(pulc_tag_end(any, &m), 2);
	MUST_IS(m.tag, TAG_OTHERS);
	native_reach(4);
	MUST_IS(pulc_port_close(p), 0);
}

static void be_somebody_else(void)
{
	uint32_t victim = native_peer_named("victim");

	native_await(5);
	MUST_IS(pulc_tag_send(victim, TAG_OTHERS, "hi", 2), 2);
	native_await(4);
}

static void run(bool harmless)
{
	for (unsigned i = 0; i < N_LIES; i++) {
		if (lies[i].harmless != harmless)
			continue;
		lie = &lies[i];
		NATIVE_RUN(be_a_liar, be_the_victim, be_somebody_else);
		CHECK(lie == &lies[i]);
	}
}

static void lies_end_the_link(void)
{
	run(false);
}

static void lies_that_harm_only_the_liar(void)
{
	run(true);
}

/* ---- lies about where bytes are -------------------------------------------------------------- */

static unsigned place_number;

/* Nowhere, the kernel's, around the end of all memory, without the word, the bytes but not all of
 * them. */
static struct tag_place false_place(uint32_t victim)
{
	const struct tag_send s = { .peer = native_peer(victim), .buf = buf };
	struct tag_place place = tag_place_of(&s);
	void *page;

	switch (place_number) {
	case 0:
		place.address = 16;
		break;
	case 1:
		place.address = 0xffff800000000000ull;
		break;
	case 2:
		place.address = UINT64_MAX - 5;
		break;
	case 3:
		place.proof[1] ^= 1;
		break;
	case 4:
		place.proof_address = 8;
		break;
	case 5:
		page = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST_IS(mprotect(page, 4096, PROT_READ), 0);
		place.address = (uintptr_t)page + 100;
		break;
	}
	return place;
}

/* And the true bytes when it is asked for them. */
static void lie_about_the_place(void)
{
	struct lie offer = { TAG_OFFER, 48, TAG_LONG, { 1, 10000 }, 1, true };
	struct lie data = { TAG_DATA, 10000, 1, { 0x1122334455667788ull }, 1, true };
	uint32_t victim = native_peer_named("victim");
	struct tag_place place = false_place(victim);

	memcpy(offer.payload + 2, &place, sizeof(place));
	MUST_IS(send_raw(victim, &offer), 0);
	native_await(1);
	MUST_IS(send_raw(victim, &data), 0);
	native_await(2);
}

static void ask_the_liar(void)
{
	pulc_port *p = (setenv("PULC_PULL", "1", 1), native_open(PULC_D, "victim"));
	struct pulc_tag want = { TAG_LONG, PULC_TAG_EXACT, PULC_ANY_PEER };
	struct pulc_tag_path path;
	struct pulc_tagged m;
	pulc_op *op;

	MUST_IS(pulc_tag_probe(&want, -1, &m), 1);
	MUST_IS(pulc_tag_ireceive(&want, other_buf, LEN_LONG, &op), 0);
	for (unsigned i = 0; i < 3; i++)
		MUST_IS(pulc_op_test(op), 0); /* in vain, then it is asked for */
	MUST_IS(pulc_tag_path(m.peer, &path), 0);
	MUST(!path.may_pull);
	native_reach(1);
	MUST_IS(pulc_op_end(op, NULL), 10000);
	MUST_IS(other_buf[0], 0x88);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void lies_about_places(void)
{
	for (place_number = 0; place_number < 6; place_number++)
		NATIVE_RUN(lie_about_the_place, ask_the_liar);
}

static const struct test tests[] = {
	TEST(lies_end_the_link),
	TEST(lies_that_harm_only_the_liar),
	TEST(lies_about_places),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
