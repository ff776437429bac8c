/*
 * Numbers that become somebody else's while other threads may use them.
 *
 * dup2 and the like replace what a number stands for at once, and close takes one of several
 * descriptors away. To the shim that is two steps, the kernel's and the table's. A call that comes
 * in between by the number would pass the records by, and with it the order of the bytes of a
 * connection on rings: the one that goes, or the one that comes. So the table says meanwhile that
 * the number is changing, and who comes by it waits for the one system call that this takes.
 *
 * The old file, if the number is its last one, is given a descriptor of PULC's before (linger.c):
 * calls that are inside go on with that, the kernel's call closes nothing and takes no time, and if
 * it fails everything is as it was. The thread that changes a number holds its signals back, for a
 * handler would wait for what it has interrupted; one changes at a time, for two could wait for
 * each other's.
 */
#include <time.h>

#include <pulc/process.h>

#include "change.h"
#include "epoll.h"
#include "inherit.h"
#include "process.h"
#include "rawsys.h"

#define SIZE_MASK 8 /* the kernel's sigset_t, bytes */
/* Then the one that is waited for may need this processor, and be less urgent to the kernel. */
#define N_YIELDS 16
#define NSEC_NAP 50000

static _Atomic uint32_t busy;

static void wait_a_little(unsigned n)
{
	const struct timespec nap = { .tv_nsec = NSEC_NAP };

	(void)(n < N_YIELDS ? raw_syscall(SYS_sched_yield)
			    : raw_syscall(SYS_nanosleep, &nap, NULL));
}

struct pre_file *pre_file_changed(int fd)
{
	struct pre_file *f;

	/* Whoever changes it may wait for a lock that this thread holds: a fork holds all. */
	if (pre_self()->n_locked)
		return pre_file_at(fd);
	for (unsigned n = 0; (f = pre_file_at(fd)) == &pre_file_changing; n++)
		wait_a_little(n);
	return f;
}

static void hold(struct pre_change *change)
{
	uint64_t all = ~0ull;

	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &change->signals, SIZE_MASK);
	for (unsigned n = 0; atomic_exchange(&busy, 1); n++)
		wait_a_little(n);
}

static void let_go(const struct pre_change *change)
{
	atomic_store(&busy, 0);
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &change->signals, NULL, SIZE_MASK);
}

/* Marks the number. False: no memory for its entry. */
static bool mark(struct pre_change *change)
{
	do {
		change->old = pre_file_at(change->fd);
		if (pre_file_replace(change->fd, change->old, &pre_file_changing))
			return true;
	} while (pre_file_at(change->fd) != change->old);
	return false;
}

/* What the kernel's call is going to take the number from. */
static void part(struct pre_change *change)
{
	struct pre_file *old = change->old;
	pulc_stream *s;

	if (!old || pre_file_is_standin(old))
		return;
	s = atomic_load(&old->stream);
	if (atomic_load(&old->n_fds) > 1) {
		pre_file_loses(old, change->fd);
	} else if (s && pulc_stream_attached(s) && pre_linger_begins(old, change->fd)) {
		change->lingers = true;
	} else {
		pre_file_drop(old, change->fd, true);
		change->old = NULL;
	}
}

bool pre_change_begins(struct pre_change *change, int fd)
{
	*change = (struct pre_change){ .fd = fd };
	/* A handler that has interrupted who has such a lock must not wait for who waits for it. */
	if (pre_self()->n_locked)
		return false;
	hold(change);
	if (!mark(change)) {
		let_go(change);
		return false;
	}
	part(change);
	return true;
}

static void undo(struct pre_change *change)
{
	struct pre_file *old = change->old;

	if (change->lingers)
		pre_linger_undone(old, change->fd);
	if (old && pre_file_replace(change->fd, &pre_file_changing, old))
		(void)atomic_fetch_sub(&old->n_fds, 1);
}

void pre_change_ends(struct pre_change *change, bool is_done)
{
	struct pre_file *old = change->old;

	if (!is_done)
		undo(change);
	/* The number is the kernel's alone; or it has got its new file, here or elsewhere. */
	(void)pre_file_untrack(change->fd, &pre_file_changing);
	let_go(change);
	if (!is_done || !old || pre_file_is_standin(old))
		return;
	if (!change->lingers) {
		pre_file_drop(old, change->fd, false);
	} else {
		(void)atomic_fetch_sub(&old->n_fds, 1);
		pre_linger_goes_on(old);
		pre_linger_end(old);
	}
}

/* ---- in a forked child ----------------------------------------------------------------------- */

static void settle(int fd, struct pre_file *f, void *arg)
{
	(void)arg;
	if (f != &pre_file_changing)
		return;
	if (pulc_socket_is_upgraded(fd))
		(void)pre_file_replace(fd, f, &pre_file_inherited);
	else
		(void)pre_file_untrack(fd, f);
}

/* The parent's thread that was about to change a number is not here. */
USUAL void pre_change_forked(void)
{
	if (!atomic_load(&busy))
		return;
	atomic_store(&busy, 0);
	pre_file_each(0, UINT32_MAX, settle, NULL);
}
