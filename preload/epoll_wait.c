/*
 * epoll_wait, epoll_pwait and epoll_pwait2.
 *
 * A set without ring members is the kernel's call, before which it may be looked whether there is
 * something (pulc_loop_looks). Otherwise: collect what memory says is ready; spin (one thread of
 * the set at a time); then sleep in the kernel's own call on the program's set, which wakes for
 * kernel members and, by its tagged member `inner`, for ring members. Tagged events never reach the
 * program.
 *
 * Fairness: an answer made of ring events alone asks the kernel too every PRE_NSEC_LOOK; if the
 * rings fill the whole answer, of its members only, and the next call asks the kernel first.
 *
 * Several threads: all that sleep are woken by one bell; whoever leaves hands over (epoll_ring.c).
 *
 * In a forked child the program's set is its parent's too. A tagged event there is meant for the
 * parent: it is put back, and the set is not looked at for a moment. This costs the child latency,
 * not events.
 */
#include <limits.h>

#include "epoll_set.h"
#include "rawsys.h"
#include "symbols.h"

/* Of that many answers filled by rings alone one begins with the kernel. */
#define N_FULL 8
#define N_MAX (INT_MAX / (int)sizeof(struct epoll_event))

struct wait {
	struct pre_set *set;
	struct pre_file *file;
	int epfd; /* as the program said it */
	struct epoll_event *events;
	int max;
	uint64_t deadline;
	const sigset_t *mask;
	struct pre_signals signals;
	int n; /* events collected */
	uint32_t number;
	/* of one-shot members, before the kernel was asked */
	uint64_t n_moves;
	bool native; /* counted in set->n_native */
	bool fine;   /* the program waits by epoll_pwait2 */
	bool tagged; /* `inner` has something */
	bool asked;  /* the kernel, after the rings had something */
};

/* Another thread may have closed it meanwhile. */
static int epfd_of(const struct wait *w)
{
	return __builtin_expect(atomic_load(&w->file->lingers), 0) ? w->file->home : w->epfd;
}

static int filter(struct wait *w, struct epoll_event *events, int n)
{
	return pre_filter(w->set, events, n, w->n_moves, &w->tagged);
}

/* A tagged event that was meant for an ancestor. */
static void put_back(struct pre_set *set)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = set->tag };

	if (set->inner_of_ancestor >= 0)
		(void)raw_syscall(SYS_epoll_ctl, set->epfd, EPOLL_CTL_MOD, set->inner_of_ancestor,
				  &event);
}

/* Once more than what is filtered out could take the room of what is not. */
#define N_LOOKS 2

/* Adds what the kernel's set has ready now. */
static void look_at_set(struct wait *w)
{
	int n, n_room, n_kept = 0;

	for (int i = 0; i < N_LOOKS; i++) {
		n_room = w->max - w->n;
		n = n_room ? (int)raw_syscall(SYS_epoll_pwait, epfd_of(w), w->events + w->n, n_room,
					      0, NULL, 8)
			   : 0;
		if (n > 0)
			n_kept = filter(w, w->events + w->n, n);
		w->n += n > 0 ? n_kept : 0;
		if (n < n_room || n_kept == n)
			break;
	}
	if (w->tagged && pre_set_inherited(w->set))
		put_back(w->set);
}

/* The same, and notes whether there was news. */
static void ask_kernel(struct wait *w)
{
	struct pre_look look = pre_look_begins(&w->set->looked);
	int n = w->n;

	look_at_set(w);
	pre_look_ends(&w->set->looked, look, w->tagged || w->n > n);
}

/* After the kernel was asked: what it said of ring members. Under the lock. */
static void hear(struct wait *w)
{
	if (w->tagged || pre_set_inherited(w->set) || w->set->deaf)
		pre_set_hear(w->set);
}

/* Adds what is held behind what the answer has, up to max. Under the lock. */
static void append(struct wait *w, const struct pre_answer *held, int max)
{
	struct pre_answer to = { .events = w->events, .n = w->n, .max = max };

	pre_near_append(w->set, &to, held);
	w->n = to.n;
}

