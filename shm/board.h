/*
 * Boards: a wait set's bitmap of "look at this", set by its peers. The owner takes bits and
 * says when it sleeps; publishers only ever OR. docs/waiting.md is normative.
 */
#ifndef PULC_SHM_BOARD_H
#define PULC_SHM_BOARD_H

#include <stdbool.h>

#include "layout.h"

/* Maps a board area (its descriptor is not kept). Returns 0; -EBADMSG: not one; other negative
 * errno. */
int shm_boards_map(int fd, struct shm_boards **ret_boards);
void shm_boards_unmap(struct shm_boards *boards);
/* Board i of an area, i < SHM_N_BOARDS. */
struct shm_board *shm_board_of(struct shm_boards *boards, uint32_t i);
/* Line i of an area, i < SHM_N_LINES. */
struct shm_exchange *shm_line_of(struct shm_boards *boards, uint32_t i);
/* Is that one of its lines? */
bool shm_boards_have(struct shm_boards *boards, const struct shm_exchange *line);

/* Publisher: sets bit (taken modulo the board). True: the owner sleeps, its bell must be rung. */
bool shm_board_set(struct shm_board *board, uint32_t bit);

/* Owner. */
void shm_board_clear(struct shm_board *board);
void shm_board_arm(struct shm_board *board);
void shm_board_disarm(struct shm_board *board);
bool shm_board_take(struct shm_board *board, uint32_t *ret_bit);

static inline bool shm_board_pending(const struct shm_board *board)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < SHM_BOARD_WORDS / 64; i++)
		any |= atomic_load_explicit(&board->summary[i], memory_order_relaxed);
	return any != 0;
}

#endif
