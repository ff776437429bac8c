/*
 * `pulcctl nodes`: one line for each node of the cluster, as the psid that was asked knows it.
 */
#include "view.h"

#include <assert.h>
#include <string.h>

#include "macros.h"
#include "text.h"

#define PERCENT_UNKNOWN 255u
#define MIB (1ull << 20)

static const struct ctl_column columns[] = {
	{ .title = "NODE", .shrinks = true },
	{ .title = "STATE" },
	{ .title = "CORES", .right = true },
	{ .title = "LOAD", .right = true },
	{ .title = "TASKS", .right = true },
	{ .title = "TRAFFIC", .right = true },
	{ .title = "MEMORY", .right = true },
	{ .title = "FREE", .right = true },
	{ .title = "STALL", .right = true },
	{ .title = "VERSION" },
	{ .title = "KEY" },
	{ .title = "PATH" },
	{ .title = "AGE", .right = true },
	{ .title = "ADDRESS" },
	{ .title = "WHY", .shrinks = true },
};

static bool is_chosen(const ProtobufCMessage *entry, const struct ctl_options *options)
{
	const Pulc__Wire__NodeEntry *e = (const Pulc__Wire__NodeEntry *)entry;

	return !options->node || strcmp(e->name, options->node) == 0;
}

/* What somebody who wants to run something there needs to know. */
static const char *state_of(const Pulc__Wire__NodeEntry *e)
{
	return e->drained && strcmp(e->state, "alive") == 0 ? "drained" : e->state;
}

bool ctl_node_is_up(const Pulc__Wire__NodeEntry *node)
{
	return strcmp(node->state, "alive") == 0 || strcmp(node->state, "suspect") == 0;
}

/* The worst of the three. */
static char *stall_of(const Pulc__Wire__NodeEntry *e, char *buf, size_t size)
{
	const uint32_t percent[] = { e->percent_stall_cpu, e->percent_stall_memory,
				     e->percent_stall_io };
	bool any = false;
	uint32_t worst = 0;

	for (size_t i = 0; i < ARRAY_SIZE(percent); i++) {
		if (percent[i] == PERCENT_UNKNOWN)
			continue;
		any = true;
		worst = MAX(worst, percent[i]);
	}
	(void)snprintf(buf, size, any ? "%u%%" : "-", worst);
	return buf;
}

/* "3f2a91c0", or while keys are changed "3f2a91c0+77b01d2e": the first is the one that it uses. */
static char *keys_of(const Pulc__Wire__NodeEntry *e, char *buf, size_t size)
{
	char key[16];
	size_t n = 0;

	for (size_t i = 0; i < e->n_keys && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i > 0 ? "+" : "",
				      ctl_text_plain(e->keys[i], key, sizeof(key)));
	return buf;
}

static void fill_load(const Pulc__Wire__NodeEntry *e, char cells[7][24])
{
	(void)snprintf(cells[0], sizeof(cells[0]), "%u", e->cores);
	(void)snprintf(cells[1], sizeof(cells[1]), "%u.%02u", e->centi_load / 100,
		       e->centi_load % 100);
	(void)snprintf(cells[2], sizeof(cells[2]), "%u", e->n_tasks);
	(void)ctl_text_bytes(e->mib_memory * MIB, cells[3], sizeof(cells[3]));
	(void)snprintf(cells[4], sizeof(cells[4]), "%u%%", e->percent_memory);
	(void)stall_of(e, cells[5], sizeof(cells[5]));
	(void)ctl_text_duration(e->age_usec, cells[6], sizeof(cells[6]));
}

static int add_row(struct ctl_table *table, const ProtobufCMessage *entry)
{
	const Pulc__Wire__NodeEntry *e = (const Pulc__Wire__NodeEntry *)entry;
	char name[256], state[32], version[32], keys[48], path[32], address[CTL_SIZE_ADDRESS];
	char load[7][24], speed[16], why[256];
	bool up = ctl_node_is_up(e);
	const char *cells[] = {
		ctl_text_plain(e->name, name, sizeof(name)),
		ctl_text_plain(state_of(e), state, sizeof(state)),
		up ? load[0] : NULL,
		up ? load[1] : NULL,
		up ? load[2] : NULL,
		up && !e->stale ? ctl_text_bytes(e->bytes_per_second, speed, sizeof(speed)) : NULL,
		up ? load[3] : NULL,
		up ? load[4] : NULL,
		up ? load[5] : NULL,
		e->version[0] ? ctl_text_plain(e->version, version, sizeof(version)) : NULL,
		e->n_keys ? keys_of(e, keys, sizeof(keys)) : NULL,
		ctl_text_plain(e->path, path, sizeof(path)),
		up ? load[6] : NULL,
		e->port ? ctl_text_endpoint(&e->addr, e->port, address, sizeof(address)) : NULL,
		e->why[0] ? ctl_text_plain(e->why, why, sizeof(why)) : NULL,
	};

	static_assert(ARRAY_SIZE(cells) == ARRAY_SIZE(columns), "a cell for each column");
	fill_load(e, load);
	return ctl_table_add(table, cells);
}

/* By name: n2 before n10. */
static int compare(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
	return strverscmp(((const Pulc__Wire__NodeEntry *)a)->name,
			  ((const Pulc__Wire__NodeEntry *)b)->name);
}

const struct ctl_list ctl_list_nodes = {
	.columns = columns,
	.n_columns = ARRAY_SIZE(columns),
	.is_chosen = is_chosen,
	.add_row = add_row,
	.compare = compare,
};
