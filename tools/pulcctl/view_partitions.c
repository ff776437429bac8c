/*
 * `pulcctl partition list`: one line for each partition; the nodes and users are as many as there
 * are, for a script may want to know all of them.
 */
#include "view.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "limit.h"
#include "macros.h"
#include "text.h"
#include "user.h"

static const struct ctl_column columns[] = {
	{ .title = "PARTITION" },
	{ .title = "OWNER" },
	{ .title = "KIND" },
	{ .title = "USERS", .shrinks = true },
	{ .title = "NODES", .shrinks = true },
	{ .title = "LIMITS", .shrinks = true },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *options)
{
	return !options->name ||
	       strcmp(((const Pulc__Wire__Partition *)entry)->name, options->name) == 0;
}

/* Adds a word to a list separated by commas. */
static void add(FILE *list, bool is_first, const char *word)
{
	(void)fprintf(list, "%s%s", is_first ? "" : ",", word);
}

static char *list_users(const Pulc__Wire__Partition *e)
{
	char *text = NULL, user[CTL_SIZE_USER];
	size_t len;
	FILE *list = open_memstream(&text, &len);

	for (size_t i = 0; list && i < e->n_users; i++)
		add(list, i == 0, ctl_user_name(e->users[i], user));
	if (list && e->n_users == 0)
		add(list, true, "all");
	if (list)
		(void)fclose(list);
	return text;
}

static char *list_nodes(const Pulc__Wire__Partition *e)
{
	char *text = NULL, node[80];
	size_t len;
	FILE *list = open_memstream(&text, &len);

	for (size_t i = 0; list && i < e->n_nodes; i++)
		add(list, i == 0, ctl_text_plain(e->nodes[i], node, sizeof(node)));
	if (list)
		(void)fclose(list);
	return text;
}

static const char *kind_of(const Pulc__Wire__Partition *e)
{
	if (e->is_default)
		return e->exclusive ? "exclusive,default" : "shared,default";
	return e->exclusive ? "exclusive" : "shared";
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__Partition *e = (const Pulc__Wire__Partition *)entry;
	CLEANUP_FREE char *users = list_users(e);
	CLEANUP_FREE char *nodes = list_nodes(e);
	CLEANUP_FREE char *limits = ctl_limits_text(e);
	char name[80], owner[CTL_SIZE_USER];
	const char *cells[] = {
		ctl_text_plain(e->name, name, sizeof(name)),
		ctl_user_name(e->owner, owner),
		kind_of(e),
		users,
		nodes,
		limits,
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_partitions = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = is_chosen,
	.add_row = add_row,
};
