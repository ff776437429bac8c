/*
 * A job as libpmix wants it described: a name space with its nodes and ranks, the clients that will
 * come from this node, and for each of them the environment that leads it to us. This is the
 * smallest description that Open MPI 4 comes up with.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix_server.h>

#include "cleanup.h"
#include "macros.h"
#include "serve.h"

/* A call of libpmix that answers later. */
struct answer {
	pthread_mutex_t lock;
	pthread_cond_t told;
	bool is_told;
	pmix_status_t status;
};

#define NO_ANSWER                                                                                  \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER                \
	}

static void on_told(pmix_status_t status, void *data)
{
	struct answer *answer = data;

	(void)pthread_mutex_lock(&answer->lock);
	answer->status = status;
	answer->is_told = true;
	(void)pthread_cond_signal(&answer->told);
	(void)pthread_mutex_unlock(&answer->lock);
}

static int await(pmix_status_t called, struct answer *answer)
{
	if (called == PMIX_OPERATION_SUCCEEDED)
		return 0;
	if (called != PMIX_SUCCESS)
		return -EIO;
	(void)pthread_mutex_lock(&answer->lock);
	while (!answer->is_told)
		(void)pthread_cond_wait(&answer->told, &answer->lock);
	(void)pthread_mutex_unlock(&answer->lock);
	return answer->status == PMIX_SUCCESS ? 0 : -EIO;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* "n1,n2" and "0,1;2,3": the nodes, and the ranks of each. Strings to free. */
static int list_places(const Pulc__Job__Start *start, char **ret_nodes, char **ret_ranks)
{
	size_t size_nodes, size_ranks;
	FILE *nodes = open_memstream(ret_nodes, &size_nodes);
	FILE *ranks = open_memstream(ret_ranks, &size_ranks);

	for (size_t i = 0; nodes && ranks && i < start->n_places; i++) {
		const Pulc__Job__Place *place = start->places[i];

		(void)fprintf(nodes, "%s%s", i ? "," : "", place->node);
		for (size_t j = 0; j < place->n_ranks; j++)
			(void)fprintf(ranks, "%s%u", j ? "," : i ? ";" : "", place->ranks[j]);
	}
	if (nodes)
		(void)fclose(nodes);
	if (ranks)
		(void)fclose(ranks);
	return nodes && ranks ? 0 : -ENOMEM;
}

/* ---- the name space -------------------------------------------------------------------------- */

static uint32_t count_ranks(const Pulc__Job__Start *start)
{
	size_t n = 0;

	for (size_t i = 0; i < start->n_places; i++)
		n += start->places[i]->n_ranks;
	return (uint32_t)n;
}

#define N_RANK_INFO 6
#define N_JOB_INFO 8

static void load_rank(pmix_info_t *info, uint32_t rank, uint16_t local, uint32_t node)
{
	pmix_data_array_t *array;
	pmix_info_t *i;
	uint32_t app = 0;

	PMIX_DATA_ARRAY_CREATE(array, N_RANK_INFO, PMIX_INFO);
	i = array->array;
	PMIX_INFO_LOAD(&i[0], PMIX_RANK, &rank, PMIX_PROC_RANK);
	PMIX_INFO_LOAD(&i[1], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&i[2], PMIX_NODE_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&i[3], PMIX_APPNUM, &app, PMIX_UINT32);
	PMIX_INFO_LOAD(&i[4], PMIX_NODEID, &node, PMIX_UINT32);
	PMIX_INFO_LOAD(&i[5], PMIX_GLOBAL_RANK, &rank, PMIX_PROC_RANK);
	PMIX_LOAD_KEY(info->key, PMIX_PROC_DATA);
	info->value.type = PMIX_DATA_ARRAY;
	info->value.data.darray = array;
}

static void load_ranks(const Pulc__Job__Start *start, pmix_info_t *info)
{
	for (size_t i = 0; i < start->n_places; i++)
		for (size_t j = 0; j < start->places[i]->n_ranks; j++)
			load_rank(info++, start->places[i]->ranks[j], (uint16_t)j, (uint32_t)i);
}

/* Returns a status of libpmix. */
static pmix_status_t load_maps(const Pulc__Job__Start *start, pmix_info_t *info)
{
	CLEANUP_FREE char *nodes = NULL, *ranks = NULL;
	char *node_map, *rank_map;

	if (list_places(start, &nodes, &ranks) < 0 ||
	    PMIx_generate_regex(nodes, &node_map) != PMIX_SUCCESS)
		return PMIX_ERR_NOMEM;
	PMIX_INFO_LOAD(&info[0], PMIX_NODE_MAP, node_map, PMIX_REGEX);
	free(node_map);
	if (PMIx_generate_ppn(ranks, &rank_map) != PMIX_SUCCESS)
		return PMIX_ERR_NOMEM;
	PMIX_INFO_LOAD(&info[1], PMIX_PROC_MAP, rank_map, PMIX_REGEX);
	free(rank_map);
	return PMIX_SUCCESS;
}

static int register_space(const Pulc__Job__Start *start)
{
	const Pulc__Job__Place *here = start->places[start->here];
	uint32_t n = count_ranks(start), n_here = (uint32_t)here->n_ranks,
		 n_nodes = (uint32_t)start->n_places;
	struct answer answer = NO_ANSWER;
	size_t n_info = N_JOB_INFO + n;
	pmix_status_t status;
	pmix_info_t *info;
	int r;

	PMIX_INFO_CREATE(info, n_info);
	PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &n, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[1], PMIX_UNIV_SIZE, &n, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[2], PMIX_MAX_PROCS, &n, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[3], PMIX_LOCAL_SIZE, &n_here, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[4], PMIX_NUM_NODES, &n_nodes, PMIX_UINT32);
	PMIX_INFO_LOAD(&info[5], PMIX_JOBID, start->space, PMIX_STRING);
	status = load_maps(start, &info[6]);
	load_ranks(start, info + N_JOB_INFO);
	if (status == PMIX_SUCCESS)
		status = PMIx_server_register_nspace(start->space, (int)n_here, info, n_info,
						     on_told, &answer);
	r = await(status, &answer);
	PMIX_INFO_FREE(info, n_info);
	return r;
}

/* ---- its tasks ------------------------------------------------------------------------------- */

static int register_task(const Pulc__Job__Start *start, uint32_t rank,
			 Pulc__Job__PmixVariables *variables)
{
	struct answer answer = NO_ANSWER;
	pmix_proc_t proc;
	char **environment = NULL;
	int r;

	PMIX_LOAD_PROCID(&proc, start->space, rank);
	r = await(PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, on_told, &answer),
		  &answer);
	if (r < 0 || PMIx_server_setup_fork(&proc, &environment) != PMIX_SUCCESS)
		return -EIO;
	variables->variables = environment;
	while (environment && environment[variables->n_variables])
		variables->n_variables++;
	return 0;
}

int serve_register(const Pulc__Job__Start *start, Pulc__Job__PmixReady *ret_ready)
{
	const Pulc__Job__Place *here = start->places[start->here];
	int r;

	r = register_space(start);
	ret_ready->tasks = calloc(here->n_ranks + 1, sizeof(*ret_ready->tasks));
	if (!ret_ready->tasks)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < here->n_ranks; i++) {
		Pulc__Job__PmixVariables *variables = malloc(sizeof(*variables));

		if (!variables)
			return -ENOMEM;
		pulc__job__pmix_variables__init(variables);
		ret_ready->tasks[ret_ready->n_tasks++] = variables;
		r = register_task(start, here->ranks[i], variables);
	}
	return r;
}
