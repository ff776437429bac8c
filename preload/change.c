/*
 * Numbers that become somebody else's while other threads may use them.
 *
 * To the shim dup2 and close are two steps, the table's and the kernel's. A call that came in
 * between by the number would pass the rings by, and with it the order of a connection's bytes. So
 * the table says meanwhile that the number is changing, and who comes by it waits. After that it
 * says that the number was closed, if that is so, until somebody has it again: who found nothing
 * there would call the kernel by the number, which may be a connection's by then.
 *
 * Calls that came before are inside the old file and go on with another descriptor of it, but may
 * be about to use the number. They end, or sleep, in a moment, which is waited for. One in a call
 * of the kernel's own is not told from one that is about to make it, so this has an end.
 *
 * No wait here is for ever: a signal handler may have left a change by longjmp, or run in the
 * midst of one. Nobody waits for a change of his own.
 *
 * A number that nobody here knew of, be it closed or a file's, and that dup2 makes a connection's,
 * leaves the moment between a look into the table and the kernel's call.
 */
#include <fcntl.h>
#include <time.h>

#include <pulc/process.h>

#include "change.h"
#include "file.h"
#include "rawsys.h"

/* First yields, then naps, for the one that is waited for may need this processor. */
#define N_YIELDS 16
#define NSEC_NAP 50000
#define N_WAITS_CHANGE 20000 /* one or two seconds: a close may have bytes to see off */
#define N_WAITS_INSIDE 400   /* 20 to 40 ms: a thread that has to wait for a processor */

/* Of dup2, which looks at one number and changes another, there is one at a time. */
static _Atomic bool busy;
static _Atomic uint32_t n_changes;

static void wait_a_little(unsigned n)
{
	const struct timespec nap = { .tv_nsec = NSEC_NAP };

	(void)(n < N_YIELDS ? raw_syscall(SYS_sched_yield)
			    : raw_syscall(SYS_nanosleep, &nap, NULL));
}

/* Whoever changes it may need a lock that this thread holds, or be what a handler in this thread
 * has interrupted. */
static bool may_wait(int fd)
{
	return !pre_self()->n_locked && pre_self()->changing != fd + 1;
}

static bool is_open(int fd)
{
	return raw_syscall(SYS_fcntl, fd, F_GETFD) >= 0;
}

/* Somebody seems to have it again whom we do not know. It does not change while that is looked at:
 * it may have been a connection's in between. */
static void look_again(int fd)
{
	struct pre_thread *self = pre_self();
	int before = self->changing;

	self->changing = fd + 1;
	if (pre_file_replace(fd, &pre_file_gone, &pre_file_changing) &&
	    (is_open(fd) || !pre_file_replace(fd, &pre_file_changing, &pre_file_gone)))
		(void)pre_file_untrack(fd, &pre_file_changing);
	self->changing = before;
}

struct pre_file *pre_file_changed(int fd)
{
	struct pre_file *f;

	for (unsigned n = 0; pre_file_is_unsettled(f = pre_file_at(fd)); n++) {
		if (!is_open(fd)) {
			if (pre_file_at(fd) == f)
				return &pre_file_gone;
		} else if (f == &pre_file_gone) {
			look_again(fd);
		} else if (n < N_WAITS_CHANGE && may_wait(fd)) {
			wait_a_little(n);
		} else {
			/* The best that can be done. */
			if (n >= N_WAITS_CHANGE)
				(void)pre_file_untrack(fd, f);
			return NULL;
		}
	}
	return f;
}

/* Calls that are inside by the number come out, or sleep. */
static void await_inside(const struct pre_file *f)
{
	if (pre_self()->n_locked)
		return;
	for (unsigned n = 0; n < N_WAITS_INSIDE && pre_thread_others_awake(f); n++)
		wait_a_little(n);
}

/* Marks the number; what stood there. */
static struct pre_file *mark(int fd)
{
	struct pre_file *f;

	for (unsigned n = 0;; n++) {
		f = pre_file_at(fd);
		if (f == &pre_file_changing && n < N_WAITS_CHANGE && may_wait(fd))
			wait_a_little(n);
		else if (f == &pre_file_changing || pre_file_replace(fd, f, &pre_file_changing))
			return f;
	}
}

static bool is_on_rings(int fd)
{
	struct pre_use use;
	bool on_rings;

	if (!pre_file_at(fd))
		return false;
	/* One that nobody has used yet is taken up for no close. */
	if (pre_file_is_inherited(pre_file_at(fd)))
		return true;
	if (!pre_use_stream(&use, fd))
		return false;
	on_rings = pulc_stream_attached(use.stream);
	pre_use_end(&use);
	return on_rings;
}

static void await_turn(int fd)
{
	for (unsigned n = 0; atomic_exchange(&busy, true) && n < N_WAITS_CHANGE && may_wait(fd);
	     n++)
		wait_a_little(n);
}

bool pre_change_begins(int fd, int source)
{
	struct pre_file *old;
	struct pre_use use;

	if (__libc_single_threaded || pre_self()->changing || !pre_file_is_trackable(fd) ||
	    !(is_on_rings(fd) || is_on_rings(source)))
		return false;
	if (source >= 0)
		await_turn(fd);
	(void)atomic_fetch_add(&n_changes, 1);
	pre_self()->changing = fd + 1;
	old = mark(fd);
	if (!old || pre_file_is_standin(old))
		return true;
	pre_use_known(&use, old);
	pre_file_drop(old, fd, true);
	await_inside(old);
	pre_use_end(&use);
	return true;
}

void pre_change_ends(int fd, int source)
{
	pre_self()->changing = 0;
	(void)pre_file_replace(fd, &pre_file_changing, &pre_file_gone);
	if (source >= 0)
		atomic_store(&busy, false);
	if (atomic_load(&n_changes))
		(void)atomic_fetch_sub(&n_changes, 1);
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

USUAL void pre_change_forked(void)
{
	if (!atomic_load(&n_changes))
		return;
	atomic_store(&n_changes, 0);
	atomic_store(&busy, false);
	pre_file_each(0, UINT32_MAX, settle, NULL);
	pre_files_recount();
}
