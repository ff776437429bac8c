/* Command lines of the benchmark programs: long options, and --help, from one table. */
#ifndef PULC_BENCH_OPTIONS_H
#define PULC_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define BENCH_N_OPTIONS_MAX 24

/* Exactly one of number, text and flag is set; it holds the default and receives the value. */
struct bench_option {
	const char *name;
	const char *help;
	unsigned *number;
	const char **text;
	bool *flag;
};

/* Returns 0; 1: --help was asked for and printed; -EINVAL: said on stderr what is wrong. */
int bench_options_parse(int argc, char **argv, const char *purpose,
			const struct bench_option *options, size_t n_options);

/* The exit status of main for `r`; says a negative errno on stderr. */
int bench_exit_status(const char *program, int r);

#endif
