/*
 * Epoll sets: their creation and end, their locks, and fork.
 *
 * The program's set is the kernel's, and stays in charge of every descriptor that is not an
 * upgraded stream. The shim remembers which TCP sockets are members (epoll_ctl.c), because an
 * upgrade moves them into the set's private half (epoll_ring.c); a set without ring members costs
 * one look.
 *
 * Locks: a file's lock covers its list of memberships, a set's lock all the rest; the file's comes
 * first. Lists of memberships change under both, so holding every set's lock across fork keeps all
 * of them whole. A signal handler that interrupts a holder and closes a member leaves the file in
 * its thread's `later` list.
 */
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include <pulc/fds.h>

#include "epoll_ctl.h"
#include "epoll_set.h"
#include "macros.h"
#include "rawsys.h"
#include "symbols.h"

_Atomic uint32_t pre_n_exposed;
_Atomic uint32_t pre_n_mute;

static LARGE void *_Atomic set_chunks[PRE_POOL_CHUNKS];
static struct pre_pool sets = PRE_POOL(struct pre_set, set_chunks);

/* The record may be an old one, whose lock a fork or a look at all sets holds. */
static void set_init(struct pre_set *set, int epfd)
{
	static const size_t start = offsetof(struct pre_set, lock) + sizeof(struct pre_lock);

	memset((char *)set + start, 0, sizeof(*set) - start);
	set->epfd = epfd;
	set->made = pre_process_generation;
	set->inner = set->inner_of_ancestor = -1;
	/* Nobody can guess it, and no program's own data will be it. */
	if (raw_syscall(SYS_getrandom, &set->tag, sizeof(set->tag), GRND_NONBLOCK) !=
	    sizeof(set->tag))
		set->tag = (uint64_t)(uintptr_t)set ^ pre_now() << 20;
}

/* NULL: no memory, or a signal handler asks that has interrupted the holder of a lock. */
static struct pre_set *set_new(int epfd)
{
	struct pre_set *set = pre_self()->n_locked == 0 ? pre_pool_get(&sets) : NULL;

	if (!set)
		return NULL;
	pre_lock(&set->lock);
	set_init(set, epfd);
	pre_set_unlock(set);
	return set;
}

/* Whoever looks at all sets finds it until then. */
USUAL void pre_set_free(struct pre_set *set)
{
	if (!set)
		return;
	pre_lock(&set->lock);
	if (set->exposed)
		(void)atomic_fetch_sub(&pre_n_exposed, 1);
	set->exposed = false;
	pre_set_note_mute(set);
	set->closed = true;
	set->waitset = pulc_waitset_free(set->waitset);
	pulc_fd_release(&set->inner);
	pulc_fd_release(&set->inner_of_ancestor);
	pre_rings_free(set);
	pre_set_unlock(set);
	pre_pool_put(&sets, set);
}

static int created(int epfd)
{
	struct pre_file *f;

	if (epfd < 0 || !pre_enabled || !pre_process_owns_table())
		return epfd;
	f = pre_file_new();
	if (!f)
		return epfd;
	f->set = set_new(epfd);
	if (!f->set || !pre_file_install(epfd, f))
		pre_file_free(f);
	return epfd;
}

int pre_epoll_create(int size)
{
	return created((int)pre_sys(pre_real.epoll_create(size)));
}

int pre_epoll_create1(int flags)
{
	return created((int)pre_sys(pre_real.epoll_create1(flags)));
}

static __attribute__((noinline)) void do_later(struct pre_thread *t)
{
	struct pre_use use;
	struct pre_file *f;

	while (t->n_locked == 0 && (f = t->later) != NULL) {
		t->later = f->next_later;
		pre_use_known(&use, f);
		atomic_store(&f->waiting, false);
		pre_file_catch_up(f);
		pre_use_end(&use);
		pre_files_reclaim();
	}
}

static inline void after_unlock(void)
{
	struct pre_thread *t = pre_self();

	if (__builtin_expect(t->later != NULL, 0))
		do_later(t);
}

void pre_set_unlock(struct pre_set *set)
{
	pre_unlock(&set->lock);
	after_unlock();
}

USUAL void pre_file_unlock(struct pre_file *f)
{
	pre_unlock(&f->lock);
	after_unlock();
}

USUAL bool pre_file_later(struct pre_file *f)
{
	struct pre_thread *t = pre_self();

	if (__builtin_expect(t->n_locked == 0, 1))
		return false;
	if (!atomic_exchange(&f->waiting, true)) {
		f->next_later = t->later;
		t->later = f;
	}
	return true;
}

/* What made the kernel's object ready may have been served by rings meanwhile. Under the lock. */
static void make_true(struct pre_set *set)
{
	if (!set->exposed || !atomic_load(&set->has_rings))
		return;
	pre_set_own(set);
	pre_set_hear(set);
	pre_set_hand_over(set);
}

bool pre_sets_refresh(const struct pre_set *except)
{
	struct pre_set *set;
	bool mute = false;

	for (uint32_t i = 0; (set = pre_pool_at(&sets, i)) != NULL; i++) {
		if (set == except)
			continue;
		pre_lock(&set->lock);
		make_true(set);
		/* Another set would not be told by the kernel of one that is shared. */
		mute |= pre_set_is_mute(set) && !(except && pre_set_inherited(set));
		pre_set_unlock(set);
	}
	return mute;
}

