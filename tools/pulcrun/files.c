/*
 * Output into files: a pattern with {rank} and {stream} in it. Without {stream} both streams of a
 * rank share a file, in the order they come; without {rank} all ranks do, with whole lines. What a
 * file had before is dropped, as shells do it; written is at its end, wherever that is by then: a
 * second pulcrun with the same file, or who empties it meanwhile, makes no holes. Folders that are
 * missing are made. A file is opened when its first byte comes, or its end, so that every task has
 * one, and closed when all has come. pulcrun may have as many open as its hard limit says; it takes
 * that when there is a job, for psid has seen what the tasks' limit is then.
 * Files that can't be opened or written are named, the first N_TOLD of them; the others are written
 * on.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

#define N_TOLD 8u

/* Replaces {rank} and {stream}. Returns 0, -ENAMETOOLONG. */
static int expand(const char *pattern, uint32_t rank, enum frame_stream stream, char *buf,
		  size_t size)
{
	size_t n = 0;

	while (*pattern && n + 16 < size) {
		if (strncmp(pattern, "{rank}", 6) == 0) {
			n += (size_t)snprintf(buf + n, size - n, "%u", rank);
			pattern += 6;
		} else if (strncmp(pattern, "{stream}", 8) == 0) {
			n += (size_t)snprintf(buf + n, size - n, "%s",
					      stream == FRAME_STDERR ? "stderr" : "stdout");
			pattern += 8;
		} else {
			buf[n++] = *pattern++;
		}
	}
	buf[n] = '\0';
	return *pattern ? -ENAMETOOLONG : 0;
}

static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0777);
		*slash = '/';
	}
}

static void failed(struct run *run, const char *path, int error)
{
	run->output_failed = true;
	if (run->n_files_failed < N_TOLD)
		run_note(run, "%s: %s", path, strerror(error));
	else if (run->n_files_failed == N_TOLD)
		run_note(run, "further files cannot be written");
	run->n_files_failed++;
}

void run_files_start(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_file(struct run *run, uint32_t rank, enum frame_stream stream)
{
	char path[PATH_MAX];
	int fd, r;

	r = expand(run->options->output, rank, stream, path, sizeof(path));
	if (r == 0) {
		make_folders(path);
		fd = open(path,
			  O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NONBLOCK | O_NOCTTY |
				  O_CLOEXEC,
			  0666);
		if (fd >= 0)
			return fd;
		r = -errno; /* ENXIO: a FIFO that nobody reads */
	}
	failed(run, path, -r);
	return r;
}

static bool has(const struct run *run, const char *what)
{
	return strstr(run->options->output, what) != NULL;
}

struct sink *run_file(struct run *run, uint32_t rank, enum frame_stream stream)
{
	bool apart = has(run, "{stream}"), each = has(run, "{rank}");
	size_t i = 2 * (size_t)(each ? rank : 0);
	struct sink *sink = &run->files[i + (apart && stream == FRAME_STDERR ? 1 : 0)];
	int fd;

	if (sink->run)
		return sink;
	fd = open_file(run, rank, apart ? stream : FRAME_STDOUT);
	(void)sink_open(sink, run, fd);
	sink->is_shared = !each && run->n_ranks > 1;
	return sink;
}

void run_file_end(struct run *run, uint32_t rank, enum frame_stream stream)
{
	struct sink *sink = run_file(run, rank, stream);
	uint32_t n = (has(run, "{stream}") ? 1 : 2) * (has(run, "{rank}") ? 1 : run->n_ranks);

	if (++sink->n_ended == n)
		sink_close(sink);
}

bool run_file_failed(const struct sink *sink, int error)
{
	struct run *run = sink->run;
	size_t i = (size_t)(sink - run->files);
	char path[PATH_MAX];

	if (!run->files || sink < run->files || i >= 2 * (size_t)run->n_ranks)
		return false;
	(void)expand(run->options->output, (uint32_t)(i / 2), i % 2 ? FRAME_STDERR : FRAME_STDOUT,
		     path, sizeof(path));
	failed(run, path, error);
	return true;
}
