/* Becoming the user whose job it is. */
#ifndef PULC_KEEPER_IDENTITY_H
#define PULC_KEEPER_IDENTITY_H

#include "job.pb-c.h"

/*
 * Takes over user, groups and hard limits, for good. Without identity->change nothing but what the
 * kernel allows anybody. Returns 0; negative errno: do not go on.
 */
int keeper_become(const Pulc__Job__Identity *identity);

/*
 * In a child, before the program: sets the limits. Allocates nothing; a limit that can't be had is left
 * as near as it gets.
 */
void keeper_limit(Pulc__Job__Limit *const *limits, size_t n);

#endif
