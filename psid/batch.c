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
		     void (*send)(struct psid_client *client, ProtobufCMessage **entries, size_t n,
				  bool more))
{
	batch->client = client;
	batch->send = send;
	batch->n = 0;
}

void psid_batch_add(struct psid_batch *batch, const ProtobufCMessage *entry, size_t size)
{
	assert(size <= PSID_SIZE_ENTRY);
	if (batch->n == PSID_N_BATCH) {
		batch->send(batch->client, batch->pointers, batch->n, true);
		batch->n = 0;
	}
	memcpy(batch->entries[batch->n], entry, size);
	batch->pointers[batch->n] = (ProtobufCMessage *)batch->entries[batch->n];
	batch->n++;
}

void psid_batch_end(struct psid_batch *batch)
{
	batch->send(batch->client, batch->pointers, batch->n, false);
}
