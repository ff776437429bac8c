/*
 * Output into files: a pattern with {rank} and {stream} in it. Without {stream} both streams of a
 * rank share a file, in the order they come; without {rank} all ranks do, with whole lines. What a
 * file had before is dropped, as shells do it; written is at its end, wherever that is by then: a
 * second pulcrun with the same file, or who empties it meanwhile, makes no holes. Folders that are
 * missing are made. A file is opened when its first byte comes, or its end, so that every task has
 * one, and closed when all has come. pulcrun may have as many open as its hard limit says; it takes
 * that when there is a job, for psid has seen what the tasks' limit is then.
 * A FIFO that nobody reads yet is waited for, as a shell waits: looked at again every MSEC_READER,
 * for nothing tells that a reader has come. What is for it is kept meanwhile, and much of it stops
 * the tasks. pulcrun does not end before a reader has seen the end, unless a signal or --timeout
 * ends the wait.
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

#include "macros.h"
#include "run.h"

#define N_TOLD 8u
#define MSEC_READER 50

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

static void failed(struct run *run, const char *path, const char *why)
{
	run->output_failed = true;
	if (run->n_files_failed < N_TOLD)
		run_note(run, "%s: %s", path, why);
	else if (run->n_files_failed == N_TOLD)
		run_note(run, "further files cannot be written");
	run->n_files_failed++;
}

void run_files_start(struct run *run)
{
	struct rlimit limit;

	(void)uv_timer_init(&run->loop, &run->readers);
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static bool is_fifo(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Returns a descriptor; -EAGAIN: a FIFO without a reader; another error that was told. */
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
		r = -errno;
		if (r == -ENXIO && is_fifo(path))
			return -EAGAIN;
	}
	failed(run, path, strerror(-r));
	return r;
}

static bool has(const struct run *run, const char *what)
{
	return strstr(run->options->output, what) != NULL;
}

static uint32_t rank_of(const struct run *run, const struct sink *sink)
{
	return (uint32_t)((sink - run->files) / 2);
}

static enum frame_stream stream_of(const struct run *run, const struct sink *sink)
{
	return (sink - run->files) % 2 ? FRAME_STDERR : FRAME_STDOUT;
}

static void on_readers(uv_timer_t *timer)
{
	struct run *run = CONTAINER_OF(timer, struct run, readers);
	bool more = false;

	for (uint32_t i = 0; i < 2 * run->n_ranks; i++) {
		struct sink *sink = &run->files[i];
		int fd = sink->awaits_reader
				 ? open_file(run, rank_of(run, sink), stream_of(run, sink))
				 : -EAGAIN;

		if (fd != -EAGAIN)
			sink_has_reader(sink, fd);
		more |= sink->awaits_reader;
	}
	if (!more)
		(void)uv_timer_stop(timer);
}

void run_files_abandon(struct run *run)
{
	char path[PATH_MAX];

	for (uint32_t i = 0; run->files && i < 2 * run->n_ranks; i++)
		if (run->files[i].awaits_reader &&
		    expand(run->options->output, i / 2, stream_of(run, &run->files[i]), path,
			   sizeof(path)) == 0)
			failed(run, path, "nobody reads it");
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
	if (fd == -EAGAIN) {
		sink_await_reader(sink, run);
		if (!uv_is_active((uv_handle_t *)&run->readers))
			(void)uv_timer_start(&run->readers, on_readers, MSEC_READER, MSEC_READER);
	} else {
		(void)sink_open(sink, run, fd);
	}
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
	char path[PATH_MAX];

	if (!run->files || sink < run->files || sink >= run->files + 2 * (size_t)run->n_ranks)
		return false;
	(void)expand(run->options->output, rank_of(run, sink), stream_of(run, sink), path,
		     sizeof(path));
	failed(run, path, strerror(error));
	return true;
}
