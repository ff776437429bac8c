/*
 * Two processes of one family write to a ring, or read from it, one after the other under its lock,
 * and the first is killed at each named point: inside of the lock, before and behind it, asleep for
 * it and while the second one is. That one goes on, and the other end finds each byte, or each
 * record, once and in its place.
 *
 * A link has one process on either side: one that tells in a line both write is killed too, and
 * what the other end finds is the beginning of what was sent.
 *
 * What is written is told by where it stands, so that whoever goes on needs to know nothing of the
 * other one.
 */
#include <sched.h>
#include <sys/wait.h>

#include "exchange.h"
#include "psid/native_case.h"
#include "queue.h"
#include "slab.h"
#include "steps/walk.h"
#include "tcp_pair.h"

#define SIZE_TOTAL (60u << 10)
#define SIZE_PIECE 40000u /* more than the first ring holds: the next one must grow */
#define SIZE_SHORT 1000u  /* until there, pieces are short */

/* A direction: end 0 is the family's. */
static struct {
	struct shm_slab_map own[2], seen[2];
	struct shm_stream stream[2];
	int fd[2];
} v;

/* Until then the other one leaves the ring to it. */
static _Atomic bool *victim_is_done;

static unsigned char byte_at(uint64_t at)
{
	return (unsigned char)(at * 7 + (at >> 8));
}

static void open_ends(void)
{
	uint64_t size;

	memset(&v, 0, sizeof(v));
	for (int i = 0; i < 2; i++) {
		v.fd[i] = slab_make(tcp_pair_small_rings, 1, &size);
		REQUIRE_INT(shm_slab_map(v.fd[i], size, true, &v.own[i]), ==, 0);
		REQUIRE_INT(shm_slab_map(v.fd[i], size, false, &v.seen[i]), ==, 0);
	}
	for (int i = 0; i < 2; i++)
		REQUIRE_INT(shm_stream_bind(&v.stream[i], &v.own[i], 0, &v.seen[1 - i], 0), ==, 0);
	shm_add_holder(&v.stream[0]);
	victim_is_done = native_share(sizeof(*victim_is_done));
}

static void close_ends(void)
{
	native_unshare((void *)victim_is_done, sizeof(*victim_is_done));
	for (int i = 0; i < 2; i++) {
		shm_slab_unmap(&v.own[i]);
		shm_slab_unmap(&v.seen[i]);
		(void)close(v.fd[i]);
	}
}

/* ---- the family ------------------------------------------------------------------------------ */

/* Each of the two waits once while the other one is inside. */
static void wait_for_each_other(_Atomic uint32_t *lock, bool is_victim)
{
	if (is_victim) {
		step_await_others(STEP_LOCK_TAKEN);
		step_victim(getpid());
	}
	MUST(shm_lock(lock));
	if (is_victim)
		step_await_others(STEP_LOCK_MARKED);
	else
		step_await_victim(STEP_LOCK_MARKED);
	shm_unlock(lock);
	if (!is_victim) {
		step_await_victim(STEP_LOCK_TAKEN);
		MUST(shm_lock(lock));
		shm_unlock(lock);
	}
}

static void grow(struct shm_stream *s, uint64_t wanted)
{
	uint32_t next = shm_tx_next_ring(s, wanted, UINT64_MAX);

	if (next < SHM_N_RINGS)
		MUST(shm_tx_grow(s, next) == 0);
}

static bool write_piece(struct shm_stream *s)
{
	static char buf[SIZE_PIECE];
	uint64_t at = shm_sent(s), room = 0;
	size_t len = at < SIZE_SHORT ? 100 : SIZE_PIECE;

	if (at >= SIZE_TOTAL)
		return false;
	MUST(shm_tx_room(s, &room) == 0);
	if (room < len)
		grow(s, SIZE_PIECE);
	for (size_t i = 0; i < len; i++)
		buf[i] = (char)byte_at(at + i);
	MUST(shm_tx_write(s, buf, MIN(len, (size_t)(SIZE_TOTAL - at))) >= 0);
	return true;
}

static bool put_record(struct shm_stream *s)
{
	const struct shm_datagram d = { .stamp = 1 };
	uint64_t at = shm_sent(s), words[400];
	unsigned kind = (unsigned)(at >> 4) % 7;
	struct iovec iov = { words, kind < 3 ? 8 : kind < 5 ? 24 : sizeof(words) };

	if (at >= SIZE_TOTAL)
		return false;
	for (size_t i = 0; i < iov.iov_len / 8; i++)
		words[i] = at;
	if (shm_queue_put(s, &d, &iov, 1, iov.iov_len) < 0)
		grow(s, sizeof(words));
	return true;
}

static bool read_piece(struct shm_stream *s)
{
	static unsigned char buf[SIZE_PIECE];
	uint64_t at = shm_taken(s);
	bool published = false;
	ssize_t n;

	if (at >= SIZE_TOTAL)
		return false;
	n = shm_rx_read(s, buf, at < SIZE_SHORT ? 100 : SIZE_PIECE, &published);
	MUST(n >= 0);
	for (ssize_t i = 0; i < n; i++)
		MUST(buf[i] == byte_at(at + (uint64_t)i));
	return true;
}

