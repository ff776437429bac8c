/*
 * What an owner does for its guests, in which order, and what it counts: sends to one destination
 * do not wait for another one, and nothing is held against a guest that it may have given up.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "fake_hal.h"
#include "guest.h"
#include "harness.h"

#define NUMBER 70u
#define KEY 7u
#define N_DESTINATIONS 2u
#define SIZE_FRAME 65536u

static struct fake_pair with_guest, with_all;
static struct peer *guest, *all;
static const struct hal_ops *fake_ops;
static struct hal_ops narrow;
static struct port *port;
static unsigned n_moving[N_DESTINATIONS]; /* so often each is not to be found yet */
static bool is_full;

static int find_out(struct port *p, uint32_t node, uint32_t to, struct port_out **ret_out)
{
	(void)node;
	if (n_moving[to] && n_moving[to]--)
		return -EINPROGRESS;
	*ret_out = port_out_find(p, 0, to);
	if (!*ret_out)
		*ret_out = port_out_new(p, to, PORT_D, all);
	return *ret_out ? 0 : -ENOMEM;
}

static int find_source(struct port *p, uint32_t node, uint32_t from)
{
	(void)p, (void)node, (void)from;
	return -ECONNREFUSED;
}

static int send_if_room(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
			unsigned n)
{
	return is_full ? -EAGAIN : fake_ops->send(link, f, iov, n);
}

static void begin(void)
{
	static const struct guest_finder finder = { .out = find_out, .source = find_source };
	const struct fake_config config = { .flags = HAL_ORDERED | HAL_RELIABLE,
					    .frame_max = SIZE_FRAME,
					    .n_gather = 8,
					    .n_queue = 256 };

	guest_finder = &finder;
	memset(n_moving, 0, sizeof(n_moving));
	is_full = false;
	fake_pair_init(&with_guest, &config);
	fake_pair_init(&with_all, &config);
	fake_ops = with_guest.link[0]->ops;
	narrow = *fake_ops;
	narrow.send = send_if_room;
	with_guest.link[0]->ops = &narrow;
	guest = peer_new(with_guest.link[0], 1);
	all = peer_new(with_all.link[0], 2);
	port = port_new(NUMBER, PORT_D);
	REQUIRE(guest && all && port);
	guest->pid = 1;
	port->key = KEY;
}

static void end(void)
{
	guest_forked();
	if (port)
		port_forget(port);
	peer_unref(guest);
	peer_unref(all);
	with_guest.link[0]->ops = fake_ops;
	fake_pair_deinit(&with_guest);
	fake_pair_deinit(&with_all);
}

/* The guest asks to send so many bytes, of which the first are in this frame. Returns what is said
 * of the frame. */
static int ask(uint32_t number, uint32_t id, uint32_t to, size_t size, size_t n_said)
{
	unsigned char bytes[256] = { 0 };
	const struct guest_ask head = { .key = KEY, .size = size, .port = to };
	struct hal_frame f = {
		.word = (uint64_t)number << 32 | id,
		.len = (uint32_t)(sizeof(head) + n_said),
		.protocol = PROTOCOL_GUEST,
		.kind = GUEST_SEND,
	};
	int e;

	memcpy(bytes, &head, sizeof(head));
	fake_pair_inject(&with_guest, 0, &f, bytes);
	REQUIRE_INT(fake_ops->next(guest->link, &f), ==, 1);
	e = guest_asked(guest, &f);
	fake_ops->drop(guest->link);
	guest_requests_move_on();
	return e;
}

/* The number of the request that is answered next, and its result; 0: none. */
static uint32_t answered(int64_t *ret_result)
{
	struct hal_link *link = with_guest.link[1];
	struct guest_answer a;
	struct iovec iov = { &a, sizeof(a) };
	struct hal_frame f;

	if (link->ops->next(link, &f) != 1)
		return 0;
	CHECK_INT(f.kind, ==, GUEST_ANSWER);
	(void)link->ops->copy(link, &iov, 1);
	link->ops->drop(link);
	*ret_result = a.result;
	return (uint32_t)f.word;
}

static void a_destination_that_moves_holds_up_its_own_sends_only(void)
{
	int64_t result = 0;

	begin();
	n_moving[0] = 4;
	CHECK_INT(ask(NUMBER, 1, 0, 8, 8), ==, 0);
	CHECK_INT(ask(NUMBER, 2, 1, 8, 8), ==, 0);
	CHECK_INT(ask(NUMBER, 3, 0, 8, 8), ==, 0);
	CHECK_INT(answered(&result), ==, 2);
	CHECK_INT(result, ==, 8);
	CHECK_INT(answered(&result), ==, 0);
	/* The last one of these is not to come first, if its destination is found between the two
	 * looks. */
	CHECK_INT(n_moving[0], ==, 1);
	guest_requests_move_on();
	CHECK_INT(n_moving[0], ==, 0);
	CHECK_INT(answered(&result), ==, 0);
	guest_requests_move_on();
	CHECK_INT(answered(&result), ==, 1);
	CHECK_INT(answered(&result), ==, 3);
	CHECK_INT(answered(&result), ==, 0);
	end();
}

/* Of these a guest may have heard from psid before. */
static void sends_that_are_refused_take_no_room(void)
{
	begin();
	for (uint32_t i = 1; i <= 3; i++)
		CHECK_INT(ask(NUMBER + 1, i, 0, GUEST_SEND_MAX, 8), ==, 0);
	CHECK_INT(ask(NUMBER, 4, 0, GUEST_SEND_MAX, 8), ==, 0);
	CHECK_INT(ask(NUMBER, 5, 0, 8, 8), ==, -EBADMSG);
	end();
}

static void nor_those_of_a_port_that_is_closed(void)
{
	int64_t result = 0;

	begin();
	is_full = true;
	n_moving[0] = UINT_MAX;
	CHECK_INT(ask(NUMBER, 1, 0, 8, 8), ==, 0);
	CHECK_INT(ask(NUMBER, 2, 0, GUEST_SEND_MAX, 8), ==, 0);
	CHECK_INT(ask(NUMBER, 3, 0, 8, 8), ==, -EBADMSG);
	guest_port_end(port);
	port_forget(port);
	port = port_new(NUMBER + 1, PORT_D);
	REQUIRE(port != NULL);
	port->key = KEY;
	n_moving[0] = 0;
	CHECK_INT(ask(NUMBER + 1, 4, 0, 8, 8), ==, 0);
	is_full = false;
	guest_requests_move_on();
	CHECK_INT(answered(&result), ==, 1);
	CHECK_INT(result, ==, -EPIPE);
	CHECK_INT(answered(&result), ==, 4);
	CHECK_INT(result, ==, 8);
	end();
}

static const struct test tests[] = {
	TEST(a_destination_that_moves_holds_up_its_own_sends_only),
	TEST(sends_that_are_refused_take_no_room),
	TEST(nor_those_of_a_port_that_is_closed),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
