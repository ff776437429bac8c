/*
 * A peer that lies: every word of its side, set in turn to every value that could hurt, while we
 * send, receive, peek, poll, count and wait for it. Nothing may crash, hang, or read outside its
 * rings; the connection may end, and our own words stay ours.
 *
 * The victim is end 0. The liar writes end 1's slab through its own mapping, as the process behind
 * it could.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "board.h"
#include "geometry.h"
#include "harness.h"
#include "liar.h"
#include "rawsys.h"
#include "tcp_pair.h"

static struct tcp_pair p;

/* Everything that an honest process does with a connection. */
static void live(void)
{
	unsigned char buf[6000] = { 0 };
	uint64_t size, watches[SHM_N_WATCHES];

	for (int i = 0; i < 3; i++) {
		(void)pair_push(&p, 0, buf, 100);
		(void)pair_pull(&p, 0, buf, sizeof(buf), MSG_PEEK);
		(void)tcp_poll(&p.tcp[0], p.fd[0], POLLIN | POLLOUT | POLLRDHUP);
		(void)tcp_inq(&p.tcp[0], p.fd[0], &size);
		(void)tcp_outq(&p.tcp[0], p.fd[0], &size);
		(void)pair_pull(&p, 0, buf, 50, 0);
		(void)pair_pull(&p, 0, buf, sizeof(buf), MSG_TRUNC);
		(void)shm_mark(&p.tcp[0].ring);
		(void)shm_collect_rx(&p.tcp[0].ring, watches);
		(void)shm_collect_tx(&p.tcp[0].ring, watches);
	}
}

static void begin(void)
{
	tcp_pair_init(&p, tcp_pair_small_rings);
	tcp_pair_watch(&p);
	(void)pair_push(&p, 0, "hello", 5);
	(void)pair_push(&p, 1, "hello", 5);
}

static _Atomic uint64_t *word_of(int side, size_t i)
{
	return (_Atomic uint64_t *)shm_slab_side(&p.own[side], 0) + i;
}

static void each_word_each_value(void)
{
	for (size_t i = 0; i < sizeof(struct shm_side) / 8; i++) {
		for (size_t k = 0; k < LIAR_N_VALUES; k++) {
			begin();
			atomic_store(word_of(1, i), liar_values[k]);
			live();
			atomic_store(word_of(1, i), liar_values[k] + 1);
			live();
			tcp_pair_deinit(&p);
		}
	}
	CHECK(true);
}

static void a_head_beyond_the_ring_is_a_reset(void)
{
	char buf[10];

	begin();
	REQUIRE_INT(pair_pull(&p, 0, buf, 1, 0), ==, 1);
	shm_slab_side(&p.own[1], 0)->head = 1 << 20;
	CHECK_INT(pair_pull(&p, 0, buf, sizeof(buf), 0), ==, -ECONNRESET);
	tcp_pair_deinit(&p);
}

static void a_tail_beyond_the_head_is_a_reset(void)
{
	char buf[100] = { 0 };

	begin();
	shm_slab_side(&p.own[1], 0)->tail = 1 << 20;
	CHECK_INT(pair_push(&p, 0, buf, sizeof(buf)), ==, -ECONNRESET);
	tcp_pair_deinit(&p);
}

/* Over the whole control page and the rings. */
static void garbage_while_we_work(void)
{
	struct liar liar = { .n_words = shm_slot_size(tcp_pair_small_rings) / 8 };

	for (int round = 0; round < 10; round++) {
		begin();
		liar.words[0] = liar.words[1] = word_of(1, 0);
		liar_start(&liar);
		for (int i = 0; i < 300; i++)
			live();
		liar_stop(&liar);
		tcp_pair_deinit(&p);
	}
	CHECK(true);
}

/* The owner of an area punches it out and writes it again: what the reader pays is bounded by the
 * area's size. */
static void punched_pages_read_as_zeros(void)
{
	unsigned char buf[6000];

	begin();
	for (int i = 0; i < 200; i++) {
		REQUIRE_INT(raw_syscall(SYS_fallocate, p.slab_fd[1],
					FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
					(long)p.own[1].size, 0, 0),
			    ==, 0);
		shm_slab_side(&p.own[1], 0)->head = (uint64_t)i * 64;
		(void)pair_pull(&p, 0, buf, sizeof(buf), MSG_PEEK);
		(void)pair_push(&p, 0, buf, 10);
	}
	CHECK(true);
	tcp_pair_deinit(&p);
}

/* A header may lie within its file (fewer slots, another small ring): nothing computed from it
 * leaves the file. */
static bool stays_inside(const struct shm_slab_map *map)
{
	return map->size_slot == shm_slot_size(map->size_ring) &&
	       shm_slot_at(map->size_slot, map->n_slots) <= map->size;
}

static void slab_headers_that_lie_are_refused(void)
{
	struct shm_slab_map map;
	struct shm_slab *slab;
	uint64_t size;
	int fd = slab_make(tcp_pair_small_rings, 2, &size), e;

	slab = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(slab != MAP_FAILED);
	for (size_t i = 0; i < offsetof(struct shm_slab, reserved) / 4; i++) {
		uint32_t *word = (uint32_t *)slab + i, kept = *word;

		for (uint32_t k = 0; k < 4; k++) {
			*word = k == 0 ? 0 : k == 1 ? ~0u : k == 2 ? kept + 1 : kept << 1;
			if (*word == kept)
				continue;
			e = shm_slab_map(fd, size, false, &map);
			CHECK(e == -EBADMSG || (e == 0 && stays_inside(&map)));
			if (e == 0)
				shm_slab_unmap(&map);
		}
		*word = kept;
	}
	CHECK_INT(shm_slab_map(fd, size + SHM_PAGE, false, &map), ==, -EBADMSG);
	CHECK_INT(shm_slab_map(fd, size, false, &map), ==, 0);
	shm_slab_unmap(&map);
	(void)munmap(slab, size);
	(void)close(fd);
}

static void slots_beyond_the_slab_are_refused(void)
{
	struct shm_stream s;

	begin();
	CHECK_INT(shm_stream_bind(&s, &p.own[0], 1, &p.seen[1], 0), ==, -EBADMSG);
	CHECK_INT(shm_stream_bind(&s, &p.own[0], 0, &p.seen[1], ~0u), ==, -EBADMSG);
	tcp_pair_deinit(&p);
}

static const struct test tests[] = {
	TEST(each_word_each_value),
	TEST(a_head_beyond_the_ring_is_a_reset),
	TEST(a_tail_beyond_the_head_is_a_reset),
	TEST(garbage_while_we_work),
	TEST(punched_pages_read_as_zeros),
	TEST(slab_headers_that_lie_are_refused),
	TEST(slots_beyond_the_slab_are_refused),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
