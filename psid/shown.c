/*
 * What a client says of its links, in their slots, and of its ports' peers, in the last pages of
 * its board area. It writes there what it likes. Both are copied with a system call, bounded, and
 * used for nothing but to be shown; the peers are sorted, so that each is found by the number that
 * it names.
 */
#include "shown.h"

#include <errno.h>
#include <stdlib.h>

#include "client.h"
#include "conn.h"
#include "links.h"
#include "macros.h"
#include "memory.h"

int psid_link_use(const struct psid_holder *holder, struct psid_link_use *ret_use)
{
	const struct psid_side *side = holder->side, *other = psid_side_other(side);
	struct shm_side own, peer;
	uint64_t n;

	if (!psid_is_link(side->conn) || !other->slab ||
	    psid_slot_read(side->slab, side->slot, &own) < 0 ||
	    psid_slot_read(other->slab, other->slot, &peer) < 0)
		return -ENOENT;
	n = peer.head - own.tail;
	*ret_use = (struct psid_link_use){
		.size_received = MIN((uint64_t)own.tail, PSID_SIZE_SHOWN_MAX),
		.size_sent = MIN((uint64_t)own.head, PSID_SIZE_SHOWN_MAX),
		.size_queued = n > SHM_RING_SIZE_MAX ? 0 : n,
		.psec_in = own.psec_in,
		.psec_out = own.psec_out,
		.size_piece = own.size_piece,
	};
	return 0;
}

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare(const void *left, const void *right)
{
	const struct psid_shown_pair *a = left, *b = right;
	int c = order(SHM_PAIR_CLIENT(a->who), SHM_PAIR_CLIENT(b->who));

	return c ? c : order(a->ports, b->ports);
}

static uint64_t load(const _Atomic uint64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

void psid_pairs_read(const struct psid_client *owner, struct psid_pairs *pairs)
{
	static struct shm_pairs shown;

	if (pairs->owner == owner)
		return;
	pairs->owner = owner;
	pairs->n = 0;
	if (owner->boards_fd < 0 ||
	    psid_memory_read(owner->boards_fd, SHM_PAIRS_AT, &shown, sizeof(shown)) < 0)
		return;
	for (unsigned i = 1; i < SHM_N_PAIRS; i++) {
		const struct shm_pair *p = &shown.pairs[i];

		if (load(&p->who))
			pairs->items[pairs->n++] = (struct psid_shown_pair){
				.who = load(&p->who),
				.ports = load(&p->ports),
				.counts = { load(&p->counts[0]), load(&p->counts[1]) },
			};
	}
	qsort(pairs->items, pairs->n, sizeof(pairs->items[0]), compare);
}

unsigned psid_pairs_find(const struct psid_pairs *pairs, uint32_t peer)
{
	unsigned low = 0, high = pairs->n, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (SHM_PAIR_CLIENT(pairs->items[middle].who) < peer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t psid_pair_credit(const struct psid_shown_pair *pair)
{
	uint64_t window = SHM_PAIR_KIND(pair->who) == SHM_PAIR_TAGS ? SHM_TAG_WINDOW
								    : SHM_PORT_WINDOW;

	return window - MIN(pair->counts[0], window);
}
