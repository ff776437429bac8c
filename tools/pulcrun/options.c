/*
 * pulcrun's command line: options, then the program with its arguments, which are left alone.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"

#define SECONDS_MAX 1e9

static const char help[] =
	"Usage: pulcrun [OPTION...] PROGRAM [ARGUMENT...]\n"
	"       pulcrun --reserve [OPTION...] [PROGRAM [ARGUMENT...]]\n"
	"\n"
	"Runs PROGRAM as many tasks on the least loaded nodes of the cluster, or on this node if\n"
	"there is no cluster. Starts a private psid if none can be reached.\n"
	"\n"
	"Which and where:\n"
	"  -n, --tasks N           so many tasks (default 1)\n"
	"      --strategy S        least-loaded (default), next or node (see pulcrun(1))\n"
	"      --nodes LIST        only on these: n1,n[2-4]:2 (:2 = at most two tasks there)\n"
	"      --hostfile FILE     the same, from a file\n"
	"      --partition NAME    only on the nodes of this partition (pulcctl partition)\n"
	"      --wait              until there is room in the partition (pulcctl queue)\n"
	"      --reserve           hold the room of N tasks, and run PROGRAM (or your shell) "
	"here:\n"
	"                          each pulcrun that it runs has its tasks in that room\n"
	"      --per-node N        at most N tasks on a node\n"
	"      --cpus-per-task N   N cores for each task, which is bound to them\n"
	"      --oversubscribe     more tasks than cores on a node are fine\n"
	"      --directory DIR     run there instead of here\n"
	"      --scheduler S       whose allocation this is: auto (default), slurm or none\n"
	"      --mpi KIND          auto (default), pmi1, pmix or none\n"
	"\n"
	"Streams:\n"
	"      --label             each line with the rank that said it\n"
	"      --tag-output        each line with job, rank and stream\n"
	"      --output PATTERN    into files: DIR/{rank}, DIR/{rank}.{stream}\n"
	"      --stdin WHO         standard input goes to: a rank (default 0), all or none\n"
	"      --pty               rank 0 has a terminal\n"
	"\n"
	"The end:\n"
	"      --keep-going        a failed task does not end the others\n"
	"      --timeout SECONDS   end the job after so long\n"
	"      --json[=FILE]       report what became of each task\n"
	"  -q, --quiet             say nothing about failed tasks\n"
	"  -v, --verbose           say where the tasks run\n"
	"  -h, --help, --version\n"
	"\n"
	"Exit status: that of the first task that failed, 128 + its signal, 124 after --timeout,\n"
	"125 pulcrun itself failed, 126 PROGRAM cannot be executed, 127 it was not found.\n";

enum {
	OPT_STRATEGY = 256,
	OPT_NODES,
	OPT_HOSTFILE,
	OPT_PARTITION,
	OPT_WAIT,
	OPT_RESERVE,
	OPT_PER_NODE,
	OPT_CPUS,
	OPT_OVERSUBSCRIBE,
	OPT_DIRECTORY,
	OPT_SCHEDULER,
	OPT_MPI,
	OPT_LABEL,
	OPT_TAG,
	OPT_OUTPUT,
	OPT_STDIN,
	OPT_PTY,
	OPT_KEEP_GOING,
	OPT_TIMEOUT,
	OPT_JSON,
	OPT_VERSION
};

static const struct option longs[] = {
	{ "tasks", required_argument, NULL, 'n' },
	{ "strategy", required_argument, NULL, OPT_STRATEGY },
	{ "nodes", required_argument, NULL, OPT_NODES },
	{ "hostfile", required_argument, NULL, OPT_HOSTFILE },
	{ "partition", required_argument, NULL, OPT_PARTITION },
	{ "wait", no_argument, NULL, OPT_WAIT },
	{ "reserve", no_argument, NULL, OPT_RESERVE },
	{ "per-node", required_argument, NULL, OPT_PER_NODE },
	{ "cpus-per-task", required_argument, NULL, OPT_CPUS },
	{ "oversubscribe", no_argument, NULL, OPT_OVERSUBSCRIBE },
	{ "directory", required_argument, NULL, OPT_DIRECTORY },
	{ "scheduler", required_argument, NULL, OPT_SCHEDULER },
	{ "mpi", required_argument, NULL, OPT_MPI },
	{ "label", no_argument, NULL, OPT_LABEL },
	{ "tag-output", no_argument, NULL, OPT_TAG },
	{ "output", required_argument, NULL, OPT_OUTPUT },
	{ "stdin", required_argument, NULL, OPT_STDIN },
	{ "pty", no_argument, NULL, OPT_PTY },
	{ "keep-going", no_argument, NULL, OPT_KEEP_GOING },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "json", optional_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

static const char *const strategies[] = { "least-loaded", "next", "node" };
static const char *const mpis[] = { "auto", "none", "pmi1", "pmix" };

static int choose(const char *what, const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return (int)i;
	fprintf(stderr, "pulcrun: --%s: no '%s'; there are:", what, name);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, " %s", list[i]);
	fputc('\n', stderr);
	return -EINVAL;
}

static int parse_number(const char *what, const char *text, uint32_t min, uint32_t max,
			uint32_t *ret)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || n < min || n > max) {
		fprintf(stderr, "pulcrun: %s wants a number from %u to %u, not '%s'\n", what, min,
			max, text);
		return -EINVAL;
	}
	*ret = (uint32_t)n;
	return 0;
}

static int parse_timeout(const char *text, uint64_t *ret_msec)
{
	char *end;
	double seconds = strtod(text, &end);

	if (*end || end == text || !(seconds > 0 && seconds <= SECONDS_MAX)) {
		fprintf(stderr, "pulcrun: --timeout wants seconds, not '%s'\n", text);
		return -EINVAL;
	}
	*ret_msec = (uint64_t)(seconds * 1000) + 1;
	return 0;
}

static int parse_nodes(struct hosts *hosts, const char *text)
{
	size_t n_before = hosts->n;
	int r = hosts_parse(hosts, text, strlen(text));

	if (r == -EINVAL || (r == 0 && hosts->n == n_before))
		fprintf(stderr,
			"pulcrun: --nodes wants a list of nodes such as n1,n[2-4]:2, not '%s'\n",
			text);
	else if (r < 0)
		fprintf(stderr, "pulcrun: --nodes: %s\n", strerror(-r));
	return r < 0 || hosts->n == n_before ? -EINVAL : 0;
}

static int read_nodes(struct hosts *hosts, const char *path)
{
	unsigned line = 0;
	int r = hosts_read(hosts, path, &line);

	if (r == -EINVAL)
		fprintf(stderr,
			"pulcrun: %s:%u: expected nodes such as n1, n[2-4]:2 or n5 slots=2\n", path,
			line);
	else if (r < 0)
		fprintf(stderr, "pulcrun: %s: %s\n", path,
			r == -ENODATA ? "it names no node" : strerror(-r));
	return r < 0 ? -EINVAL : 0;
}

static int parse_stdin(struct run_options *o, const char *text)
{
	o->input_chosen = true;
	if (strcmp(text, "none") == 0) {
		o->input = PULC__JOB__INPUT__INPUT_NONE;
		return 0;
	}
	if (strcmp(text, "all") == 0) {
		o->input = PULC__JOB__INPUT__INPUT_ALL;
		return 0;
	}
	o->input = PULC__JOB__INPUT__INPUT_RANK;
	return parse_number("--stdin, unless it is all or none,", text, 0, RUN_N_TASKS_MAX - 1,
			    &o->input_rank);
}

/* Where the tasks go. Returns 0, -EINVAL, 1: it is no such option. */
static int take_place(int c, struct run_options *o)
{
	int r;

	switch (c) {
	case 'n':
		o->tasks_chosen = true;
		return parse_number("-n", optarg, 1, RUN_N_TASKS_MAX, &o->n_tasks);
	case OPT_STRATEGY:
		r = choose("strategy", optarg, strategies, ARRAY_SIZE(strategies));
		o->strategy = (Pulc__Wire__Strategy)MAX(r, 0);
		o->strategy_chosen = true;
		return MIN(r, 0);
	case OPT_NODES:
		return parse_nodes(&o->hosts, optarg);
	case OPT_HOSTFILE:
		return read_nodes(&o->hosts, optarg);
	case OPT_PARTITION:
		o->partition = optarg;
		return 0;
	case OPT_WAIT:
		o->wait = true;
		return 0;
	case OPT_RESERVE:
		o->reserve = true;
		return 0;
	case OPT_PER_NODE:
		return parse_number("--per-node", optarg, 1, RUN_N_TASKS_MAX, &o->per_node);
	case OPT_CPUS:
		return parse_number("--cpus-per-task", optarg, 1, 4096, &o->cpus_per_task);
	case OPT_OVERSUBSCRIBE:
		o->oversubscribe = true;
		return 0;
	case OPT_DIRECTORY:
		o->directory = optarg;
		return 0;
	case OPT_SCHEDULER:
		o->scheduler = optarg;
		return 0;
	case OPT_MPI:
		r = choose("mpi", optarg, mpis, ARRAY_SIZE(mpis));
		o->mpi = (enum run_mpi)MAX(r, 0);
		return MIN(r, 0);
	default:
		return 1;
	}
}

