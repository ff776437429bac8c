/*
 * What the machine can do, as a program of its own: calibrate.c says what is measured, and how.
 */
#include "calibrate.h"
#include "options.h"
#include "pair.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct settings {
	unsigned server_cpu;
	unsigned client_cpu;
	unsigned msec;
};

/* The ns that a cache line takes from one core to the other; there is no such figure on one. */
static int measure_line(const struct settings *set, double *ret_nsec)
{
	struct bench_line line;
	pid_t pid;
	int r = bench_line_init(&line);

	if (r < 0)
		return r;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (bench_pin(set->server_cpu) == 0)
			bench_line_answer(&line);
		_exit(0);
	}
	r = bench_pin(set->client_cpu);
	if (r == 0)
		r = bench_line_take_turns(&line, set->msec * 1000, ret_nsec);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return r;
}

static int measure(const struct settings *set)
{
	double line_nsec = 0, rate_64k, rate_1m;
	int r;

	if (set->server_cpu != set->client_cpu) {
		r = measure_line(set, &line_nsec);
		if (r < 0)
			return r;
	}
	r = bench_pin(set->client_cpu);
	if (r < 0)
		return r;
	r = bench_copy(64 * 1024, set->msec * 1000, &rate_64k);
	if (r < 0)
		return r;
	r = bench_copy(1024 * 1024, set->msec * 1000, &rate_1m);
	if (r < 0)
		return r;
	printf("line_ns=%.1f memcpy_64k_gbs=%.2f memcpy_1m_gbs=%.2f\n", line_nsec, rate_64k,
	       rate_1m);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings set = { .msec = 100 };
	const struct bench_option options[] = {
		{ "server-cpu", "processor of the answering process", .number = &set.server_cpu },
		{ "client-cpu", "processor of the timing process", .number = &set.client_cpu },
		{ "msec", "time for each of the three figures", .number = &set.msec },
	};
	int r;

	bench_pair_default_cpus(&set.server_cpu, &set.client_cpu);
	r = bench_options_parse(
		argc, argv, "One-way time of a cache line between two cores, and memcpy's rate.",
		options, sizeof(options) / sizeof(options[0]));
	if (r != 0)
		return bench_exit_status(argv[0], r);
	return bench_exit_status(argv[0], measure(&set));
}
