/*
 * A HAL that keeps the contract of hal.h and nothing else: whatever that allows a HAL to do to its
 * user, this one does when told to. It loses, doubles, delays and reorders frames, refuses them
 * when its queue is full, insists on its gather count and alignment, writes remote memory late, out
 * of the writer's buffers as they are then, and counts every call that the contract forbids.
 *
 * The clock belongs to the pair and moves only when the test says so; faults come from one
 * generator, in the order of sending. So a run depends on its seed and on nothing else.
 */
#include "fake_hal.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "macros.h"

static struct fake_end *of(const struct hal_link *link)
{
	return CONTAINER_OF(link, struct fake_end, link);
}

static int index_of(const struct fake_end *end)
{
	return end == &end->pair->end[1];
}

/* Where this end's frames go. */
static struct fake_end *other(const struct fake_end *end)
{
	if (end->pair->config.flags & HAL_IMMEDIATE)
		return &end->pair->end[0];
	return &end->pair->end[1 - index_of(end)];
}

/* xorshift64*: the same everywhere. */
static unsigned chance(struct fake_pair *p)
{
	p->random ^= p->random >> 12;
	p->random ^= p->random << 25;
	p->random ^= p->random >> 27;
	return (unsigned)((p->random * 0x2545f4914f6cdd1dull) >> 40) % 1000;
}

static void violation(struct fake_end *end, bool is_one)
{
	end->pair->n_violations += is_one;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void enqueue(struct fake_end *to, const struct hal_frame *f, const void *data,
		    uint64_t nsec_due)
{
	struct fake_frame *q = realloc(to->queue, (to->n_queue + 1) * sizeof(*q));

	REQUIRE(q != NULL);
	to->queue = q;
	q += to->n_queue++;
	*q = (struct fake_frame){ nsec_due, *f, malloc(f->len + 1) };
	REQUIRE(q->data != NULL);
	if (f->len > 0 && data)
		memcpy(q->data, data, f->len);
}

static void remove_frame(struct fake_end *end, unsigned at)
{
	free(end->queue[at].data);
	end->n_queue--;
	memmove(&end->queue[at], &end->queue[at + 1], (end->n_queue - at) * sizeof(*end->queue));
}

/* What the way does to a frame. */
static void travel(struct fake_end *to, const struct hal_frame *f, const void *data)
{
	struct fake_pair *p = to->pair;
	uint64_t nsec_due = p->nsec_now + p->config.nsec_delay;
	bool lost = chance(p) < p->config.n_lost, twice = chance(p) < p->config.n_twice;

	if (chance(p) < p->config.n_late)
		nsec_due += p->config.nsec_late;
	if (lost || p->black_hole)
		p->n_lost++;
	else
		enqueue(to, f, data, nsec_due);
	if (twice && !p->black_hole)
		enqueue(to, f, data, nsec_due + p->config.nsec_delay);
}

/* The peer is this process: it takes the frame now, or it was never sent. */
static int deliver(struct fake_end *to, const struct hal_frame *f, const void *data)
{
	unsigned n = to->n_queue;

	enqueue(to, f, data, 0);
	to->link.arrived(&to->link, to->link.arg);
	if (to->n_queue == n)
		return 0;
	remove_frame(to, n);
	to->shown = -1;
	return -EAGAIN;
}

static int may_send(struct fake_end *end, const struct hal_frame *f)
{
	if (end->closed || other(end)->closed)
		return -EPIPE;
	if (f->len > end->link.caps.frame_max)
		return -EMSGSIZE;
	return other(end)->n_queue >= end->pair->config.n_queue ? -EAGAIN : 0;
}

static int fake_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		     unsigned n)
{
	struct fake_end *end = of(link);
	unsigned char *data = malloc(f->len + 1);
	size_t at = 0, len;
	int e = may_send(end, f);

	REQUIRE(data != NULL);
	violation(end, n > link->caps.n_gather || end->reserved || hal_iov_size(iov, n) < f->len);
	for (unsigned i = 0; i < n && e == 0; i++, at += len) {
		len = MIN(iov[i].iov_len, f->len - at);
		if (len > 0)
			memcpy(data + at, iov[i].iov_base, len);
	}
	if (e == 0 && (link->caps.flags & HAL_IMMEDIATE))
		e = deliver(other(end), f, data);
	else if (e == 0)
		travel(other(end), f, data);
	free(data);
	return e;
}