uint64_t pre_sets_patience(const struct pre_set *outer, uint64_t nsec)
{
	if (__builtin_expect(atomic_load_explicit(&pre_n_mute, memory_order_relaxed) == 0, 1) ||
	    (outer && !atomic_load(&outer->has_nested)) || pre_self()->n_locked ||
	    !pre_sets_refresh(outer) || nsec < PRE_NSEC_UNSURE)
		return nsec;
	return PRE_NSEC_UNSURE;
}

static bool has_more(const struct pre_set *set)
{
	return atomic_load(&set->has_rings) || atomic_load(&set->has_nested);
}

/* Under the lock. */
static void expose(struct pre_set *set)
{
	if (!set->exposed)
		(void)atomic_fetch_add(&pre_n_exposed, 1);
	set->exposed = true;
	/* Without a bell its word would not be heard. */
	if ((!set->waitset || pre_set_is_ancestors(set)) && atomic_load(&set->has_rings)) {
		pulc_waitset_expect();
		pre_set_prepare(set);
	}
	make_true(set);
}

/* Nobody who waits for the set itself has to hear its bell any more. Under the lock. */
static void cover(struct pre_set *set)
{
	if (!set->exposed)
		return;
	set->exposed = false;
	pre_set_note_mute(set);
	(void)atomic_fetch_sub(&pre_n_exposed, 1);
	if (set->n_asleep == 0 && atomic_load(&set->n_native) == 0 && set->waitset &&
	    !pre_set_is_ancestors(set))
		pulc_waitset_disarm(set->waitset);
}

bool pre_set_expose(struct pre_set *set)
{
	if (pre_self()->n_locked)
		return false;
	if (atomic_load(&set->has_nested))
		(void)pre_sets_refresh(set);
	pre_lock(&set->lock);
	atomic_store(&set->polled, true);
	expose(set);
	pre_set_unlock(set);
	return has_more(set) || !__libc_single_threaded;
}

static bool is_asked_for(const struct pre_file *f)
{
	for (const struct pre_member *m = f->members; m; m = m->next_of_file)
		if (m->events & PRE_NESTED_ASKS)
			return true;
	return false;
}

void pre_set_expose_member(struct pre_file *f)
{
	bool asked;

	if (atomic_load(&f->set->has_nested))
		(void)pre_sets_refresh(f->set);
	pre_lock(&f->lock);
	asked = is_asked_for(f);
	pre_lock(&f->set->lock);
	if (asked || atomic_load(&f->set->polled))
		expose(f->set);
	else
		cover(f->set);
	pre_set_unlock(f->set);
	pre_file_unlock(f);
}

/* Asks under the lock: whoever makes it truthful at the same time takes its word away for a
 * moment. */
void pre_set_believe(struct pre_set *set, struct pollfd *said)
{
	struct timespec now = { 0 };

	if (pre_self()->n_locked || !has_more(set))
		return;
	if (atomic_load(&set->has_nested))
		(void)pre_sets_refresh(set);
	pre_lock(&set->lock);
	make_true(set);
	(void)raw_syscall(SYS_ppoll, said, 1, &now);
	if (pre_set_is_mute(set) && pre_set_inherited(set) && pre_ready_settle(set))
		said->revents |= said->events & (short)PRE_NESTED_ASKS;
	pre_set_unlock(set);
}

/* A handler that forks while its thread holds a lock: the records are its own to be careful with.
 * Sets that are made meanwhile are no matter of this fork. */
USUAL void pre_epoll_fork_begin(void)
{
	struct pre_thread *t = pre_self();
	struct pre_set *set;
	uint32_t n;

	if (t->n_locked) {
		t->n_forks_bare++;
		return;
	}
	for (n = 0; (set = pre_pool_at(&sets, n)) != NULL; n++) {
		pre_lock(&set->lock);
		pre_set_forks(set);
	}
	t->n_sets_locked = n;
}

USUAL void pre_epoll_fork_done(void)
{
	struct pre_thread *t = pre_self();
	uint32_t n = t->n_sets_locked;

	if (t->n_forks_bare) {
		t->n_forks_bare--;
		return;
	}
	t->n_sets_locked = 0;
	for (uint32_t i = 0; i < n; i++)
		pre_set_unlock(pre_pool_at(&sets, i));
}

USUAL void pre_epoll_forked(void)
{
	struct pre_thread *t = pre_self();
	struct pre_set *set;

	if (t->n_forks_bare) {
		t->n_forks_bare--;
	} else {
		t->n_locked -= t->n_sets_locked;
		t->n_sets_locked = 0;
	}
	pre_files_forked();
	for (uint32_t i = 0; (set = pre_pool_at(&sets, i)) != NULL; i++) {
		pre_lock_reset(&set->lock);
		set->n_asleep = 0;
		atomic_store(&set->n_native, 0);
		atomic_store(&set->spinning, false);
	}
}
