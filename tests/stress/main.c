/*
 * stress PROGRAM [--seconds N] [--lanes N] [--seed N] [--round BYTES] [--uid UID]: one stress
 * program, on whatever sockets the process has (kernel, or the shim's). The last line of output
 * counts what was done.
 */
#include "stress.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
	const char *name;
	int (*run)(const struct options *options);
} programs[] = {
	{ "traffic", run_traffic },	{ "turns", run_turns },	  { "melee", run_melee },
	{ "crowd", run_crowd },		{ "killed", run_killed }, { "stopped", run_stopped },
	{ "datagrams", run_datagrams },
};

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = { { "seconds", required_argument, NULL, 's' },
					       { "lanes", required_argument, NULL, 'l' },
					       { "seed", required_argument, NULL, 'e' },
					       { "round", required_argument, NULL, 'r' },
					       { "uid", required_argument, NULL, 'u' },
					       { 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 's')
			options->seconds = (unsigned)value;
		else if (c == 'l')
			options->n_lanes = (unsigned)value;
		else if (c == 'e')
			options->seed = value;
		else if (c == 'r')
			options->size_round = value;
		else if (c == 'u')
			options->acceptor_uid = (unsigned)value;
		else
			exit(2);
	}
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 10,
				   .n_lanes = 6,
				   .size_round = 64 << 20,
				   .seed = (uint64_t)time(NULL) << 20 | (uint64_t)getpid() };

	parse(argc, argv, &options);
	signal(SIGPIPE, SIG_IGN);
	printf("seed %llu\n", (unsigned long long)options.seed);
	fflush(stdout);
	bytes_init(options.seed);
	for (size_t i = 0; optind < argc && i < sizeof(programs) / sizeof(programs[0]); i++)
		if (strcmp(argv[optind], programs[i].name) == 0)
			return programs[i].run(&options);
	fprintf(stderr,
		"usage: stress traffic|turns|melee|crowd|killed|stopped|datagrams [options]\n");
	return 2;
}
