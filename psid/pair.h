/* What one client has towards another. */
#ifndef PULC_PSID_PAIR_H
#define PULC_PSID_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"
#include "slab.h"

struct psid_pair {
	struct psid_map_node node; /* owner->pairs, by the peer's id */
	struct psid_client *owner, *peer;
	uint32_t n_shared; /* connections that both hold, from opposite ends */
	LIST_HEAD(, psid_slab) slabs;
	/* What the peer has of the owner's wait sets. */
	bool boards_sent;
	uint64_t introduced[SHM_N_BOARDS / 64];
	bool messages_sent; /* the owner's message area */
};

/* NULL: they have nothing to do with each other. */
struct psid_pair *psid_pair_find(const struct psid_client *owner, const struct psid_client *peer);
/* Makes it, and its mirror image. NULL: no memory. */
struct psid_pair *psid_pair_get(struct psid_client *owner, struct psid_client *peer);
/* They share one more connection, or one less, in both directions. Returns 0, -ENOMEM. */
int psid_pair_share(struct psid_client *a, struct psid_client *b);
void psid_pair_unshare(struct psid_client *a, struct psid_client *b);
/* Tells both, as far as they have it, that the slab takes no new connection. */
void psid_pair_slab_gone(struct psid_pair *pair, const struct psid_slab *slab);
/* The client is going: tells everybody who has to do with it, drops its pairs. False: there are
 * more, for later. */
bool psid_pairs_forget(struct psid_client *client, uint64_t nsec_until);

#endif
