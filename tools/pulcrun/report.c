/*
 * What became of the tasks: pulcrun's exit status, its words, and the report.
 *
 * The first failure decides the status; the ends of tasks that were killed because of it are no
 * news. A single task is treated as a shell treats its child: its status is pulcrun's, without a
 * word, unless a signal has ended it that nobody has typed and no reader's leaving has caused.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "json.h"
#include "run.h"
#include "utf8.h"

void run_note(struct run *run, const char *format, ...)
{
	char text[640] = "pulcrun: ";
	size_t n = strlen(text);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text + n, sizeof(text) - n - 1, format, args);
	va_end(args);
	(void)wire_utf8_plain(text, text, sizeof(text)); /* of programs, nodes and psids */
	strcat(text, "\n");
	if (run->err.run)
		sink_write(&run->err, text, strlen(text));
	else
		fputs(text, stderr);
}

int run_status_of(uint32_t code)
{
	return code == 0 || (code & 0xff) ? (int)(code & 0xff) : 1;
}

static int status_of(const Pulc__Job__Exited *exited)
{
	if (exited->lost || exited->no_directory)
		return EXIT_OWN;
	if (exited->error)
		return exited->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	if (exited->signal)
		return 128 + (int)exited->signal;
	return run_status_of(exited->code);
}

/* A script is found, and ENOENT is about its interpreter. */
static void describe_error(struct run *run, const char *node, int error)
{
	const char *program = run->options->program[0];
	struct stat st;

	if (error == ENOENT && strchr(program, '/') && access(program, X_OK) == 0)
		run_note(run, "%s: on %s it is not there, or the interpreter that it names is not",
			 program, node);
	else if (error == EACCES && stat(program, &st) == 0 && S_ISDIR(st.st_mode))
		run_note(run, "%s: %s", program, strerror(EISDIR));
	else
		run_note(run, "%s: %s", program, strerror(error));
}

/* Of a single task's end its status is enough; that of a crash is no other than that of a program
 * which exits with 139. */
static bool is_told_of_one(uint32_t signal)
{
	return signal && signal != SIGINT && signal != SIGPIPE;
}

static void describe(struct run *run, const Pulc__Job__Exited *exited)
{
	const char *node = run->ranks[exited->rank].node;

	if (exited->no_directory)
		return;
	if (exited->error)
		describe_error(run, node, (int)exited->error);
	else if (exited->lost)
		run_note(run, "rank %u is lost: node %s is gone, or its keeper", exited->rank,
			 node);
	else if (run->n_ranks == 1 && !is_told_of_one(exited->signal))
		return;
	else if (exited->signal)
		run_note(run, "rank %u on %s: killed by signal %u (%s)", exited->rank, node,
			 exited->signal, strsignal((int)exited->signal));
	else
		run_note(run, "rank %u on %s: exit status %u", exited->rank, node, exited->code);
}

/* Copies it: the message is its sender's. */
static Pulc__Job__Exited *copy(const Pulc__Job__Exited *exited)
{
	Pulc__Job__Exited *mine = malloc(sizeof(*mine));

	if (mine)
		*mine = *exited;
	return mine;
}

void run_exited(struct run *run, const Pulc__Job__Exited *exited)
{
	int status = status_of(exited);

	if (!run->ranks || exited->rank >= run->n_ranks || run->ranks[exited->rank].exited)
		return;
	run->ranks[exited->rank].exited = copy(exited);
	if (status == 0 || run->status != 0 || run->has_aborted)
		return;
	run->status = status;
	if (!run->options->quiet && !run->timed_out)
		describe(run, exited);
}

/* ---- --json ---------------------------------------------------------------------------------- */

static void print_rank(FILE *file, const struct rank *rank, uint32_t i)
{
	const Pulc__Job__Exited *e = rank->exited;

	(void)fprintf(file, "{\"rank\":%u,\"node\":", i);
	ctl_json_string(file, rank->node ? rank->node : "");
	if (!e) {
		(void)fprintf(file, ",\"state\":\"unknown\"}");
		return;
	}
	(void)fprintf(file, ",\"state\":\"%s\",\"pid\":%u,\"status\":%d,\"code\":%d,\"signal\":%u",
		      e->lost	 ? "lost"
		      : e->error ? "not started"
				 : "ended",
		      e->pid, status_of(e), (int32_t)e->code, e->signal);
	(void)fprintf(
		file, ",\"seconds\":%.6f,\"user\":%.6f,\"system\":%.6f,\"memory\":%llu}",
		(double)e->usec / (double)USEC_PER_SEC, (double)e->usec_user / (double)USEC_PER_SEC,
		(double)e->usec_system / (double)USEC_PER_SEC, (unsigned long long)e->size_memory);
}

static void print(const struct run *run, FILE *file)
{
	(void)fprintf(file, "{\"job\":");
	ctl_json_string(file, run->id ? run->id : "");
	(void)fprintf(file, ",\"status\":%d,\"timed_out\":%s,\"tasks\":[", run->status,
		      run->timed_out ? "true" : "false");
	for (uint32_t i = 0; i < run->n_ranks; i++) {
		if (i > 0)
			(void)fputc(',', file);
		print_rank(file, &run->ranks[i], i);
	}
	(void)fprintf(file, "]}\n");
}

int run_report(struct run *run)
{
	const char *path = run->options->json_file;
	FILE *file = path ? fopen(path, "we") : stdout;
	int r = 0;

	if (!file) {
		r = -errno;
	} else {
		print(run, file);
		if ((path ? fclose(file) : fflush(file)) != 0)
			r = -errno;
	}
	if (r < 0)
		fprintf(stderr, "pulcrun: %s: %s\n", path ? path : "standard output", strerror(-r));
	return r;
}
