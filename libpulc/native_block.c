/*
 * pulc/block.h: blocks of this process's message area, and giving them away.
 *
 * A block is a run of pages (buddy.c) in the area that psid has made for this process
 * (native_area.c). It is the program's, from pulc_alloc on, or a message's, from pulc_tag_give
 * until the receiver has said that it is done with it; then it is free. Its memory stays for the
 * next one, up to a bound; beyond it pages go back to the system, and their credit to psid's
 * account of us.
 *
 * Giving never waits, since what can be under way is bounded by the area; so pulc_alloc is where a
 * sender waits whose receivers do not read.
 *
 * The memory of a send is freed behind the protocol's back only when nobody of the protocol is on
 * the stack (`ended`).
 *
 * Source: DESIGN 5 (rawdata).
 */
#include <pulc/block.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "area.h"
#include "buddy.h"
#include "environment.h"
#include "layout.h"
#include "macros.h"
#include "native.h"
#include "step.h"

#define N_PAGES ((uint32_t)(SHM_SIZE_MESSAGES / SHM_PAGE))
/* Shorter messages are cheaper copied than freed by their receiver, which takes a frame. */
#define SIZE_COPIED 2048u
/* Memory of free blocks that is kept for the next ones. */
#define N_PAGES_KEPT (64u << 20 >> 12)

struct give {
	struct tag_send send;
	LIST_ENTRY(give) link; /* of those under way, or of those that ended */
	uint32_t page;
};
LIST_HEAD(gives, give);

static struct shm_area area;
static struct buddy *buddy;
static struct give **given; /* by page: whose message it is */
static struct gives under_way = LIST_HEAD_INITIALIZER(under_way);
static struct gives ended = LIST_HEAD_INITIALIZER(ended);
static uint32_t n_used, n_given, n_allocated, n_max; /* pages */
static uint64_t n_shown, n_copied;
static unsigned n_waiting; /* calls for room */

/* ---- the area -------------------------------------------------------------------------------- */

/* client 0: this process. Under the lock. */
static int ask_for_area(uint32_t client)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__MessageArea want = PULC__WIRE__MESSAGE_AREA__INIT;
	struct native_reply reply;

	want.request = native_request();
	want.client = client;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_MESSAGE_AREA;
	msg.message_area = &want;
	return native_ask(&msg, want.request, &reply);
}

static uint32_t pages_of(uint64_t size)
{
	return (uint32_t)((size + SHM_PAGE - 1) / SHM_PAGE);
}

static void read_budget(void)
{
	uint64_t max = 0;

	(void)environment_number("PULC_ALLOC_MAX", UINT64_MAX, &max);
	n_max = max && max < SHM_SIZE_MESSAGES ? pages_of(max) : N_PAGES;
}

static int open_area(void)
{
	int e;

	if (LIKELY(buddy != NULL))
		return 0;
	e = ask_for_area(0);
	if (e < 0)
		return e;
	STEP(BLOCK_AREA);
	area = native_area_own();
	if (!area.at || area.size != SHM_SIZE_MESSAGES)
		return -ENOMEM;
	given = calloc(N_PAGES, sizeof(struct give *));
	buddy = given ? buddy_new(N_PAGES) : NULL;
	if (!buddy) {
		free(given);
		return -ENOMEM;
	}
	read_budget();
	return 0;
}

