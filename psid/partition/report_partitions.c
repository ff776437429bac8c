/*
 * What clients ask of partitions: to see them, to make and to delete one.
 *
 * Everybody sees them, for everybody has to know which nodes are kept for whom. The owner of the psid and root make them;
 * whose a partition is, and root, may delete it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "cluster.h"
#include "partitions.h"
#include "psid.h"
#include "user.h"

void psid_partition_reply(struct psid_client *client, const char *error, const char *note)
{
	Pulc__Wire__PartitionReply reply = PULC__WIRE__PARTITION_REPLY__INIT;
	PSID_MESSAGE(msg, PARTITION, partition) = &reply;

	reply.error = (char *)error;
	reply.note = (char *)note;
	(void)psid_client_send(client, &msg, NULL, 0);
}

/* One in a message, for it may be large. */
int psid_partitions_list(struct psid_client *client)
{
	const struct psid_book *book = psid_partitions_book(client->psid);
	Pulc__Wire__PartitionsReply reply = PULC__WIRE__PARTITIONS_REPLY__INIT;
	PSID_MESSAGE(msg, PARTITIONS, partitions) = &reply;

	if (!psid_outbox_is_empty(&client->outbox))
		return -EBADMSG;
	reply.more = true;
	reply.n_partitions = 1;
	for (size_t i = 0; i < book->n; i++) {
		reply.partitions = &book->items[i]->record->partition;
		if (psid_partition_is_there(book->items[i]))
			(void)psid_client_send(client, &msg, NULL, 0);
	}
	reply.more = false;
	reply.n_partitions = 0;
	(void)psid_client_send(client, &msg, NULL, 0);
	return 0;
}

static bool is_master(const struct psid_client *client)
{
	return client->user->uid == 0 || client->user->uid == geteuid();
}

/* ---- making -------------------------------------------------------------------------------- */

/* An exclusive partition shares its nodes with no other. */
static const struct psid_partition *find_rival(const struct psid_book *book,
					       const Pulc__Wire__Partition *wanted, uint64_t node)
{
	for (size_t i = 0; i < book->n; i++)
		if ((wanted->exclusive || book->items[i]->record->partition->exclusive) &&
		    psid_partition_has(book->items[i], node))
			return book->items[i];
	return NULL;
}

/* Returns whether it may be; else with a line of why not. */
static bool may_be(struct psid_client *client, const Pulc__Wire__Partition *wanted, char *why,
		   size_t size)
{
	const struct psid_book *book = psid_partitions_book(client->psid);
	const struct psid_partition *rival;

	if (psid_book_find(book, wanted->name)) {
		(void)snprintf(why, size, "there is a partition %.64s already", wanted->name);
		return false;
	}
	for (size_t i = 0; i < wanted->n_nodes; i++) {
		const struct psid_node *node = psid_node_find_name(client->psid->cluster,
								   wanted->nodes[i]);

		if (!node) {
			(void)snprintf(why, size, "no node named %.64s", wanted->nodes[i]);
			return false;
		}
		rival = find_rival(book, wanted, node->id);
		if (rival) {
			(void)snprintf(why, size, "node %.64s is in partition %.64s, and %s",
				       wanted->nodes[i], rival->record->partition->name,
				       wanted->exclusive ? "an exclusive one shares no node"
							 : "that is exclusive");
			return false;
		}
	}
	return true;
}

static void record_init(struct psid_client *client, Pulc__Peer__PartitionRecord *record,
			Pulc__Wire__Partition *partition)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	pulc__peer__partition_record__init(record);
	record->partition = partition;
	record->counter = psid_book_counter(psid_partitions_book(client->psid), partition->name);
	record->node = psid_node_self(client->psid->cluster)->id;
	record->by = client->user->uid;
	record->made_msec = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* It answers, now or later. */
static void make(struct psid_client *client, Pulc__Peer__PartitionRecord *record)
{
	switch (psid_partitions_make(client, record)) {
	case 1:
		return; /* the answer comes when it is safe */
	case -EBADMSG:
		psid_partition_reply(client,
				     "that is no partition: a name as nodes have, 1 to 1024"
				     " nodes and at most 256 users, 12,000 bytes in all",
				     "");
		return;
	case -ENOSPC:
		psid_partition_reply(client, "there are as many partitions as there may be (256)",
				     "");
		return;
	default:
		psid_partition_reply(client, "no memory", "");
	}
}

static void create(struct psid_client *client, Pulc__Wire__Partition *wanted)
{
	Pulc__Peer__PartitionRecord record;
	char why[256];

	if (!is_master(client)) {
		psid_partition_reply(
			client, "only the owner of this psid and root may create a partition", "");
		return;
	}
	if (client->user->uid != 0)
		wanted->owner = client->user->uid;
	record_init(client, &record, wanted);
	if (may_be(client, wanted, why, sizeof(why)))
		make(client, &record);
	else
		psid_partition_reply(client, why, "");
}

static void remove_it(struct psid_client *client, const char *name)
{
	const struct psid_partition *p = psid_book_find(psid_partitions_book(client->psid), name);
	Pulc__Wire__Partition nothing = PULC__WIRE__PARTITION__INIT;
	Pulc__Peer__PartitionRecord record;

	if (!p) {
		psid_partition_reply(client, "no partition of that name", "");
		return;
	}
	nothing.owner = p->record->partition->owner;
	if (client->user->uid != 0 && client->user->uid != nothing.owner) {
		psid_partition_reply(client, "only its owner and root may delete a partition", "");
		return;
	}
	nothing.name = (char *)name;
	record_init(client, &record, &nothing);
	record.deleted = true;
	make(client, &record);
}

int psid_partition_asked(struct psid_client *client, const Pulc__Wire__PartitionRequest *request)
{
	if (!request->partition)
		return -EBADMSG;
	if (request->gone)
		remove_it(client, request->partition->name);
	else
		create(client, request->partition);
	return 0;
}
