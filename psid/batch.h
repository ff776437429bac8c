/* A list too long for one message, sent as several. */
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
/* Sends the last message, which may be empty. */
void psid_batch_end(struct psid_batch *batch);

/* Of report.c: may this client be told about that user's things? */
bool psid_may_see(const struct psid_client *client, uid_t uid);

#endif