static pid_t start(_Atomic uint32_t *lock, bool (*turn)(struct shm_stream *s), bool is_victim)
{
	pid_t pid = fork();
	bool goes_on;

	REQUIRE(pid >= 0);
	if (pid != 0)
		return pid;
	shm_self_forget();
	wait_for_each_other(lock, is_victim);
	while (!is_victim && !*victim_is_done && !step_is_killed())
		(void)usleep(1000);
	do {
		MUST(shm_lock(lock));
		goes_on = turn(&v.stream[0]);
		shm_unlock(lock);
		(void)sched_yield();
	} while (goes_on);
	*victim_is_done = true;
	_exit(0);
}

/* ---- the other end --------------------------------------------------------------------------- */

static void read_all(void)
{
	struct shm_stream *s = &v.stream[1];

	while (shm_taken(s) < SIZE_TOTAL) {
		static unsigned char buf[SIZE_PIECE];
		uint64_t at = shm_taken(s);
		bool published = false;
		ssize_t n = shm_rx_read(s, buf, sizeof(buf), &published);

		REQUIRE_INT(n, >=, 0);
		for (ssize_t i = 0; i < n; i++)
			REQUIRE_INT(buf[i], ==, byte_at(at + (uint64_t)i));
		(void)sched_yield();
	}
}

/* One record, if there is one. */
static bool get_one(struct shm_stream *s)
{
	struct shm_datagram d = { 0 };
	uint64_t words[400];
	struct iovec iov = { words, sizeof(words) };
	int n = shm_queue_next(s, &d);

	REQUIRE_INT(n, >=, 0);
	if (n == 0)
		return false;
	REQUIRE_INT(shm_queue_copy(s, &d, &iov, 1), ==, d.len);
	for (size_t i = 0; i < d.len / 8; i++)
		REQUIRE_INT(words[i], ==, d.at);
	(void)shm_queue_drop(s, &d);
	return true;
}

static void get_all(void)
{
	while (shm_taken(&v.stream[1]) < SIZE_TOTAL) {
		(void)get_one(&v.stream[1]);
		(void)sched_yield();
	}
}

static void write_all(void)
{
	while (write_piece(&v.stream[1]))
		(void)sched_yield();
}

/* ---- the scenes ------------------------------------------------------------------------------ */

static void play(bool writes, bool (*turn)(struct shm_stream *s), void (*other_end)(void))
{
	_Atomic uint32_t *lock;
	pid_t pids[2];
	int status;

	open_ends();
	lock = writes ? &v.stream[0].own->tx_lock : &v.stream[0].own->rx_lock;
	for (unsigned i = 0; i < 2; i++)
		pids[i] = start(lock, turn, i == 0);
	other_end();
	for (unsigned i = 0; i < 2; i++) {
		REQUIRE_INT(waitpid(pids[i], &status, 0), ==, pids[i]);
		CHECK(status == 0 || (i == 0 && step_is_killed() && WIFSIGNALED(status)));
	}
	CHECK_INT(*lock & FUTEX_TID_MASK, ==, 0);
	close_ends();
}

static void write_bytes(void)
{
	play(true, write_piece, read_all);
}

static void put_records(void)
{
	play(true, put_record, get_all);
}

static void read_bytes(void)
{
	play(false, read_piece, write_all);
}

#define LINE SHM_LINE_NAME(1, 2)

static pid_t start_telling(struct shm_exchange *line)
{
	struct shm_stream *s = &v.stream[0];
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid != 0)
		return pid;
	shm_self_forget();
	step_victim(getpid());
	exchange_begin(s, &line->halves[0], LINE);
	s->told = &line->halves[1];
	while (put_record(s))
		(void)sched_yield();
	_exit(0);
}

static void tell_records(void)
{
	struct shm_exchange *line = native_share(sizeof(*line));
	struct shm_stream *s = &v.stream[1];
	bool got, ended = false;
	int status = 0;
	pid_t pid;

	open_ends();
	pid = start_telling(line);
	do {
		if (exchange_said(s) == LINE)
			s->told = &line->halves[0];
		ended = ended || waitpid(pid, &status, WNOHANG) == pid;
		got = get_one(s);
		(void)sched_yield();
	} while (!ended || got);
	CHECK(shm_taken(s) <= shm_sent(&v.stream[0]));
	CHECK(step_is_killed() ? WIFSIGNALED(status) : status == 0 && shm_taken(s) >= SIZE_TOTAL);
	close_ends();
	native_unshare(line, sizeof(*line));
}

static void one_who_tells_in_a_line(void)
{
	steps_walk("one who tells", tell_records, STEPS_OF_RINGS);
}

static void a_writer_of_bytes(void)
{
	steps_walk("a writer", write_bytes, STEPS_OF_RINGS);
}

static void a_writer_of_records(void)
{
	steps_walk("a writer of records", put_records, STEPS_OF_RINGS);
}

static void a_reader_of_bytes(void)
{
	steps_walk("a reader", read_bytes, STEPS_OF_RINGS);
}

static void every_point_was_reached(void)
{
	steps_end(STEPS_OF_RINGS);
}

static const struct test tests[] = {
	TEST(a_writer_of_bytes),       TEST(a_writer_of_records),     TEST(a_reader_of_bytes),
	TEST(one_who_tells_in_a_line), TEST(every_point_was_reached),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
