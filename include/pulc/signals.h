/*
 * pulc/signals.h: the program's signal handlers and PULC's critical sections, for socket shims.
 *
 * A handler may use sockets (send, recv and close are async-signal-safe), but must not find the
 * very stream in the middle of a step of its own thread. A shim that installs a handler of its own
 * in the program's place lets this library look at each signal first: one that comes amid such a
 * step is held back for the few instructions until the step is done, and comes again then. It costs
 * the step two stores.
 */
#ifndef PULC_SIGNALS_H
#define PULC_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PULC_SIGNAL_LATER UINT32_MAX

#define PULC_SIGNAL_BIT(signal) (1ull << ((signal)-1))
/* Those that a thread's own instruction raises. */
#define PULC_SIGNALS_FAULTS                                                                        \
	(PULC_SIGNAL_BIT(SIGSEGV) | PULC_SIGNAL_BIT(SIGBUS) | PULC_SIGNAL_BIT(SIGILL) |            \
	 PULC_SIGNAL_BIT(SIGFPE) | PULC_SIGNAL_BIT(SIGTRAP) | PULC_SIGNAL_BIT(SIGSYS))
/*
 * What is held off around a sleep, as the kernel's mask (64 bits, bit 0 is signal 1): everything
 * but faults and the two signals that glibc keeps to itself. 32 cancels a thread: one that leaves
 * ppoll just then waits inside libc for that signal, for ever if it is blocked. 33 makes setuid
 * reach all threads.
 */
#define PULC_SIGNALS_HELD (~(PULC_SIGNALS_FAULTS | PULC_SIGNAL_BIT(32) | PULC_SIGNAL_BIT(33)))

/*
 * A signal has come, and its handler is about to run in this thread.
 *
 * signal, info, context: as a handler with SA_SIGINFO gets them. restarts: the handler was
 * installed with SA_RESTART; calls of this library that it interrupts go on then. Return:
 * PULC_SIGNAL_LATER: don't run it, return from the handler at once; the same signal will come
 * again. Else run it, and pass the answer to pulc_signal_done afterwards, unless it does not return
 * (siglongjmp). Errors: none. Faults (SIGSEGV and the like, raised by the thread's own instruction)
 * are never put off. Threads and fork: per thread; a signal put off while its thread forks comes in
 * the parent only. Blocking: never. Source: delayed interrupts of non-preemptable sections, without
 * their cost when there is none (Stodolsky, Chen and Bershad, "Fast Interrupt Priority Management
 * in Operating System Kernels", USENIX MicroKernels 1993, section 3).
 */
uint32_t pulc_signal_begins(int signal, const siginfo_t *info, void *context, bool restarts);
void pulc_signal_done(uint32_t answer);
/* Handlers that have begun to run in this thread: a wait that finds another number than at its
 * beginning was interrupted. */
uint32_t pulc_signal_count(void);

#ifdef __cplusplus
}
#endif

#endif
