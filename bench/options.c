/*
 * Long options from a table.
 *
 * Each program lists its options once: name, meaning, and the variable that holds the default
 * and receives the value. The parser and the help text both come from that list, so that they
 * can't disagree. Numbers are unsigned and decimal. There are no short options: these command
 * lines are written by bench/run and by people who look at --help.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const char *program, const char *purpose, const struct bench_option *options,
		       size_t n)
{
	printf("usage: %s [options]\n%s\n\n", program, purpose);
	for (size_t i = 0; i < n; i++) {
		const struct bench_option *o = &options[i];
		char left[64];

		(void)snprintf(left, sizeof(left), "--%s%s", o->name,
			       o->flag	   ? ""
			       : o->number ? " N"
					   : " TEXT");
		if (o->number)
			printf("  %-22s %s (default %u)\n", left, o->help, *o->number);
		else if (o->text)
			printf("  %-22s %s (default %s)\n", left, o->help, *o->text);
		else
			printf("  %-22s %s\n", left, o->help);
	}
	printf("  %-22s show this help\n", "--help");
}

static int take_value(const struct bench_option *o, const char *value)
{
	char *end;
	unsigned long n;

	if (o->flag) {
		*o->flag = true;
		return 0;
	}
	if (o->text) {
		*o->text = value;
		return 0;
	}
	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || n > UINT_MAX) {
		fprintf(stderr, "--%s: '%s' is no number\n", o->name, value);
		return -EINVAL;
	}
	*o->number = (unsigned)n;
	return 0;
}

int bench_options_parse(int argc, char **argv, const char *purpose,
			const struct bench_option *options, size_t n_options)
{
	struct option longs[BENCH_N_OPTIONS_MAX + 2] = { 0 };
	int c, at = 0, r;

	if (n_options > BENCH_N_OPTIONS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n_options; i++) {
		longs[i].name = options[i].name;
		longs[i].has_arg = options[i].flag ? no_argument : required_argument;
	}
	longs[n_options].name = "help";
	while ((c = getopt_long(argc, argv, "", longs, &at)) != -1) {
		if (c != 0)
			return -EINVAL;
		if ((size_t)at == n_options) {
			print_help(argv[0], purpose, options, n_options);
			return 1;
		}
		r = take_value(&options[at], optarg);
		if (r < 0)
			return r;
	}
	if (optind != argc) {
		fprintf(stderr, "%s: '%s' is not understood\n", argv[0], argv[optind]);
		return -EINVAL;
	}
	return 0;
}

int bench_exit_status(const char *program, int r)
{
	if (r >= 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "%s: %s\n", program, strerror(-r));
	return EXIT_FAILURE;
}
