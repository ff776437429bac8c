/* See awaited.c. */
#ifndef PULC_PRELOAD_AWAITED_H
#define PULC_PRELOAD_AWAITED_H

#include <stdint.h>

struct pre_awaited;

/*
 * Before a child with memory of its own is made by a call with these flags, and after its fork has
 * begun (process.h). NULL: the kernel waits for it, or nobody does. Else the call is to be made
 * without CLONE_VFORK.
 */
struct pre_awaited *pre_awaited_begin(uint64_t flags);
/* In the parent, as soon as it is made, or is not. NULL: nothing happens. */
void pre_awaited_made(struct pre_awaited *w);
/* In the parent, when others may go on: waits until the child has executed a program or ended.
 * NULL: nothing happens. */
void pre_awaited_wait(struct pre_awaited *w);
/* In any forked child: what its parent waits by is none of its own. */
void pre_awaited_forked(void);

#endif
