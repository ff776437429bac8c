/*
 * A load average lags by a minute and a node's news by its way here; a burst of spawns must not all
 * land on the node that looked best when it began. So whoever places a task adds it to what the
 * node says, until the node says it itself: its news shows more processors in use, or was made so
 * long after the placement that the task must have started, or ended, by then.
 *
 * Placements are kept in a few groups by time; when there is no group left, the two oldest become
 * one with the younger's time.
 */
#include "placed.h"

#include <string.h>

#include "macros.h"

#define USEC_GROUP 250000u  /* placements of this time are one group */
#define USEC_START 1000000u /* from the placement until the node counts the task, at most */

static void drop_first(struct psid_placed *placed)
{
	placed->n--;
	memmove(placed->at, placed->at + 1, placed->n * sizeof(placed->at[0]));
}

void psid_placed_add(struct psid_placed *placed, uint64_t usec_now, uint32_t n_cpus)
{
	struct psid_placed_at *last = placed->n ? &placed->at[placed->n - 1] : NULL;

	if (!last || usec_now > last->usec + USEC_GROUP) {
		if (placed->n == PSID_N_PLACED) {
			placed->at[1].n_cpus += placed->at[0].n_cpus;
			drop_first(placed);
		}
		last = &placed->at[placed->n++];
		*last = (struct psid_placed_at){ .usec = usec_now };
	}
	last->n_cpus += n_cpus;
}

void psid_placed_take_back(struct psid_placed *placed, uint32_t n_cpus)
{
	while (n_cpus > 0 && placed->n > 0) {
		struct psid_placed_at *last = &placed->at[placed->n - 1];
		uint32_t n = MIN(n_cpus, last->n_cpus);

		last->n_cpus -= n;
		n_cpus -= n;
		if (last->n_cpus == 0)
			placed->n--;
	}
}

void psid_placed_seen(struct psid_placed *placed, uint64_t usec_made, uint32_t n_cpus)
{
	while (placed->n > 0) {
		struct psid_placed_at *first = &placed->at[0];
		uint32_t n = MIN(n_cpus, first->n_cpus);

		if (first->usec + USEC_START < usec_made)
			n = first->n_cpus;
		first->n_cpus -= n;
		n_cpus -= MIN(n, n_cpus);
		if (first->n_cpus > 0)
			return;
		drop_first(placed);
	}
}

uint32_t psid_placed_sum(const struct psid_placed *placed)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < placed->n; i++)
		sum += placed->at[i].n_cpus;
	return sum;
}
