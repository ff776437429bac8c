/* What poll, select and epoll have in common: time, spinning, and signals meanwhile. */
#ifndef PULC_PRELOAD_WAIT_H
#define PULC_PRELOAD_WAIT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <pulc/stream.h>

#include "pulse.h"

#define PRE_NSEC_PER_SEC 1000000000ull
#define PRE_NSEC_PER_MSEC 1000000ull
#define PRE_NSEC_PER_USEC 1000ull
#define PRE_FOREVER UINT64_MAX

/* How often a busy waiter asks the kernel too: a system call costs a tenth of a percent of that. */
#define PRE_NSEC_LOOK (20 * PRE_NSEC_PER_USEC)
/* ... and after how many answers of memory alone. */
#define PRE_N_LOOK 32
/* Who polls busily, and each time for the same, is answered so often: some 20 us, where an answer
 * takes 80 ns. */
#define PRE_N_SPARED 256
/* The longest sleep where a peer may not know how to wake us. */
#define PRE_NSEC_UNSURE (1 * PRE_NSEC_PER_MSEC)

static inline uint64_t pre_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * PRE_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* When a waiting place last asked the kernel, and how often it has answered without since. Threads
 * that share the place may overlook each other's marks: one asks too often. */
struct pre_looked {
	_Atomic uint64_t nsec; /* by pulse_about_now */
	_Atomic unsigned n_answers;
	_Atomic unsigned n_calm;     /* times in a row that the kernel was asked and had nothing */
	_Atomic uint32_t stirred;    /* pre_stirred when it was asked */
	_Atomic uint64_t nsec_rings; /* when the rings had something, by the same */
};
/* An answer of memory alone is about to be given: true if the kernel is to be asked too. */
bool pre_look_due(struct pre_looked *looked);
/* A call that does not wait has looked at memory; found: there is something. True if it may leave
 * the kernel unasked (wait.c). */
bool pre_look_spared(struct pre_looked *looked, bool found);
/* Around a look at the kernel; news: it had something. */
struct pre_look {
	uint32_t stirred;
	unsigned n_calm;
};
struct pre_look pre_look_begins(const struct pre_looked *looked);
void pre_look_ends(struct pre_looked *looked, struct pre_look look, bool news);
/* The kernel had something, which was found without such a look. */
static inline void pre_look_had(struct pre_looked *looked)
{
	atomic_store_explicit(&looked->n_calm, 0, memory_order_relaxed);
}

/* Counts, once somebody polls busily, this process's calls to the kernel that the shim knows of. */
extern _Atomic uint32_t pre_stirred;
extern _Atomic bool pre_is_busy;
/* Such a call has been made. */
static inline void pre_stir(void)
{
	if (__builtin_expect(atomic_load_explicit(&pre_is_busy, memory_order_acquire), 0))
		(void)atomic_fetch_add(&pre_stirred, 1);
}

/* Points in time. PRE_FOREVER: none; 0: at once. */
uint64_t pre_deadline_msec(int msec);
uint64_t pre_deadline(const struct timespec *timeout);
/* False: the kernel would refuse it. */
bool pre_timeout_valid(const struct timespec *timeout);
/* As epoll_wait says it, rounded up; NULL: no end. */
int pre_msec_of(const struct timespec *timeout);
/* What is left until the earlier of deadline and now + nsec_most. NULL: no end. */
const struct timespec *pre_time_left(uint64_t deadline, uint64_t nsec_most, struct timespec *buf);

/* Signals held back by a spin; the sleep that follows lets them in by its mask. */
struct pre_signals {
	bool blocked;
	bool interrupted; /* a handler ran before they were held back: the wait ends with EINTR */
	sigset_t old;
};
void pre_signals_restore(struct pre_signals *signals);
/* A wait with the program's mask is about to end with nothing: -EINTR if a handler has run by that
 * mask, otherwise 0. A cancellation point. */
int pre_signals_let_in(const sigset_t *mask);

/* What a spinning waiter looks at. Both answer true when the wait is over. */
struct pre_spinner {
	bool (*memory)(void *arg);
	bool (*kernel)(void *arg);
	void *arg;
	struct pulc_spin *spin;
	bool peer_here;
	uint64_t deadline;
	struct pre_looked *looked;
};
/* A sleep has ended that began then: if it was as short as a spin, spinning is worth trying
 * again. */
void pre_spin_slept(struct pulc_spin *spin, uint64_t since);
/* Spins for as long as that pays. True: something came, and no signal is held back. False: they
 * are. */
bool pre_spin(const struct pre_spinner *spinner, struct pre_signals *signals);

/* A wait that is the kernel's alone, and of which pulc_loop_begins has said that it looks before it
 * sleeps; look: as pulc_loop_looks wants it. */
struct pre_ahead {
	int (*look)(void *arg);
	void *arg;
	uint64_t deadline;
	const sigset_t *mask; /* the program's, or NULL */
};
/* As pulc_loop_looks. Where there is a mask signals are held back afterwards: the call that follows
 * lets them in, and then they are to be restored. */
int pre_look_ahead(const struct pre_ahead *ahead, struct pre_signals *signals);

#endif
