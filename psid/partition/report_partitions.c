/*
 * What clients ask of partitions: to see them, to make, to change and to delete one.
 *
 * Everybody sees them, for everybody has to know which nodes are kept for whom. The owner of the
 * psid and root make them, and say which nodes they have; whose a partition is, and root, may
 * delete it, and change who may use it and how much.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "batch.h"
#include "client.h"
#include "cluster.h"
#include "operator.h"
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

	if (!psid_listing_may(client))
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

/* ---- making ---------------------------------------------------------------------------------- */

/* An exclusive partition shares its nodes with no other one. */
static const struct psid_partition *find_rival(const struct psid_book *book,
					       const Pulc__Wire__Partition *wanted, uint64_t node)
{
	for (size_t i = 0; i < book->n; i++)
		if ((wanted->exclusive || book->items[i]->record->partition->exclusive) &&
		    strcmp(book->items[i]->record->partition->name, wanted->name) != 0 &&
		    psid_partition_has(book->items[i], node))
			return book->items[i];
	return NULL;
}

/* Returns whether it may be; else with a line of why not. */
static bool may_be(struct psid_client *client, const Pulc__Wire__Partition *wanted, char *why,
		   size_t size)
{
	const struct psid_book *book = psid_partitions_book(client->psid);
	const struct psid_partition *rival, *of_default = psid_book_default(book);

	if (wanted->is_default && of_default &&
	    strcmp(of_default->record->partition->name, wanted->name) != 0) {
		(void)snprintf(why, size, "partition %.64s is the one for jobs that name none",
			       of_default->record->partition->name);
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

	if (!psid_is_operator(client)) {
		psid_partition_reply(client, "only operators of this psid may create a partition",
				     "");
		return;
	}
	if (client->user->uid != 0)
		wanted->owner = client->user->uid;
	record_init(client, &record, wanted);
	if (psid_book_find(psid_partitions_book(client->psid), wanted->name)) {
		(void)snprintf(why, sizeof(why), "there is a partition %.64s already",
			       wanted->name);
		psid_partition_reply(client, why, "");
	} else if (may_be(client, wanted, why, sizeof(why))) {
		make(client, &record);
	} else {
		psid_partition_reply(client, why, "");
	}
}

/* Who may say which nodes it has, and whose it is, is no more than who may make it. */
static const char *may_change(const struct psid_client *client, const struct psid_partition *p,
			      uint32_t change)
{
	const uint32_t of_owner =
		PULC__WIRE__PARTITION_PART__PART_USERS | PULC__WIRE__PARTITION_PART__PART_CORES |
		PULC__WIRE__PARTITION_PART__PART_MAX_NODES | PULC__WIRE__PARTITION_PART__PART_JOBS |
		PULC__WIRE__PARTITION_PART__PART_QUEUED | PULC__WIRE__PARTITION_PART__PART_SEC;
	uid_t uid = client->user->uid;

	if (uid == 0)
		return NULL;
	if (uid != p->record->partition->owner)
		return "only its owner and root may change a partition";
	if (change & PULC__WIRE__PARTITION_PART__PART_OWNER)
		return "only root may give a partition to somebody else";
	if ((change & ~of_owner) && !psid_is_operator(client))
		return "only operators of this psid may change the nodes and the kind of a "
		       "partition";
	return NULL;
}

static void change_it(struct psid_client *client, const Pulc__Wire__Partition *wanted,
		      uint32_t change)
{
	const struct psid_partition *p = psid_book_find(psid_partitions_book(client->psid),
							wanted->name);
	Pulc__Wire__Partition *changed;
	Pulc__Peer__PartitionRecord record;
	const char *objection;
	char why[256];

	objection = p ? may_change(client, p, change) : "no partition of that name";
	if (objection) {
		psid_partition_reply(client, objection, "");
		return;
	}
	changed = psid_partition_change(p->record->partition, wanted, change);
	if (!changed) {
		psid_partition_reply(client, "no memory", "");
		return;
	}
	record_init(client, &record, changed);
	if ((change & PULC__WIRE__PARTITION_PART__PART_DEFAULT ||
	     change & PULC__WIRE__PARTITION_PART__PART_NODES ||
	     change & PULC__WIRE__PARTITION_PART__PART_EXCLUSIVE) &&
	    !may_be(client, changed, why, sizeof(why)))
		psid_partition_reply(client, why, "");
	else
		make(client, &record);
	pulc__wire__partition__free_unpacked(changed, NULL);
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
	else if (request->change)
		change_it(client, request->partition, request->change);
	else
		create(client, request->partition);
	return 0;
}
