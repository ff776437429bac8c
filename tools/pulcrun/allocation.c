/*
 * Allocations: which scheduler's we are in, and what follows for the options.
 *
 * What was asked of the scheduler counts as if it had been asked of pulcrun: the tasks, on the
 * nodes that it chose for them, and the processors of each. An option of pulcrun's own wins, within
 * what is ours. How many processors that is on a node the scheduler tells; which ones, the psid
 * there sees itself, since it runs in them.
 */
#include "allocation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"

static const struct scheduler *const schedulers[] = { &scheduler_slurm };

int allocation_find(const struct run_options *options, const struct scheduler **ret_scheduler)
{
	const char *wanted = options->scheduler ? options->scheduler : "auto";
	bool has_psid = getenv("PULC_JOB") || options->reservation;

	*ret_scheduler = NULL;
	if (strcmp(wanted, "none") == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(schedulers) && !has_psid; i++)
		if ((strcmp(wanted, "auto") == 0 || strcmp(wanted, schedulers[i]->name) == 0) &&
		    schedulers[i]->is_here()) {
			*ret_scheduler = schedulers[i];
			return 0;
		}
	if (strcmp(wanted, "auto") == 0)
		return 0;
	fprintf(stderr,
		"pulcrun: --scheduler %s: this is no allocation of it; there are: auto none",
		wanted);
	for (size_t i = 0; i < ARRAY_SIZE(schedulers); i++)
		fprintf(stderr, " %s", schedulers[i]->name);
	fputc('\n', stderr);
	return -EINVAL;
}

int allocation_read(const struct scheduler *scheduler, struct allocation *ret)
{
	int r = scheduler->read(ret);

	if (r == 0 && ret->nodes.n == 0)
		r = -EBADMSG;
	if (r < 0)
		fprintf(stderr, "pulcrun: what %s says of this allocation can't be read: %s\n",
			scheduler->name, strerror(-r));
	return r;
}

void allocation_deinit(struct allocation *allocation)
{
	hosts_deinit(&allocation->nodes);
	free(allocation->n_tasks);
	*allocation = (struct allocation){ 0 };
}

static const struct host *find(const struct hosts *hosts, const char *name)
{
	for (size_t i = 0; i < hosts->n; i++)
		if (strcmp(hosts->items[i].name, name) == 0)
			return &hosts->items[i];
	return NULL;
}

/* Tasks that fit into so many processors; with --oversubscribe nothing is said. */
static uint32_t slots_of(const struct run_options *options, const struct host *node)
{
	return options->oversubscribe ? 0 : node->slots / MAX(options->cpus_per_task, 1u);
}

/* The nodes that the user has named. */
static int bound_hosts(const struct allocation *allocation, struct run_options *options)
{
	for (size_t i = 0; i < options->hosts.n; i++) {
		struct host *host = &options->hosts.items[i];
		const struct host *node = find(&allocation->nodes, host->name);

		if (!node) {
			fprintf(stderr, "pulcrun: %s is no node of this allocation\n", host->name);
			return -EINVAL;
		}
		if (host->slots == 0)
			host->slots = slots_of(options, node);
	}
	return 0;
}

/* Nodes with so many slots each; those with none are left out. */
static int set_hosts(const struct allocation *allocation, struct run_options *options,
		     bool as_asked)
{
	struct host *items = calloc(allocation->nodes.n, sizeof(*items));
	size_t n = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < allocation->nodes.n; i++) {
		struct host host = allocation->nodes.items[i];

		host.slots = as_asked ? allocation->n_tasks[i] : slots_of(options, &host);
		if (host.slots > 0 || options->oversubscribe)
			items[n++] = host;
	}
	options->hosts = (struct hosts){ .items = items, .n = n };
	return 0;
}

/* The tasks that were asked for on the nodes that the user has named; without a name on all. */
static uint32_t n_asked(const struct allocation *allocation, const struct hosts *named)
{
	uint64_t n = 0;

	for (size_t i = 0; i < allocation->nodes.n; i++)
		if (named->n == 0 || find(named, allocation->nodes.items[i].name))
			n += allocation->n_tasks[i];
	return (uint32_t)MIN(MAX(n, (uint64_t)1), (uint64_t)RUN_N_TASKS_MAX);
}

int allocation_apply(const struct allocation *allocation, struct run_options *options)
{
	bool as_asked = !options->tasks_chosen && options->hosts.n == 0 && !options->per_node &&
			!options->strategy_chosen;

	if (!options->cpus_per_task && !options->tasks_chosen)
		options->cpus_per_task = allocation->cpus_per_task;
	if (!options->tasks_chosen)
		options->n_tasks = n_asked(allocation, &options->hosts);
	if (options->hosts.n > 0)
		return bound_hosts(allocation, options);
	if (as_asked) /* also which ranks are where */
		options->strategy = PULC__WIRE__STRATEGY__STRATEGY_NODE;
	return set_hosts(allocation, options, as_asked);
}

/* ---- for schedulers -------------------------------------------------------------------------- */

int allocation_counts(const char *text, uint32_t *ret_counts, size_t n)
{
	size_t i = 0;

	while (*text) {
		char *end;
		unsigned long count = strtoul(text, &end, 10), times = 1;

		if (end == text || *text == '-' || count > UINT32_MAX)
			return -EBADMSG;
		if (strncmp(end, "(x", 2) == 0) {
			times = strtoul(end + 2, &end, 10);
			if (*end++ != ')')
				return -EBADMSG;
		}
		if (times == 0 || times > n - i || (*end && *end != ','))
			return -EBADMSG;
		while (times-- > 0)
			ret_counts[i++] = (uint32_t)count;
		text = end + (*end == ',');
	}
	return i == n ? 0 : -EBADMSG;
}

void command_add(struct command *command, const char *word)
{
	if (command->n_words < ALLOCATION_N_WORDS - 1)
		command->words[command->n_words++] = (char *)word;
}

void command_add_number(struct command *command, const char *name, uint64_t number)
{
	char *text = command->text[command->n_text++];

	(void)snprintf(text, sizeof(command->text[0]), "%s%llu", name, (unsigned long long)number);
	command_add(command, text);
}
