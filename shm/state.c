/*
 * Where a process's numbers are shown. Whoever writes them keeps its own counts and never reads
 * these: peers of the same user could change them. Which entry is which port's is kept here for the
 * same reason.
 *
 * A process that has come to another psid shows them there; what is changed by another thread at
 * that very moment may be shown as it was until it changes again. A child of one that showed
 * nothing yet when it forked is not told to forget: what its parent's area says since is not its
 * own.
 */
#include "state.h"

#include <stdbool.h>
#include <string.h>

#include "macros.h"
#include "rawsys.h"

static LARGE struct shm_state unseen;
struct shm_state *_Atomic shm_state = &unseen;
static uint32_t numbers[SHM_N_PORTS_SHOWN]; /* of the ports; 0: a free entry */
static int shown_by;			    /* the process whose area is the present one */

static void copy_counts(const _Atomic uint64_t *from, _Atomic uint64_t *to, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		atomic_store_explicit(&to[i], atomic_load_explicit(&from[i], memory_order_relaxed),
				      memory_order_relaxed);
}

static bool is_nothing(const struct shm_state *state)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < SHM_N_COUNTS; i++)
		any |= atomic_load_explicit(&state->counts[i], memory_order_relaxed);
	for (unsigned i = 0; i < SHM_N_PORTS_SHOWN; i++)
		any |= numbers[i];
	return any == 0;
}

void shm_state_show(struct shm_boards *boards)
{
	struct shm_state *to = (struct shm_state *)((char *)boards + SHM_STATE_AT);
	struct shm_state *from = atomic_load(&shm_state);
	int pid = raw_getpid();

	if (from != &unseen && shown_by != pid)
		from = &unseen;
	shown_by = pid;
	if (!is_nothing(from)) {
		copy_counts(from->counts, to->counts, SHM_N_COUNTS);
		for (unsigned i = 0; i < SHM_N_PORTS_SHOWN; i++) {
			atomic_store(&to->ports[i].number, numbers[i]);
			copy_counts(from->ports[i].counts, to->ports[i].counts, SHM_N_PORT_COUNTS);
		}
	}
	atomic_store(&shm_state, to);
}

void shm_state_forget(void)
{
	memset((void *)&unseen, 0, sizeof(unseen));
	memset(numbers, 0, sizeof(numbers));
	atomic_store(&shm_state, &unseen);
}

uint32_t shm_state_port_add(uint32_t number)
{
	uint32_t i = 0;

	while (i < SHM_N_PORTS_SHOWN && numbers[i])
		i++;
	if (i == SHM_N_PORTS_SHOWN)
		return i;
	numbers[i] = number;
	for (unsigned k = 0; k < SHM_N_PORT_COUNTS; k++)
		shm_state_port_set(i, k, 0);
	atomic_store(&atomic_load(&shm_state)->ports[i].number, number);
	return i;
}

void shm_state_port_remove(uint32_t entry)
{
	if (entry >= SHM_N_PORTS_SHOWN)
		return;
	numbers[entry] = 0;
	atomic_store(&atomic_load(&shm_state)->ports[entry].number, 0);
}
