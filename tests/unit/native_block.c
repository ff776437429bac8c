/*
 * Messages in blocks: read where they lie, in order with others, by whoever takes or receives them;
 * whose memory they are, and what becomes of it when a process ends, or has used up its budget. And
 * that whoever waits for memory holds nobody up.
 */
#include <pulc/block.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "lock.h"
#include "native.h"
#include "psid/native_case.h"

#define LEN_LONG (3u << 20)
#define N_ROUNDS 40u

static unsigned char buf[LEN_LONG];
static const struct pulc_tag anything = { .peer = PULC_ANY_PEER };
static const size_t sizes[] = { 0, 1, 64, 2047, 2048, 4097, 16384, 16385, 1u << 20, LEN_LONG };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void *new_block(size_t size)
{
	void *block;

	MUST_IS(pulc_alloc(size ? size : 1, 0, &block), 0);
	return block;
}

static void give(uint32_t peer, uint64_t tag, size_t len, unsigned number)
{
	unsigned char *block = new_block(len);

	native_fill(block, len, number);
	MUST_IS(pulc_tag_give(peer, tag, block, len), (ssize_t)len);
}

static struct pulc_alloc_state state(void)
{
	struct pulc_alloc_state s;

	MUST_IS(pulc_alloc_state(&s), 0);
	return s;
}

/* Until receivers have freed everything. */
static void await_blocks(void)
{
	while (state().size_given) {
		MUST(native_lock());
		native_progress();
		native_unlock();
		(void)usleep(1000);
	}
	MUST_IS(state().size_used, 0);
}

/* ---- all sizes, both ways, all receives ------------------------------------------------------ */

static void send_all(void)
{
	uint32_t peer = native_peer_named("sink");
	unsigned number = 0;

	for (unsigned i = 0; i < N_ROUNDS; i++)
		for (unsigned k = 0; k < N_SIZES; k++, number++) {
			if ((i + k) % 3) {
				give(peer, number, sizes[k], number);
				continue;
			}
			native_fill(buf, sizes[k], number);
			MUST_IS(pulc_tag_send(peer, number, buf, sizes[k]), (ssize_t)sizes[k]);
		}
	await_blocks();
	MUST(state().n_shown > N_ROUNDS * 3 && state().n_copied > N_ROUNDS);
	native_await(1);
}

static void take_all(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_tagged m;
	const void *block;
	unsigned number = 0;

	for (unsigned i = 0; i < N_ROUNDS; i++)
		for (unsigned k = 0; k < N_SIZES; k++, number++) {
			if (number % 4 == 3) {
				MUST_IS(pulc_tag_receive(&anything, buf, LEN_LONG, &m),
					(ssize_t)sizes[k]);
				MUST(native_holds(buf, sizes[k], number));
			} else {
				MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block, &m),
					(ssize_t)sizes[k]);
				MUST(native_holds(block, sizes[k], number));
				MUST_IS(pulc_free(block), 0);
				MUST_IS(pulc_free(block), -EINVAL);
			}
			MUST(m.tag == number && m.size == sizes[k]);
		}
	native_reach(1);
	MUST_IS(pulc_port_close(p), 0);
}

static void every_size_is_given_and_taken(void)
{
	NATIVE_RUN(send_all, take_all);
}

/* ---- no copy --------------------------------------------------------------------------------- */

/* Against the rules: it writes to what it has given away. */
static void write_later(void)
{
	uint32_t peer = native_peer_named("sink");
	unsigned char *block = new_block(LEN_LONG);

	native_fill(block, LEN_LONG, 1);
	MUST_IS(pulc_tag_give(peer, 1, block, LEN_LONG), LEN_LONG);
	native_await(1);
	block[LEN_LONG - 1] ^= 1;
	native_reach(2);
	native_await(3);
}

static void see_it(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	const void *block;
	const unsigned char *at;

	MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block, NULL), LEN_LONG);
	at = block;
	MUST(native_holds(at, LEN_LONG, 1));
	native_reach(1);
	native_await(2);
	MUST(!native_holds(at, LEN_LONG, 1));
	MUST_IS(pulc_free(at), 0);
	native_reach(3);
	MUST_IS(pulc_port_close(p), 0);
}