static int take_option(int c, struct run_options *o)
{
	switch (c) {
	case OPT_LABEL:
		o->prefix = PREFIX_LABEL;
		return 0;
	case OPT_TAG:
		o->prefix = PREFIX_TAG;
		return 0;
	case OPT_OUTPUT:
		o->output = optarg;
		return 0;
	case OPT_STDIN:
		return parse_stdin(o, optarg);
	case OPT_PTY:
		o->pty = true;
		return 0;
	case OPT_KEEP_GOING:
		o->keep_going = true;
		return 0;
	case OPT_TIMEOUT:
		return parse_timeout(optarg, &o->msec_timeout);
	case OPT_JSON:
		o->json = true;
		o->json_file = optarg;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'h':
		fputs(help, stdout);
		return 1;
	case OPT_VERSION:
		puts("pulcrun " PULC_VERSION);
		return 1;
	default:
		return -EINVAL;
	}
}

int run_options_check(const struct run_options *o)
{
	const char *wrong = NULL;

	if (o->reserve &&
	    (o->pty || o->output || o->input_chosen || o->json || o->prefix != PREFIX_NONE))
		wrong = "--reserve runs its program here: --pty, --output, --stdin, --json, "
			"--label and --tag-output are for tasks";
	else if (o->input == PULC__JOB__INPUT__INPUT_RANK && o->input_rank >= o->n_tasks)
		wrong = "--stdin names a rank that there will not be";
	else if (o->pty && o->input != PULC__JOB__INPUT__INPUT_RANK)
		wrong = "--pty is for the rank that has the standard input";
	else if (o->pty && o->input_rank != 0)
		wrong = "--pty is for rank 0";
	else if (o->strategy == PULC__WIRE__STRATEGY__STRATEGY_NODE && o->hosts.n == 0)
		wrong = "--strategy node wants --nodes or --hostfile";
	if (!wrong)
		return 0;
	fprintf(stderr, "pulcrun: %s\n", wrong);
	return -EINVAL;
}

