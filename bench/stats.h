/* Samples and what is said about them. */
#ifndef PULC_BENCH_STATS_H
#define PULC_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

/* A bounded collection: when it is full, further samples are dropped. */
struct bench_samples {
	double *values;
	size_t n;
	size_t n_max;
};

/* Allocates and touches the memory, so that collecting costs no page faults. Returns 0, -ENOMEM. */
int bench_samples_init(struct bench_samples *s, size_t n_max);
void bench_samples_deinit(struct bench_samples *s);
void bench_samples_add(struct bench_samples *s, double value);

/* The value below which `percent` of the samples lie; sorts them. NAN when there are none. */
double bench_samples_percentile(struct bench_samples *s, double percent);
/* The same of those only that came after the first ones. */
double bench_samples_percentile_since(struct bench_samples *s, size_t n_first, double percent);

/* Processor time that this process has used since it began, in ns. */
uint64_t bench_cpu_nsec(void);

#endif
