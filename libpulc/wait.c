/*
 * Waiting for one socket, whatever its protocol, and telling others that wait for us.
 *
 * Spin a little: no longer than a sleep would have cost, not at all when the peer last ran on this
 * processor, less after spins that did not pay. While spinning the kernel socket is looked at every
 * 20 us: a system call on each turn would cost more than the transfer; and whether the peer has
 * come here. Then arm, look once more, and sleep in ppoll over the kernel socket and the bell. The
 * recipe and its proof are in docs/waiting.md.
 *
 * Signals. A handler that runs while we look at memory would go unnoticed, and a call that it
 * should have interrupted would sleep. So after the first microseconds signals are held off, and
 * let in by ppoll alone, which reports them.
 *
 * No lock is held while waiting, so a signal handler may leave by siglongjmp and a thread may be
 * cancelled in ppoll: what remains behind is an armed watch, which costs its peer one bit.
 *
 * Source: pulc-1998, 4.7 (spin-block synchronisation: passive scheduling).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>

#include <pulc/signals.h>

#include "board.h"
#include "clock.h"
#include "environment.h"
#include "macros.h"
#include "notice.h"
#include "peers.h"
#include "private.h"
#include "rawsys.h"

/* Signals stay open for the first part of a spin: nearly every answer that comes soon comes within
 * it. */
#define NSEC_SPIN_OPEN (3 * NSEC_PER_USEC)
/* Some ten short messages are sent in this time, and one that comes alone is late by no more. */
#define NSEC_GATHER 400u
#define NSEC_LOOK (20 * NSEC_PER_USEC)
/* Turns between two readings of the clock. */
#define N_TURNS 32
/* A sleeper without a wait set of its own (psid is not there), or whom the kernel cannot tell of
 * more, looks again after this. */
#define NSEC_BLIND (1000 * NSEC_PER_USEC)
#define N_FAILURES_MAX 7

static struct pulc_sys sys;
static __thread struct pulc_spin spin __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t nsec_spin = UINT64_MAX;

PULC_EXPORT void pulc_sys_set(const struct pulc_sys *with)
{
	sys = *with;
}

static void signals_hold(kernel_sigset *ret_before)
{
	kernel_sigset held = PULC_SIGNALS_HELD;

	(void)raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held, ret_before, sizeof(held), 0, 0);
}

static void signals_release(kernel_sigset before)
{
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before), 0, 0);
}

static int sleep_on(struct pollfd *fds, nfds_t n, struct timespec *timeout, kernel_sigset signals)
{
	sigset_t mask;
	int e, saved = errno;

	if (!sys.ppoll)
		return (int)raw_syscall(SYS_ppoll, fds, n, timeout, &signals, sizeof(signals), 0);
	sigemptyset(&mask);
	memcpy(&mask, &signals, sizeof(signals));
	e = sys.ppoll(fds, n, timeout, &mask);
	e = e < 0 ? -errno : e;
	errno = saved;
	return e;
}

uint32_t this_cpu(void)
{
	const char *thread = __builtin_thread_pointer();
	const struct rseq *rseq = (const struct rseq *)(thread + __rseq_offset);

	return __rseq_size ? *(const volatile uint32_t *)&rseq->cpu_id : UINT32_MAX;
}

/* ---- spinning -------------------------------------------------------------------------------- */

uint64_t spin_limit(void)
{
	uint64_t limit = atomic_load_explicit(&nsec_spin, memory_order_relaxed);
	uint64_t usec;

	if (LIKELY(limit != UINT64_MAX))
		return limit;
	limit = environment_number("PULC_SPIN_USEC", NUMBER_SPIN_USEC_MAX, &usec)
			? usec * NSEC_PER_USEC
			: NSEC_SPIN_MAX;
	atomic_store_explicit(&nsec_spin, limit, memory_order_relaxed);
	return limit;
}

USUAL PULC_EXPORT uint64_t pulc_spin_start(struct pulc_spin *place, bool peer_on_this_cpu)
{
	return peer_on_this_cpu || place->n_failures >= N_FAILURES_MAX
		       ? 0
		       : spin_limit() >> place->n_failures;
}

USUAL PULC_EXPORT void pulc_spin_end(struct pulc_spin *place, bool paid)
{
	if (paid)
		place->n_failures = 0;
	else if (place->n_failures < N_FAILURES_MAX)
		place->n_failures++;
}

/* ---- one socket ------------------------------------------------------------------------------ */

static bool spin_for(struct pulc_stream *s, int fd, const struct wait *w, uint64_t budget)
{
	uint64_t begun = nsec_now(), looked = begun, now = begun;

	while (now - begun < budget) {
		for (unsigned i = 0; i < N_TURNS; i++) {
			if (w->way->memory(s, w))
				return true;
			cpu_relax();
		}
		now = nsec_now();
		if (now - looked >= NSEC_LOOK) {
			looked = now;
			if (w->way->kernel(s, stream_fd(s, fd), w))
				return true;
			if (pulc_stream_peer_here(s))
				return false;
		}
	}
	return false;
}

static uint64_t sleep_limit(struct pulc_stream *s, struct pulc_waitset *set, const struct wait *w)
{
	uint64_t now = nsec_now(), deadline = w->nsec_deadline;
	uint64_t patience = set && !w->kernel_has_part ? pulc_stream_patience(s, set) : NSEC_BLIND;
	uint64_t notice = notice_patience();
	uint64_t left = deadline == UINT64_MAX ? UINT64_MAX : deadline > now ? deadline - now : 0;

	patience = MIN(patience, notice);
	return MIN(patience, left);
}

