/*
 * The program's signal handlers.
 *
 * A handler that comes while its thread is amid one of PULC's steps has to wait for the step's end,
 * and a call that sleeps in ppoll must know whether the handler that ended its sleep wants it
 * restarted. So each handler is installed behind one of ours, which asks libpulc (pulc/signals.h)
 * and then calls it. The kernel keeps everything else: flags, mask, stack. Whoever asks for the
 * action in force is told of the program's own.
 *
 * The table remembers a signal's last handler even when the signal is set to be ignored or to its
 * default: ours may be about to call it in another thread.
 *
 * A child in its parent's memory (vfork) has actions of its own but our table, and installs its
 * handlers as they are.
 */
#include <errno.h>
#include <stdatomic.h>

#include <pulc/signals.h>

#include "file.h"
#include "process.h"
#include "symbols.h"

#define N_SIGNALS 65
#define FLAG_INTERRUPT                                                                             \
	0x20000000 /* SA_INTERRUPT of signal.h: "by system V's rules"; the kernel ignores it */

typedef void handler(int signal, siginfo_t *info, void *context);

static LARGE struct {
	handler *_Atomic handler;
	_Atomic int flags;	   /* as the program gave them */
	struct sigaction in_force; /* what the kernel was told, for a one-shot that is put off */
} actions[N_SIGNALS];

/* Signals of which siginterrupt() said that signal() shall not restart calls. */
static sigset_t interrupting;

static void handle(int signal, siginfo_t *info, void *context)
{
	int flags = atomic_load_explicit(&actions[signal].flags, memory_order_acquire);
	uint32_t answer = pulc_signal_begins(signal, info, context, flags & SA_RESTART);

	if (answer != PULC_SIGNAL_LATER) {
		unsigned interrupted = pre_thread_handles();

		/* it may tell of what a poll is asked for next: a child that has written and
		 * ended */
		pre_stir();
		atomic_load_explicit(&actions[signal].handler, memory_order_acquire)(signal, info,
										     context);
		pre_thread_handled(interrupted);
		pulc_signal_done(answer);
	} else if (flags & SA_RESETHAND) {
		(void)pre_real.sigaction(signal, &actions[signal].in_force, NULL);
	}
}

static bool is_function(const struct sigaction *action)
{
	return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN &&
	       action->sa_handler != SIG_ERR && action->sa_handler != SIG_HOLD;
}

/* What the kernel said was in force, in the program's terms. */
static void translate(struct sigaction *old, handler *was, int flags)
{
	bool ours = (old->sa_flags & SA_SIGINFO) && old->sa_sigaction == handle;

	/* The kernel keeps the flags of a handler that had its only shot. */
	if (!(flags & SA_SIGINFO) && (ours || ((old->sa_flags & flags) & (int)SA_RESETHAND)))
		old->sa_flags &= ~SA_SIGINFO;
	if (ours)
		old->sa_sigaction = was;
}

static int install(int signal, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction ours = *action;
	handler *was = atomic_load(&actions[signal].handler);
	int flags = atomic_load(&actions[signal].flags), ret;

	ours.sa_flags |= SA_SIGINFO;
	ours.sa_sigaction = handle;
	atomic_store(&actions[signal].flags, action->sa_flags);
	atomic_store(&actions[signal].handler, action->sa_sigaction);
	actions[signal].in_force = ours;
	ret = pre_real.sigaction(signal, &ours, old);
	if (ret < 0) {
		atomic_store(&actions[signal].handler, was);
		atomic_store(&actions[signal].flags, flags);
		return -errno;
	}
	if (old)
		translate(old, was, flags);
	return ret;
}

int pre_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	if (!(pre_enabled || pre_aside) || signal < 1 || signal >= N_SIGNALS)
		return (int)pre_sys(pre_real.sigaction(signal, action, old));
	if (action && is_function(action) && (pre_aside || pre_process_owns_table()))
		return install(signal, action, old);
	if (pre_real.sigaction(signal, action, old) < 0)
		return -errno;
	if (old)
		translate(old, atomic_load(&actions[signal].handler),
			  atomic_load(&actions[signal].flags));
	return 0;
}

/* Answers as signal() does: what was in force, or SIG_ERR and errno. */
static sighandler_t set_handler(int signal, sighandler_t new_handler, int flags,
				const sigset_t *mask)
{
	struct sigaction action = { .sa_handler = new_handler, .sa_flags = flags }, old;
	int ret = new_handler == SIG_ERR ? -EINVAL : 0;

	action.sa_mask = *mask;
	if (ret == 0)
		ret = pre_sigaction(signal, &action, &old);
	if (ret == 0)
		return old.sa_handler;
	errno = -ret;
	return SIG_ERR;
}

static sigset_t only(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	if (signal > 0 && signal < N_SIGNALS)
		sigaddset(&set, signal);
	return set;
}

sighandler_t pre_signal(int signal, sighandler_t new_handler)
{
	sigset_t mask = only(signal);
	bool restarts = signal < 1 || signal >= N_SIGNALS || !sigismember(&interrupting, signal);

	return set_handler(signal, new_handler, restarts ? SA_RESTART : 0, &mask);
}

sighandler_t pre___sysv_signal(int signal, sighandler_t new_handler)
{
	sigset_t none = only(0);

	return set_handler(signal, new_handler, SA_RESETHAND | SA_NODEFER | FLAG_INTERRUPT, &none);
}

int pre_siginterrupt(int signal, int flag)
{
	struct sigaction action;
	int ret = pre_sigaction(signal, NULL, &action);

	if (ret < 0)
		return ret;
	if (flag) {
		sigaddset(&interrupting, signal);
		action.sa_flags &= ~SA_RESTART;
	} else {
		sigdelset(&interrupting, signal);
		action.sa_flags |= SA_RESTART;
	}
	return pre_sigaction(signal, &action, NULL);
}

sighandler_t pre_sigset(int signal, sighandler_t new_handler)
{
	sigset_t mask = only(signal), none = only(0), before;
	bool hold = new_handler == SIG_HOLD;
	struct sigaction now;
	sighandler_t was;
	int ret = pre_sigaction(signal, NULL, &now);

	if (ret < 0) {
		errno = -ret;
		return SIG_ERR;
	}
	was = hold ? now.sa_handler : set_handler(signal, new_handler, 0, &none);
	if (was == SIG_ERR || sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &mask, &before) < 0)
		return SIG_ERR;
	return sigismember(&before, signal) ? SIG_HOLD : was;
}
