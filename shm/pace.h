/* How long pieces are written into a ring whose reader is far behind: shm/pace.c. */
#ifndef PULC_SHM_PACE_H
#define PULC_SHM_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed at the beginning. A sender's, under its lock. */
struct shm_pace {
	bool past;	  /* past the caches; else with ordinary stores */
	uint64_t since;	  /* ring byte at which this way began */
	uint64_t begun;	  /* ring byte at which the measurement began; 0: there is none */
	uint64_t nsec;	  /* when it began */
	uint64_t psec[2]; /* what a byte took, ordinary and past; 0: not known */
};

/*
 * The next piece is written at head, while the reader is at tail and far behind. Returns true: with ordinary stores. Else, when
 * it is not far behind any more, shm_pace_break.
 */
bool shm_pace_is_ordinary(struct shm_pace *p, uint64_t head, uint64_t tail)
	__attribute__((visibility("hidden")));

static inline void shm_pace_break(struct shm_pace *p)
{
	p->begun = 0;
}

#endif
