/*
 * What a process shows of its native interface: numbers in the first page of its board area, which
 * psid reads for `pulcctl ports`. They are written beside what they tell of, wherever that changes,
 * and read by nobody else: so they are there too while the process computes, or is stopped.
 */
#ifndef PULC_SHM_STATE_H
#define PULC_SHM_STATE_H

#include "layout.h"

/* Where they are; before there is a board area, and in a forked child, in memory that nobody
 * sees. */
extern struct shm_state *_Atomic shm_state __attribute__((visibility("hidden")));

/* From now on they are shown there, with what they are now. The area stays mapped. */
void shm_state_show(struct shm_boards *boards);
/* In a forked child: what is shown is the parent's. */
void shm_state_forget(void);

/* An entry for the port; SHM_N_PORTS_SHOWN: there is none left. */
uint32_t shm_state_port_add(uint32_t number);
void shm_state_port_remove(uint32_t entry);

static inline void shm_state_set(unsigned what, uint64_t value)
{
	struct shm_state *state = atomic_load_explicit(&shm_state, memory_order_relaxed);

	atomic_store_explicit(&state->counts[what], value, memory_order_relaxed);
}

static inline void shm_state_port_set(uint32_t entry, unsigned what, uint64_t value)
{
	struct shm_state *state = atomic_load_explicit(&shm_state, memory_order_relaxed);

	if (entry < SHM_N_PORTS_SHOWN)
		atomic_store_explicit(&state->ports[entry].counts[what], value,
				      memory_order_relaxed);
}

#endif
