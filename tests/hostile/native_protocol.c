/*
 * Frames and handlers that mean harm: numbers nobody knows, frames that are too long, handlers that
 * take themselves away, call what they may not, or refuse. The process goes on, its ports too; only
 * who lied is cut off.
 */
#include <errno.h>
#include <string.h>

#include "native.h"
#include "psid/native_case.h"

#define NUMBER 20u

static unsigned char buf[1 << 16];
static unsigned n_arrived, n_gone;
static int error_gone;

static uint32_t find_peer(const char *name)
{
	struct pulc_address a = native_find(name);
	uint32_t peer;

	MUST_IS(pulc_peer_find(&a, &peer), 0);
	return peer;
}

static void is_gone(void *arg, uint32_t peer, int error)
{
	(void)arg, (void)peer;
	error_gone = error;
	n_gone++;
}

static void add(int (*arrived)(void *, const struct pulc_frame *))
{
	const struct pulc_protocol p = { arrived, is_gone, NULL };

	MUST_IS(pulc_protocol_register(NUMBER, &p), 0);
}

static void wait_for_the_end(void)
{
	uint64_t seen = 0;

	while (!error_gone)
		MUST_IS(pulc_progress(&seen, -1), 1);
}

/* Past the checks of the public call. */
static int send_raw(uint32_t client, unsigned protocol, uint32_t len)
{
	struct hal_frame f = { .len = len, .protocol = (uint16_t)protocol, .kind = 77 };
	struct iovec iov = { buf, len };
	struct peer *peer;
	int e = -EAGAIN;

	while (e == -EAGAIN) {
		MUST(native_lock());
		native_progress();
		peer = native_peer(client);
		e = peer ? peer_send(peer, &f, &iov, 1) : -ECONNRESET;
		native_unlock();
	}
	return e;
}

static int count(void *arg, const struct pulc_frame *f)
{
	(void)arg, (void)f;
	n_arrived++;
	return 0;
}

/* ---- numbers that nobody knows --------------------------------------------------------------- */

