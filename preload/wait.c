/*
 * Spinning before sleeping, and the time that both take.
 *
 * libpulc says how long to spin; meanwhile memory is looked at all the time and the kernel every
 * PRE_NSEC_LOOK.
 *
 * Signals: a wait that a handler interrupted has to end with EINTR. A spin does not notice
 * handlers, and one that ran in it would be forgotten by the sleep afterwards. So only the first
 * moments of a spin, no longer than a program needs to get into the kernel anyway, run with signals
 * open; then they are held back, until either the wait is over or the sleep's own mask lets them
 * in; a handler that ran in those first moments has interrupted the wait as well. Faults and libc's
 * internal signals are never held back. A look ahead (pre_look_ahead) leaves them open, for each
 * look is a call to the kernel, unless the wait has a mask of its own: then no handler runs before
 * that is in force.
 *
 * Polling busily: a program that asks again and again without waiting (an MPI library's progress)
 * would pay a system call each time, for descriptors of the kernel's and for the ends of its
 * connections, of which there is no news nearly always. Once the kernel had nothing many times in a
 * row, and as long as rings have something now and then, it is asked as rarely as a spin does. It
 * is asked at once after any call of this process to the kernel that the shim knows of: who writes
 * into a pipe finds it readable. What the program can know otherwise (from another process, by a
 * call that the shim does not see) comes within PRE_NSEC_LOOK or PRE_N_SPARED calls, whichever is
 * first.
 */
#include <limits.h>
#include <sched.h>

#include <pulc/signals.h>

#include "file.h"
#include "rawsys.h"
#include "symbols.h"
#include "wait.h"

/* Looks without news after which the kernel is taken to be calm. */
#define N_CALM 16
/* How long rings count as busy after they had something. */
#define NSEC_BUSY (1 * PRE_NSEC_PER_MSEC)
#define NSEC_SIGNALS_OPEN (2 * PRE_NSEC_PER_USEC)
#define N_LOOKS_PER_CLOCK 8
#define N_LOOKS_EAGER 16
/* What sleeping and being woken costs. */
#define NSEC_SHORT_SLEEP (40 * PRE_NSEC_PER_USEC)

_Atomic uint32_t pre_stirred;
_Atomic bool pre_is_busy;

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static uint64_t looked_at(struct pre_looked *looked)
{
	return atomic_load_explicit(&looked->nsec, memory_order_relaxed);
}

static void look_now(struct pre_looked *looked, uint64_t now)
{
	atomic_store_explicit(&looked->nsec, now, memory_order_relaxed);
	atomic_store_explicit(&looked->n_answers, 0, memory_order_relaxed);
}

/* True in a spin, now and then. */
static bool is_time(struct pre_looked *looked)
{
	uint64_t now = pulse_about_now();

	if (now - looked_at(looked) < PRE_NSEC_LOOK)
		return false;
	look_now(looked, now);
	return true;
}

bool pre_look_due(struct pre_looked *looked)
{
	unsigned n = atomic_load_explicit(&looked->n_answers, memory_order_relaxed) + 1;
	uint64_t now = pulse_about_now();

	if (now - looked_at(looked) >= PRE_NSEC_LOOK || n >= PRE_N_LOOK) {
		look_now(looked, now);
		return true;
	}
	atomic_store_explicit(&looked->n_answers, n, memory_order_relaxed);
	atomic_store_explicit(&looked->nsec_rings, now, memory_order_relaxed);
	return false;
}

static bool is_calm(const struct pre_looked *looked)
{
	return atomic_load_explicit(&looked->n_calm, memory_order_relaxed) > N_CALM &&
	       atomic_load_explicit(&looked->stirred, memory_order_relaxed) ==
		       atomic_load_explicit(&pre_stirred, memory_order_acquire);
}

bool pre_look_spared(struct pre_looked *looked, bool found)
{
	unsigned n = atomic_load_explicit(&looked->n_answers, memory_order_relaxed) + 1;
	uint64_t now;

	if (!is_calm(looked))
		return false;
	now = pulse_about_now();
	if (found)
		atomic_store_explicit(&looked->nsec_rings, now, memory_order_relaxed);
	if (n >= PRE_N_SPARED || now - looked_at(looked) >= PRE_NSEC_LOOK ||
	    now - atomic_load_explicit(&looked->nsec_rings, memory_order_relaxed) >= NSEC_BUSY) {
		look_now(looked, now);
		return false;
	}
	atomic_store_explicit(&looked->n_answers, n, memory_order_relaxed);
	return true;
}

/* One look more than N_CALM is made after calls are counted: what is not counted it finds. */
struct pre_look pre_look_begins(const struct pre_looked *looked)
{
	struct pre_look look = {
		.n_calm = atomic_load_explicit(&looked->n_calm, memory_order_relaxed),
	};

	if (look.n_calm == N_CALM)
		atomic_store(&pre_is_busy, true);
	look.stirred = atomic_load(&pre_stirred);
	return look;
}

