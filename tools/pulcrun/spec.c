/*
 * What to run, as the keeper is told: arguments, environment, folder, umask and limits are those of
 * pulcrun itself.
 */
#include <limits.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"
#include "mpi.h"
#include "run.h"

extern char **environ;

/* All streams of a job together should not hold more than this. */
#define SIZE_CREDITS (64u << 20)
#define SIZE_CREDIT_MIN 16384u

static size_t count(char *const *list)
{
	size_t n = 0;

	while (list[n])
		n++;
	return n;
}

static void set_limits(Pulc__Job__Spec *spec, Pulc__Job__Limit *limits, Pulc__Job__Limit **pointers)
{
	struct rlimit value;

	for (unsigned i = 0; i < RLIM_NLIMITS; i++) {
		Pulc__Job__Limit *limit = &limits[spec->n_limits];

		if (getrlimit(i, &value) < 0)
			continue;
		pulc__job__limit__init(limit);
		limit->resource = i;
		limit->soft = value.rlim_cur;
		limit->hard = value.rlim_max;
		pointers[spec->n_limits++] = limit;
	}
	spec->limits = pointers;
}

static Pulc__Job__Mpi which_mpi(const struct run_options *o, bool *ret_expected)
{
	enum mpi_kind kind = mpi_of_program(o->program);

	*ret_expected = kind == MPI_KIND_PMI || kind == MPI_KIND_OPENMPI;
	switch (o->mpi) {
	case RUN_MPI_NONE:
		*ret_expected = false;
		return PULC__JOB__MPI__MPI_NONE;
	case RUN_MPI_PMI1:
		return PULC__JOB__MPI__MPI_PMI1;
	case RUN_MPI_PMIX:
		return PULC__JOB__MPI__MPI_PMIX;
	default:
		return kind == MPI_KIND_OPENMPI || kind == MPI_KIND_UNKNOWN
			       ? PULC__JOB__MPI__MPI_PMIX
			       : PULC__JOB__MPI__MPI_PMI1;
	}
}

static uint32_t credit(uint32_t n_tasks)
{
	uint32_t each = SIZE_CREDITS / (2 * n_tasks);

	return MIN(MAX(each, SIZE_CREDIT_MIN), RUN_SIZE_CREDIT);
}

/* Our own folder, or the one asked for, as an absolute name. */
static char *directory(const struct run_options *o)
{
	return o->directory ? realpath(o->directory, NULL) : getcwd(NULL, 0);
}

static void set_window(Pulc__Job__Spec *spec, Pulc__Job__WindowSize *window)
{
	struct winsize size;

	if (!spec->pty || ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
		return;
	pulc__job__window_size__init(window);
	window->rows = size.ws_row;
	window->columns = size.ws_col;
	spec->window = window;
}

void run_send_spec(struct run *run)
{
	const struct run_options *o = run->options;
	Pulc__Job__Limit limits[RLIM_NLIMITS], *pointers[RLIM_NLIMITS];
	Pulc__Job__WindowSize window;
	Pulc__Job__Spec spec = PULC__JOB__SPEC__INIT;
	JOB_MESSAGE(msg, SPEC, spec) = &spec;
	CLEANUP_FREE char *dir = directory(o);
	mode_t mask = umask(0);
	bool expected;

	(void)umask(mask);
	spec.arguments = o->program;
	spec.n_arguments = count(o->program);
	spec.environment = environ;
	spec.n_environment = count(environ);
	spec.directory = dir ? dir : (char *)o->directory;
	if (!spec.directory)
		spec.directory = (char *)"";
	spec.umask = mask;
	spec.input = o->input;
	spec.input_rank = o->input_rank;
	spec.pty = o->pty;
	spec.cpus_per_task = o->cpus_per_task;
	spec.keep_going = o->keep_going;
	spec.mpi = which_mpi(o, &expected);
	spec.expects_mpi = expected;
	spec.credit = run->credit = credit(o->n_tasks);
	set_limits(&spec, limits, pointers);
	set_window(&spec, &window);
	channel_put(&run->keeper, &msg);
}
