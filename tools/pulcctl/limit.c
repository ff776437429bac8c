/*
 * Limits of a partition, as words of --limit and of the list. Numbers are numbers; a time is in
 * seconds, or in minutes, hours or days with a letter behind it, and shown in the largest unit that
 * it is a whole number of.
 */
#include "limit.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"

struct limit {
	const char *name;
	size_t offset;
	int part;
};

#define LIMIT(n, member, bit)                                                                      \
	{                                                                                          \
		.name = n, .offset = offsetof(Pulc__Wire__Partition, member),                      \
		.part = PULC__WIRE__PARTITION_PART__PART_##bit                                     \
	}

static const struct limit limits[] = {
	LIMIT("cores", max_cores, CORES), LIMIT("nodes", max_nodes, MAX_NODES),
	LIMIT("jobs", max_jobs, JOBS),	  LIMIT("queued", max_queued, QUEUED),
	LIMIT("time", max_sec, SEC),
};

static const struct {
	char letter;
	uint32_t n_seconds;
} units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };

static int parse_value(const char *text, bool is_time, uint32_t *ret)
{
	unsigned long long n, factor = 1;
	char *end;

	if (strcmp(text, "none") == 0) {
		*ret = 0;
		return 0;
	}
	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	for (size_t i = 0; is_time && i < ARRAY_SIZE(units); i++)
		if (end[0] == units[i].letter && end[1] == '\0') {
			factor = units[i].n_seconds;
			end++;
			break;
		}
	if (errno || *end || n == 0 || n > UINT32_MAX / factor)
		return -EINVAL;
	*ret = (uint32_t)(n * factor);
	return 0;
}

int ctl_limit_take(const char *text, Pulc__Wire__Partition *partition)
{
	size_t len = strcspn(text, "=");

	for (size_t i = 0; text[len] && i < ARRAY_SIZE(limits); i++) {
		const struct limit *l = &limits[i];
		void *field = (char *)partition + l->offset;

		if (strlen(l->name) == len && strncmp(text, l->name, len) == 0 &&
		    parse_value(text + len + 1, strcmp(l->name, "time") == 0, field) == 0)
			return l->part;
	}
	fprintf(stderr,
		"pulcctl: --limit wants cores=N, nodes=N, jobs=N, queued=N or time=N[smhd], or none"
		" for N, not '%s'\n",
		text);
	return -EINVAL;
}

static void print_time(FILE *out, uint32_t n_seconds)
{
	size_t i = 0;

	while (n_seconds % units[i].n_seconds != 0)
		i++;
	(void)fprintf(out, "%u%c", n_seconds / units[i].n_seconds, units[i].letter);
}

char *ctl_limits_text(const Pulc__Wire__Partition *partition)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	bool any = false;

	for (size_t i = 0; out && i < ARRAY_SIZE(limits); i++) {
		uint32_t n = *(const uint32_t *)((const char *)partition + limits[i].offset);

		if (n == 0)
			continue;
		(void)fprintf(out, "%s%s=", any ? "," : "", limits[i].name);
		if (strcmp(limits[i].name, "time") == 0)
			print_time(out, n);
		else
			(void)fprintf(out, "%u", n);
		any = true;
	}
	if (out)
		(void)fclose(out);
	if (any)
		return text;
	free(text);
	return NULL;
}
