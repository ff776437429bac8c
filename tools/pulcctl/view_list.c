/*
 * Lists: replies in several messages, each with many entries of one kind, become one table or
 * one JSON array with an entry a line.
 */
#include "view.h"

#include "cleanup.h"
#include "json.h"
#include "reply.h"

static int print_json(FILE *out, const struct ctl_list *list, const struct ctl_replies *replies,
		      const struct ctl_options *options)
{
	const char *before = "\n";

	fputc('[', out);
	for (size_t i = 0; i < replies->n; i++) {
		size_t n;
		ProtobufCMessage *const *entries = ctl_reply_entries(replies->items[i], &n);

		for (size_t k = 0; k < n; k++) {
			if (!list->is_chosen(entries[k], options))
				continue;
			fputs(before, out);
			ctl_json_message(out, entries[k]);
			before = ",\n";
		}
	}
	fputs("\n]\n", out);
	return 0;
}

static int fill_table(struct ctl_table *table, const struct ctl_list *list,
		      const Pulc__Wire__ToClient *reply, const struct ctl_options *options)
{
	size_t n;
	ProtobufCMessage *const *entries = ctl_reply_entries(reply, &n);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		if (list->is_chosen(entries[i], options))
			r = list->add_row(table, entries[i]);
	return r;
}

int ctl_list_print(FILE *out, const struct ctl_list *list, const struct ctl_replies *replies,
		   const struct ctl_options *options, const struct ctl_room *room)
{
	CLEANUP(ctl_table_cleanup) struct ctl_table *table = NULL;
	int r;

	if (options->json)
		return print_json(out, list, replies, options);
	r = ctl_table_new(list->columns, list->n_columns, &table);
	for (size_t i = 0; r == 0 && i < replies->n; i++)
		r = fill_table(table, list, replies->items[i], options);
	if (r == 0)
		ctl_table_print(table, out, room);
	return r;
}
