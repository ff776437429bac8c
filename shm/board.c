/*
 * The bitmap that wakes a wait set.
 *
 * A publisher sets the bit of the endpoint in its word, then the word's bit in the summary, then
 * looks whether the owner sleeps. All three are idempotent: a publisher that dies between two of
 * them leaves at worst a bit without a summary, which the next publication of the same word
 * repairs; an owner that finds a summary without a bit looks in vain. Nothing overflows and nothing
 * is torn, which is what a queue of endpoint numbers could not promise.
 *
 * The owner clears in the opposite order: the summary first, then it takes the whole word. A bit
 * set in between sets the summary again.
 *
 * The kernel tells of sockets in the order in which they became ready, so the latest bits are noted
 * in the order in which they were set, and taken in that order. The notes are a hint: a bit without
 * a note is found by the bitmap, a note without a bit is passed over, and when there were more of
 * them than have room the bitmap's order must do.
 *
 * Sleep. Owner: asleep = 1, full fence, look at everything once more, sleep. Publisher: publish,
 * full fence, look for arms, set the bit (a full fence), look at asleep. Either the publisher sees
 * asleep or the owner sees the bit: Dekker's argument, spelled out in docs/waiting.md.
 *
 * A hostile process of the same user can set, clear and count as it likes: it costs its own user
 * wake-ups, and memory nothing.
 */
#include "board.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "rawsys.h"

int shm_boards_map(int fd, struct shm_boards **ret_boards)
{
	struct shm_boards *boards;
	struct stat st;
	long p;

	p = raw_syscall(SYS_fstat, fd, &st, 0, 0, 0, 0);
	if (p < 0)
		return (int)p;
	if ((uint64_t)st.st_size != SHM_SIZE_BOARDS)
		return -EBADMSG;
	p = raw_syscall(SYS_mmap, NULL, SHM_SIZE_BOARDS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p < 0 && p > -4096)
		return (int)p;
	boards = (struct shm_boards *)p;
	if (boards->magic != SHM_MAGIC_BOARDS || boards->version != SHM_VERSION) {
		shm_boards_unmap(boards);
		return -EBADMSG;
	}
	*ret_boards = boards;
	return 0;
}

void shm_boards_unmap(struct shm_boards *boards)
{
	if (boards)
		(void)raw_syscall(SYS_munmap, boards, SHM_SIZE_BOARDS, 0, 0, 0, 0);
}

struct shm_board *shm_board_of(struct shm_boards *boards, uint32_t i)
{
	return (struct shm_board *)((char *)boards + (uint64_t)(1 + i) * SHM_PAGE);
}

struct shm_exchange *shm_line_of(struct shm_boards *boards, uint32_t i)
{
	return (struct shm_exchange *)shm_board_of(boards, SHM_FIRST_LINES) + i;
}

bool shm_boards_have(struct shm_boards *boards, const struct shm_exchange *line)
{
	return line >= shm_line_of(boards, 0) && line < shm_line_of(boards, SHM_N_LINES);
}

static void note(struct shm_board *board, uint32_t bit)
{
	uint32_t i = atomic_fetch_add_explicit(&board->n_noted, 1, memory_order_relaxed);

	atomic_store_explicit(&board->noted[i % SHM_BOARD_NOTES], (uint16_t)bit,
			      memory_order_relaxed);
}

bool shm_board_set(struct shm_board *board, uint32_t bit)
{
	uint32_t word = bit / 64 % SHM_BOARD_WORDS;
	uint64_t mask = 1ull << bit % 64;

	if (!(atomic_fetch_or_explicit(&board->words[word], mask, memory_order_seq_cst) & mask))
		note(board, bit % SHM_BOARD_BITS);
	(void)atomic_fetch_or_explicit(&board->summary[word / 64], 1ull << word % 64,
				       memory_order_seq_cst);
	return atomic_load_explicit(&board->asleep, memory_order_seq_cst) != 0;
}

void shm_board_clear(struct shm_board *board)
{
	uint32_t bit;

	shm_board_disarm(board);
	while (shm_board_take(board, &bit))
		;
}

void shm_board_arm(struct shm_board *board)
{
	(void)atomic_exchange_explicit(&board->asleep, 1, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
}

void shm_board_disarm(struct shm_board *board)
{
	atomic_store_explicit(&board->asleep, 0, memory_order_release);
}

/* Takes the lowest bit of word w; keeps the summary while others are left. */
static bool take_from(struct shm_board *board, uint32_t w, uint32_t *ret_bit)
{
	uint64_t summary = 1ull << w % 64, word, bit;

	(void)atomic_fetch_and_explicit(&board->summary[w / 64], ~summary, memory_order_seq_cst);
	word = atomic_load_explicit(&board->words[w], memory_order_seq_cst);
	if (word == 0)
		return false;
	bit = word & -word;
	word = atomic_fetch_and_explicit(&board->words[w], ~bit, memory_order_seq_cst);
	if (word & ~bit)
		(void)atomic_fetch_or_explicit(&board->summary[w / 64], summary,
					       memory_order_seq_cst);
	*ret_bit = w * 64 + (uint32_t)__builtin_ctzll(bit);
	return (word & bit) != 0;
}

/* Leaves the summary to whoever finds the word empty. */
static bool take_noted(struct shm_board *board, uint32_t *ret_bit)
{
	uint32_t n = atomic_load_explicit(&board->n_noted, memory_order_acquire);
	uint32_t i = atomic_load_explicit(&board->n_taken, memory_order_relaxed);
	uint64_t mask = 0, word = 0;

	if (n - i > SHM_BOARD_NOTES)
		i = n;
	while (i != n && !(word & mask)) {
		*ret_bit = atomic_load_explicit(&board->noted[i++ % SHM_BOARD_NOTES],
						memory_order_relaxed) %
			   SHM_BOARD_BITS;
		mask = 1ull << *ret_bit % 64;
		word = atomic_fetch_and_explicit(&board->words[*ret_bit / 64], ~mask,
						 memory_order_seq_cst);
	}
	atomic_store_explicit(&board->n_taken, i, memory_order_relaxed);
	return (word & mask) != 0;
}

bool shm_board_take(struct shm_board *board, uint32_t *ret_bit)
{
	if (take_noted(board, ret_bit))
		return true;
	for (uint32_t i = 0; i < SHM_BOARD_WORDS / 64; i++) {
		uint64_t summary = atomic_load_explicit(&board->summary[i], memory_order_acquire);

		while (summary) {
			uint32_t w = i * 64 + (uint32_t)__builtin_ctzll(summary);

			if (take_from(board, w, ret_bit))
				return true;
			summary &= summary - 1;
		}
	}
	return false;
}
