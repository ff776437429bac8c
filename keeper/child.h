/* A child before it is the program: what it needs until then, and what it does. */
#ifndef PULC_KEEPER_CHILD_H
#define PULC_KEEPER_CHILD_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "environment.h"

#define CREW_MAX 16u
#define CHILD_SIZE_STACK 8192u /* for some system calls, and no handler */

struct child {
	TAILQ_ENTRY(child) link;
	struct task *task;
	struct ends { /* what it gets; the keeper closes them */
		int std[3];
		int pmi;
	} ends;
	struct environment environment;
	bool is_bound;
	cpu_set_t cpus;
	pid_t keeper;
	pid_t pid;	  /* negative errno: it was not made; -ECANCELED: or not yet */
	_Atomic int busy; /* the kernel makes it 0 when the child has no more use for this */
	_Alignas(16) unsigned char stack[CHILD_SIZE_STACK];
};

/* Before the first one of a job: what is the same for all. Returns 0, -ENOMEM. */
int keeper_children_start(struct keeper *k);
/* One for this task, without ends and environment; it belongs to the keeper. NULL: no memory. */
struct child *keeper_child_new(struct task *task);
/* It is not started after all. */
void keeper_child_free(struct child *child);
/* Starts them, CREW_MAX at most, in the job's cgroup: pid says how that went. Their ends are still
 * the keeper's. */
void keeper_children_clone(struct keeper *k, struct child **children, size_t n);

#endif
