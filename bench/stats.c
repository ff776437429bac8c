/*
 * Samples and what is said about them.
 *
 * Timings on a shared machine have a long tail on one side only, so the figures are a median and
 * percentiles, never a mean. Memory for the samples is touched before the first one is taken: a
 * page fault inside the measured loop would be measured too.
 */
#include "stats.h"

#include "clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

int bench_samples_init(struct bench_samples *s, size_t n_max)
{
	s->n = 0;
	s->n_max = n_max;
	s->values = malloc(n_max * sizeof(*s->values));
	if (!s->values)
		return -ENOMEM;
	for (size_t i = 0; i < n_max; i++)
		s->values[i] = NAN;
	return 0;
}

void bench_samples_deinit(struct bench_samples *s)
{
	free(s->values);
	s->values = NULL;
}

void bench_samples_add(struct bench_samples *s, double value)
{
	if (s->n < s->n_max)
		s->values[s->n++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_samples_percentile_since(struct bench_samples *s, size_t n_first, double percent)
{
	size_t n = s->n - n_first;

	if (n == 0)
		return NAN;
	qsort(s->values + n_first, n, sizeof(*s->values), compare);
	return s->values[n_first + (size_t)((double)(n - 1) * percent / 100)];
}

double bench_samples_percentile(struct bench_samples *s, double percent)
{
	return bench_samples_percentile_since(s, 0, percent);
}

static uint64_t nsec_from_timeval(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * NSEC_PER_SEC + (uint64_t)tv.tv_usec * NSEC_PER_USEC;
}

uint64_t bench_cpu_nsec(void)
{
	struct rusage use;

	(void)getrusage(RUSAGE_SELF, &use);
	return nsec_from_timeval(use.ru_utime) + nsec_from_timeval(use.ru_stime);
}
