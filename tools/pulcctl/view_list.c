/*
 * Lists: replies in several messages, each with many entries of one kind, become one table or one
 * JSON array with an entry a line. Those that the options choose are collected first, and put in
 * order where the kind has one.
 */
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "json.h"
#include "reply.h"

struct entries {
	const ProtobufCMessage **items;
	size_t n;
};

static void deinit_entries(struct entries *entries)
{
	free(entries->items);
}

static int order(const void *a, const void *b, void *list)
{
	return ((const struct ctl_list *)list)
		->compare(*(const ProtobufCMessage *const *)a, *(const ProtobufCMessage *const *)b);
}

/* Whoever is shown has a field of that name in the schema. */
static bool is_of_users(const ProtobufCMessage *entry, const struct ctl_options *o)
{
	const ProtobufCFieldDescriptor *f =
		o->n_uids
			? protobuf_c_message_descriptor_get_field_by_name(entry->descriptor, "uid")
			: NULL;
	uint32_t uid;

	if (!f)
		return true;
	memcpy(&uid, (const char *)entry + f->offset, sizeof(uid));
	for (unsigned i = 0; i < o->n_uids; i++)
		if (o->uids[i] == uid)
			return true;
	return false;
}

static bool is_chosen(const struct ctl_list *list, const ProtobufCMessage *entry,
		      const struct ctl_options *o)
{
	return list->is_chosen(entry, o) && is_of_users(entry, o);
}

static int collect(const struct ctl_list *list, const struct ctl_replies *replies,
		   const struct ctl_options *options, struct entries *entries)
{
	size_t n_all = 0, n;

	for (size_t i = 0; i < replies->n; i++) {
		(void)ctl_reply_entries(replies->items[i], &n);
		n_all += n;
	}
	entries->items = calloc(n_all + 1, sizeof(*entries->items));
	if (!entries->items)
		return -ENOMEM;
	for (size_t i = 0; i < replies->n; i++) {
		ProtobufCMessage *const *some = ctl_reply_entries(replies->items[i], &n);

		for (size_t k = 0; k < n; k++)
			if (is_chosen(list, some[k], options))
				entries->items[entries->n++] = some[k];
	}
	if (list->compare)
		qsort_r(entries->items, entries->n, sizeof(*entries->items), order, (void *)list);
	return 0;
}

static int print_json(FILE *out, const struct entries *entries)
{
	fputc('[', out);
	for (size_t i = 0; i < entries->n; i++) {
		fputs(i > 0 ? ",\n" : "\n", out);
		ctl_json_message(out, entries->items[i]);
	}
	fputs("\n]\n", out);
	return 0;
}

static int print_table(FILE *out, const struct ctl_list *list, const struct entries *entries,
		       const struct ctl_room *room)
{
	CLEANUP(ctl_table_cleanup) struct ctl_table *table = NULL;
	int r = ctl_table_new(list->columns, list->n_columns, &table);

	for (size_t i = 0; r == 0 && i < entries->n; i++)
		r = list->add_row(table, entries->items[i]);
	if (r == 0)
		ctl_table_print(table, out, room);
	return r;
}

int ctl_list_print(FILE *out, const struct ctl_list *list, const struct ctl_replies *replies,
		   const struct ctl_options *options, const struct ctl_room *room)
{
	CLEANUP(deinit_entries) struct entries entries = { 0 };
	int r = collect(list, replies, options, &entries);

	if (r < 0)
		return r;
	return options->json ? print_json(out, &entries) : print_table(out, list, &entries, room);
}

bool ctl_list_has(const struct ctl_list *list, const struct ctl_replies *replies,
		  const struct ctl_options *options)
{
	for (size_t i = 0; i < replies->n; i++) {
		size_t n;
		ProtobufCMessage *const *some = ctl_reply_entries(replies->items[i], &n);

		for (size_t k = 0; k < n; k++)
			if (is_chosen(list, some[k], options))
				return true;
	}
	return false;
}
