/*
 * fork: two processes, one family.
 *
 * Rings and the state of a side are shared mappings and go on working in the child at once. What
 * belongs to a process alone does not: its channel, its number, its boards and bells, its thread
 * id. The child drops them and becomes a client of its own when it first needs psid. Upgraded
 * connections gain a holder before the fork, so that the count is never too low; sockets not yet
 * upgraded are entered in the nursery under the child's id.
 *
 * Libc's fork tells of itself (pthread_atfork), but not whether it has failed, which the shim does,
 * and tells of other children with memory of their own. One of which nobody has told says so when
 * it finds that out: too late to be counted before its parent closes, but not to be taken for its
 * parent.
 *
 * Not seen here: vfork and posix_spawn. Their children live in the parent's memory, and leave
 * psid's channel to it (client_is_borrowed).
 *
 * Source: pulc-1998, 4.6.3 (fork: both sockets share the port, its count is incremented).
 */
#include <pthread.h>
#include <sys/single_threaded.h>

#include <pulc/process.h>

#include "datagram.h"
#include "lock.h"
#include "log.h"
#include "macros.h"
#include "native.h"
#include "private.h"
#include "rawsys.h"

USUAL static void enter_child(struct pulc_stream *s)
{
	s->handler->forked(s);
}

static OFTEN bool locked;
static OFTEN bool
	/* with the lock: the child of a fork is counted, or this is it and has not been told */
	announced;
static DATA_END char before_bss = 1;

/* Forks that have counted a child (client lock); which of them was this thread's last one, 0: that
 * has not. */
static OFTEN uint64_t n_counted;
static __thread uint64_t counted __attribute__((tls_model("initial-exec")));
/* This thread's next fork is one whose answer it will tell. */
static __thread bool tells __attribute__((tls_model("initial-exec")));

/* Under the client lock, or in the child. */
USUAL static void add_holder(void)
{
	slabs_forking();
	stream_list_each_datagram(datagram_forking);
}

USUAL static void before(void)
{
	bool is_told = tells;

	tells = false;
	native_forking();
	locked = !client_is_confined() && client_lock();
	counted = locked ? ++n_counted : 0;
	if (!locked)
		return;
	announced = true;
	/* A psid that ended unnoticed, and the child's numbers would be void. */
	client_glance();
	add_holder();
	nursery_fork_begins(is_told);
}

/* There is no child, of whom the last fork was. Under the client lock. */
static void take_back_holder(void)
{
	slabs_fork_failed();
	stream_list_each_datagram(datagram_fork_failed);
	nursery_fork_done();
}

USUAL static void in_parent(void)
{
	announced = false;
	if (locked)
		client_unlock();
	native_fork_done();
}

/* Descriptors that we shall need pass through the lowest number now, while nobody looks. */
static void prepare(void)
{
	client_prepare();
	waitset_prepare();
}

PULC_EXPORT void pulc_process_threads(void)
{
	/* With the lock no signal handler comes in between. */
	if (client_is_confined() || !client_lock())
		return;
	prepare();
	client_unlock();
}

USUAL static void enter(int pid)
{
	signals_forked();
	leave_forked(client_pid());
	client_forked(pid);
	waitset_forked();
	datagram_kernel_forked();
	stream_list_each(enter_child);
	native_forked();
	if (locked)
		nursery_fork_done();
	nursery_settle();
	announced = false;
	/* Most children end, or have their few connections closed, before they need any. */
	if (!__libc_single_threaded)
		prepare();
}

USUAL static void in_child(void)
{
	nursery_forked();
	if (client_is_confined())
		return;
	/* Now: a sandbox may come before the first lock, and forbid what this asks the kernel. */
	enter(shm_self_forked());
}

/* ---- children that libc does not tell of ----------------------------------------------------- */

USUAL PULC_EXPORT void pulc_fork_will_be_told(void)
{
	tells = true;
}

PULC_EXPORT void pulc_fork_begins(void)
{
	tells = true;
	before();
}

PULC_EXPORT void pulc_fork_done(int pid)
{
	if (pid < 0 && locked)
		take_back_holder();
	else if (locked)
		nursery_fork_told(pid);
	in_parent();
}

USUAL PULC_EXPORT void pulc_fork_told(int pid)
{
	if (!counted || client_is_confined())
		return;
	nursery_fork_told(pid);
	if (LIKELY(pid > 0) || !client_lock())
		return;
	/* After a later one nobody knows any more what this one has counted. */
	if (counted == n_counted)
		take_back_holder();
	counted = 0;
	client_unlock();
}

PULC_EXPORT void pulc_forked(void)
{
	int pid;

	nursery_forked();
	if (client_is_confined())
		return;
	pid = shm_self_cloned();
	if (!announced) {
		locked = false;
		add_holder();
	}
	enter(pid);
}

/* Before the shim, where both are one library: its handlers of a fork come before ours, and after
 * them in the child. */
static __attribute__((constructor(101))) void start(void)
{
	pulc_log_init();
	prepare();
	(void)pthread_atfork(before, in_parent, in_child);
}
