/*
 * Lists in reports have no bound, messages have. Entries are collected until a message is full;
 * it then goes out with `more` set, and the one that psid_batch_end sends without.
 *
 * A decoded entry must stay valid until its message is packed, so the batch keeps copies. What an
 * entry points to (strings, tuples) must live until psid_batch_end.
 */
#include "batch.h"

#include <assert.h>
#include <string.h>

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

void psid_batch_end(struct psid_batch *batch)
{
	send_batch(batch, false);
}