/* The page at which it begins; BUDDY_NONE: no block of ours does there. */
static uint32_t page_of(const void *block)
{
	uint64_t offset = (uint64_t)((uintptr_t)block - (uintptr_t)area.at);
	uint32_t page = (uint32_t)(offset / SHM_PAGE);

	if (!buddy || offset >= area.size || offset % SHM_PAGE || !buddy_size(buddy, page))
		return BUDDY_NONE;
	return page;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void reap(void)
{
	struct give *g;

	while ((g = LIST_FIRST(&ended))) {
		LIST_REMOVE(g, link);
		free(g);
	}
}

static bool take_credit(uint64_t size)
{
	if (LIKELY(client_credit_take(size) == TCP_CREDIT_GRANTED))
		return true;
	(void)client_credit_ask();
	client_credit_await();
	return client_credit_take(size) == TCP_CREDIT_GRANTED;
}

static void release(uint32_t page)
{
	uint32_t n = buddy_size(buddy, page);

	n_used -= n;
	if (n_allocated - n_used > N_PAGES_KEPT) {
		shm_area_release(&area, (uint64_t)page * SHM_PAGE, (uint64_t)n * SHM_PAGE);
		buddy_mark(buddy, page, n, false);
		n_allocated -= n;
		client_credit_return((uint64_t)n * SHM_PAGE);
	}
	buddy_give(buddy, page);
}

/* A run of pages that somebody wants, has, and sees to it that it has memory. */
struct wish {
	uint32_t n, page;
	uint32_t n_bare; /* of them have none */
	bool is_bare;	 /* in the end: none of them has */
};

/* 0: its pages are ours; -EAGAIN; -ENOBUFS: waiting would not help. */
static int take(void *arg)
{
	struct wish *wish = arg;

	wish->page = BUDDY_NONE;
	if (n_used + wish->n <= n_max)
		wish->page = buddy_take(buddy, wish->n);
	if (wish->page == BUDDY_NONE)
		return n_given ? -EAGAIN : -ENOBUFS;
	wish->n_bare = buddy_n_bare(buddy, wish->page, wish->n);
	wish->is_bare = false;
	n_used += wish->n;
	return 0;
}

/* 0; -ENOMEM. Without the lock: psid's answer takes its time, and so do many pages. */
static int allocate(struct wish *wish)
{
	uint64_t offset = (uint64_t)wish->page * SHM_PAGE, size = (uint64_t)wish->n * SHM_PAGE;
	int e;

	if (!take_credit((uint64_t)wish->n_bare * SHM_PAGE))
		return -ENOMEM;
	STEP(BLOCK_CREDIT);
	e = shm_area_allocate(&area, offset, size);
	STEP(BLOCK_PAGES);
	if (e == 0)
		return 0;
	/* Some of them have memory now, and it is not known which. */
	shm_area_release(&area, offset, size);
	client_credit_return(size);
	wish->is_bare = true;
	return e;
}

/* Under the lock again: what has come of it. */
static void settle(const struct wish *wish, int e)
{
	if (e == 0) {
		buddy_mark(buddy, wish->page, wish->n, true);
		n_allocated += wish->n_bare;
		return;
	}
	if (wish->is_bare) {
		buddy_mark(buddy, wish->page, wish->n, false);
		n_allocated -= wish->n - wish->n_bare;
	}
	buddy_give(buddy, wish->page);
	n_used -= wish->n;
	/* Another thread may wait for just that. */
	if (n_waiting)
		protocol_count_event();
}

/* Sees to it that the pages have memory. */
static int furnish(struct wish *wish)
{
	int e;

	if (LIKELY(wish->n_bare == 0))
		return 0;
	native_unlock();
	e = allocate(wish);
	while (!native_lock())
		;
	settle(wish, e);
	return e;
}

PULC_EXPORT int pulc_alloc(size_t size, int flags, void **ret_block)
{
	struct wish wish;
	int e;

	if (size == 0 || (flags & ~PULC_DONTWAIT))
		return -EINVAL;
	if (size > SHM_SIZE_MESSAGES)
		return -ENOBUFS;
	wish = (struct wish){ .n = pages_of(size) };
	e = native_enter_attached();
	if (UNLIKELY(e < 0))
		return e;
	e = open_area();
	reap();
	if (e == 0)
		e = wish.n <= n_max ? take(&wish) : -ENOBUFS;
	if (UNLIKELY(e == -EAGAIN)) {
		n_waiting++;
		e = native_look_until(take, &wish, flags & PULC_DONTWAIT ? 0 : UINT64_MAX);
		e = e == -ETIMEDOUT ? -EAGAIN : e;
		n_waiting--;
	}
	if (e == 0)
		e = furnish(&wish);
	if (LIKELY(e == 0))
		*ret_block = area.at + (uint64_t)wish.page * SHM_PAGE;
	STEP(BLOCK_MINE);
	native_unlock();
	return e;
}

PULC_EXPORT int pulc_free(const void *block)
{
	uint32_t page;
	int e;

	if (!block)
		return 0;
	if (!native_lock())
		return -EDEADLK;
	/* One that was given to this very process lies in its own area, and is lent. */
	e = tag_give_back(block);
	page = e < 0 ? page_of(block) : BUDDY_NONE;
	if (page != BUDDY_NONE && !given[page]) {
		release(page);
		e = 0;
		/* Another thread may wait for just that. */
		if (n_waiting)
			protocol_count_event();
	}
	native_unlock();
	return e;
}

/* ---- giving ---------------------------------------------------------------------------------- */

/* The receiver has freed it, or is gone. */
static void came_back(struct tag_send *s)
{
	struct give *g = CONTAINER_OF(s, struct give, send);

	LIST_REMOVE(g, link);
	LIST_INSERT_HEAD(&ended, g, link);
	given[g->page] = NULL;
	n_given -= buddy_size(buddy, g->page);
	release(g->page);
	STEP(BLOCK_BACK);
}

/* Has the peer our area? */
static bool show(struct peer *peer)
{
	struct tag_peer *tp = tag_peer_of(peer);

	if (LIKELY(tp && tp->area != TAG_AREA_UNKNOWN))
		return tp->area == TAG_AREA_SHOWN;
	if (!tp)
		return false;
	if (peer->link && (peer->link->caps.flags & HAL_IMMEDIATE))
		tp->area = TAG_AREA_SHOWN;
	else
		tp->area = peer->pid && ask_for_area(peer->client) == 0 ? TAG_AREA_SHOWN
									: TAG_AREA_HIDDEN;
	STEP(BLOCK_SHOWN);
	return tp->area == TAG_AREA_SHOWN;
}

/* 0; or why not: it is nobody's then. */
static int begin(struct give *g)
{
	struct tag_send *s = &g->send;
	int e;

	s->in_block = s->size >= SIZE_COPIED && show(s->peer);
	s->offset = (uint64_t)g->page * SHM_PAGE;
	e = tag_send_begin(s);
	if (e < 0)
		return e;
	STEP(BLOCK_GIVEN);
	n_shown += s->in_block;
	n_copied += !s->in_block;
	if (s->complete) {
		release(g->page);
		LIST_INSERT_HEAD(&ended, g, link);
		return 0;
	}
	s->ended = came_back;
	given[g->page] = g;
	n_given += buddy_size(buddy, g->page);
	LIST_INSERT_HEAD(&under_way, g, link);
	return 0;
}

static int give(uint32_t client, struct give *g)
{
	struct peer *peer = client ? native_peer(client) : native_self();
	int e;

	if (!peer)
		return client ? -ECONNRESET : -ENOMEM;
	g->page = page_of(g->send.buf);
	if (g->page == BUDDY_NONE || given[g->page] ||
	    pages_of(g->send.size) > buddy_size(buddy, g->page))
		return -EINVAL;
	g->send.peer = peer;
	e = begin(g);
	/* There may be room, or credit, that we have not heard of yet. */
	if (e == 0 && !g->send.complete && !g->send.id)
		native_progress();
	return e;
}

PULC_EXPORT ssize_t pulc_tag_give(uint32_t peer, uint64_t tag, void *block, size_t len)
{
	struct give *g;
	int e;

	if (len > SHM_SIZE_MESSAGES)
		return -EINVAL;
	e = native_enter_attached();
	if (UNLIKELY(e < 0))
		return e;
	reap();
	g = calloc(1, sizeof(*g));
	if (g)
		g->send = (struct tag_send){ .tag = tag, .buf = block, .size = len };
	e = g ? give(peer, g) : -ENOMEM;
	native_unlock();
	if (e < 0)
		free(g);
	return e < 0 ? e : (ssize_t)len;
}

PULC_EXPORT int pulc_alloc_state(struct pulc_alloc_state *ret_state)
{
	if (!native_lock())
		return -EDEADLK;
	if (!buddy)
		read_budget();
	*ret_state = (struct pulc_alloc_state){
		.size_used = (uint64_t)n_used * SHM_PAGE,
		.size_given = (uint64_t)n_given * SHM_PAGE,
		.size_max = (uint64_t)n_max * SHM_PAGE,
		.n_shown = n_shown,
		.n_copied = n_copied,
	};
	native_unlock();
	return 0;
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* Blocks and what was given of them are the parent's. */
void native_block_forked(void)
{
	struct give *g;

	while ((g = LIST_FIRST(&under_way))) {
		LIST_REMOVE(g, link);
		free(g);
	}
	reap();
	buddy_free(buddy);
	free(given);
	buddy = NULL;
	given = NULL;
	area.at = NULL;
	n_used = n_given = n_allocated = 0;
	n_shown = n_copied = 0;
	n_waiting = 0;
	native_area_forked();
}
