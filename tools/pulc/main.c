/*
 * pulc: runs a program with its socket calls under PULC.
 *
 * Three steps: find the library to preload, make sure that a psid can be reached, become the
 * program. Only the first and the last can fail the run. Without a psid the program runs as well,
 * on the kernel, and the user is told. Exit statuses are env(1)'s: 125 pulc itself failed, 126 the
 * program cannot be executed, 127 it was not found, otherwise the program's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"
#include "library.h"
#include "macros.h"
#include "number.h"
#include "program.h"
#include "said.h"

enum exit_status { EXIT_PULC_FAILED = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const char help[] =
	"Usage: pulc [OPTION...] PROGRAM [ARGUMENT...]\n"
	"\n"
	"Runs PROGRAM so that its TCP connections to other programs run by pulc on this\n"
	"node go through shared memory. Starts a private psid if none can be reached.\n"
	"\n"
	"  --log FILE   let the library log to FILE (stderr: to standard error)\n"
	"  --no-psid    do not start a psid; without one, everything stays on the kernel\n"
	"  -h, --help   this text\n"
	"  --version    the version of pulc\n"
	"\n"
	"Exit status: PROGRAM's, or 125 pulc failed, 126 PROGRAM cannot be executed,\n"
	"127 PROGRAM was not found. See pulc(1).\n";

struct settings {
	bool no_psid;
	const char *log;
};

enum { OPT_LOG = 256, OPT_NO_PSID, OPT_VERSION };

static const struct option longs[] = {
	{ "log", required_argument, NULL, OPT_LOG },
	{ "no-psid", no_argument, NULL, OPT_NO_PSID },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

/* Returns 0; 1: help was given; -EINVAL: stderr says what is wrong. optind is at PROGRAM. */
static int parse(int argc, char **argv, struct settings *set)
{
	int c;

	while ((c = getopt_long(argc, argv, "+h", longs, NULL)) != -1) {
		switch (c) {
		case OPT_LOG:
			set->log = optarg;
			break;
		case OPT_NO_PSID:
			set->no_psid = true;
			break;
		case 'h':
			fputs(help, stdout);
			return 1;
		case OPT_VERSION:
			puts("pulc " PULC_VERSION);
			return 1;
		default:
			return -EINVAL;
		}
	}
	if (optind < argc)
		return 0;
	fputs("pulc: which program? (pulc --help)\n", stderr);
	return -EINVAL;
}

/* As the library will open it: it has nobody to tell that it cannot. */
static int try_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

/* The library gets an absolute path: the program may change its directory before it opens the
 * log. */
static int set_log(const char *log)
{
	char dir[PATH_MAX] = "", path[2 * PATH_MAX];
	bool is_path = strcmp(log, "stderr") != 0;
	int r = 0;

	if (is_path && *log != '/' && !getcwd(dir, sizeof(dir)))
		r = -errno;
	(void)snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", log);
	if (r == 0 && is_path)
		r = try_log(path);
	if (r == 0 && setenv("PULC_LOG", path, 1) < 0)
		r = -errno;
	if (r < 0)
		fprintf(stderr, "pulc: --log %s: %s\n", log, strerror(-r));
	return r;
}

/* What the library would pass over, or obey, without a word to anybody. */
static void warn_of_environment(const struct settings *set)
{
	static const struct {
		const char *name;
		uint64_t max;
	} numbers[] = { { "PULC_HINT_AFTER", NUMBER_HINT_AFTER_MAX },
			{ "PULC_SPIN_USEC", NUMBER_SPIN_USEC_MAX } };
	const char *value;
	uint64_t n;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if ((value = getenv(numbers[i].name)) && *value &&
		    !number_read(value, numbers[i].max, &n))
			fprintf(stderr, "pulc: warning: %s=%s: expected a number: passed over\n",
				numbers[i].name, value);
	value = getenv("PULC_DISABLE");
	if (value && strcmp(value, "1") == 0)
		fputs("pulc: warning: PULC_DISABLE=1: PULC has no effect\n", stderr);
	value = set->log ? NULL : getenv("PULC_LOG");
	if (value && *value && strcmp(value, "stderr") != 0 && try_log(value) < 0)
		fprintf(stderr, "pulc: warning: PULC_LOG=%s: %s\n", value, strerror(errno));
}

static int prepare(const struct settings *set, const char *program)
{
	char library[PATH_MAX];
	const char *obstacle, *which;
	char why[256];
	int r;

	r = run_find_library(library, sizeof(library));
	if (r < 0)
		return r;
	obstacle = run_obstacle(program, &which);
	if (obstacle)
		fprintf(stderr, "pulc: warning: %s %s: PULC has no effect in it\n", which,
			obstacle);
	warn_of_environment(set);
	if (!set->no_psid && run_ensure_psid() < 0)
		fputs("pulc: warning: no psid: all connections stay on the kernel\n", stderr);
	else if (run_ask_psid(why, sizeof(why)) < 0)
		fprintf(stderr, "pulc: warning: all connections stay on the kernel: %s\n", why);
	if (set->log) {
		r = set_log(set->log);
		if (r < 0)
			return r;
	}
	return run_preload(library);
}

/* A file that was found and then is not there is a script without its interpreter. */
static int fail(const char *name, int r, bool found)
{
	fprintf(stderr, "pulc: %s: %s\n", name,
		r == -ENOENT && found ? "the interpreter that it names was not found"
				      : strerror(-r));
	return r == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int main(int argc, char **argv)
{
	struct settings set = { 0 };
	char program[PATH_MAX];
	int r;

	r = parse(argc, argv, &set);
	if (r != 0)
		return r < 0 ? EXIT_PULC_FAILED : said_all("pulc", EXIT_SUCCESS, EXIT_PULC_FAILED);
	if (said_environment("pulc") < 0)
		return EXIT_PULC_FAILED;
	r = run_find_program(argv[optind], program, sizeof(program));
	if (r < 0)
		return fail(argv[optind], r, false);
	if (prepare(&set, program) < 0)
		return EXIT_PULC_FAILED;
	(void)execvp(program, argv + optind);
	return fail(argv[optind], -errno, true);
}