static int sleep_for(struct pulc_stream *s, int fd, const struct wait *w, struct pulc_waitset *set,
		     kernel_sigset signals)
{
	struct pollfd fds[] = {
		{ .events = w->way->kernel_events(s, w) },
		{ .fd = set ? set->bell : -1, .events = POLLIN },
		{ .fd = -1 },
	};
	uint64_t limit = sleep_limit(s, set, w);
	struct timespec ts = timespec_from_nsec(limit);
	int n;

	fds[0].fd = stream_fd(s, fd);
	fds[2].fd = pulc_notice_fd(&fds[2].events);
	n = sleep_on(fds, ARRAY_SIZE(fds), limit == UINT64_MAX ? NULL : &ts, signals);
	/* Emptied before the next sleep: now somebody waits for us. */
	if (set && n > 0 && fds[1].revents)
		set->rung = true;
	if (n > 0 && fds[0].revents)
		w->way->kernel_said(s, stream_fd(s, fd), w);
	pulc_notice(n > 0 && fds[2].revents);
	return n < 0 ? n : 0;
}

/* What earlier sleeps have left behind. */
static void clear(struct pulc_waitset *set)
{
	unsigned bit;

	if (set->rung)
		pulc_waitset_quiet(set);
	set->rung = false;
	while (pulc_waitset_take(set, &bit))
		;
}

/* Arm, look once more, sleep, disarm. */
static int sleep_once(struct pulc_stream *s, int fd, const struct wait *w, kernel_sigset signals)
{
	struct pulc_waitset *set = pulc_waitset_mine();
	int e = 0;

	if (set) {
		clear(set);
		if (pulc_stream_watch(s, set, 0, w->events) < 0)
			set = NULL;
		else
			pulc_waitset_arm(set);
	}
	/* A bit that is set already says that the peer has told us, of too little, and will not
	 * tell us again. */
	if (!w->way->memory(s, w) && !(set && pulc_waitset_pending(set)))
		e = sleep_for(s, fd, w, set, signals);
	if (set) {
		pulc_waitset_disarm(set);
		pulc_stream_unwatch(s, set, 0);
	}
	return e;
}

static int sleep_or_expire(struct pulc_stream *s, int fd, const struct wait *w,
			   kernel_sigset signals)
{
	uint64_t now = nsec_now();
	int e;

	if (now >= w->nsec_deadline)
		return -EAGAIN;
	e = sleep_once(s, fd, w, signals);
	/* A short sleep would have been a spin that pays. */
	if (e == 0 && nsec_now() - now < NSEC_SPIN_MAX)
		pulc_spin_end(&spin, true);
	return e;
}

/* Spins on with signals held off, then sleeps. A handler that ran before has interrupted the call
 * as much as one that comes in its sleep. */
static int wait_long(struct pulc_stream *s, int fd, const struct wait *w, uint64_t budget)
{
	kernel_sigset signals;
	int e;

	signals_hold(&signals);
	e = signals_since(w->signals);
	if (e == 0 && budget && spin_for(s, fd, w, budget)) {
		pulc_spin_end(&spin, true);
	} else if (e == 0) {
		if (budget)
			pulc_spin_end(&spin, false);
		e = sleep_or_expire(s, fd, w, signals);
		if (e == -EINTR)
			e = signals_verdict(w->signals);
	}
	signals_release(signals);
	return e;
}

uint64_t wait_budget_beside(bool peer_on_this_cpu)
{
	return pulc_spin_start(&spin, peer_on_this_cpu);
}

uint64_t wait_budget(struct pulc_stream *s)
{
	return wait_budget_beside(pulc_stream_peer_here(s));
}

void wait_gather(uint64_t budget)
{
	uint64_t end = nsec_now() + MIN(budget, (uint64_t)NSEC_GATHER);

	while (budget && nsec_now() < end)
		cpu_relax();
}

void wait_paid(void)
{
	spin.n_failures = 0;
}

struct wait wait_begin(const struct wait_way *way, unsigned events, uint64_t usec_timeout)
{
	return (struct wait){
		.way = way,
		.events = events,
		.fd = -1,
		.need = 1,
		.total = 1,
		.nsec_deadline = usec_timeout ? nsec_now() + usec_timeout * NSEC_PER_USEC
					      : UINT64_MAX,
		.signals = signals_counted(),
	};
}

int wait_for(struct pulc_stream *s, int fd, struct wait *w, uint64_t budget)
{
	int e;

	if (budget && spin_for(s, fd, w, MIN(budget, (uint64_t)NSEC_SPIN_OPEN))) {
		pulc_spin_end(&spin, true);
		return 0;
	}
	e = wait_verdict(w, wait_long(s, fd, w, budget));
	/* A handler that ran as something else ended this wait is to end the next one. */
	if (e == -ERESTART)
		w->signals = signals_counted();
	return e;
}

/* ---- telling --------------------------------------------------------------------------------- */

void wait_tell(struct shm_stream *ring, size_t (*collect)(struct shm_stream *, uint64_t *))
{
	uint64_t watches[SHM_N_WATCHES];
	size_t n = collect(ring, watches);

	for (size_t i = 0; i < n; i++)
		peers_tell(watches[i]);
}
