/* Processors given to tasks on a node that the node's own news does not show yet. */
#ifndef PULC_PSID_PLACED_H
#define PULC_PSID_PLACED_H

#include <stddef.h>
#include <stdint.h>

#define PSID_N_PLACED 6u

/* All zero: nothing. Oldest first. */
struct psid_placed {
	struct psid_placed_at {
		uint64_t usec; /* the last of these */
		uint32_t n_cpus;
	} at[PSID_N_PLACED];
	size_t n;
};

void psid_placed_add(struct psid_placed *placed, uint64_t usec_now, uint32_t n_cpus);
/* The youngest are taken back. */
void psid_placed_take_back(struct psid_placed *placed, uint32_t n_cpus);
/* News made at usec_made shows n_cpus more than the news before. */
void psid_placed_seen(struct psid_placed *placed, uint64_t usec_made, uint32_t n_cpus);
uint32_t psid_placed_sum(const struct psid_placed *placed);

#endif