/* Another thread's look may have ended meanwhile: then that is the one that counts. */
void pre_look_ends(struct pre_looked *looked, struct pre_look look, bool news)
{
	atomic_store_explicit(&looked->stirred, look.stirred, memory_order_relaxed);
	if (news)
		atomic_store_explicit(&looked->n_calm, 0, memory_order_relaxed);
	else if (look.n_calm <= N_CALM)
		(void)atomic_compare_exchange_strong(&looked->n_calm, &look.n_calm,
						     look.n_calm + 1);
}

uint64_t pre_deadline_msec(int msec)
{
	if (msec <= 0)
		return msec < 0 ? PRE_FOREVER : 0;
	return pre_now() + (uint64_t)msec * PRE_NSEC_PER_MSEC;
}

bool pre_timeout_valid(const struct timespec *timeout)
{
	return !timeout || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
			    timeout->tv_nsec < (long)PRE_NSEC_PER_SEC);
}

uint64_t pre_deadline(const struct timespec *timeout)
{
	uint64_t nsec;

	if (!timeout)
		return PRE_FOREVER;
	if ((uint64_t)timeout->tv_sec > PRE_FOREVER / PRE_NSEC_PER_SEC / 2)
		return PRE_FOREVER;
	nsec = (uint64_t)timeout->tv_sec * PRE_NSEC_PER_SEC + (uint64_t)timeout->tv_nsec;
	return nsec ? pre_now() + nsec : 0;
}

int pre_msec_of(const struct timespec *timeout)
{
	if (!timeout)
		return -1;
	return timeout->tv_sec >= INT_MAX / 1000
		       ? INT_MAX
		       : (int)(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000);
}

const struct timespec *pre_time_left(uint64_t deadline, uint64_t nsec_most, struct timespec *buf)
{
	uint64_t nsec = nsec_most, now;

	if (deadline != PRE_FOREVER) {
		now = pre_now();
		deadline = deadline > now ? deadline - now : 0;
		if (deadline < nsec)
			nsec = deadline;
	}
	if (nsec == PRE_FOREVER)
		return NULL;
	buf->tv_sec = (time_t)(nsec / PRE_NSEC_PER_SEC);
	buf->tv_nsec = (long)(nsec % PRE_NSEC_PER_SEC);
	return buf;
}

static void hold_back(struct pre_signals *signals)
{
	uint64_t held = PULC_SIGNALS_HELD;

	sigemptyset(&signals->old);
	signals->blocked = raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held, &signals->old,
				       RAW_SIZE_SIGSET) == 0;
}

void pre_signals_restore(struct pre_signals *signals)
{
	if (!signals->blocked)
		return;
	signals->blocked = false;
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &signals->old, NULL, RAW_SIZE_SIGSET);
}

int pre_look_ahead(const struct pre_ahead *ahead, struct pre_signals *signals)
{
	if (ahead->mask)
		hold_back(signals);
	return pulc_loop_looks(ahead->look, ahead->arg, ahead->deadline);
}

/* The kernel looks for signals only after it has found nothing to be ready, and nothing is of this
 * list. */
int pre_signals_let_in(const sigset_t *mask)
{
	struct timespec now = { 0 };

	/* No call for pre_stir, unless a handler has run: who polls busily would not be spared. */
	if (pre_real.ppoll(NULL, 0, &now, mask) == 0)
		return 0;
	pre_stir();
	return -errno;
}

static bool look(const struct pre_spinner *s)
{
	for (int i = 0; i < N_LOOKS_PER_CLOCK; i++) {
		if (s->memory(s->arg))
			return true;
		relax();
	}
	return false;
}

/* Without a pause, which takes as long as a line's way between two processors that share a
 * cache. */
static bool look_eagerly(const struct pre_spinner *s)
{
	for (int i = 0; i < N_LOOKS_EAGER; i++) {
		if (s->memory(s->arg))
			return true;
	}
	return false;
}

/* The clock is read when the first looks were in vain: the partner of a ping-pong answers within
 * them. */
static bool spin_for(const struct pre_spinner *s, uint64_t nsec_budget, struct pre_signals *signals)
{
	uint64_t start, end, now;

	if (look_eagerly(s))
		return true;
	start = now = pre_now();
	end = start + nsec_budget < s->deadline ? start + nsec_budget : s->deadline;
	while (now < end) {
		if (is_time(s->looked)) {
			if (s->kernel(s->arg))
				return true;
		}
		if (!signals->blocked && now - start >= NSEC_SIGNALS_OPEN)
			hold_back(signals);
		if (look(s))
			return true;
		now = pre_now();
	}
	return false;
}

void pre_spin_slept(struct pulc_spin *spin, uint64_t since)
{
	if (pre_now() - since < NSEC_SHORT_SLEEP)
		pulc_spin_end(spin, true);
}

bool pre_spin(const struct pre_spinner *s, struct pre_signals *signals)
{
	uint64_t nsec_budget = pulc_spin_start(s->spin, s->peer_here);
	uint32_t n_handled = pulc_signal_count();
	bool came = false;

	if (nsec_budget) {
		came = spin_for(s, nsec_budget, signals);
		pulc_spin_end(s->spin, came);
	}
	if (came) {
		pre_signals_restore(signals);
		return true;
	}
	if (!signals->blocked)
		hold_back(signals);
	signals->interrupted = pulc_signal_count() != n_handled;
	return false;
}
