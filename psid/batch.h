/* A list too long for one message, sent as several, and no faster than it is read. */
#ifndef PULC_PSID_BATCH_H
#define PULC_PSID_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "client.h"

/* Entries of one message; the largest entry has 400 bytes encoded. */
#define PSID_N_BATCH 32u
#define PSID_SIZE_ENTRY 512u

struct psid_batch {
	struct psid_client *client;
	Pulc__Wire__ToClient *msg;
	size_t *n;
	protobuf_c_boolean *more;
	ProtobufCMessage *pointers[PSID_N_BATCH];
	_Alignas(16) unsigned char entries[PSID_N_BATCH][PSID_SIZE_ENTRY];
};

/*
 * msg holds a reply, whose list the caller makes batch->pointers; n and more are the reply's own.
 * The reply must live until psid_batch_end, and what else is in it is the caller's.
 */
void psid_batch_init(struct psid_batch *batch, struct psid_client *client,
		     Pulc__Wire__ToClient *msg, size_t *n, protobuf_c_boolean *more);
/* Room for one more entry, of size bytes at most PSID_SIZE_ENTRY; sends what is full. */
void psid_batch_add(struct psid_batch *batch, const ProtobufCMessage *entry, size_t size);
/* Sends the last message of this turn, which may be empty; `more`: others follow. */
void psid_batch_end(struct psid_batch *batch, bool more);

/* What an item of a list is looked up by when its turn comes; it may be gone by then. */
struct psid_item {
	uint64_t key, of; /* of: whose it is, where its key does not say that */
};

/*
 * A list that a client is being sent: so much of it in a turn of the loop as the client's channel
 * takes, and the rest in later ones. go_on sends a batch of what psid_listing_next gives out.
 */
struct psid_listing {
	void (*go_on)(struct psid_listing *listing);
	struct psid_client *client;
	size_t n, at;
	uint64_t nsec_began; /* this turn of it, */
	unsigned n_turn;     /* and the items in it */
	struct psid_item items[];
};

/* May the client ask for a list? Not while it has not read the last one. */
bool psid_listing_may(const struct psid_client *client);
/* One of at most n_max items, to be filled. NULL: no memory, and the client is told so. */
struct psid_listing *psid_listing_new(struct psid_client *client, size_t n_max,
				      void (*go_on)(struct psid_listing *listing));
void psid_listing_add(struct psid_listing *listing, uint64_t key, uint64_t of);
/* Takes the listing and sends what can be sent now. */
void psid_listing_start(struct psid_listing *listing);
/* The client's channel takes more. */
void psid_listing_go_on(struct psid_client *client);
/* The next item, or NULL: enough for now. */
const struct psid_item *psid_listing_next(struct psid_listing *listing);
bool psid_listing_has_more(const struct psid_listing *listing);

/* Of report.c: may this client be told about that user's things? */
bool psid_may_see(const struct psid_client *client, uid_t uid);

#endif