/* What the kernel says goes first, and what it says of ring members. Under the lock. */
static void append_heard(struct wait *w)
{
	struct pre_answer to = {
		.events = w->events, .n = w->n, .max = w->max, .number = w->number
	};

	hear(w);
	w->tagged = false;
	pre_ready_collect_heard(w->set, &to);
	w->n = to.n;
}

/* Asks the kernel for what came before that which is held (epoll_near.c), and makes one answer of
 * it. Under the lock, which is given up meanwhile. */
static void answer_in_order(struct wait *w, struct pre_answer *held)
{
	bool waited = pre_near_waited(w->set);
	int n_first = w->n, from, max;

	if (waited)
		append(w, held, w->max);
	pre_set_unlock(w->set);
	from = w->n;
	ask_kernel(w);
	/* Where that filled the answer there may be more to come before what is held. */
	max = w->n < w->max ? w->max : 0;
	w->n = pre_near_unite(w->events, n_first, from, w->n);
	w->asked = true;
	pre_lock(&w->set->lock);
	pre_near_keep(w->set, held);
	append_heard(w);
	if (!waited)
		append(w, held, max);
}

/* Adds what the rings have ready where the kernel may have to be told of first. As above. True:
 * what is near is to be taken further. */
static __attribute__((noinline)) bool collect_in_order(struct wait *w)
{
	struct epoll_event events[PRE_N_HELD];
	uint64_t names[PRE_N_HELD];
	struct pre_answer held = { .events = events,
				   .names = names,
				   .max = w->max - w->n < PRE_N_HELD ? w->max - w->n : PRE_N_HELD,
				   .number = w->number };

	pre_ready_collect(w->set, &held);
	if (held.n == 0)
		return false;
	if (pre_near_asks(w->set, &held))
		answer_in_order(w, &held);
	else
		append(w, &held, w->max);
	return pre_near_recount(w->set);
}

/* Adds what the rings have ready. Under the lock. */
static void collect(struct wait *w)
{
	struct pre_answer to = {
		.events = w->events, .n = w->n, .max = w->max, .number = w->number
	};

	pre_ready_collect(w->set, &to);
	w->n = to.n;
}

/* The same in either case, and leaves the set fit for others; unlocks it. */
static void collect_and_unlock(struct wait *w)
{
	bool advance = false;

	if (w->n < w->max && pre_near_any(w->set))
		advance = collect_in_order(w);
	else if (w->n < w->max)
		collect(w);
	if (w->n > 0)
		pre_set_hand_over(w->set);
	pre_set_unlock(w->set);
	if (__builtin_expect(advance, 0))
		pre_near_advance(w->set);
}

static bool look_at_memory(void *arg)
{
	struct wait *w = arg;

	pre_lock(&w->set->lock);
	collect_and_unlock(w);
	return w->n > 0;
}

