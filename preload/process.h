/* See process.c. */
#ifndef PULC_PRELOAD_PROCESS_H
#define PULC_PRELOAD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Called once, before the first descriptor is tracked. */
void pre_process_start(void);

/* Around the making of a child with memory of its own that fork() does not make; then the number of
 * the child, 0 in the child itself, or a negative errno. */
void pre_process_forking(void);
void pre_process_forked(long pid);

/* Brings the records up to date in a forked child of which nobody told us. Costs a load. */
void pre_process_notice_fork(void);

/*
 * May the caller change the shim's records? False in a child that runs in its parent's memory,
 * whose closing and duplicating is none of ours. One system call.
 */
bool pre_process_owns_table(void);

/* The calling thread is about to take descriptors of its own: a program that has others is left
 * alone. */
void pre_process_unshares(void);

/* Changes with each fork: records made under another number belong to an ancestor. */
extern uint32_t pre_process_generation;

#endif
