/*
 * Slurm. An allocation is described by variables (srun(1), salloc(1)); a step of it, one task on
 * each node beside whatever other steps there are, takes the agents there. Slurm confines a step to
 * the processors, memory and devices of the allocation, accounts for it, and kills what is left of
 * it at the end.
 *
 * The step's options say everything, so that variables which set them for the user's own srun, and
 * which srun reads too, do not count.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocation.h"

static bool is_here(void)
{
	return getenv("SLURM_JOB_ID") && getenv("SLURM_JOB_NODELIST");
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

static int read_counts(struct allocation *a)
{
	size_t n = a->nodes.n;
	uint32_t *cpus = calloc(n, sizeof(*cpus));
	int r = cpus ? 0 : -ENOMEM;

	a->n_tasks = calloc(n, sizeof(*a->n_tasks));
	if (r == 0)
		r = a->n_tasks ? allocation_counts(variable("SLURM_JOB_CPUS_PER_NODE"), cpus, n)
			       : -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		a->nodes.items[i].slots = cpus[i];
	if (r == 0)
		r = allocation_counts(variable("SLURM_TASKS_PER_NODE"), a->n_tasks, n);
	free(cpus);
	return r;
}

static int read_allocation(struct allocation *ret)
{
	const char *nodes = variable("SLURM_JOB_NODELIST");
	int r = hosts_parse(&ret->nodes, nodes, strlen(nodes));

	if (r == 0 && ret->nodes.n > 0)
		r = read_counts(ret);
	(void)snprintf(ret->name, sizeof(ret->name), "slurm.%.24s", variable("SLURM_JOB_ID"));
	ret->cpus_per_task = (uint32_t)strtoul(variable("SLURM_CPUS_PER_TASK"), NULL, 10);
	return r == -EINVAL ? -EBADMSG : r;
}

static void make_command(const struct allocation *allocation, struct command *ret)
{
	static const char *const words[] = {
		"srun",
		"--overlap", /* the batch script, and other steps, have the same processors */
		"--ntasks-per-node=1",
		"--cpu-bind=none", /* all processors that are ours there */
		"--mem=0",	   /* and all memory */
		"--mpi=none",
		"--input=all",
		"--export=ALL",
		"--chdir=/", /* ours may not be there */
		"--kill-on-bad-exit=0",
		"--wait=0",
		"--no-kill", /* a node dies: the others go on */
		"--job-name=pulcrun",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		command_add(ret, words[i]);
	command_add_number(ret, "--nodes=", allocation->nodes.n);
	command_add_number(ret, "--ntasks=", allocation->nodes.n);
}

const struct scheduler scheduler_slurm = {
	.name = "slurm",
	.is_here = is_here,
	.read = read_allocation,
	.command = make_command,
	.node_variable = "SLURMD_NODENAME",
	.launcher_variable = "SLURM_LAUNCH_NODE_IPADDR",
};
