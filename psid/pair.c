/*
 * Pairs. Two clients that have a connection get to know each other in both directions: each owns
 * slabs that the other reads, and each may be introduced to the other's wait sets. A pair lives
 * as long as both clients do, so that their next connection finds slabs mapped and bells known.
 *
 * A process connected to itself is a pair with itself, which is its own mirror image.
 */
#include "pair.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "macros.h"
#include "psid.h"

struct psid_pair *psid_pair_find(const struct psid_client *owner, const struct psid_client *peer)
{
	struct psid_map_node *node = psid_map_find(&owner->pairs, peer->id);

	return node ? CONTAINER_OF(node, struct psid_pair, node) : NULL;
}

static struct psid_pair *pair_new(struct psid_client *owner, struct psid_client *peer)
{
	struct psid_pair *pair = calloc(1, sizeof(*pair));

	if (!pair || psid_map_insert(&owner->pairs, &pair->node, peer->id) < 0) {
		free(pair);
		return NULL;
	}
	pair->owner = owner;
	pair->peer = peer;
	LIST_INIT(&pair->slabs);
	return pair;
}

static void pair_free(struct psid_pair *pair)
{
	struct psid_slab *slab;

	while ((slab = LIST_FIRST(&pair->slabs)))
		psid_slab_orphan(slab);
	psid_map_remove(&pair->owner->pairs, &pair->node);
	free(pair);
}

struct psid_pair *psid_pair_get(struct psid_client *owner, struct psid_client *peer)
{
	struct psid_pair *pair = psid_pair_find(owner, peer);

	if (pair)
		return pair;
	pair = pair_new(owner, peer);
	if (pair && owner != peer && !pair_new(peer, owner)) {
		pair_free(pair);
		return NULL;
	}
	return pair;
}

int psid_pair_share(struct psid_client *a, struct psid_client *b)
{
	struct psid_pair *pair = psid_pair_get(a, b);

	if (!pair)
		return -ENOMEM;
	pair->n_shared++;
	psid_pair_find(b, a)->n_shared++;
	return 0;
}

void psid_pair_unshare(struct psid_client *a, struct psid_client *b)
{
	psid_pair_find(a, b)->n_shared--;
	psid_pair_find(b, a)->n_shared--;
}

static void tell_slab_gone(struct psid_client *client, uint64_t id)
{
	Pulc__Wire__SlabGone gone = PULC__WIRE__SLAB_GONE__INIT;
	PSID_MESSAGE(msg, SLAB_GONE, slab_gone) = &gone;

	gone.id = id;
	(void)psid_client_send(client, &msg, NULL, 0);
}

void psid_pair_slab_gone(struct psid_pair *pair, const struct psid_slab *slab)
{
	if (slab->sent_owner)
		tell_slab_gone(pair->owner, slab->id);
	if (slab->sent_peer && pair->peer != pair->owner)
		tell_slab_gone(pair->peer, slab->id);
}

static void tell_gone(struct psid_client *client, uint32_t id)
{
	Pulc__Wire__Gone gone = PULC__WIRE__GONE__INIT;
	PSID_MESSAGE(msg, GONE, gone) = &gone;

	gone.client = id;
	(void)psid_client_send(client, &msg, NULL, 0);
}

static void pair_forget(struct psid_pair *pair)
{
	struct psid_client *client = pair->owner, *other = pair->peer;
	struct psid_pair *mirror = psid_pair_find(other, client);

	pair_free(pair);
	if (other == client)
		return;
	pair_free(mirror);
	tell_gone(other, client->id);
}

bool psid_pairs_forget(struct psid_client *client, uint64_t nsec_until)
{
	struct psid_map_node *node = psid_map_next(&client->pairs, NULL), *next;

	for (; node; node = next) {
		next = psid_map_next(&client->pairs, node);
		pair_forget(CONTAINER_OF(node, struct psid_pair, node));
		if (nsec_now() >= nsec_until)
			break;
	}
	return client->pairs.n == 0;
}
