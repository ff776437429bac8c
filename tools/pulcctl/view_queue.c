/*
 * `pulcctl queue`: one line for each job that waits for room in its partition, in the order of the
 * queues.
 */
#include "view.h"

#include <assert.h>

#include "macros.h"
#include "text.h"
#include "user.h"

static const struct ctl_column columns[] = {
	{ .title = "JOB" },
	{ .title = "USER", .shrinks = true },
	{ .title = "PARTITION" },
	{ .title = "PLACE", .right = true },
	{ .title = "PROGRAM", .shrinks = true },
	{ .title = "TASKS", .right = true },
	{ .title = "SINCE", .right = true },
	{ .title = "REASON", .shrinks = true },
};

static bool any(const ProtobufCMessage *entry, const struct ctl_options *options)
{
	(void)entry;
	(void)options;
	return true;
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__JobEntry *e = (const Pulc__Wire__JobEntry *)entry;
	char job[128], user[CTL_SIZE_USER], partition[80], place[16], program[256], tasks[16],
		since[24], reason[160];
	const char *cells[] = {
		ctl_text_plain(e->job, job, sizeof(job)),
		ctl_user_name(e->uid, user),
		ctl_text_plain(e->partition, partition, sizeof(partition)),
		e->position > 0 ? place : NULL,
		ctl_text_plain(e->program, program, sizeof(program)),
		tasks,
		ctl_text_duration(e->started_usec, since, sizeof(since)),
		ctl_text_plain(e->waits, reason, sizeof(reason)),
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	(void)snprintf(place, sizeof(place), "%u", e->position);
	(void)snprintf(tasks, sizeof(tasks), "%u", e->n_tasks);
	return ctl_table_add(table, cells);
}

const struct ctl_list ctl_list_queue = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = any,
	.add_row = add_row,
};
