/*
 * fork and its relatives.
 *
 * A forked child has a copy of all records; the files, their streams and epoll sets stay valid,
 * since libpulc keeps what two processes share in shared memory. What has to change: other threads'
 * records, locks that they held, and everything of an epoll set that belongs to one process
 * (epoll_set.c rebuilds it when the generation has changed). In parent and child, all files are
 * from now on shared.
 *
 * fork() tells through pthread_atfork, clone() and the like through clone.c. A page that the kernel
 * empties in every child with memory of its own (MADV_WIPEONFORK) tells those that nobody told of
 * from a child in its parent's memory (vfork, posix_spawn), which finds the page intact but another
 * pid. Such a child changes nothing here: its descriptors are not the parent's.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include <pulc/process.h>

#include "awaited.h"
#include "change.h"
#include "epoll.h"
#include "file.h"
#include "inherit.h"
#include "macros.h"
#include "process.h"
#include "rawsys.h"
#include "symbols.h"
#include "thread.h"
#include "wait.h"

#define SIZE_PAGE 4096
/* A child needs less than this for its first steps and a short answer. */
#define NSEC_TURN (500 * PRE_NSEC_PER_USEC)
#define N_TO_SKIP_MAX 63

OFTEN uint32_t pre_process_generation = 1;

/* The pid that made or last brought up to date the records; 0 in a child that has not done so. */
static _Atomic int fallback = 1;
static _Atomic int *owner = &fallback;

static OFTEN struct {
	unsigned n_skipped, n_to_skip;
} turn;

/*
 * A server forks for a connection: the child has somebody to answer, and what its parent does next
 * (closing its copy, waiting for the next one) fits into the time in which the answer is read.
 * Where others want this processor as well, which shows in how long it takes until we have it back,
 * the parent keeps its turn the next 1, 3, 7 ... times.
 */
USUAL static void child_goes_first(void)
{
	uint64_t before;

	if (turn.n_skipped < turn.n_to_skip) {
		turn.n_skipped++;
		return;
	}
	before = pre_now();
	(void)raw_syscall(SYS_sched_yield);
	turn.n_skipped = 0;
	turn.n_to_skip = pre_now() - before < NSEC_TURN	  ? 0
			 : turn.n_to_skip < N_TO_SKIP_MAX ? 2 * turn.n_to_skip + 1
							  : turn.n_to_skip;
}

/* Was this process forked with a connection that it serves in its parent's place? */
static OFTEN bool serves_for_parent;

USUAL static void find_open(int fd, struct pre_file *f, void *arg)
{
	bool *open = arg;

	(void)fd;
	*open |= pre_file_is_inherited(f) || (!pre_file_is_standin(f) && atomic_load(&f->stream));
}

/*
 * Such a child ends when its client has closed, who often connects anew at once: whoever forked the
 * child has the next one to answer, which may be read while the kernel takes this process apart.
 * Not where others want the processor as well, which the parent has found out, not if a connection
 * is still open, whose client would wait for its end, and not after a longer connection: the next
 * one is as long, and would find this processor wanted when it spins.
 */
USUAL static void parent_goes_first(void)
{
	bool open = false;

	if (!serves_for_parent || pre_aside || turn.n_to_skip || pulc_process_attached())
		return;
	pre_file_each(0, UINT32_MAX, find_open, &open);
	if (!open)
		(void)raw_syscall(SYS_sched_yield);
}

/* Says in *arg if it is a connection that the kernel serves. */
USUAL static void mark_shared(int fd, struct pre_file *f, void *arg)
{
	bool *serves = arg;
	struct pre_use use;

	if (!pre_use_shared(&use, fd, f))
		return;
	*serves |= use.stream && !pulc_stream_attached(use.stream);
	pre_use_end(&use);
}

/* Files are marked before, for who writes to them afterwards copies their pages; then those that
 * are made meanwhile. */
USUAL static void fork_begins(void)
{
	bool serves = false;

	pre_epoll_fork_begin();
	pre_file_each(0, UINT32_MAX, mark_shared, &serves);
}

USUAL static void forked_parent(void)
{
	bool serves = false;

	pre_epoll_fork_done();
	pre_file_each(0, UINT32_MAX, mark_shared, &serves);
	if (serves)
		child_goes_first();
}

USUAL static void forked_child(void)
{
	bool serves = false;

	if (pre_aside)
		return;
	atomic_store(owner, (int)raw_syscall(SYS_getpid));
	pre_process_generation++;
	pre_thread_forked();
	pre_change_forked();
	pre_epoll_forked();
	pre_inherit_forked();
	pre_linger_forked();
	pre_awaited_forked();
	pre_file_each(0, UINT32_MAX, mark_shared, &serves);
	serves_for_parent = serves;
}

void pre_process_forking(void)
{
	pre_epoll_fork_begin();
	pulc_fork_begins();
}

void pre_process_forked(long pid)
{
	if (pid == 0) {
		pulc_forked();
		forked_child();
		return;
	}
	pulc_fork_done((int)pid);
	if (pid < 0)
		pre_epoll_fork_done();
	else
		forked_parent();
}

void pre_process_start(void)
{
	long page = raw_syscall(SYS_mmap, NULL, SIZE_PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (page > 0 && raw_syscall(SYS_madvise, page, SIZE_PAGE, MADV_WIPEONFORK) == 0)
		owner = (_Atomic int *)page;
	atomic_store(owner, (int)raw_syscall(SYS_getpid));
	(void)pre_thread_start();
	(void)pthread_atfork(fork_begins, forked_parent, forked_child);
	pre_epoll_start();
}

USUAL void pre_process_notice_fork(void)
{
	if (__builtin_expect(atomic_load_explicit(owner, memory_order_relaxed) == 0, 0) &&
	    !pre_aside)
		pre_process_forked(0);
}

USUAL bool pre_process_owns_table(void)
{
	pre_process_notice_fork();
	return atomic_load_explicit(owner, memory_order_relaxed) == (int)raw_syscall(SYS_getpid);
}

int pre_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr, pre_thread_main *run,
		       void *arg)
{
	if (pre_enabled && __libc_single_threaded)
		pulc_process_threads();
	return pre_real.pthread_create(ret_thread, attr, run, arg);
}

USUAL void pre__exit(int status)
{
	pulc_process_ends();
	parent_goes_first();
	pre_real._exit(status);
	(void)raw_syscall(SYS_exit_group, status);
}

static __attribute__((destructor)) void end(void)
{
	parent_goes_first();
}
