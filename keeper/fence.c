/*
 * Collectives between the nodes of a job: what each node brings, everybody gets.
 *
 * All ranks take part, or some. The head keeper gathers one part from each place that has a rank
 * among them, and gives all parts to these places when the last has come. A collective is known by
 * its kind and its ranks: of one such there is one round at a time, for a task enters the next only
 * after it has left the last. A node that is lost never enters: the job ends by the rules for
 * failed tasks.
 */
#include "fence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "cleanup.h"
#include "head.h"
#include "macros.h"
#include "pmi.h"
#include "pmix.h"

/* What a place has brought. */
struct part {
	bool awaited, entered;
	uint64_t token;
	ProtobufCBinaryData data;
};

/* One that is under way. */
struct fence {
	LIST_ENTRY(fence) link;
	uint32_t kind;
	uint32_t *ranks; /* none: all */
	size_t n_ranks;
	uint32_t n_places, n_missing;
	struct part parts[]; /* for each place of the job */
};

struct fences {
	LIST_HEAD(, fence) all;
};

/* ---- here ------------------------------------------------------------------------------------ */

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

/* ---- at the head ----------------------------------------------------------------------------- */

static void fence_free(struct fence *fence)
{
	if (!fence)
		return;
	for (uint32_t i = 0; i < fence->n_places; i++)
		free(fence->parts[i].data.data);
	free(fence->ranks);
	free(fence);
}

static void await_place(struct fence *fence, uint32_t place)
{
	if (place >= fence->n_places || fence->parts[place].awaited)
		return;
	fence->parts[place].awaited = true;
	fence->n_missing++;
}

static struct fence *fence_new(struct keeper *k, const Pulc__Job__Fence *msg)
{
	uint32_t n = (uint32_t)k->start->n_places;
	struct fence *fence = calloc(1, sizeof(*fence) + n * sizeof(struct part));

	if (!fence)
		keeper_fail("fence", -ENOMEM);
	fence->kind = msg->kind;
	fence->n_places = n;
	fence->n_ranks = msg->n_ranks;
	fence->ranks = malloc(msg->n_ranks * sizeof(uint32_t) + 1);
	if (!fence->ranks)
		keeper_fail("fence", -ENOMEM);
	if (msg->n_ranks > 0)
		memcpy(fence->ranks, msg->ranks, msg->n_ranks * sizeof(uint32_t));
	for (size_t i = 0; i < msg->n_ranks; i++)
		await_place(fence, keeper_head_place_of(k, msg->ranks[i]));
	for (uint32_t i = 0; msg->n_ranks == 0 && i < n; i++)
		await_place(fence, i);
	return fence;
}

static bool is_of(const struct fence *fence, const Pulc__Job__Fence *msg)
{
	return fence->kind == msg->kind && fence->n_ranks == msg->n_ranks &&
	       (msg->n_ranks == 0 ||
		memcmp(fence->ranks, msg->ranks, msg->n_ranks * sizeof(uint32_t)) == 0);
}

/* The one that a part is for, which may be its first. */
static struct fence *find(struct keeper *k, const Pulc__Job__Fence *msg)
{
	struct fence *fence;

	if (!k->fences)
		k->fences = calloc(1, sizeof(*k->fences));
	if (!k->fences)
		keeper_fail("fence", -ENOMEM);
	LIST_FOREACH(fence, &k->fences->all, link)
		if (is_of(fence, msg))
			return fence;
	fence = fence_new(k, msg);
	LIST_INSERT_HEAD(&k->fences->all, fence, link);
	return fence;
}

static void leave(struct keeper *k, const struct fence *fence)
{
	Pulc__Job__Fence left = PULC__JOB__FENCE__INIT;
	JOB_MESSAGE(msg, FENCE, fence) = &left;
	CLEANUP_FREE ProtobufCBinaryData *parts = calloc(fence->n_places, sizeof(*parts));

	if (!parts)
		keeper_fail("fence", -ENOMEM);
	for (uint32_t i = 0; i < fence->n_places; i++)
		parts[i] = fence->parts[i].data;
	left.kind = fence->kind;
	left.parts = parts;
	left.n_parts = fence->n_places;
	for (uint32_t i = 0; i < fence->n_places; i++) {
		left.token = fence->parts[i].token;
		if (fence->parts[i].awaited)
			keeper_head_tell(k, i, &msg);
	}
}

void keeper_fence_take(struct keeper *k, uint32_t place, const Pulc__Job__Fence *msg)
{
	struct fence *fence;
	struct part *part;

	if (msg->kind > FENCE_DISCONNECT || msg->n_parts != 1)
		return;
	fence = find(k, msg);
	part = &fence->parts[place];
	if (part->awaited && !part->entered) {
		part->data.len = msg->parts[0].len;
		part->data.data = malloc(part->data.len + 1);
		if (!part->data.data)
			keeper_fail("fence", -ENOMEM);
		if (part->data.len > 0)
			memcpy(part->data.data, msg->parts[0].data, part->data.len);
		part->token = msg->token;
		part->entered = true;
		fence->n_missing--;
	}
	if (fence->n_missing > 0)
		return;
	LIST_REMOVE(fence, link);
	leave(k, fence);
	fence_free(fence);
}
