/* The book of partitions: the newest version of each that this psid has heard of. */
#ifndef PULC_PSID_BOOK_H
#define PULC_PSID_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "peer.pb-c.h"

#define PSID_N_PARTITIONS_MAX 256u /* the deleted ones that are still remembered among them */
#define PSID_N_PARTITION_NODES 1024u
#define PSID_N_PARTITION_USERS 256u
#define PSID_SIZE_PARTITION 12000u /* packed: it goes to clients in one message */

struct psid_partition {
	Pulc__Peer__PartitionRecord *record;
	uint64_t *nodes; /* their ids, sorted */
	size_t n_nodes;
};

/* All zero is an empty book. */
struct psid_book {
	struct psid_partition **items; /* by name */
	size_t n;
};

/*
 * Takes a version, copied, if it is newer than what is there. Returns 1: it is; 0: it is known, or
 * older; -EBADMSG: it makes no sense; -ENOSPC: the book is full; -ENOMEM.
 */
int psid_book_take(struct psid_book *book, const Pulc__Peer__PartitionRecord *record);
void psid_book_deinit(struct psid_book *book);
/* Of one name; NULL: there is none, or it was deleted. */
const struct psid_partition *psid_book_find(const struct psid_book *book, const char *name);
/* The counter that makes a version of this name newer than all that are known here. */
uint64_t psid_book_counter(const struct psid_book *book, const char *name);
/* The same for books of the same contents, and hardly ever for others; 0: it is empty. */
uint64_t psid_book_digest(const struct psid_book *book);

static inline bool psid_partition_is_there(const struct psid_partition *partition)
{
	return !partition->record->deleted;
}

/* A copy in which these parts (PartitionPart) are as wanted. Returns NULL: no memory. */
Pulc__Wire__Partition *psid_partition_change(const Pulc__Wire__Partition *partition,
					     const Pulc__Wire__Partition *wanted, uint32_t change);
bool psid_partition_has(const struct psid_partition *partition, uint64_t node);
/* May this user run something in it? */
bool psid_partition_allows(const struct psid_partition *partition, uid_t uid);
/* The exclusive partition that this node is in; NULL: none. */
const struct psid_partition *psid_book_holder(const struct psid_book *book, uint64_t node);
/* The partition of jobs that name none; NULL: there is none. */
const struct psid_partition *psid_book_default(const struct psid_book *book);
/*
 * May a job of this user and partition ("": none) run on this node? Returns NULL, or why not. A
 * partition that is not known here, for news of it may be on its way, is as good as none.
 */
const char *psid_book_objection(const struct psid_book *book, uint64_t node, const char *partition,
				uid_t uid);

#endif
