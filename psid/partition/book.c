/*
 * Partitions as versioned records. Each change of one, its deletion too, is a version of the whole
 * record, with a counter and the node that made it; of two versions the one with the higher counter
 * counts, at the same counter that of the greater node. So whoever has heard the same versions, in
 * whatever order, has the same book.
 *
 * What is deleted stays as a version without nodes, or an old one that somebody still has would
 * bring it back. When the book is full the oldest of these is forgotten.
 *
 * Nothing is believed before it was looked at: a record has a bound in everything, its names are
 * such as nodes may have, and it was made by root or by its owner.
 */
#include "book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "node.h"

#define COUNTER_MAX (1ull << 48)

/* ---- records --------------------------------------------------------------------------------- */

static bool is_name(const char *name)
{
	size_t len = strnlen(name, PSID_SIZE_NAME);

	return len < PSID_SIZE_NAME && psid_node_name_ok(name, len);
}

static bool is_sound(const Pulc__Peer__PartitionRecord *r)
{
	const Pulc__Wire__Partition *p = r->partition;

	if (!p || !is_name(p->name) || r->counter == 0 || r->counter > COUNTER_MAX ||
	    (r->by != 0 && r->by != p->owner) || p->n_nodes > PSID_N_PARTITION_NODES ||
	    p->n_users > PSID_N_PARTITION_USERS || (p->n_nodes == 0) != r->deleted)
		return false;
	for (size_t i = 0; i < p->n_nodes; i++)
		if (!is_name(p->nodes[i]))
			return false;
	return pulc__peer__partition_record__get_packed_size(r) <= PSID_SIZE_PARTITION;
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void partition_free(struct psid_partition *p)
{
	if (p->record)
		pulc__peer__partition_record__free_unpacked(p->record, NULL);
	free(p->nodes);
	free(p);
}

/* Through its packed form: what a version knows that we don't is left out. */
static Pulc__Peer__PartitionRecord *copy(const Pulc__Peer__PartitionRecord *record)
{
	uint8_t bytes[PSID_SIZE_PARTITION];

	return pulc__peer__partition_record__unpack(
		NULL, pulc__peer__partition_record__pack(record, bytes), bytes);
}

static struct psid_partition *partition_new(const Pulc__Peer__PartitionRecord *record)
{
	struct psid_partition *p = calloc(1, sizeof(*p));
	size_t n = record->partition->n_nodes;

	if (!p)
		return NULL;
	p->record = copy(record);
	p->nodes = calloc(MAX(n, (size_t)1), sizeof(*p->nodes));
	if (!p->record || !p->nodes) {
		partition_free(p);
		return NULL;
	}
	p->n_nodes = n;
	for (size_t i = 0; i < n; i++)
		p->nodes[i] = psid_node_id(record->partition->nodes[i]);
	qsort(p->nodes, n, sizeof(*p->nodes), compare_ids);
	return p;
}

static bool is_newer(const Pulc__Peer__PartitionRecord *a, const Pulc__Peer__PartitionRecord *b)
{
	return a->counter != b->counter ? a->counter > b->counter : a->node > b->node;
}

/* ---- the book -------------------------------------------------------------------------------- */

/* The index of the first one whose name is not smaller. */
static size_t index_of(const struct psid_book *book, const char *name)
{
	size_t i = 0;

	while (i < book->n && strcmp(book->items[i]->record->partition->name, name) < 0)
		i++;
	return i;
}

static struct psid_partition *find(const struct psid_book *book, const char *name)
{
	size_t i = index_of(book, name);

	return i < book->n && strcmp(book->items[i]->record->partition->name, name) == 0
		       ? book->items[i]
		       : NULL;
}

static void drop(struct psid_book *book, size_t i)
{
	partition_free(book->items[i]);
	book->n--;
	memmove(book->items + i, book->items + i + 1,
		(book->n - i) * sizeof(struct psid_partition *));
}

static int make_room(struct psid_book *book)
{
	size_t oldest = book->n;

	if (!book->items) {
		book->items = calloc(PSID_N_PARTITIONS_MAX, sizeof(struct psid_partition *));
		return book->items ? 0 : -ENOMEM;
	}
	if (book->n < PSID_N_PARTITIONS_MAX)
		return 0;
	for (size_t i = 0; i < book->n; i++)
		if (book->items[i]->record->deleted &&
		    (oldest == book->n ||
		     book->items[i]->record->made_msec < book->items[oldest]->record->made_msec))
			oldest = i;
	if (oldest == book->n)
		return -ENOSPC;
	drop(book, oldest);
	return 0;
}

static void put(struct psid_book *book, struct psid_partition *p)
{
	size_t i = index_of(book, p->record->partition->name);

	memmove(book->items + i + 1, book->items + i,
		(book->n - i) * sizeof(struct psid_partition *));
	book->items[i] = p;
	book->n++;
}

int psid_book_take(struct psid_book *book, const Pulc__Peer__PartitionRecord *record)
{
	struct psid_partition *known, *p;
	int r;

	if (!is_sound(record))
		return -EBADMSG;
	known = find(book, record->partition->name);
	if (known && !is_newer(record, known->record))
		return 0;
	p = partition_new(record);
	if (!p)
		return -ENOMEM;
	if (known) {
		book->items[index_of(book, record->partition->name)] = p;
		partition_free(known);
		return 1;
	}
	r = make_room(book);
	if (r < 0) {
		partition_free(p);
		return r;
	}
	put(book, p);
	return 1;
}

void psid_book_deinit(struct psid_book *book)
{
	while (book->n > 0)
		drop(book, book->n - 1);
	free(book->items);
	*book = (struct psid_book){ 0 };
}

const struct psid_partition *psid_book_find(const struct psid_book *book, const char *name)
{
	const struct psid_partition *p = find(book, name);

	return p && psid_partition_is_there(p) ? p : NULL;
}

uint64_t psid_book_counter(const struct psid_book *book, const char *name)
{
	const struct psid_partition *p = find(book, name);

	return p ? p->record->counter + 1 : 1;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
	for (const unsigned char *p = bytes; len-- > 0; p++)
		hash = (hash ^ *p) * 1099511628211u;
	return hash;
}

uint64_t psid_book_digest(const struct psid_book *book)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < book->n; i++) {
		const Pulc__Peer__PartitionRecord *r = book->items[i]->record;
		uint8_t numbers[16];

		for (unsigned k = 0; k < 8; k++) {
			numbers[k] = (uint8_t)(r->counter >> (8 * k));
			numbers[8 + k] = (uint8_t)(r->node >> (8 * k));
		}
		hash = mix(hash, r->partition->name, strlen(r->partition->name) + 1);
		hash = mix(hash, numbers, sizeof(numbers));
	}
	return book->n > 0 ? hash | 1 : 0;
}

