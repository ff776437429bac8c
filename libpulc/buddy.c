/*
 * Binary buddies over the pages of a message area.
 *
 * A run has a power of two of pages and begins at a multiple of its size; two of a size side by
 * side, both free, are one of twice the size. Free runs stand in a list for each size, the last one
 * given back first, since it is the warmest; a run is split from the left. All of this lies in
 * private memory: nothing that others can read, or that a program writes over by mistake, is ever
 * followed.
 *
 * Which pages have memory is kept beside it, a bit for each: a run that was used before needs none.
 *
 * Source: Knowlton 1965 (A fast storage allocator).
 */
#include "buddy.h"

#include <stdlib.h>

#define N_ORDERS 32u
#define TAKEN 0x40u /* in `state`, beside the order */
#define FREE 0x80u  /* 0: no run begins here */

struct buddy {
	uint32_t n_pages, top;
	uint32_t first[N_ORDERS];
	uint8_t *state;
	uint32_t *next,
		*previous; /* free: in the list; taken: next is the number of pages asked for */
	uint64_t *allocated;
};

static unsigned order_of(uint32_t n)
{
	return n <= 1 ? 0 : 32u - (unsigned)__builtin_clz(n - 1);
}

static void push(struct buddy *b, uint32_t page, unsigned order)
{
	b->state[page] = (uint8_t)(FREE | order);
	b->previous[page] = BUDDY_NONE;
	b->next[page] = b->first[order];
	if (b->next[page] != BUDDY_NONE)
		b->previous[b->next[page]] = page;
	b->first[order] = page;
}

static void pull(struct buddy *b, uint32_t page, unsigned order)
{
	if (b->previous[page] == BUDDY_NONE)
		b->first[order] = b->next[page];
	else
		b->next[b->previous[page]] = b->next[page];
	if (b->next[page] != BUDDY_NONE)
		b->previous[b->next[page]] = b->previous[page];
	b->state[page] = 0;
}

struct buddy *buddy_new(uint32_t n_pages)
{
	struct buddy *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->n_pages = n_pages;
	b->top = order_of(n_pages);
	b->state = calloc(n_pages, 1);
	b->next = calloc(n_pages, sizeof(*b->next));
	b->previous = calloc(n_pages, sizeof(*b->previous));
	b->allocated = calloc(n_pages / 64 + 1, sizeof(*b->allocated));
	if (!b->state || !b->next || !b->previous || !b->allocated) {
		buddy_free(b);
		return NULL;
	}
	for (unsigned i = 0; i < N_ORDERS; i++)
		b->first[i] = BUDDY_NONE;
	push(b, 0, b->top);
	return b;
}

void buddy_free(struct buddy *b)
{
	if (!b)
		return;
	free(b->state);
	free(b->next);
	free(b->previous);
	free(b->allocated);
	free(b);
}

uint32_t buddy_take(struct buddy *b, uint32_t n)
{
	unsigned want, order;
	uint32_t page;

	if (n == 0 || n > b->n_pages)
		return BUDDY_NONE;
	want = order = order_of(n);
	while (order <= b->top && b->first[order] == BUDDY_NONE)
		order++;
	if (order > b->top)
		return BUDDY_NONE;
	page = b->first[order];
	pull(b, page, order);
	while (order-- > want)
		push(b, page + (1u << order), order);
	b->state[page] = (uint8_t)(TAKEN | want);
	b->next[page] = n;
	return page;
}

void buddy_give(struct buddy *b, uint32_t page)
{
	unsigned order = b->state[page] & (TAKEN - 1);
	uint32_t other;

	b->state[page] = 0;
	for (; order < b->top; order++) {
		other = page ^ 1u << order;
		if (b->state[other] != (FREE | order))
			break;
		pull(b, other, order);
		page = page < other ? page : other;
	}
	push(b, page, order);
}

uint32_t buddy_size(const struct buddy *b, uint32_t page)
{
	return page < b->n_pages && (b->state[page] & TAKEN) ? b->next[page] : 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

uint32_t buddy_n_bare(const struct buddy *b, uint32_t page, uint32_t n)
{
	uint32_t n_bare = 0;

	for (uint32_t i = page; i < page + n; i++)
		n_bare += !(b->allocated[i / 64] >> i % 64 & 1);
	return n_bare;
}

void buddy_mark(struct buddy *b, uint32_t page, uint32_t n, bool allocated)
{
	for (uint32_t i = page; i < page + n; i++) {
		if (allocated)
			b->allocated[i / 64] |= 1ull << i % 64;
		else
			b->allocated[i / 64] &= ~(1ull << i % 64);
	}
}
