/* Collectives between the nodes of a job. */
#ifndef PULC_KEEPER_FENCE_H
#define PULC_KEEPER_FENCE_H

#include "keeper.h"
#include "pmi.h"

/* All tasks here have entered one of the whole job; `bytes` is what they bring. */
void keeper_fence_enter(struct keeper *k, enum fence_kind kind, const void *bytes, size_t len);
/* At the head: a place brings its part. */
void keeper_fence_take(struct keeper *k, uint32_t place, const Pulc__Job__Fence *msg);
/* Everybody has entered: what all of them brought. */
void keeper_fence_left(struct keeper *k, const Pulc__Job__Fence *fence);

#endif
