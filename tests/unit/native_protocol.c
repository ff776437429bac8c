/*
 * Protocols of the program's own: frames of every size in order, handlers that answer, waiting for
 * room, and the end of a peer.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "psid/native_case.h"

#define NUMBER 20u

static unsigned char buf[PULC_FRAME_MAX];
static _Atomic unsigned n_arrived;
static _Atomic int error_gone;
static _Atomic unsigned n_gone;

static void is_gone(void *arg, uint32_t peer, int error)
{
	(void)arg;
	MUST(peer != 0);
	error_gone = error;
	n_gone++;
}

static void add(int (*arrived)(void *, const struct pulc_frame *))
{
	const struct pulc_protocol p = { arrived, is_gone, &n_arrived };

	MUST_IS(pulc_protocol_register(NUMBER, &p), 0);
}

static uint32_t find_peer(const char *name)
{
	struct pulc_address a = native_find(name);
	uint32_t peer;

	MUST_IS(pulc_peer_find(&a, &peer), 0);
	return peer;
}

/* Until so many have arrived, or the peer is gone. */
static void wait_for(unsigned n)
{
	uint64_t seen = 0;

	while (n_arrived < n && !error_gone)
		MUST_IS(pulc_progress(&seen, -1), 1);
	MUST_IS(n_arrived, n);
}

static void wait_for_the_end(void)
{
	uint64_t seen = 0;

	while (!error_gone)
		MUST_IS(pulc_progress(&seen, -1), 1);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int count(void *arg, const struct pulc_frame *f)
{
	(void)f;
	MUST(arg == &n_arrived);
	n_arrived++;
	return 0;
}

static void numbers(void)
{
	struct pulc_protocol p = { .arrived = count, .arg = &n_arrived }, none = { .arg = NULL };
	struct pulc_frame f = { .protocol = NUMBER };

	MUST_IS(pulc_protocol_register(0, &p), -EINVAL);
	MUST_IS(pulc_protocol_register(1, &p), -EINVAL);
	MUST_IS(pulc_protocol_register(PULC_PROTOCOL_FIRST - 1, &p), -EINVAL);
	MUST_IS(pulc_protocol_register(PULC_PROTOCOL_LAST + 1, &p), -EINVAL);
	MUST_IS(pulc_protocol_register(NUMBER, &none), -EINVAL);
	MUST_IS(pulc_protocol_unregister(1), -EINVAL);
	MUST_IS(pulc_protocol_unregister(NUMBER), -ENOENT);
	for (unsigned i = PULC_PROTOCOL_FIRST; i <= PULC_PROTOCOL_LAST; i++) {
		MUST_IS(pulc_protocol_register(i, &p), 0);
		MUST_IS(pulc_protocol_register(i, &p), -EEXIST);
	}
	MUST_IS(pulc_protocol_unregister(NUMBER), 0);
	MUST_IS(pulc_protocol_unregister(NUMBER), -ENOENT);
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0); /* dropped */
	MUST_IS(n_arrived, 0);
	MUST_IS(pulc_protocol_register(NUMBER, &p), 0);
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	MUST_IS(n_arrived, 1);
	MUST_IS(pulc_protocol_send(&f, NULL, PULC_PEEK), -EINVAL);
	f.protocol = 1;
	MUST_IS(pulc_protocol_send(&f, NULL, 0), -EINVAL);
	f.protocol = 0xffff;
	MUST_IS(pulc_protocol_send(&f, NULL, 0), -EINVAL);
	f.protocol = NUMBER;
	f.len = PULC_FRAME_MAX + 1;
	MUST_IS(pulc_protocol_send(&f, buf, 0), -EMSGSIZE);
	f.len = 0;
	f.peer = 0x7ffffffe;
	MUST_IS(pulc_protocol_send(&f, NULL, 0), -ECONNRESET);
}

