/* What clients show of their links and of their ports' peers, as psid reads it. Nothing of it is
 * true. */
#ifndef PULC_PSID_SHOWN_H
#define PULC_PSID_SHOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

struct psid_client;
struct psid_holder;

/* What a link to another process of this node has carried. */
struct psid_link_use {
	uint64_t size_received, size_sent, size_queued; /* bounded so that sums make sense */
	uint32_t psec_in, psec_out, size_piece;
};

/* A copy of a struct shm_pair. */
struct psid_shown_pair {
	uint64_t who, ports, counts[2];
};

/* Those in use, sorted by the peer's number, then by ports. */
struct psid_pairs {
	const struct psid_client *owner;
	unsigned n;
	struct psid_shown_pair items[SHM_N_PAIRS];
};

/* Sums of such make sense. */
#define PSID_SIZE_SHOWN_MAX (UINT64_MAX >> 3)

/* 0; -ENOENT: the holding is no link with two sides, or cannot be read. */
int psid_link_use(const struct psid_holder *holder, struct psid_link_use *ret_use);
/* Reads the owner's, unless they are what was read last. */
void psid_pairs_read(const struct psid_client *owner, struct psid_pairs *pairs);
/* The first one of that peer, or where it would stand. */
unsigned psid_pairs_find(const struct psid_pairs *pairs, uint32_t peer);
/* What is left of the credit of a pair of kind SHM_PAIR_TO or SHM_PAIR_TAGS. */
uint64_t psid_pair_credit(const struct psid_shown_pair *pair);

#endif