/* ---- who may what ---------------------------------------------------------------------------- */

bool psid_partition_has(const struct psid_partition *p, uint64_t node)
{
	return bsearch(&node, p->nodes, p->n_nodes, sizeof(node), compare_ids) != NULL;
}

bool psid_partition_allows(const struct psid_partition *p, uid_t uid)
{
	const Pulc__Wire__Partition *partition = p->record->partition;

	if (uid == 0 || uid == partition->owner || partition->n_users == 0)
		return true;
	for (size_t i = 0; i < partition->n_users; i++)
		if (partition->users[i] == uid)
			return true;
	return false;
}

const struct psid_partition *psid_book_holder(const struct psid_book *book, uint64_t node)
{
	for (size_t i = 0; i < book->n; i++)
		if (book->items[i]->record->partition->exclusive &&
		    psid_partition_has(book->items[i], node))
			return book->items[i];
	return NULL;
}

/* Two of them, made on both sides of a divided network: the first by name. */
const struct psid_partition *psid_book_default(const struct psid_book *book)
{
	for (size_t i = 0; i < book->n; i++)
		if (psid_partition_is_there(book->items[i]) &&
		    book->items[i]->record->partition->is_default)
			return book->items[i];
	return NULL;
}

const char *psid_book_objection(const struct psid_book *book, uint64_t node, const char *partition,
				uid_t uid)
{
	const struct psid_partition *holder = psid_book_holder(book, node);
	const struct psid_partition *p = psid_book_find(book, partition);

	if (p && !psid_partition_has(p, node))
		return "the node is not in that partition";
	if (p && !psid_partition_allows(p, uid))
		return "the user may not use that partition";
	if (holder && (!p || !p->record->partition->exclusive))
		return "the node is kept for an exclusive partition";
	return NULL;
}
