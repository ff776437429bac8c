/* How long pieces are written into a ring: shm/pace.c. */
#ifndef PULC_SHM_PACE_H
#define PULC_SHM_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "macros.h"

/* The most that is believed, ps for a byte. */
#define SHM_PSEC_MOST 4000u
/* One in so many long pieces is timed. */
#define SHM_PACE_N 8u

/* The writer's, under its lock. Zeroed at the beginning. */
struct shm_pace {
	bool past;	  /* past the caches; else with ordinary stores */
	bool is_trial;	  /* to be compared with the other way as soon as it was measured */
	uint32_t n;	  /* pieces, to time one now and then */
	uint32_t n_timed; /* in this way, since it began */
	uint32_t psec_in; /* what a byte takes the writer in this way */
	/* what it takes both, ordinary and past, when last measured; 0: not known */
	uint32_t psec[2];
	uint64_t since;	     /* ring byte at which this way began */
	uint64_t size_again; /* bytes until the other one is tried */
};

/* The reader's, under its lock. Zeroed at the beginning. */
struct shm_pace_reader {
	uint32_t n;
	uint32_t n_timed;
	uint32_t psec;
	uint64_t since; /* the writer's, for which this was measured */
};

/* One that was timed. */
struct shm_timed {
	uint64_t at, size, size_ring, nsec;
};

/* Is the next piece to be timed? */
static inline bool shm_pace_is_due(uint32_t *n)
{
	return UNLIKELY(++*n % SHM_PACE_N == 0);
}

/*
 * A piece was written; `told` is the reader's last answer. Returns true if the next pieces go the
 * other way: p->since is to be told to the reader.
 */
bool shm_pace_wrote(struct shm_pace *p, const struct shm_timed *t, uint64_t told)
	__attribute__((visibility("hidden")));
/*
 * A piece was read; the writer says that its way began at `since`. Returns what the writer is to be
 * told; 0: nothing yet.
 */
uint64_t shm_pace_read(struct shm_pace_reader *p, const struct shm_timed *t, uint64_t since)
	__attribute__((visibility("hidden")));

#endif
