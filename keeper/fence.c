/*
 * Collectives between the nodes of a job: what each node brings, everybody gets.
 *
 * The head keeper gathers one part from each place that has tasks, and gives all parts to all when
 * the last has come. There is one round at a time of each kind, for a task enters the next only
 * after it has left the last. A node that is lost never enters: the job ends by the rules for
 * failed tasks.
 */
#include <stdlib.h>
#include <string.h>

#include "head.h"
#include "pmi.h"
#include "pmix.h"

void keeper_fence_enter(struct keeper *k, enum fence_kind kind, const void *bytes, size_t len)
{
	Pulc__Job__Fence fence = PULC__JOB__FENCE__INIT;
	JOB_MESSAGE(msg, FENCE, fence) = &fence;
	ProtobufCBinaryData part = { .len = len, .data = (uint8_t *)bytes };

	fence.kind = kind;
	fence.parts = &part;
	fence.n_parts = 1;
	keeper_head_report(k, &msg);
}

void keeper_fence_left(struct keeper *k, const Pulc__Job__Fence *fence)
{
	if (fence->kind == FENCE_PMI1)
		pmi1_fence_left(k, fence);
	else
		pmix_fence_left(k, fence);
}
