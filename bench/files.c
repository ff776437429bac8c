/*
 * Files: the time of read() and write() on a file, calls that a socket shim sees too.
 *
 * A file of 1 MiB without a name is written and read in blocks, from beginning to end, again
 * and again; it stays in the page cache, so that the call itself is timed and no disk. A pass over
 * the file is one sample.
 */
#include "clock.h"
#include "options.h"
#include "pair.h"
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE_FILE (1024u * 1024)
#define N_PASSES_MAX 100000u

struct settings {
	unsigned cpu;
	unsigned size;
	unsigned msec;
	const char *dir;
};

/* One pass over the file. Returns the ns of one call, or a negative errno. */
static double pass(int fd, char *buf, const struct settings *set, bool writing)
{
	unsigned n_calls = SIZE_FILE / set->size;
	uint64_t before;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	before = nsec_now();
	for (unsigned i = 0; i < n_calls; i++) {
		ssize_t n = writing ? write(fd, buf, set->size) : read(fd, buf, set->size);

		if (n != (ssize_t)set->size)
			return n < 0 ? -errno : -EIO;
	}
	return (double)(nsec_now() - before) / n_calls;
}

static int measure_passes(int fd, char *buf, const struct settings *set,
			  struct bench_samples *reads, struct bench_samples *writes)
{
	uint64_t end = nsec_now() + set->msec * 1000000ull;

	for (bool first = true; first || nsec_now() < end; first = false) {
		double w = pass(fd, buf, set, true), r = w < 0 ? w : pass(fd, buf, set, false);

		if (r < 0)
			return (int)r;
		if (first)
			continue; /* it made the file */
		bench_samples_add(writes, w);
		bench_samples_add(reads, r);
	}
	return 0;
}

static int open_nameless(const char *dir)
{
	char path[4096];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/pulc-bench-XXXXXX", dir) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)unlink(path);
	return fd;
}

static int measure(const struct settings *set)
{
	struct bench_samples reads = { 0 }, writes = { 0 };
	char *buf = calloc(1, set->size);
	int r, fd;

	fd = open_nameless(set->dir);
	r = fd < 0 ? fd : bench_pin(set->cpu);
	if (r == 0 && !buf)
		r = -ENOMEM;
	if (r == 0)
		r = bench_samples_init(&reads, N_PASSES_MAX);
	if (r == 0)
		r = bench_samples_init(&writes, N_PASSES_MAX);
	if (r == 0)
		r = measure_passes(fd, buf, set, &reads, &writes);
	if (r == 0)
		printf("size=%u read_ns=%.1f write_ns=%.1f\n", set->size,
		       bench_samples_percentile(&reads, 50), bench_samples_percentile(&writes, 50));
	bench_samples_deinit(&reads);
	bench_samples_deinit(&writes);
	free(buf);
	if (fd >= 0)
		(void)close(fd);
	return r;
}

int main(int argc, char **argv)
{
	struct settings set = { .size = 4096, .msec = 100, .dir = "/tmp" };
	const struct bench_option options[] = {
		{ "size", "bytes of each call", .number = &set.size },
		{ "msec", "time to measure", .number = &set.msec },
		{ "dir", "where to make the file", .text = &set.dir },
		{ "cpu", "processor to run on", .number = &set.cpu },
	};
	unsigned unused;
	int r;

	bench_pair_default_cpus(&set.cpu, &unused);
	r = bench_options_parse(argc, argv,
				"Time of read() and write() on a file in the page cache.", options,
				sizeof(options) / sizeof(options[0]));
	if (r != 0)
		return bench_exit_status(argv[0], r);
	if (set.size == 0 || set.size > SIZE_FILE)
		return bench_exit_status(argv[0], -EINVAL);
	return bench_exit_status(argv[0], measure(&set));
}
