/*
 * Lists in reports have no bound, messages have. Entries are collected until a message is full; it
 * then goes out with `more` set, and the last one without.
 *
 * Nor may a list fill what is kept for its reader, or hold the loop for as long as it takes to
 * make. So what is in it is written down when it is asked for, by number only, and looked up when
 * the channel takes it: in a turn of the loop what takes a bounded time, which is its user's
 * (talk.c), and none while messages are kept. What is gone by then is left out, what is new is not
 * in it.
 *
 * A decoded entry must stay valid until its message is packed, so the batch keeps copies. What an
 * entry points to (strings, tuples) must live until psid_batch_end.
 */
#include "batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"

/* A list's part of a turn, besides the item that has begun. */
#define NSEC_TURN 1000000u

void psid_batch_init(struct psid_batch *batch, struct psid_client *client,
		     Pulc__Wire__ToClient *msg, size_t *n, protobuf_c_boolean *more)
{
	batch->client = client;
	batch->msg = msg;
	batch->n = n;
	batch->more = more;
	*n = 0;
}

static void send_batch(const struct psid_batch *batch, bool more)
{
	*batch->more = more;
	(void)psid_client_send(batch->client, batch->msg, NULL, 0);
	*batch->n = 0;
}

void psid_batch_add(struct psid_batch *batch, const ProtobufCMessage *entry, size_t size)
{
	assert(size <= PSID_SIZE_ENTRY);
	if (*batch->n == PSID_N_BATCH)
		send_batch(batch, true);
	memcpy(batch->entries[*batch->n], entry, size);
	batch->pointers[*batch->n] = (ProtobufCMessage *)batch->entries[*batch->n];
	++*batch->n;
}

void psid_batch_end(struct psid_batch *batch, bool more)
{
	if (!more || *batch->n > 0)
		send_batch(batch, more);
}

/* ---- a list in turns ------------------------------------------------------------------------- */

bool psid_listing_may(const struct psid_client *client)
{
	return psid_outbox_is_empty(&client->outbox) && !client->listing;
}

struct psid_listing *psid_listing_new(struct psid_client *client, size_t n_max,
				      void (*go_on)(struct psid_listing *listing))
{
	struct psid_listing *listing = malloc(sizeof(*listing) + n_max * sizeof(listing->items[0]));

	if (!listing) {
		psid_client_refuse(client, PULC__WIRE__REASON__REASON_NO_MEMORY,
				   "no memory for this list");
		return NULL;
	}
	*listing = (struct psid_listing){ .go_on = go_on, .client = client };
	return listing;
}

void psid_listing_add(struct psid_listing *listing, uint64_t key, uint64_t of)
{
	listing->items[listing->n++] = (struct psid_item){ .key = key, .of = of };
}

void psid_listing_start(struct psid_listing *listing)
{
	struct psid_client *client = listing->client;

	if (client->listing) { /* it has asked for another one meanwhile */
		free(listing);
		psid_client_malformed(client, "two lists at a time");
		return;
	}
	client->listing = listing;
	psid_listing_go_on(client);
}

void psid_listing_go_on(struct psid_client *client)
{
	struct psid_listing *listing = client->listing;

	if (!listing)
		return;
	listing->n_turn = 0;
	listing->nsec_began = nsec_now();
	listing->go_on(listing);
	if (!psid_listing_has_more(listing))
		free(TAKE_PTR(client->listing));
	psid_client_listen(client);
}

const struct psid_item *psid_listing_next(struct psid_listing *listing)
{
	if (!psid_listing_has_more(listing) || !psid_outbox_is_empty(&listing->client->outbox) ||
	    (listing->n_turn > 0 && nsec_now() - listing->nsec_began >= NSEC_TURN))
		return NULL;
	listing->n_turn++;
	return &listing->items[listing->at++];
}

bool psid_listing_has_more(const struct psid_listing *listing)
{
	return listing->at < listing->n;
}