static void send_unknown(void)
{
	struct pulc_address to = native_find("sink");
	uint32_t peer = find_peer("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	for (unsigned i = 0; i < 65536; i += i < 64 ? 1 : 251)
		if (i != PROTOCOL_PORT && i != PROTOCOL_TAG && i != PROTOCOL_GUEST && i != NUMBER)
			MUST_IS(send_raw(peer, i, i % 100), 0);
	MUST_IS(send_raw(peer, NUMBER, PULC_FRAME_MAX), 0);
	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void ignore_unknown(void)
{
	pulc_port *p;

	add(count);
	p = native_open(PULC_D, "sink");
	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
	MUST_IS(n_arrived, 1);
	MUST_IS(n_gone, 0);
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void unknown_numbers_are_dropped(void)
{
	NATIVE_RUN(send_unknown, ignore_unknown);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void send_too_long(void)
{
	uint32_t peer = find_peer("sink");

	add(count);
	MUST_IS(send_raw(peer, NUMBER, PULC_FRAME_MAX + 1), 0);
	wait_for_the_end();
	MUST_IS(send_raw(peer, NUMBER, 0), -ECONNRESET);
	native_reach(1);
}

static void refuse_the_liar(void)
{
	pulc_port *p;
	struct pulc_address from;

	add(count);
	p = native_open(PULC_D, "sink");
	MUST_IS(pulc_receive(p, buf, 1, &from, 0), 1);
	wait_for_the_end();
	MUST_IS(error_gone, -EBADMSG);
	MUST_IS(n_gone, 1);
	MUST_IS(n_arrived, 0);
	/* Somebody else's link is as it was. */
	MUST_IS(pulc_send(p, &from, "y", 1, 0), 1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void be_honest(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);

	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
	native_await(1);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static int refuse(void *arg, const struct pulc_frame *f)
{
	(void)arg, (void)f;
	return -EINVAL; /* anything negative */
}

static void refuse_everybody(void)
{
	pulc_port *p;

	add(refuse);
	p = native_open(PULC_D, "sink");
	wait_for_the_end();
	MUST_IS(error_gone, -EBADMSG);
	native_await(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void be_refused(void)
{
	struct pulc_frame f = { .protocol = NUMBER };

	add(count);
	f.peer = find_peer("sink");
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	wait_for_the_end();
	MUST_IS(pulc_protocol_send(&f, NULL, 0), -ECONNRESET);
	native_reach(1);
}

static void who_lies_is_cut_off(void)
{
	NATIVE_RUN(send_too_long, refuse_the_liar, be_honest);
	NATIVE_RUN(refuse_everybody, be_refused);
}

/* ---- handlers -------------------------------------------------------------------------------- */

static pulc_port *sink;

/* Everything that waits, or would need the lock for itself. */
static int call_what_is_forbidden(void *arg, const struct pulc_frame *f)
{
	struct pulc_address self = pulc_port_address(sink);
	struct pulc_wait wait = { .port = sink };
	uint64_t seen = 0;
	uint32_t peer;
	pulc_port *p;

	(void)arg, (void)f;
	MUST_IS(pulc_attach(), -EDEADLK);
	MUST_IS(pulc_port_open(PULC_D, 0, NULL, &p), -EDEADLK);
	MUST_IS(pulc_port_close(sink), -EDEADLK);
	MUST_IS(pulc_find("sink", &self), -EDEADLK);
	MUST_IS(pulc_peer_find(&self, &peer), -EDEADLK);
	MUST_IS(pulc_send(sink, &self, "x", 1, 0), -EDEADLK);
	MUST_IS(pulc_receive(sink, buf, 1, NULL, 0), -EDEADLK);
	MUST_IS(pulc_select(&wait, 1, NULL, 0, -1), -EDEADLK);
	MUST_IS(pulc_progress(&seen, -1), -EDEADLK);
	n_arrived++;
	return 0;
}

static int leave_at_once(void *arg, const struct pulc_frame *f)
{
	const struct pulc_protocol next = { .arrived = call_what_is_forbidden };
	char c;

	(void)arg;
	MUST_IS(pulc_protocol_unregister(NUMBER), 0);
	MUST_IS(pulc_protocol_unregister(NUMBER), -ENOENT);
	MUST_IS(pulc_frame_copy(f, &c, 1), 1);
	n_arrived++;
	if (f->word)
		MUST_IS(pulc_protocol_register(NUMBER, &next), 0);
	return 0;
}

static void leave_and_come_back(void)
{
	char c;

	add(leave_at_once);
	sink = native_open(PULC_D, "sink");
	MUST_IS(pulc_receive(sink, &c, 1, NULL, 0), 1);
	MUST_IS(n_arrived, 1);
	add(leave_at_once);
	native_reach(1);
	MUST_IS(pulc_receive(sink, &c, 1, NULL, 0), 1);
	MUST_IS(n_arrived, 4);
	native_reach(2);
	MUST_IS(pulc_port_close(sink), 0);
}

static void send_three(uint32_t peer, uint64_t word)
{
	struct pulc_frame f = { .protocol = NUMBER, .len = 1, .peer = peer, .word = word };

	for (unsigned i = 0; i < 3; i++)
		MUST_IS(pulc_protocol_send(&f, "z", 0), 0);
}

static void send_to_who_leaves(void)
{
	struct pulc_address to = native_find("sink");
	pulc_port *p = native_open(PULC_D, NULL);
	uint32_t peer = find_peer("sink");

	send_three(peer, 0); /* the first is taken, the others dropped */
	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	native_await(1);
	send_three(peer, 1);
	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void handlers_leave_and_call_what_they_like(void)
{
	NATIVE_RUN(leave_and_come_back, send_to_who_leaves);
}

/* ---- answers that nobody reads --------------------------------------------------------------- */

static int answer_until_full(void *arg, const struct pulc_frame *f)
{
	struct pulc_frame back = *f;
	unsigned n = 0;
	int e;

	(void)arg;
	back.len = 10000;
	while ((e = pulc_protocol_send(&back, buf, 0)) == 0)
		MUST(++n < 100000);
	MUST_IS(e, -EAGAIN);
	n_arrived++;
	return 0;
}

static void answer_for_ever(void)
{
	uint64_t seen = 0;
	pulc_port *p;
	char c;

	add(answer_until_full);
	p = native_open(PULC_D, "sink");
	while (n_arrived == 0)
		MUST_IS(pulc_progress(&seen, -1), 1);
	native_reach(1);
	/* Another peer is served. */
	MUST_IS(pulc_receive(p, &c, 1, NULL, 0), 1);
	native_reach(2);
	wait_for_the_end();
	MUST_IS(pulc_port_close(p), 0);
}

static void ask_and_never_read(void)
{
	struct pulc_frame f = { .protocol = NUMBER };

	f.peer = find_peer("sink");
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	native_await(2);
}

static void need_the_sink(void)
{
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address to;

	native_await(1);
	to = native_find("sink");
	MUST_IS(pulc_send(p, &to, "x", 1, 0), 1);
	native_await(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void answers_nobody_reads_are_bounded(void)
{
	NATIVE_RUN(answer_for_ever, ask_and_never_read, need_the_sink);
}

static const struct test tests[] = {
	TEST(unknown_numbers_are_dropped),
	TEST(who_lies_is_cut_off),
	TEST(handlers_leave_and_call_what_they_like),
	TEST(answers_nobody_reads_are_bounded),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
