/*
 * Children that their parent waits for (CLONE_VFORK) and that have memory of their own.
 *
 * The kernel would have the parent's thread wait inside the call that makes them. But the locks of
 * a fork (process.c) are held around that call, for the child's copy of what they protect has to be
 * whole; and the other threads would wait for them until the child has executed a program or ended,
 * which may be waiting for what they do.
 *
 * So where there are other threads the kernel is not asked to wait. The parent waits by itself,
 * when it has left the locks, at a pipe whose other end only the child has: executing a program
 * closes it, and so does its end. A child's own children let it go.
 *
 * What differs: signal handlers may run in the waiting thread before, and a child that closes all
 * descriptors by instructions of its own is not waited for any longer.
 */
#include "awaited.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/single_threaded.h>

#include <pulc/fds.h>

#include "macros.h"
#include "rawsys.h"

/* At a time. For more the kernel waits. */
#define N_AWAITED 8

struct pre_awaited {
	_Atomic bool used;
	int parents, childs; /* ends of the pipe */
};

static struct pre_awaited all[N_AWAITED] = {
	[0 ... N_AWAITED - 1] = { .parents = -1, .childs = -1 },
};
/* Of the child that is being made, or was: not of others that are made meanwhile. */
static struct pre_awaited *own;

static struct pre_awaited *take(void)
{
	bool used;

	for (unsigned i = 0; i < N_AWAITED; i++) {
		used = false;
		if (atomic_compare_exchange_strong(&all[i].used, &used, true))
			return &all[i];
	}
	return NULL;
}

static void leave(struct pre_awaited *w)
{
	pulc_fd_release(&w->parents);
	pulc_fd_release(&w->childs);
	atomic_store(&w->used, false);
}

static int make_pipe(struct pre_awaited *w)
{
	int ends[2], e = (int)raw_syscall(SYS_pipe2, ends, O_CLOEXEC, 0, 0, 0, 0);

	if (e < 0)
		return e;
	w->parents = ends[0];
	w->childs = ends[1];
	e = pulc_fd_adopt(&w->parents);
	return pulc_fd_adopt(&w->childs) < 0 ? -EMFILE : e;
}

struct pre_awaited *pre_awaited_begin(uint64_t flags)
{
	struct pre_awaited *w = NULL;

	if ((flags & CLONE_VFORK) && !__libc_single_threaded)
		w = take();
	if (w && make_pipe(w) < 0) {
		leave(w);
		w = NULL;
	}
	own = w;
	return w;
}

void pre_awaited_made(struct pre_awaited *w)
{
	own = NULL;
	if (w)
		pulc_fd_release(&w->childs);
}

void pre_awaited_wait(struct pre_awaited *w)
{
	char byte;

	if (!w)
		return;
	while (raw_syscall(SYS_read, w->parents, &byte, 1, 0, 0, 0) == -EINTR)
		;
	leave(w);
}

/* Nothing is written without need: it would be one more page that a child copies. */
USUAL void pre_awaited_forked(void)
{
	for (unsigned i = 0; i < N_AWAITED; i++) {
		if (LIKELY(!atomic_load(&all[i].used)))
			continue;
		pulc_fd_release(&all[i].parents);
		if (&all[i] == own)
			continue;
		pulc_fd_release(&all[i].childs);
		atomic_store(&all[i].used, false);
	}
	if (UNLIKELY(own != NULL))
		own = NULL;
}
