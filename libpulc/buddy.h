/* Pages of a message area, handed out in runs (buddy.c). The caller serialises. */
#ifndef PULC_LIB_BUDDY_H
#define PULC_LIB_BUDDY_H

#include <stdbool.h>
#include <stdint.h>

#define BUDDY_NONE UINT32_MAX

struct buddy;

/* NULL: no memory. n_pages: a power of two. */
struct buddy *buddy_new(uint32_t n_pages);
void buddy_free(struct buddy *b);

/* A run of at least n pages: its first one; BUDDY_NONE: there is none. */
uint32_t buddy_take(struct buddy *b, uint32_t n);
void buddy_give(struct buddy *b, uint32_t page);
/* Does a run that was taken begin there? How many pages were asked for; 0: none does. */
uint32_t buddy_size(const struct buddy *b, uint32_t page);

/* How many pages of this run are not marked as allocated; and marks them. */
uint32_t buddy_n_bare(const struct buddy *b, uint32_t page, uint32_t n);
void buddy_mark(struct buddy *b, uint32_t page, uint32_t n, bool allocated);

#endif
