/* The partitions of the cluster, as this psid knows them and tells of them. docs/partitions.md. */
#ifndef PULC_PSID_PARTITIONS_H
#define PULC_PSID_PARTITIONS_H

#include "book.h"
#include "client.pb-c.h"

struct psid;
struct psid_client;

/* Reads the book that was left, and begins to exchange it with the others. Returns 0, negative
 * errno. */
int psid_partitions_start(struct psid *psid);
/* The loop must run on to finish. */
void psid_partitions_close(struct psid *psid);
/* The node that decides about a partition: the first of its nodes that is up. 0: none is. */
uint64_t psid_partition_steward(const struct psid *psid, const struct psid_partition *partition);
const struct psid_book *psid_partitions_book(const struct psid *psid);

/* A new version, made here: taken, written down and told to everybody; then the client is answered.
 * Returns as psid_book_take. */
int psid_partitions_make(struct psid_client *client, Pulc__Peer__PartitionRecord *record);
/* A client is gone. */
void psid_partitions_forget(struct psid_client *client);

/* steward.c */
int psid_stewards_start(struct psid *psid);
void psid_stewards_close(struct psid *psid);

/* report_partitions.c: messages of clients. Return 0; -EBADMSG: nonsense. */
int psid_partition_asked(struct psid_client *client, const Pulc__Wire__PartitionRequest *request);
int psid_partitions_list(struct psid_client *client);
void psid_partition_reply(struct psid_client *client, const char *error, const char *note);

#endif