static bool look_at_kernel(void *arg)
{
	struct wait *w = arg;

	ask_kernel(w);
	pre_lock(&w->set->lock);
	hear(w);
	collect_and_unlock(w);
	w->tagged = false;
	return w->n > 0;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

/* A forked child: the set and the child's own `inner`, side by side. */
static int sleep_beside(struct wait *w, uint64_t nsec_most, const sigset_t *mask)
{
	struct pollfd fds[] = {
		{ .fd = w->tagged ? -1 : epfd_of(w), .events = POLLIN },
		{ .fd = w->set->inner, .events = POLLIN },
	};
	struct timespec left;
	long n;

	if (w->tagged && nsec_most > PRE_NSEC_UNSURE)
		nsec_most = PRE_NSEC_UNSURE;
	w->tagged = false;
	n = pre_sys(pre_real.ppoll(fds, 2, pre_time_left(w->deadline, nsec_most, &left), mask));
	if (n < 0)
		return (int)n;
	look_at_set(w);
	return 0;
}

/* Sleeps in the kernel's call on the set. 0 or -errno. */
static int sleep_on_set(struct wait *w, uint64_t nsec_most, const sigset_t *mask)
{
	struct timespec left;
	const struct timespec *timeout = pre_time_left(w->deadline, nsec_most, &left);
	long n = pre_sys(
		w->fine ? pre_real.epoll_pwait2(epfd_of(w), w->events, w->max, timeout, mask)
			: pre_real.epoll_pwait(epfd_of(w), w->events, w->max, pre_msec_of(timeout),
					       mask));

	if (n < 0)
		return (int)n;
	w->n = filter(w, w->events, (int)n);
	return 0;
}

static void wake_up(struct pre_set *set)
{
	if (--set->n_asleep == 0 && !set->exposed && set->waitset)
		pulc_waitset_disarm(set->waitset);
}

/* Makes the set ready to be slept on; wake_up follows. False: something is ready. Under the
 * lock. */
static bool fall_asleep(struct pre_set *set)
{
	pre_set_prepare(set);
	for (unsigned i = 0; i < set->n_hot; i++)
		pre_member_watch(set->hot[i]);
	if (set->ready)
		return false;
	set->n_asleep++;
	if (set->waitset)
		pulc_waitset_arm(set->waitset);
	if (!pre_ready_maybe(set))
		return true;
	wake_up(set);
	return false;
}

static int sleep_somewhere(struct wait *w, uint64_t nsec_most)
{
	const sigset_t *mask = w->mask ? w->mask : w->signals.blocked ? &w->signals.old : NULL;

	return pre_set_inherited(w->set) ? sleep_beside(w, nsec_most, mask)
					 : sleep_on_set(w, nsec_most, mask);
}

/* Sleeps once. Returns 0, with w->n events, or -errno. */
static int sleep_once(struct wait *w)
{
	struct pre_set *set = w->set;
	uint64_t nsec_most = 0, nsec_notice, since = 0;
	bool asleep;
	int ret = 0;

	pre_set_notice(set);
	nsec_notice = pre_sets_patience(set, pulc_notice_patience());
	pre_lock(&set->lock);
	asleep = fall_asleep(set);
	if (asleep)
		nsec_most = pre_set_patience(set);
	pre_set_unlock(set);
	if (asleep) {
		since = pre_now();
		ret = sleep_somewhere(w, nsec_most < nsec_notice ? nsec_most : nsec_notice);
	}
	pre_lock(&set->lock);
	if (asleep)
		wake_up(set);
	hear(w);
	if (asleep && ret == 0 && w->n == 0 && !w->tagged)
		pre_set_check(set, pre_now() - since >= nsec_notice);
	collect_and_unlock(w);
	pre_set_notice(set);
	if (asleep && w->n > 0 && !atomic_exchange(&set->spinning, true)) {
		pre_spin_slept(&set->spin, since);
		atomic_store(&set->spinning, false);
	}
	if (!pre_set_inherited(set))
		w->tagged = false;
	return w->n > 0 ? 0 : ret;
}

/* ---- the wait -------------------------------------------------------------------------------- */

static bool spin(struct wait *w)
{
	struct pre_set *set = w->set;
	struct pre_spinner spinner = {
		.memory = look_at_memory,
		.kernel = look_at_kernel,
		.arg = w,
		.spin = &set->spin,
		.deadline = w->deadline,
		.looked = &set->looked,
	};
	bool free = false, came;

	if (!atomic_compare_exchange_strong(&set->spinning, &free, true))
		return false;
	pre_lock(&set->lock);
	spinner.peer_here = set->n_hot == 1 && pulc_stream_peer_here(set->hot[0]->stream);
	pre_set_unlock(set);
	came = pre_spin(&spinner, &w->signals);
	atomic_store(&set->spinning, false);
	return came;
}

/* There is no room for what the kernel says of ring members: the next answer begins with it. */
static void hear_for_next(struct wait *w)
{
	pre_lock(&w->set->lock);
	pre_set_hear(w->set);
	pre_set_hand_over(w->set);
	pre_set_unlock(w->set);
}

static void answer_at_once(struct wait *w)
{
	struct pre_set *set = w->set;
	bool full = w->n == w->max, due = pre_look_due(&set->looked);

	if (w->asked)
		return;

	/* Rings that fill every answer would shut the kernel's members out. */
	set->kernel_first = full && set->has_kernel && (due || set->looked.n_answers % N_FULL == 0);
	if (due && full)
		hear_for_next(w);
	else if (due)
		(void)look_at_kernel(w);
}

/* Of a program that polls busily the kernel is not asked each time. */
static bool is_spared(const struct wait *w)
{
	return !w->set->deaf && !w->set->exposed && !atomic_load(&w->set->has_nested) &&
	       !pre_set_inherited(w->set) && pre_look_spared(&w->set->looked, false);
}

/* The rest of a call that is not to wait: memory has nothing. */
static int poll_kernel(struct wait *w)
{
	if (!is_spared(w) && look_at_kernel(w)) {
		pre_set_not_in_vain(w->set);
		return w->n;
	}
	pre_set_in_vain(w->set);
	return 0;
}

static int wait_on_rings(struct wait *w)
{
	int ret;

	w->number = atomic_fetch_add_explicit(&w->set->n_answers, 1, memory_order_relaxed) + 1;
	if (w->set->kernel_first && atomic_exchange(&w->set->kernel_first, false) &&
	    look_at_kernel(w))
		return w->n;
	if (look_at_memory(w)) {
		pre_set_not_in_vain(w->set);
		if (__builtin_expect(w->set->psid_said, 0))
			pre_set_notice(w->set);
		answer_at_once(w);
		return w->n;
	}
	if (w->deadline == 0)
		return poll_kernel(w);
	/* The kernel's list forgets what it has told of only when it is asked: until then its order
	 * is an old one. */
	if (pre_near_repeats(w->set) && look_at_kernel(w))
		return w->n;
	if (spin(w))
		return w->n;
	if (w->signals.interrupted)
		return -EINTR;
	do {
		ret = sleep_once(w);
		if (ret < 0 || w->n > 0)
			return ret < 0 ? ret : w->n;
	} while (w->deadline == PRE_FOREVER || pre_now() < w->deadline);
	return 0;
}

static int run(struct wait *w)
{
	int ret;

	if (__builtin_expect(pre_set_is_ancestors(w->set), 0)) {
		pre_lock(&w->set->lock);
		pre_set_own(w->set);
		pre_set_unlock(w->set);
	}
	ret = wait_on_rings(w);
	pre_signals_restore(&w->signals);
	/* With an answer it was done already. */
	if (ret <= 0) {
		pre_lock(&w->set->lock);
		pre_set_hand_over(w->set);
		pre_set_unlock(w->set);
	}
	/* It may have spun for all of its time. A call that does not wait lets none in: there the
	 * kernel's epoll is unlike its poll. */
	if (ret == 0 && w->mask && w->deadline != 0)
		ret = pre_signals_let_in(w->mask);
	return ret;
}

/* False: the kernel's own call is all there is to it. */
static bool has_more(const struct pre_set *set)
{
	return atomic_load_explicit(&set->has_rings, memory_order_acquire) ||
	       pre_set_inherited(set) || pre_set_has_mute(set);
}

/* True: the kernel's own call, which answers n, is all there is to it. A thread that sleeps in it
 * sleeps on the set too: an upgrade may happen meanwhile, and then others have to wake it. Either
 * they see it counted (epoll_ring.c, sleepers), or it sees here what they have done. */
static bool before_kernel(struct wait *w)
{
	if (has_more(w->set))
		return false;
	w->native = !__libc_single_threaded;
	if (!w->native)
		return true;
	(void)atomic_fetch_add(&w->set->n_native, 1);
	if (__builtin_expect(!atomic_load(&w->set->has_rings), 1))
		return true;
	(void)atomic_fetch_sub(&w->set->n_native, 1);
	return false;
}

static int after_kernel(struct wait *w, int n)
{
	if (w->native)
		(void)atomic_fetch_sub_explicit(&w->set->n_native, 1, memory_order_relaxed);
	if (n <= 0 || (!has_more(w->set) && !atomic_load(&w->set->has_nested)))
		return n;
	n = filter(w, w->events, n);
	if (w->tagged) {
		pre_lock(&w->set->lock);
		hear(w);
		pre_set_hand_over(w->set);
		pre_set_unlock(w->set);
	}
	w->tagged = false;
	return n > 0 ? n : run(w);
}

/* For pulc_loop_looks. A thread that sleeps on the set would be woken by what is found here. */
static int look_once(void *arg)
{
	struct wait *w = arg;

	if (w->native && atomic_load_explicit(&w->set->n_native, memory_order_relaxed) > 1)
		return -EAGAIN;
	return (int)raw_syscall(SYS_epoll_pwait, epfd_of(w), w->events, w->max, 0, NULL, 8);
}

/* As pre_look_ahead; *ret_looked: the program's time has gone on. */
static int look_ahead(struct wait *w, bool *ret_looked)
{
	struct pre_ahead ahead = {
		.look = look_once, .arg = w, .deadline = w->deadline, .mask = w->mask
	};

	*ret_looked = w->deadline != 0 && pre_near_any(w->set) &&
		      !atomic_load(&w->set->has_exclusive) && pulc_loop_begins();
	return *ret_looked ? pre_look_ahead(&ahead, &w->signals) : 0;
}

/* The kernel's own call. msec, timeout: as the program said it, in either way. */
static int in_kernel(struct wait *w, int msec, const struct timespec *timeout)
{
	struct timespec left;
	bool looked;
	int n = look_ahead(w, &looked);

	if (n == 0 && looked) {
		timeout = pre_time_left(w->deadline, PRE_FOREVER, &left);
		msec = pre_msec_of(timeout);
	}
	if (n == 0)
		n = (int)pre_sys(w->fine ? pre_real.epoll_pwait2(epfd_of(w), w->events, w->max,
								 timeout, w->mask)
					 : pre_real.epoll_pwait(epfd_of(w), w->events, w->max, msec,
								w->mask));
	pre_signals_restore(&w->signals);
	/* All of its time may be over, and then the kernel's call has let nobody in. */
	if (n == 0 && looked && w->mask)
		n = pre_signals_let_in(w->mask);
	return after_kernel(w, n);
}

/* Begins a wait on fd. False: not one of our sets, or a call that the kernel will refuse. */
static bool begin(struct wait *w, struct pre_use *use, int fd, struct epoll_event *events, int max)
{
	pre_cancellation_point();
	if (max <= 0 || max > N_MAX || pre_self()->n_locked || !pre_use_file(use, fd))
		return false;
	if (!use->file->set) {
		pre_use_end(use);
		return false;
	}
	if (__builtin_expect(atomic_load_explicit(&pre_n_exposed, memory_order_relaxed) > 0, 0))
		(void)pre_sets_refresh(use->file->set);
	*w = (struct wait){
		.set = use->file->set, .file = use->file, .epfd = fd, .events = events, .max = max
	};
	w->n_moves = atomic_load(&w->set->n_moves);
	return true;
}

int pre_epoll_pwait(int fd, struct epoll_event *events, int max, int msec, const sigset_t *mask)
{
	struct pre_use use;
	struct wait w;
	int ret;

	if (!begin(&w, &use, fd, events, max))
		return (int)pre_sys(pre_real.epoll_pwait(fd, events, max, msec, mask));
	w.mask = mask;
	w.deadline = pre_deadline_msec(msec);
	ret = before_kernel(&w) ? in_kernel(&w, msec, NULL) : run(&w);
	pre_use_end(&use);
	return ret;
}

int pre_epoll_wait(int fd, struct epoll_event *events, int max, int msec)
{
	return pre_epoll_pwait(fd, events, max, msec, NULL);
}

int pre_epoll_pwait2(int fd, struct epoll_event *events, int max, const struct timespec *timeout,
		     const sigset_t *mask)
{
	struct pre_use use;
	struct wait w;
	int ret;

	if (!pre_timeout_valid(timeout) || !begin(&w, &use, fd, events, max))
		return (int)pre_sys(pre_real.epoll_pwait2(fd, events, max, timeout, mask));
	w.mask = mask;
	w.fine = true;
	w.deadline = pre_deadline(timeout);
	ret = before_kernel(&w) ? in_kernel(&w, -1, timeout) : run(&w);
	pre_use_end(&use);
	return ret;
}