static void nobody_there(void)
{
	struct pulc_address nowhere = { .port = 4000000000u }, elsewhere = { .node = 9, .port = 1 };
	pulc_port *p = native_open(PULC_D, NULL);
	struct pulc_address self = pulc_port_address(p);
	uint64_t seen = 0;
	uint32_t peer = 7;

	MUST_IS(pulc_peer_find(&nowhere, &peer), -ECONNREFUSED);
	MUST_IS(pulc_peer_find(&elsewhere, &peer), -EHOSTUNREACH);
	MUST_IS(pulc_peer_find(&self, &peer), 0);
	MUST_IS(peer, 0);
	MUST_IS(pulc_progress(&seen, 0), 0);
	MUST_IS(pulc_progress(&seen, 1), 0);
	MUST_IS(seen, 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void registration(void)
{
	NATIVE_RUN(numbers);
	NATIVE_RUN(nobody_there);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static const uint32_t sizes[] = { 0,  1,   8,	 15,   16,   17,    31,	   32,	  33,
				  64, 100, 1000, 4096, 5000, 16000, 16383, 16384, 0 };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define N_ROUNDS 50u

/* Each as it was sent, and in order. Copied in one piece, or only its beginning. */
static int is_next(void *arg, const struct pulc_frame *f)
{
	static unsigned char to[PULC_FRAME_MAX];
	unsigned i = n_arrived++;

	(void)arg;
	MUST(f->peer != 0);
	MUST_IS(f->protocol, NUMBER);
	MUST_IS(f->word, ~(uint64_t)i);
	MUST_IS(f->kind, i % 65536);
	MUST_IS(f->len, sizes[i % N_SIZES]);
	if (f->len > 10)
		MUST_IS(pulc_frame_copy(f, to, 10), 10);
	MUST_IS(pulc_frame_copy(f, to, sizeof(to)), f->len);
	MUST(native_holds(to, f->len, i));
	return 0;
}

static void receive_sizes(void)
{
	pulc_port *p;

	add(is_next);
	p = native_open(PULC_D, "receiver");
	wait_for(N_ROUNDS * N_SIZES);
	native_reach(1);
	wait_for_the_end();
	MUST_IS(error_gone, -ECONNRESET);
	MUST_IS(n_gone, 1);
	MUST_IS(pulc_port_close(p), 0);
}

static void send_sizes(void)
{
	struct pulc_frame f = { .protocol = NUMBER, .peer = find_peer("receiver") };

	for (unsigned i = 0; i < N_ROUNDS * N_SIZES; i++) {
		f.len = sizes[i % N_SIZES];
		f.kind = (uint16_t)i;
		f.word = ~(uint64_t)i;
		native_fill(buf, f.len, i);
		MUST_IS(pulc_protocol_send(&f, f.len ? buf : NULL, 0), 0);
	}
	native_await(1);
}

static void frames_of_all_sizes(void)
{
	NATIVE_RUN(send_sizes, receive_sizes);
}

/* Nobody reads: the ring fills up, and a send that may not wait says so; then it waits. */
static void fill_up(void)
{
	struct pulc_frame f = { .protocol = NUMBER, .len = 4000 };
	unsigned n = 0;
	int e;

	f.peer = find_peer("receiver");
	while ((e = pulc_protocol_send(&f, buf, PULC_DONTWAIT)) == 0)
		n++;
	MUST_IS(e, -EAGAIN);
	native_reach(1);
	for (unsigned i = 0; i < 3000; i++)
		MUST_IS(pulc_protocol_send(&f, buf, 0), 0);
	f.kind = 1;
	f.word = n + 3000;
	MUST_IS(pulc_protocol_send(&f, buf, 0), 0);
	native_await(2);
}

static int until_told(void *arg, const struct pulc_frame *f)
{
	(void)arg;
	if (f->kind == 0)
		n_arrived++;
	else
		MUST_IS(n_arrived, f->word);
	if (f->kind == 1)
		native_reach(2);
	return 0;
}

static void read_late(void)
{
	pulc_port *p;

	add(until_told);
	p = native_open(PULC_D, "receiver");
	native_await(1);
	wait_for_the_end();
	MUST(native_is_reached(2));
	MUST_IS(pulc_port_close(p), 0);
}

static void a_full_ring_makes_the_sender_wait(void)
{
	NATIVE_RUN(fill_up, read_late);
}

/* ---- handlers that send ---------------------------------------------------------------------- */

#define N_VOLLEYS 5000u

/* The word counts down; who sees 0 has lost. */
static int strike(void *arg, const struct pulc_frame *f)
{
	struct pulc_frame back = *f;

	(void)arg;
	n_arrived++;
	back.len = 0;
	back.word--;
	return f->word ? pulc_protocol_send(&back, NULL, 0) : 0;
}

static void be_struck(void)
{
	pulc_port *p;

	add(strike);
	p = native_open(PULC_D, "receiver");
	wait_for(N_VOLLEYS / 2);
	native_reach(1);
	wait_for_the_end();
	MUST_IS(pulc_port_close(p), 0);
}

static void serve_first(void)
{
	struct pulc_frame f = { .protocol = NUMBER, .word = N_VOLLEYS - 1 };

	add(strike);
	f.peer = find_peer("receiver");
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	wait_for(N_VOLLEYS / 2);
	native_await(1);
}

/* Many long answers for each request: they find no room and follow. */
#define N_REQUESTS 300u
#define N_ANSWERS 8u

static int answer_much(void *arg, const struct pulc_frame *f)
{
	struct pulc_frame back = *f;

	(void)arg;
	n_arrived++;
	back.len = 12000;
	for (unsigned i = 0; i < N_ANSWERS; i++) {
		back.word = f->word * N_ANSWERS + i;
		MUST_IS(pulc_protocol_send(&back, buf, 0), 0);
	}
	return 0;
}

static void be_generous(void)
{
	pulc_port *p;

	native_fill(buf, 12000, 9);
	add(answer_much);
	p = native_open(PULC_D, "receiver");
	wait_for(N_REQUESTS);
	wait_for_the_end();
	MUST_IS(pulc_port_close(p), 0);
}

static int take_much(void *arg, const struct pulc_frame *f)
{
	static unsigned char to[12000];

	(void)arg;
	MUST_IS(f->word, n_arrived);
	MUST_IS(pulc_frame_copy(f, to, sizeof(to)), sizeof(to));
	MUST(native_holds(to, sizeof(to), 9));
	n_arrived++;
	return 0;
}

static void be_greedy(void)
{
	struct pulc_frame f = { .protocol = NUMBER };

	add(take_much);
	f.peer = find_peer("receiver");
	for (; f.word < N_REQUESTS; f.word++)
		MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	wait_for(N_REQUESTS * N_ANSWERS);
}

static int deeper(void *arg, const struct pulc_frame *f)
{
	struct pulc_frame again = *f;
	char depth;

	(void)arg;
	MUST_IS(f->peer, 0);
	again.word++;
	depth = (char)again.word;
	again.len = 1;
	if (pulc_protocol_send(&again, &depth, 0) == -EAGAIN)
		n_arrived = (unsigned)again.word;
	/* What lies deeper is over, ours is shown still. */
	if (f->len) {
		MUST_IS(pulc_frame_copy(f, &depth, 1), 1);
		MUST_IS(depth, f->word);
	}
	return -EBADMSG; /* one's own link stays */
}

static void answer_oneself(void)
{
	struct pulc_frame f = { .protocol = NUMBER };
	uint64_t seen = 0;

	add(deeper);
	for (unsigned i = 0; i < 3; i++) {
		n_arrived = 0;
		MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
		MUST_IS(n_arrived, 8);
	}
	MUST_IS(pulc_progress(&seen, -1), 1);
	MUST_IS(pulc_progress(&seen, 0), 0);
	MUST_IS(n_gone, 0);
}

static void handlers_send(void)
{
	NATIVE_RUN(be_struck, serve_first);
	NATIVE_RUN(be_generous, be_greedy);
	NATIVE_RUN(answer_oneself);
}

/* ---- threads and death ----------------------------------------------------------------------- */

#define N_EACH 2000u

static void *send_many(void *arg)
{
	struct pulc_frame f = { .protocol = NUMBER, .peer = *(uint32_t *)arg, .len = 100 };

	for (unsigned i = 0; i < N_EACH; i++)
		MUST_IS(pulc_protocol_send(&f, buf, 0), 0);
	return NULL;
}

static void *wait_for_all(void *arg)
{
	(void)arg;
	wait_for(2 * N_EACH);
	return NULL;
}

/* Two threads send, and two at the other end wait for what either may have taken. */
static void two_send(void)
{
	uint32_t peer = find_peer("receiver");
	pthread_t t;

	MUST_IS(pthread_create(&t, NULL, send_many, &peer), 0);
	(void)send_many(&peer);
	MUST_IS(pthread_join(t, NULL), 0);
	native_await(1);
}

static void two_receive(void)
{
	pulc_port *p;
	pthread_t t;

	add(count);
	p = native_open(PULC_D, "receiver");
	MUST_IS(pthread_create(&t, NULL, wait_for_all, NULL), 0);
	(void)wait_for_all(NULL);
	MUST_IS(pthread_join(t, NULL), 0);
	native_reach(1);
	wait_for_the_end();
	MUST_IS(pulc_port_close(p), 0);
}

static void threads(void)
{
	NATIVE_RUN(two_send, two_receive);
}

static void be_killed(void)
{
	pulc_port *p = native_open(PULC_D, "victim");

	native_await(1);
	(void)raise(SIGKILL);
	(void)p;
}

static void outlive(void)
{
	struct pulc_frame f = { .protocol = NUMBER };

	add(count);
	f.peer = find_peer("victim");
	MUST_IS(pulc_protocol_send(&f, NULL, 0), 0);
	native_reach(1);
	wait_for_the_end();
	MUST_IS(error_gone, -ECONNRESET);
	MUST_IS(pulc_protocol_send(&f, NULL, 0), -ECONNRESET);
}

static void only_watch(const pid_t *pids)
{
	(void)pids;
}

static void a_peer_dies(void)
{
	native_role *const roles[] = { be_killed, outlive };

	native_run_with(roles, 2, only_watch);
}

static const struct test tests[] = {
	TEST(registration),
	TEST(frames_of_all_sizes),
	TEST(a_full_ring_makes_the_sender_wait),
	TEST(handlers_send),
	TEST(threads),
	TEST(a_peer_dies),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
