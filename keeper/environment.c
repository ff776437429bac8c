/*
 * Environment.
 *
 * From the owner's environment everything is kept but what would tell a task that it belongs to
 * another job: PMI_*, PMIX_*, PULC_RANK and the like, which are there when pulcrun itself runs in a
 * task. Then come rank and sizes, the PMI-1 descriptor, what the PMIx service wants its clients to
 * have, and JSM_JSRUN_PORT: without this mark of a launcher Open MPI 4 comes up as N programs of
 * one rank each when it can't reach a PMIx server, and nobody notices.
 */
#include "environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "pmi.h"

static const char *const foreign[] = { "PMI_",
				       "PMIX_",
				       "PULC_RANK=",
				       "PULC_SIZE=",
				       "PULC_JOB=",
				       "PULC_NODE=",
				       "PULC_LOCAL_RANK=",
				       "PULC_LOCAL_SIZE=",
				       "PULC_PARENT=",
				       "PULC_PARENT_PORT=",
				       "PULC_PARENT_NODE=",
				       "PULC_SOCKET=",
				       "HYDRA_",
				       "JSM_JSRUN_PORT=",
				       "OMPI_COMM_WORLD_" };

static bool is_foreign(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (strncmp(variable, foreign[i], strlen(foreign[i])) == 0)
			return true;
	return false;
}

void keeper_environment_begin(struct keeper *k)
{
	Pulc__Job__Spec *spec = k->spec_message->spec;
	size_t n = 0;

	for (size_t i = 0; i < spec->n_environment; i++) {
		char *variable = spec->environment[i];

		if (is_foreign(variable)) {
			free(variable);
			continue;
		}
		if (strncmp(variable, "PATH=", 5) == 0)
			(void)setenv("PATH", variable + 5, 1); /* where programs are looked for */
		if (strncmp(variable, "HOME=", 5) == 0)
			(void)setenv("HOME", variable + 5, 1);
		spec->environment[n++] = variable;
	}
	spec->n_environment = n;
}

static void add(struct environment *e, const char *name, const char *value)
{
	char *text = e->own[e->n_own++];

	(void)snprintf(text, ENVIRONMENT_SIZE_OWN, "%s=%.120s", name, value);
	e->items[e->n++] = text;
}

static void add_number(struct environment *e, const char *name, uint32_t value)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", value);
	add(e, name, text);
}

/* Who has spawned it: a task, perhaps, and a port, perhaps, on the node that the job was started
 * from. */
static void add_parent(struct environment *e, const struct keeper *k)
{
	const char *at = strchr(k->start->id, '@');
	char text[ENVIRONMENT_SIZE_OWN];

	if (k->spec->parent[0])
		add(e, "PULC_PARENT", k->spec->parent);
	if (!k->spec->parent_port)
		return;
	(void)snprintf(text, sizeof(text), "%u%s", k->spec->parent_port, at ? at : "");
	add(e, "PULC_PARENT_PORT", text);
	add_number(e, "PULC_PARENT_NODE", k->start->origin);
}

static void add_own(struct environment *e, const struct task *task, int pmi_fd)
{
	const struct keeper *k = task->keeper;

	add(e, "PULC_JOB", k->start->id);
	add(e, "PULC_NODE", k->place->node);
	add(e, "PULC_SOCKET", k->start->socket); /* of the psid of this node */
	add_number(e, "PULC_RANK", task->rank);
	add_number(e, "PULC_SIZE", k->n_ranks);
	add_number(e, "PULC_LOCAL_RANK", task->local);
	add_number(e, "PULC_LOCAL_SIZE", k->n_tasks);
	add_parent(e, k);
	if (pmi_fd < 0)
		return;
	add_number(e, "PMI_FD", (uint32_t)pmi_fd);
	add_number(e, "PMI_RANK", task->rank);
	add_number(e, "PMI_SIZE", k->n_ranks);
	add_number(e, "MPI_LOCALRANKID", task->local);
	add_number(e, "MPI_LOCALNRANKS", k->n_tasks);
	add(e, "JSM_JSRUN_PORT", "0");
}

static int make_room(struct environment *e, size_t n)
{
	char **items;

	if (e->size >= n)
		return 0;
	items = realloc(e->items, n * sizeof(*items));
	if (!items)
		return -ENOMEM;
	e->items = items;
	e->size = n;
	return 0;
}

int keeper_environment(struct environment *e, struct task *task, int pmi_fd)
{
	const Pulc__Job__Spec *spec = task->keeper->spec;
	char *const *extra = keeper_pmi_environment(task);
	size_t n_extra = 0;
	int r;

	while (extra && extra[n_extra])
		n_extra++;
	r = make_room(e, spec->n_environment + n_extra + ENVIRONMENT_N_OWN + 1);
	if (r < 0)
		return r;
	e->n = e->n_own = 0;
	add_own(e, task, pmi_fd); /* first: who looks a name up finds ours */
	for (size_t i = 0; i < n_extra; i++)
		e->items[e->n++] = extra[i];
	for (size_t i = 0; i < spec->n_environment; i++)
		e->items[e->n++] = spec->environment[i];
	e->items[e->n] = NULL;
	return 0;
}