static int fake_reserve(struct hal_link *link, uint32_t len, void **ret_buf)
{
	struct fake_end *end = of(link);
	struct hal_frame f = { .len = len };
	int e = may_send(end, &f);

	if (!(link->caps.flags & HAL_OWN_BUFFERS))
		return -EOPNOTSUPP;
	violation(end, end->reserved || len % link->caps.alignment);
	if (e < 0)
		return e;
	end->reserved = aligned_alloc(link->caps.alignment,
				      ALIGN_UP(len + 1, link->caps.alignment));
	REQUIRE(end->reserved != NULL);
	end->size_reserved = len;
	*ret_buf = end->reserved;
	return 0;
}

static void fake_cancel(struct hal_link *link)
{
	struct fake_end *end = of(link);

	free(end->reserved);
	end->reserved = NULL;
}

static int fake_commit(struct hal_link *link, const struct hal_frame *f)
{
	struct fake_end *end = of(link);

	violation(end, !end->reserved || f->len > end->size_reserved);
	if (end->closed || other(end)->closed)
		return -EPIPE;
	travel(other(end), f, end->reserved);
	fake_cancel(link);
	return 0;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static int oldest(const struct fake_end *end)
{
	const struct fake_frame *q = end->queue;
	int best = -1;

	for (unsigned i = 0; i < end->n_queue; i++) {
		if (best < 0 || q[i].nsec_due < q[best].nsec_due)
			best = (int)i;
		if (end->link.caps.flags & HAL_ORDERED)
			break;
	}
	return best >= 0 && q[best].nsec_due <= end->pair->nsec_now ? best : -1;
}

static int fake_next(struct hal_link *link, struct hal_frame *ret_f)
{
	struct fake_end *end = of(link);

	/* The one that was sent last lies on top of those that it interrupts. */
	if (link->caps.flags & HAL_IMMEDIATE)
		end->shown = (int)end->n_queue - 1;
	else if (end->shown < 0)
		end->shown = oldest(end);
	if (end->shown < 0)
		return end->closed || (other(end)->closed && end->n_queue == 0) ? -EPIPE : 0;
	*ret_f = end->queue[end->shown].frame;
	return 1;
}

static size_t fake_copy(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	struct fake_end *end = of(link);
	const struct fake_frame *q;
	size_t done = 0, len;

	violation(end, end->shown < 0);
	q = &end->queue[end->shown];
	for (unsigned i = 0; i < n; i++, done += len) {
		len = MIN(iov[i].iov_len, q->frame.len - done);
		if (len > 0)
			memcpy(iov[i].iov_base, q->data + done, len);
	}
	return done;
}

static void fake_drop(struct hal_link *link)
{
	struct fake_end *end = of(link);

	violation(end, end->shown < 0);
	remove_frame(end, (unsigned)end->shown);
	end->shown = -1;
}

/* ---- moving on and waiting ------------------------------------------------------------------- */

static int fake_progress(struct hal_link *link)
{
	struct fake_end *end = of(link);
	struct fake_write *w = &end->write;

	if (!w->ret_done || w->nsec_due > end->pair->nsec_now)
		return 0;
	for (unsigned i = 0; i < w->n; w->to += w->iov[i++].iov_len)
		memcpy(w->to, w->iov[i].iov_base, w->iov[i].iov_len);
	if (w->notifies)
		enqueue(other(end), &w->notify, NULL, end->pair->nsec_now);
	*w->ret_done = true;
	w->ret_done = NULL;
	return 0;
}

static bool fake_pending(const struct hal_link *link)
{
	const struct fake_end *end = of(link);

	return end->shown >= 0 || oldest(end) >= 0 || end->write.ret_done || other(end)->closed;
}

static bool fake_room(const struct hal_link *link)
{
	const struct fake_end *end = of(link);

	return other(end)->closed || other(end)->n_queue < end->pair->config.n_queue;
}

static int fake_watch(struct hal_link *link, hal_watch watch, unsigned events)
{
	struct fake_end *end = of(link);

	if (end->watch && end->watch != watch)
		return -ENOSPC;
	end->watch = watch;
	end->events = events;
	return 0;
}

static void fake_unwatch(struct hal_link *link, hal_watch watch)
{
	struct fake_end *end = of(link);

	violation(end, end->watch != watch);
	end->watch = 0;
}

static bool fake_is_trusted(const struct hal_link *link, hal_watch watch)
{
	(void)link, (void)watch;
	return true;
}

static void fake_tell(struct hal_link *link, unsigned did)
{
	struct fake_end *to = other(of(link));

	if (to->watch &&
	    (((did & (HAL_DID_SEND | HAL_DID_SEND_IDLY)) && (to->events & HAL_WATCH_DATA)) ||
	     ((did & HAL_DID_TAKE) && (to->events & HAL_WATCH_SPACE))))
		to->pair->n_woken[index_of(to)]++;
}

static bool fake_peer_here(struct hal_link *link, uint32_t cpu)
{
	(void)link, (void)cpu;
	return false;
}

/* ---- remote memory --------------------------------------------------------------------------- */

static int fake_expose(struct hal_link *link, void *addr, size_t len, uint64_t *ret_key)
{
	struct fake_end *end = of(link);

	if (!(link->caps.flags & HAL_REMOTE_WRITE))
		return -EOPNOTSUPP;
	violation(end, (uintptr_t)addr % link->caps.alignment || len % link->caps.alignment);
	for (unsigned i = 0; i < FAKE_N_EXPOSED; i++) {
		if (end->exposed[i].addr)
			continue;
		end->exposed[i] = (struct fake_exposed){ addr, len, i };
		if (link->caps.flags & HAL_REMOTE_KEYS) /* cannot be guessed, nor used again */
			end->exposed[i].key = (uint64_t)chance(end->pair) << 32 |
					      chance(end->pair) << 8 | i;
		*ret_key = end->exposed[i].key;
		return 0;
	}
	return -ENOMEM;
}

static void fake_conceal(struct hal_link *link, uint64_t key)
{
	struct fake_end *end = of(link);

	for (unsigned i = 0; i < FAKE_N_EXPOSED; i++)
		if (end->exposed[i].addr && end->exposed[i].key == key)
			end->exposed[i].addr = NULL;
}

static char *find_exposed(const struct fake_end *end, uint64_t key, uint64_t offset, size_t len)
{
	const struct fake_exposed *x = end->exposed;

	for (; x < end->exposed + FAKE_N_EXPOSED; x++)
		if (x->addr && x->key == key && offset <= x->len && len <= x->len - offset)
			return x->addr + offset;
	return NULL;
}

static int may_write(const struct fake_end *end, uint64_t offset, const struct iovec *iov,
		     unsigned n, const struct hal_frame *notify)
{
	uint32_t unit = end->link.caps.alignment;

	if (!(end->link.caps.flags & HAL_REMOTE_WRITE) ||
	    (notify && !(end->link.caps.flags & HAL_REMOTE_NOTIFY)))
		return -EOPNOTSUPP;
	if (offset % unit || n > MIN(end->link.caps.n_gather, ARRAY_SIZE(end->write.iov)) ||
	    (notify && notify->len > 0))
		return -EINVAL;
	for (unsigned i = 0; i < n; i++)
		if ((uintptr_t)iov[i].iov_base % unit || iov[i].iov_len % unit)
			return -EINVAL;
	if (end->closed || other(end)->closed)
		return -EPIPE;
	return end->write.ret_done ? -EAGAIN : 0;
}

static int fake_write(struct hal_link *link, uint64_t key, uint64_t offset, const struct iovec *iov,
		      unsigned n, const struct hal_frame *notify, bool *ret_done)
{
	struct fake_end *end = of(link);
	struct fake_write *w = &end->write;
	int e = may_write(end, offset, iov, n, notify);
	char *to;

	if (e < 0)
		return e;
	to = find_exposed(other(end), key, offset, hal_iov_size(iov, n));
	if (!to) {
		end->closed = true;
		return -EPIPE;
	}
	*w = (struct fake_write){ .to = to, .n = n, .ret_done = ret_done, .notifies = notify };
	w->nsec_due = end->pair->nsec_now + end->pair->config.nsec_delay;
	memcpy(w->iov, iov, n * sizeof(*iov));
	if (notify)
		w->notify = *notify;
	*ret_done = false;
	return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void fake_close(struct hal_link *link)
{
	struct fake_end *end = of(link);

	while (end->n_queue > 0)
		remove_frame(end, 0);
	free(end->queue);
	end->queue = NULL;
	fake_cancel(link);
	end->shown = -1;
	end->closed = true;
	end->pair->link[index_of(end)] = NULL;
}

static const struct hal_ops ops = {
	.name = "fake",
	.version = HAL_VERSION,
	.send = fake_send,
	.reserve = fake_reserve,
	.commit = fake_commit,
	.cancel = fake_cancel,
	.next = fake_next,
	.copy = fake_copy,
	.drop = fake_drop,
	.put = hal_any_put,
	.take = hal_any_take,
	.progress = fake_progress,
	.pending = fake_pending,
	.room = fake_room,
	.backlog = hal_no_backlog,
	.flush = hal_no_flush,
	.watch = fake_watch,
	.unwatch = fake_unwatch,
	.is_trusted = fake_is_trusted,
	.tell = fake_tell,
	.fd = hal_no_fd,
	.peer_here = fake_peer_here,
	.expose = fake_expose,
	.conceal = fake_conceal,
	.write = fake_write,
	.close = fake_close,
	.forget = fake_close,
};

void fake_pair_init(struct fake_pair *p, const struct fake_config *config)
{
	*p = (struct fake_pair){
		.config = *config,
		.nsec_now = 1000,
		.random = config->seed * 0x9e3779b97f4a7c15ull + 1,
	};
	for (int i = 0; i < 2; i++) {
		p->end[i] = (struct fake_end){ .pair = p, .shown = -1 };
		p->end[i].link.ops = &ops;
		p->end[i].link.caps = (struct hal_caps){
			.name = ops.name,
			.flags = config->flags,
			.frame_max = config->frame_max,
			.frame_good = config->frame_max,
			.n_gather = config->n_gather ? config->n_gather : 1,
			.alignment = config->alignment ? config->alignment : 1,
		};
		p->link[i] = &p->end[i].link;
	}
	if (config->flags & HAL_IMMEDIATE)
		p->link[1] = NULL;
}

void fake_pair_deinit(struct fake_pair *p)
{
	for (int i = 0; i < 2; i++)
		if (p->link[i])
			p->link[i]->ops->close(p->link[i]);
}

uint64_t fake_pair_now(void *pair)
{
	struct fake_pair *p = pair;

	return p->nsec_now += p->nsec_look;
}

void fake_pair_inject(struct fake_pair *p, int to, const struct hal_frame *f, const void *data)
{
	enqueue(&p->end[to], f, data, p->nsec_now);
}

void fake_kill_end(struct fake_pair *p, int end)
{
	p->end[end].closed = true;
}
