/*
 * What an owner tells of its job: the part that pulcrun and programs that spawn have in common.
 *
 * Credit: what all streams of a job may have under way is bounded; each stream gets its part, but
 * never so little that it crawls, nor more than does it any good.
 */
#include "spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "rawsys.h"

#define SIZE_CREDITS (64u << 20) /* bytes of all streams together */
#define SIZE_CREDIT_MIN 16384u
#define SIZE_CREDIT_MAX (1u << 18)

static size_t count(char *const *list)
{
	size_t n = 0;

	while (list[n])
		n++;
	return n;
}

/* Straight from the kernel: the caller may be a program whose calls are looked after by
 * somebody. */
static void set_limits(struct spec *s)
{
	for (unsigned i = 0; i < RLIM_NLIMITS; i++) {
		Pulc__Job__Limit *limit = &s->limits[s->spec.n_limits];
		uint64_t value[2];

		if (raw_syscall(SYS_prlimit64, 0, i, NULL, value) < 0)
			continue;
		pulc__job__limit__init(limit);
		limit->resource = i;
		limit->soft = value[0];
		limit->hard = value[1];
		s->pointers[s->spec.n_limits++] = limit;
	}
	s->spec.limits = s->pointers;
}

/* Its keeper has left us job and rank: "17@n1" and "3" are "17.3@n1". */
static void set_parent(struct spec *s)
{
	const char *job = getenv("PULC_JOB"), *rank = getenv("PULC_RANK");
	const char *at = job ? strchr(job, '@') : NULL;
	int n;

	if (!at || !rank)
		return;
	n = snprintf(s->parent, sizeof(s->parent), "%.*s.%s%s", (int)(at - job), job, rank, at);
	if (n > 0 && (size_t)n < sizeof(s->parent))
		s->spec.parent = s->parent;
}

static uint32_t credit(uint32_t n_tasks)
{
	return MIN(MAX(SIZE_CREDITS / 2 / n_tasks, SIZE_CREDIT_MIN), SIZE_CREDIT_MAX);
}

void spec_init(struct spec *s, char *const *arguments, char *const *environment, uint32_t n_tasks)
{
	pulc__job__spec__init(&s->spec);
	s->spec.arguments = (char **)arguments;
	s->spec.n_arguments = count(arguments);
	s->spec.environment = (char **)environment;
	s->spec.n_environment = environment ? count(environment) : 0;
	s->spec.credit = credit(n_tasks);
	set_limits(s);
	set_parent(s);
}