/* What --reserve runs if nothing else is said. */
static char **shell(void)
{
	static char *program[2];
	const char *named = getenv("SHELL");

	program[0] = (char *)(named && named[0] ? named : "/bin/sh");
	return program;
}

/* As run_reserve sets it: "17@n1". */
static int check_reservation(const char *name)
{
	size_t n = name ? strspn(name, "0123456789") : 0;

	if (!name || !*name || (n > 0 && name[n] == '@' && name[n + 1]))
		return 0;
	fprintf(stderr,
		"pulcrun: PULC_RESERVATION=%s: expected a reservation, as 17@n1 (or unset it)\n",
		name);
	return -EINVAL;
}

int run_options_parse(int argc, char **argv, struct run_options *ret_options)
{
	struct run_options o = { .n_tasks = 1, .input = PULC__JOB__INPUT__INPUT_RANK };
	int c, r;

	while ((c = getopt_long(argc, argv, "+n:qvh", longs, NULL)) != -1) {
		r = take_place(c, &o);
		if (r > 0)
			r = take_option(c, &o);
		if (r != 0)
			return r;
	}
	if (optind == argc && !o.reserve) {
		fputs("pulcrun: which program? (pulcrun --help)\n", stderr);
		return -EINVAL;
	}
	o.program = optind == argc ? shell() : argv + optind;
	if (o.reserve)
		o.input = PULC__JOB__INPUT__INPUT_NONE;
	else if (!o.partition)
		o.reservation = getenv("PULC_RESERVATION");
	*ret_options = o;
	return check_reservation(o.reservation);
}
