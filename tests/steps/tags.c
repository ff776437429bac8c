/*
 * Long messages with tags go from one process to another, fetched out of the sender's memory or
 * pushed, and one that is taken back; and one of the two is killed at each named point. The other
 * one has what was received whole, and is told of the end in all that it still wants.
 */
#include <errno.h>
#include <stdlib.h>

#include "psid/native_case.h"
#include "steps/walk.h"

#define N_MESSAGES 3u
#define SIZE 200000u /* several pieces */
#define UNWANTED 50u
#define LAST 51u

enum who { SENDER, RECEIVER };

static enum who victim;
static const char *pull; /* PULC_PULL */
static unsigned char buf[SIZE];

/* The interface reads it when it is first used. */
static void begin(void)
{
	(void)setenv("PULC_PULL", pull, 1);
}

static void become(enum who who)
{
	if (victim == who)
		step_victim(getpid());
}

static bool is_end(ssize_t n, enum who other)
{
	return victim == other && n == -ECONNRESET;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* It is offered, and taken back before anybody wants it. True: it was. */
static bool take_back(uint32_t peer)
{
	pulc_op *op;
	ssize_t n = pulc_tag_isend(peer, UNWANTED, buf, SIZE, &op);
	int e;

	if (n < 0) {
		MUST(is_end(n, RECEIVER));
		return false;
	}
	e = pulc_op_cancel(op);
	MUST(e == 0 || e == 1);
	n = pulc_tag_end(op, NULL);
	MUST(n == -ECANCELED || is_end(n, RECEIVER));
	return n == -ECANCELED;
}

static bool send_one(uint32_t peer, unsigned i, size_t size)
{
	ssize_t n;

	native_fill(buf, size, i);
	n = pulc_tag_send(peer, i, buf, size);
	MUST(n == (ssize_t)size || is_end(n, RECEIVER));
	return n == (ssize_t)size;
}

static void sender(void)
{
	pulc_port *p;
	uint32_t peer;
	bool goes_on = true;

	begin();
	p = native_open(PULC_D, "sender");
	peer = native_peer_named("receiver");
	native_await(1);
	become(SENDER);
	for (unsigned i = 0; goes_on && i < N_MESSAGES; i++)
		goes_on = send_one(peer, i, SIZE);
	goes_on = goes_on && take_back(peer) && send_one(peer, LAST, 1);
	/* Once more: who was told of the end is told of it again. */
	if (!goes_on)
		MUST(!send_one(peer, LAST, SIZE));
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static bool receive_one(struct pulc_tag *want, unsigned i, size_t size)
{
	struct pulc_tagged m;
	ssize_t n;

	want->tag = i;
	n = pulc_tag_receive(want, buf, sizeof(buf), &m);
	if (is_end(n, SENDER))
		return false;
	MUST_IS(n, size);
	MUST(m.tag == i && m.peer == want->peer);
	MUST(native_holds(buf, size, i));
	return true;
}

static void receiver(void)
{
	struct pulc_tag want = { .mask = PULC_TAG_EXACT };
	pulc_port *p;
	bool goes_on = true;

	begin();
	p = native_open(PULC_D, "receiver");
	want.peer = native_peer_named("sender");
	become(RECEIVER);
	native_reach(1);
	for (unsigned i = 0; goes_on && i < N_MESSAGES; i++)
		goes_on = receive_one(&want, i, SIZE);
	/* What was taken back is not there, whoever of the two it was that ended. */
	goes_on = goes_on && receive_one(&want, LAST, 1);
	MUST(goes_on || !receive_one(&want, UNWANTED, SIZE));
	MUST_IS(pulc_port_close(p), 0);
}

/* ---- the scene ------------------------------------------------------------------------------- */

/* Who is killed is no failure. */
static void look_on(const pid_t *pids)
{
	(void)pids;
}

static void scene(void)
{
	native_role *const roles[] = { sender, receiver };

	native_run_with(roles, 2, look_on);
}

static void walk(enum who who, const char *way, const char *name)
{
	victim = who;
	pull = way;
	steps_walk(name, scene, STEPS_OF_TAGS);
}

static void the_sender_that_is_fetched_from(void)
{
	walk(SENDER, "1", "the sender");
}

static void the_receiver_that_fetches(void)
{
	walk(RECEIVER, "1", "the receiver");
}

static void the_sender_that_pushes(void)
{
	walk(SENDER, "0", "the sender, pushing,");
}

static void the_receiver_that_asks(void)
{
	walk(RECEIVER, "0", "the receiver, asking,");
}

static void every_point_was_reached(void)
{
	steps_end(STEPS_OF_TAGS);
}

static const struct test tests[] = {
	TEST(the_sender_that_is_fetched_from), TEST(the_receiver_that_fetches),
	TEST(the_sender_that_pushes),	       TEST(the_receiver_that_asks),
	TEST(every_point_was_reached),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
