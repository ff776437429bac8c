/* What the shim knows of each thread: which files it is using right now, and its waiting habits. */
#ifndef PULC_PRELOAD_THREAD_H
#define PULC_PRELOAD_THREAD_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/single_threaded.h>

#include <pulc/stream.h>

#include "pool.h"
#include "wait.h"

struct pre_file;

/* Calls of one thread inside each other: a call, a signal handler's, another handler's. */
#define PRE_N_USING 8

struct pre_thread {
	struct pre_pooled pooled;
	struct pre_file *_Atomic using[PRE_N_USING]; /* not to be recycled meanwhile */
	unsigned n_using;
	_Atomic bool sleeps; /* over what it uses, and will look at its descriptor again */
	/* The first so many, by a handler that runs, or has left by longjmp. */
	_Atomic unsigned n_interrupted;
	int changing;		/* the number that it is changing, and one (change.c); 0: none */
	unsigned n_locked;	/* locks of epoll_set.c that this thread holds */
	uint32_t n_sets_locked; /* by its fork, which is under way: the first so many */
	unsigned n_forks_bare;	/* such that have locked nothing (epoll_set.c) */
	struct pre_file *later; /* what a signal handler left to do for the holder of those locks */
	struct pulc_spin spin;
	struct pre_looked looked; /* of poll and select */
	uint64_t polled;	  /* the list that this says something of */
};

extern struct pre_pool pre_threads;
extern __thread struct pre_thread *pre_thread_self __attribute__((tls_model("initial-exec")));
extern _Atomic bool pre_any_cancelled;
struct pre_thread *pre_thread_new(void);
/* In a forked child: the other threads do not exist here. */
void pre_thread_forked(void);
/* True if any thread is using f. */
bool pre_thread_uses(const struct pre_file *f);
/* True if another thread is inside a call that goes on with f: one that a handler has interrupted
 * ends, or begins anew from its descriptor. */
bool pre_thread_others_inside(const struct pre_file *f);
/* The same of one that does not sleep. */
bool pre_thread_others_awake(const struct pre_file *f);
/* ppoll, as libpulc is given it to sleep in. */
int pre_thread_sleep(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		     const sigset_t *mask);
/* A handler of the program's begins, and what is to be given to its end. */
unsigned pre_thread_handles(void);
void pre_thread_handled(unsigned before);
int pre_thread_start(void);

static inline struct pre_thread *pre_self(void)
{
	struct pre_thread *t = pre_thread_self;

	return __builtin_expect(t != NULL, 1) ? t : pre_thread_new();
}

/* Publishes a use. Against a reclaimer in another thread the store must be seen before the
 * caller's next load; alone, program order is enough. */
static inline void pre_thread_publish(struct pre_file *_Atomic *slot, struct pre_file *f)
{
	if (__libc_single_threaded) {
		atomic_store_explicit(slot, f, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_store_explicit(slot, f, memory_order_seq_cst);
	}
}

/* Where a thread that was cancelled ends, as in libc's function of the same name: at the beginning
 * of a call that may never come there. Not in a handler that has interrupted the holder of a
 * lock. */
static inline void pre_cancellation_point(void)
{
	if (__builtin_expect(atomic_load_explicit(&pre_any_cancelled, memory_order_relaxed), 0) &&
	    !pre_self()->n_locked)
		pthread_testcancel();
}

#endif
