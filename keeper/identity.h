/* Becoming the user whose job it is. */
#ifndef PULC_KEEPER_IDENTITY_H
#define PULC_KEEPER_IDENTITY_H

#include <stdint.h>
#include <sys/resource.h>

#include "job.pb-c.h"

/*
 * Takes over user, groups and hard limits, for good. Without identity->change nothing but what the
 * kernel allows anybody. Returns 0; negative errno: do not go on.
 */
int keeper_become(const Pulc__Job__Identity *identity);

struct limits {
	unsigned n;
	struct {
		uint32_t resource;
		struct rlimit wanted, nearest; /* the second one if the first can't be had */
	} items[RLIM_NLIMITS];
};

/* Of the limits that a task is to have those that are not ours. */
void keeper_limits_prepare(struct limits *ret, Pulc__Job__Limit *const *limits, size_t n);

/* In a child, before the program: sets them. Makes raw system calls only. */
void keeper_limit(const struct limits *limits);

#endif
