/*
 * What to run, as the keeper is told: arguments, environment, folder, umask and limits are those of
 * pulcrun itself. What every owner of a job tells is in keeper/common/spec.c.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "mpi.h"
#include "run.h"
#include "spec.h"

extern char **environ;

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

int run_send_spec(struct run *run)
{
	const struct run_options *o = run->options;
	Pulc__Job__Message msg = PULC__JOB__MESSAGE__INIT;
	Pulc__Job__WindowSize window;
	CLEANUP_FREE char *dir = directory(o);
	mode_t mask = umask(0);
	struct spec spec;
	bool expected;

	(void)umask(mask);
	if (!dir && !o->directory) {
		int r = -errno;

		fprintf(stderr, "pulcrun: the current directory: %s\n", strerror(-r));
		return r;
	}
	spec_init(&spec, o->reserve ? reserve_tasks : o->program, environ, o->n_tasks);
	spec.spec.directory = dir ? dir : (char *)o->directory;
	spec.spec.umask = mask;
	spec.spec.input = o->input;
	spec.spec.input_rank = o->input_rank;
	spec.spec.pty = o->pty;
	spec.spec.cpus_per_task = o->cpus_per_task;
	spec.spec.keep_going = o->keep_going || o->reserve;
	if (o->reserve) {
		spec.spec.mpi = PULC__JOB__MPI__MPI_NONE;
	} else {
		spec.spec.mpi = which_mpi(o, &expected);
		spec.spec.expects_mpi = expected;
	}
	set_window(&spec.spec, &window);
	run->credit = spec.spec.credit;
	msg.body_case = PULC__JOB__MESSAGE__BODY_SPEC;
	msg.spec = &spec.spec;
	channel_put(&run->keeper, &msg);
	return 0;
}
