/*
 * Signal handlers of the program: when they may run, and what they mean for a call that waits.
 *
 * A thread that holds one of our locks, or is about to take it, has n_held set (shm/lock.h). A
 * signal that comes then is noted, all others (but faults and libc's own) are blocked in the
 * context that the handler returns to, and when the last lock is left the signal is sent once more,
 * with all that it told, before the mask is put back. So the kernel calls the program's handler,
 * with its own stack, mask and context, at the first moment that is none of ours.
 *
 * Which handlers have run in a thread, and whether they ask for SA_RESTART, is counted. A call
 * compares the counts: it must end with EINTR also when the handler ran while it only looked at
 * memory.
 *
 * Left out: handlers that were installed past the shim (a raw system call). They may find the
 * stream busy, which is ENOBUFS, and whether they restart a call is asked of the kernel
 * (restart.c).
 */
#include "signals.h"

#include <string.h>
#include <ucontext.h>

#include <pulc/signals.h>

#include "lock.h"
#include "rawsys.h"
#include "restart.h"

static __thread struct {
	siginfo_t info;
	kernel_sigset mask;
} later;

static __thread struct signal_counts counts __attribute__((tls_model("initial-exec")));

static bool is_fault(int signal, const siginfo_t *info)
{
	return signal < 64 && (PULC_SIGNAL_BIT(signal) & PULC_SIGNALS_FAULTS) && info->si_code > 0;
}

static void set_mask(kernel_sigset mask)
{
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask), 0, 0);
}

/* The program's signals are blocked until the mask is set. */
static void send_again(void)
{
	int signal = later.info.si_signo;
	long pid = raw_getpid(), tid = raw_gettid();

	shm_self.called = 0;
	if (raw_syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &later.info, 0, 0) < 0)
		(void)raw_syscall(SYS_tgkill, pid, tid, signal, 0, 0, 0);
	set_mask(later.mask);
}

static void put_off(const siginfo_t *info, ucontext_t *context)
{
	kernel_sigset held = PULC_SIGNALS_HELD;

	later.info = *info;
	memcpy(&later.mask, &context->uc_sigmask, sizeof(later.mask));
	memcpy(&context->uc_sigmask, &held, sizeof(held));
	shm_on_free = send_again;
	shm_self.called = 1;
}

PULC_EXPORT uint32_t pulc_signal_begins(int signal, const siginfo_t *info, void *context,
					bool restarts)
{
	uint32_t held = shm_self.n_held;

	if (UNLIKELY(held) && !is_fault(signal, info) && !shm_self.called) {
		put_off(info, context);
		return PULC_SIGNAL_LATER;
	}
	/* A fault's handler that leaves by siglongjmp must not leave the thread deaf. */
	shm_self.n_held = 0;
	shm_self.n_outer += held;
	counts.n_handled++;
	counts.n_interrupting += !restarts;
	return held;
}

PULC_EXPORT void pulc_signal_done(uint32_t held)
{
	shm_self.n_held = held;
	shm_self.n_outer -= held;
}

PULC_EXPORT uint32_t pulc_signal_count(void)
{
	return counts.n_handled;
}

struct signal_counts signals_counted(void)
{
	return counts;
}

int signals_since(struct signal_counts then)
{
	if (counts.n_interrupting != then.n_interrupting)
		return -EINTR;
	return counts.n_handled != then.n_handled ? -ERESTART : 0;
}

int signals_verdict(struct signal_counts then)
{
	int e = signals_since(then);

	/* Interrupted by a handler that nobody told of. */
	if (e == 0)
		return restart_wanted() ? -ERESTART : -EINTR;
	return e;
}

USUAL void signals_forked(void)
{
	if (!shm_self.called)
		return;
	shm_self.called = 0;
	set_mask(later.mask);
}