/* Cut off at what was wanted, and to oneself. */
static void give_to_itself(void)
{
	pulc_port *p = native_open(PULC_D, "self");
	uint32_t self = native_peer_named("self");
	struct pulc_tagged m;
	const void *block[2];

	MUST_IS(self, 0);
	give(self, 7, LEN_LONG, 7);
	give(self, 8, 100000, 8);
	MUST_IS(pulc_tag_take(&anything, 50000, &block[0], &m), 50000);
	MUST(m.size == LEN_LONG && native_holds(block[0], 50000, 7));
	MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block[1], &m), 100000);
	MUST(m.tag == 8 && native_holds(block[1], 100000, 8));
	MUST_IS(pulc_free(block[1]), 0);
	MUST_IS(pulc_free(block[0]), 0);
	MUST_IS(state().size_used, 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void nothing_is_copied(void)
{
	NATIVE_RUN(write_later, see_it);
	NATIVE_RUN(give_to_itself);
}

/* ---- whose block it is ----------------------------------------------------------------------- */

static void misuse(void)
{
	uint32_t peer = native_peer_named("sink");
	unsigned char *block = new_block(5000);
	char other;

	MUST_IS(pulc_alloc(0, 0, (void **)&block), -EINVAL);
	MUST_IS(pulc_alloc(1, 0x80, (void **)&block), -EINVAL);
	MUST_IS(pulc_alloc((size_t)1 << 40, 0, (void **)&block), -ENOBUFS);
	MUST_IS(pulc_free(NULL), 0);
	MUST_IS(pulc_free(&other), -EINVAL);
	MUST_IS(pulc_free(block + 1), -EINVAL);
	MUST_IS(pulc_free(block + 4096), -EINVAL);
	MUST_IS(pulc_tag_give(peer, 1, &other, 1), -EINVAL);
	MUST_IS(pulc_tag_give(peer, 1, block, 100000), -EINVAL);
	MUST_IS(pulc_tag_give(4000000, 1, block, 5000), -ECONNRESET);
	native_fill(block, 5000, 3);
	MUST_IS(pulc_tag_give(peer, 1, block, 5000), 5000);
	MUST_IS(pulc_free(block), -EINVAL);
	MUST_IS(pulc_tag_give(peer, 1, block, 5000), -EINVAL);
	native_reach(1);
	await_blocks();
	MUST_IS(pulc_free(block), -EINVAL);
	native_await(2);
}

static void take_one(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	const void *block;

	native_await(1);
	MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block, NULL), 5000);
	MUST(native_holds(block, 5000, 3));
	MUST_IS(pulc_free(block), 0);
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void blocks_have_one_owner(void)
{
	NATIVE_RUN(misuse, take_one);
}

/* ---- the budget ------------------------------------------------------------------------------ */

static void use_it_up(void)
{
	unsigned char *a, *b;
	uint32_t peer;
	void *c;

	(void)setenv("PULC_ALLOC_MAX", "1048576", 1);
	peer = native_peer_named("sink");
	a = new_block(512u << 10);
	b = new_block(512u << 10);
	MUST_IS(pulc_alloc(1, 0, &c), -ENOBUFS);
	MUST_IS(pulc_alloc(2u << 20, 0, &c), -ENOBUFS);
	native_fill(a, 512u << 10, 1);
	MUST_IS(pulc_tag_give(peer, 1, a, 512u << 10), 512 << 10);
	MUST_IS(pulc_alloc(1, PULC_DONTWAIT, &c), -EAGAIN);
	MUST_IS(state().size_used, 1u << 20);
	native_reach(1);
	MUST_IS(pulc_alloc(512u << 10, 0, &c), 0);
	MUST(c == a);
	MUST_IS(pulc_free(c), 0);
	MUST_IS(pulc_free(b), 0);
	for (unsigned i = 0; i < 200; i++)
		give(peer, i, 100000, i);
	native_await(2);
}

static void take_slowly(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	const void *block;

	native_await(1);
	MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block, NULL), 512 << 10);
	MUST_IS(pulc_free(block), 0);
	for (unsigned i = 0; i < 200; i++) {
		MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block, NULL), 100000);
		MUST(native_holds(block, 100000, i));
		MUST_IS(pulc_free(block), 0);
	}
	native_reach(2);
	MUST_IS(pulc_port_close(p), 0);
}

static void a_sender_waits_for_its_blocks(void)
{
	NATIVE_RUN(use_it_up, take_slowly);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void give_and_die(void)
{
	uint32_t peer = native_peer_named("sink");

	for (unsigned i = 0; i < 5; i++)
		give(peer, i, 1u << 20, i);
	native_reach(1);
	_exit(0);
}

/* All of it, since it lies in memory that outlives its owner. */
static void read_what_a_dead_one_gave(void)
{
	pulc_port *p = native_open(PULC_D, "sink");
	struct pulc_tag want = anything;
	struct pulc_tagged m;
	const void *block[5];

	native_await(1);
	MUST_IS(pulc_tag_probe(&anything, -1, &m), 1);
	want.peer = m.peer;
	want.tag = 99;
	want.mask = PULC_TAG_EXACT;
	MUST_IS(pulc_tag_receive(&want, buf, 1, NULL), -ECONNRESET);
	for (unsigned i = 0; i < 5; i++) {
		MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block[i], &m), 1 << 20);
		MUST_IS(m.tag, i);
	}
	for (unsigned i = 0; i < 5; i++)
		MUST(native_holds(block[i], 1u << 20, i));
	for (unsigned i = 0; i < 5; i++)
		MUST_IS(pulc_free(block[i]), 0);
	MUST_IS(pulc_port_close(p), 0);
}

