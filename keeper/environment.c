/*
 * Environment.
 *
 * From the owner's environment everything is kept but what would tell a task that it belongs to
 * another job: PMI_*, PMIX_*, PULC_RANK and the like, which are there when pulcrun itself runs in a
 * task. Then come rank and sizes, the PMI-1 descriptor, what the PMIx service wants its clients to have,
 * and JSM_JSRUN_PORT: without this mark of a launcher Open MPI 4 comes up as N programs of one rank each
 * when it can't reach a PMIx server, and nobody notices.
 */
#include "environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "pmi.h"

#define N_OWN 15
#define SIZE_OWN 160

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
		spec->environment[n++] = variable;
	}
	spec->n_environment = n;
}

struct vector {
	char **items;
	size_t n;
	char (*text)[SIZE_OWN];
	size_t n_text;
};

static void add(struct vector *v, const char *name, const char *value)
{
	char *text = v->text[v->n_text++];

	(void)snprintf(text, SIZE_OWN, "%s=%.120s", name, value);
	v->items[v->n++] = text;
}

static void add_number(struct vector *v, const char *name, uint32_t value)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", value);
	add(v, name, text);
}

/* Who has spawned it: a task, perhaps, and a port, perhaps, on the node that the job was started from. */
static void add_parent(struct vector *v, const struct keeper *k)
{
	const char *at = strchr(k->start->id, '@');
	char text[SIZE_OWN];

	if (k->spec->parent[0])
		add(v, "PULC_PARENT", k->spec->parent);
	if (!k->spec->parent_port)
		return;
	(void)snprintf(text, sizeof(text), "%u%s", k->spec->parent_port, at ? at : "");
	add(v, "PULC_PARENT_PORT", text);
}

static void add_own(struct vector *v, const struct task *task, int pmi_fd)
{
	const struct keeper *k = task->keeper;

	add(v, "PULC_JOB", k->start->id);
	add(v, "PULC_NODE", k->place->node);
	add(v, "PULC_SOCKET", k->start->socket); /* of the psid of this node */
	add_number(v, "PULC_RANK", task->rank);
	add_number(v, "PULC_SIZE", k->n_ranks);
	add_number(v, "PULC_LOCAL_RANK", task->local);
	add_number(v, "PULC_LOCAL_SIZE", k->n_tasks);
	add_parent(v, k);
	if (pmi_fd < 0)
		return;
	add_number(v, "PMI_FD", (uint32_t)pmi_fd);
	add_number(v, "PMI_RANK", task->rank);
	add_number(v, "PMI_SIZE", k->n_ranks);
	add_number(v, "MPI_LOCALRANKID", task->local);
	add_number(v, "MPI_LOCALNRANKS", k->n_tasks);
	add(v, "JSM_JSRUN_PORT", "0");
}

int keeper_environment(struct task *task, int pmi_fd, char ***ret_environment)
{
	static char text[N_OWN][SIZE_OWN];
	const Pulc__Job__Spec *spec = task->keeper->spec;
	char *const *extra = keeper_pmi_environment(task);
	struct vector v = { .text = text };
	size_t n_extra = 0;

	while (extra && extra[n_extra])
		n_extra++;
	v.items = calloc(spec->n_environment + n_extra + N_OWN + 1, sizeof(*v.items));
	if (!v.items)
		return -ENOMEM;
	add_own(&v, task, pmi_fd); /* first: who looks a name up finds ours */
	for (size_t i = 0; i < n_extra; i++)
		v.items[v.n++] = extra[i];
	for (size_t i = 0; i < spec->n_environment; i++)
		v.items[v.n++] = spec->environment[i];
	*ret_environment = v.items;
	return 0;
}
