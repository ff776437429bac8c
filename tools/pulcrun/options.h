/* pulcrun's command line. */
#ifndef PULCRUN_OPTIONS_H
#define PULCRUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client.pb-c.h"
#include "hosts.h"
#include "job.pb-c.h"

#define RUN_N_TASKS_MAX 65536u

enum run_prefix { PREFIX_NONE, PREFIX_LABEL, PREFIX_TAG };
enum run_mpi { RUN_MPI_AUTO, RUN_MPI_NONE, RUN_MPI_PMI1, RUN_MPI_PMIX };

struct run_options {
	uint32_t n_tasks; /* 1 unless chosen */
	bool tasks_chosen, strategy_chosen;
	Pulc__Wire__Strategy strategy;
	struct hosts hosts;
	uint32_t per_node, cpus_per_task;
	bool wait, reserve, oversubscribe, keep_going, pty, quiet, verbose;
	enum run_prefix prefix;
	enum run_mpi mpi;
	bool input_chosen;
	Pulc__Job__Input input;
	uint32_t input_rank;
	uint64_t msec_timeout;	 /* 0: none */
	const char *output;	 /* pattern of file names; NULL: our own streams */
	const char *partition;	 /* NULL: none */
	const char *reservation; /* that it runs in; NULL: none */
	const char *scheduler;	 /* NULL: auto */
	const char *directory;	 /* NULL: ours */
	bool json;
	const char *json_file; /* NULL: standard output */
	char **program;	       /* with its arguments */
};

/* Returns 0; 1: help was asked for and given; -EINVAL: wrong, and stderr says how. */
int run_options_parse(int argc, char **argv, struct run_options *ret_options);
/* Whether they fit each other. Returns 0; -EINVAL: no, and stderr says why. */
int run_options_check(const struct run_options *options);

#endif