static void give_to_the_dying(void)
{
	uint32_t peer = native_peer_named("sink");

	for (unsigned i = 0; i < 5; i++)
		give(peer, i, 1u << 20, i);
	native_reach(1);
	await_blocks();
	MUST_IS(pulc_free(new_block(100)), 0);
}

static void take_and_die(void)
{
	const void *block;

	(void)native_open(PULC_D, "sink");
	native_await(1);
	MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block, NULL), 1 << 20);
	MUST_IS(pulc_tag_take(&anything, LEN_LONG, &block, NULL), 1 << 20);
	_exit(0);
}

static void the_end_of_either(void)
{
	NATIVE_RUN(give_and_die, read_what_a_dead_one_gave);
	NATIVE_RUN(give_to_the_dying, take_and_die);
}

/* ---- psid does not answer -------------------------------------------------------------------- */

/* What the thread that wants a block is doing: 1: it is inside of the call; 2: it has returned, or
 * may. */
static _Atomic unsigned progress;
/* It stands still, with no lock; false: it may go on. */
static _Atomic bool held;

/* Of a timer of its own: who is to wait for 20 ms at most is stopped where he stands, however late
 * he gets a processor. */
static void stand_still(int signal)
{
	(void)signal;
	if (atomic_load(&progress) != 1 || shm_self.n_held)
		return;
	atomic_store(&held, true);
	while (atomic_load(&held))
		(void)usleep(100);
}

static timer_t stop_often(void)
{
	const struct itimerspec often = { { 0, 200000 }, { 0, 200000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	timer_t timer;

	event._sigev_un._tid = gettid();
	MUST_IS(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	MUST_IS(timer_settime(timer, 0, &often, NULL), 0);
	return timer;
}

static void *allocate_slowly(void *arg)
{
	timer_t timer = stop_often();
	void *block;

	(void)arg;
	atomic_store(&progress, 1);
	if (pulc_alloc(1u << 20, 0, &block) == 0)
		(void)pulc_free(block);
	atomic_store(&progress, 2);
	MUST_IS(timer_delete(timer), 0);
	return NULL;
}

/* It stands still where it has pages, and no memory for them yet; false: it has returned. */
static bool is_in_want(void)
{
	while (atomic_load(&progress) < 2) {
		if (!atomic_load(&held))
			(void)usleep(100);
		else if (state().size_used)
			return true;
		else
			atomic_store(&held, false);
	}
	return false;
}

/* Could this thread send while the other one waited for psid, who is stopped? */
static bool send_meanwhile(pulc_port *p)
{
	struct pulc_address self = pulc_port_address(p);
	pthread_t thread;
	bool sent;

	for (uint64_t size = 1ull << 40; size >= 4096; size /= 2)
		while (client_credit_take(size) == TCP_CREDIT_GRANTED)
			;
	atomic_store(&progress, 0);
	MUST_IS(kill(native_psid(), SIGSTOP), 0);
	MUST_IS(pthread_create(&thread, NULL, allocate_slowly, NULL), 0);
	sent = is_in_want();
	if (sent) {
		MUST_IS(pulc_send(p, &self, "x", 1, 0), 1);
		MUST_IS(pulc_receive(p, buf, 1, NULL, 0), 1);
	}
	atomic_store(&progress, 2);
	atomic_store(&held, false);
	MUST_IS(pthread_join(thread, NULL), 0);
	MUST_IS(kill(native_psid(), SIGCONT), 0);
	return sent;
}

static void wait_for_memory(void)
{
	const struct sigaction action = { .sa_handler = stand_still, .sa_flags = SA_RESTART };
	pulc_port *p = native_open(PULC_D, "self");

	MUST_IS(sigaction(SIGUSR1, &action, NULL), 0);
	/* From the next one on it has the area. */
	MUST_IS(pulc_free(new_block(1)), 0);
	/* psid may have sent more just before it was stopped; and who was not answered does not ask
	 * again at once. */
	while (!send_meanwhile(p))
		(void)usleep(120000);
	while (state().size_used)
		(void)usleep(1000);
	MUST_IS(pulc_port_close(p), 0);
}

static void others_send_while_psid_is_asked_for_memory(void)
{
	NATIVE_RUN(wait_for_memory);
}

static const struct test tests[] = {
	TEST(every_size_is_given_and_taken),
	TEST(nothing_is_copied),
	TEST(blocks_have_one_owner),
	TEST(a_sender_waits_for_its_blocks),
	TEST(the_end_of_either),
	TEST(others_send_while_psid_is_asked_for_memory),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
