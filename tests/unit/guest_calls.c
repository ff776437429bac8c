/*
 * What a guest asks its owners for, in which order: sends behind sends at the same owner, receives
 * behind receives, and no receive behind a send that waits, for it may be what the send waits for.
 * And what it has received.
 */
#include <errno.h>
#include <string.h>

#include "fake_hal.h"
#include "guest.h"
#include "harness.h"

#define N_OWNERS 2u
#define SIZE_LONG (2u << 20)
#define SIZE_FRAME 65536u

static unsigned char bytes[SIZE_LONG];
static struct fake_pair pairs[N_OWNERS];
static struct peer *owners[N_OWNERS];
static const struct hal_ops *fake_ops;
static struct hal_ops narrow;
static size_t room;
static bool is_full;

/* As in a ring, where a short one may have room and a long one none. */
static int send_narrow(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		       unsigned n)
{
	return is_full || f->len > room ? -EAGAIN : fake_ops->send(link, f, iov, n);
}

static void begin(void)
{
	const struct fake_config config = { .flags = HAL_ORDERED | HAL_RELIABLE,
					    .frame_max = SIZE_FRAME,
					    .n_gather = 8,
					    .n_queue = 256 };

	room = SIZE_FRAME;
	is_full = false;
	for (unsigned i = 0; i < N_OWNERS; i++) {
		fake_pair_init(&pairs[i], &config);
		fake_ops = pairs[i].link[0]->ops;
		narrow = *fake_ops;
		narrow.send = send_narrow;
		pairs[i].link[0]->ops = &narrow;
		owners[i] = peer_new(pairs[i].link[0], 1 + i);
		REQUIRE(owners[i] != NULL);
	}
}

static void end(void)
{
	guest_forked();
	for (unsigned i = 0; i < N_OWNERS; i++) {
		peer_unref(owners[i]);
		pairs[i].link[0]->ops = fake_ops;
		fake_pair_deinit(&pairs[i]);
	}
}

struct asked {
	struct guest_call call;
	struct iovec iov;
};

static void want(struct asked *a, bool is_send, uint32_t number, size_t size)
{
	a->iov = (struct iovec){ bytes, size };
	a->call = (struct guest_call){
		.is_send = is_send, .number = number, .iov = &a->iov, .n = 1, .size = size
	};
	guest_call_begin(&a->call);
}

static void want_at(struct asked *a, bool is_send, unsigned owner, size_t size)
{
	want(a, is_send, 70 + owner, size);
	guest_call_at(&a->call, owners[owner]);
}

/* The kind of the last frame on its way to that owner, and how many there are. */
static unsigned drain(unsigned owner, unsigned *ret_kind)
{
	struct hal_link *link = pairs[owner].link[1];
	struct hal_frame f = { 0 };
	unsigned n = 0;

	for (; link->ops->next(link, &f) == 1; n++)
		link->ops->drop(link);
	*ret_kind = f.kind;
	return n;
}

static void receives_pass_sends_that_wait(void)
{
	struct asked sends[3], receive;
	unsigned kind;

	begin();
	for (unsigned i = 0; i < 3; i++)
		want_at(&sends[i], true, 0, SIZE_LONG);
	guest_calls_move_on();
	CHECK_INT(sends[1].call.stage, ==, GUEST_ASKED);
	CHECK_INT(sends[2].call.stage, ==, GUEST_ASKS);
	(void)drain(0, &kind);
	want_at(&receive, false, 0, 8);
	guest_calls_move_on();
	CHECK_INT(receive.call.stage, ==, GUEST_ASKED);
	CHECK_INT(sends[2].call.stage, ==, GUEST_ASKS);
	CHECK_INT(drain(0, &kind), ==, 1);
	CHECK_INT(kind, ==, GUEST_RECEIVE);
	end();
}

/* Though one at another owner waits as well. */
static void sends_do_not_pass_sends(void)
{
	struct asked first, second, third;
	unsigned kind;

	begin();
	room = 1000;
	want_at(&first, true, 0, 2000);
	want_at(&second, true, 1, 2000);
	want_at(&third, true, 0, 8);
	guest_calls_move_on();
	CHECK_INT(drain(0, &kind) + drain(1, &kind), ==, 0);
	room = SIZE_FRAME;
	guest_calls_move_on();
	CHECK_INT(drain(0, &kind), ==, 2);
	CHECK_INT(drain(1, &kind), ==, 1);
	CHECK(first.call.id < third.call.id && third.call.stage == GUEST_ASKED);
	end();
}

/* The owner has not heard that the message is here, and may live: it gives it to another one. */
static void what_was_not_said_to_be_here_was_not_received(void)
{
	const struct guest_answer answer = { .size = 8, .len = 8, .port = 9 };
	unsigned char data[sizeof(answer) + 8] = { 0 };
	struct hal_frame f = { .len = sizeof(data),
			       .protocol = PROTOCOL_GUEST,
			       .kind = GUEST_ANSWER };
	struct asked receive;
	unsigned kind;

	begin();
	want_at(&receive, false, 0, 8);
	guest_calls_move_on();
	CHECK_INT(drain(0, &kind), ==, 1);
	memcpy(data, &answer, sizeof(answer));
	f.word = (uint64_t)receive.call.number << 32 | receive.call.id;
	fake_pair_inject(&pairs[0], 0, &f, data);
	REQUIRE_INT(fake_ops->next(owners[0]->link, &f), ==, 1);
	is_full = true;
	CHECK_INT(guest_answered(owners[0], &f), ==, 0);
	fake_ops->drop(owners[0]->link);
	CHECK_INT(receive.call.stage, ==, GUEST_OWES);
	CHECK(!receive.call.complete);
	guest_calls_gone(owners[0]);
	CHECK(!receive.call.complete);
	CHECK_INT(receive.call.stage, ==, GUEST_PARKED);
	end();
	CHECK_INT(receive.call.error, ==, -ECHILD);
}

static const struct test tests[] = {
	TEST(receives_pass_sends_that_wait),
	TEST(sends_do_not_pass_sends),
	TEST(what_was_not_said_to_be_here_was_not_received),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
