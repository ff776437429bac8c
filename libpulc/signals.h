/* What a waiting call must know of the signal handlers that ran in its thread. */
#ifndef PULC_LIB_SIGNALS_H
#define PULC_LIB_SIGNALS_H

#include <errno.h>
#include <stdint.h>

/* The kernel's signal set; libc's is longer and begins with it. */
typedef uint64_t kernel_sigset;

/* Handlers that have run in this thread, and those of them that were installed without
 * SA_RESTART. */
struct signal_counts {
	uint32_t n_handled;
	uint32_t n_interrupting;
};
struct signal_counts signals_counted(void);
/* 0: no handler has run since; -ERESTART: only such as let a call go on; -EINTR. */
int signals_since(struct signal_counts then);
/* The same for a sleep that the kernel says was interrupted: never 0. */
int signals_verdict(struct signal_counts then);
/* In a forked child: what was put off comes in the parent. */
void signals_forked(void);

#endif
