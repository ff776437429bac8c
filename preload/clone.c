/*
 * Children that fork() does not make: by clone(), _Fork(), and the system calls themselves. And fork()'s failure, of which it tells nobody else.
 *
 * One with memory of its own is told of as fork()'s, before, in the parent, and in the child before it goes on (process.c). Where the child goes on
 * elsewhere than here (a raw call with a stack for it, or with another thread's variables) it finds out at its first call that
 * asks whose records these are.
 *
 * One in its parent's memory that has descriptors of its own, as those who start programs make it, is no matter of ours: what it closes is not the
 * parent's. But one that shares its descriptors, without being a thread that libc has made, closes and opens what another's records are about, and so does a
 * thread that takes a copy of them. From then on nothing that is known of a number holds: such a program is left alone (aside.c).
 */
#include <errno.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/single_threaded.h>

#include <pulc/process.h>

#include "data.h"
#include "process.h"
#include "rawsys.h"
#include "symbols.h"

/* Is there something to do for such a child? Leaves the program alone, if there is no other way. */
static bool is_child(uint64_t flags)
{
	if (!pre_enabled)
		return false;
	if (flags & (CLONE_FILES | CLONE_THREAD)) {
		if (pre_process_owns_table())
			pre_step_aside();
		return false;
	}
	return !(flags & CLONE_VM);
}

pid_t pre_fork(void)
{
	pid_t pid = pre_real.fork();

	if (pid < 0 && pre_enabled)
		pulc_fork_failed();
	return pid;
}

pid_t pre__Fork(void)
{
	pid_t pid;

	if (!is_child(0))
		return pre_real._Fork();
	pre_process_forking();
	pid = pre_real._Fork();
	pre_process_forked(pid);
	return pid;
}

struct child {
	pre_clone_main *run;
	void *arg;
};

/* In memory that is the child's own by now. */
static int begin(void *arg)
{
	const struct child child = *(const struct child *)arg;

	pre_process_forked(0);
	return child.run(child.arg);
}

int pre_clone(pre_clone_main *run, void *stack, int flags, void *arg, pid_t *parent_tid, void *tls,
	      pid_t *child_tid)
{
	struct child child = { run, arg };
	int pid;

	if (!run || !stack || !is_child((uint64_t)(unsigned)flags))
		return (int)pre_sys(
			pre_real.clone(run, stack, flags, arg, parent_tid, tls, child_tid));
	pre_process_forking();
	if (flags & CLONE_SETTLS)
		pid = (int)pre_sys(
			pre_real.clone(run, stack, flags, arg, parent_tid, tls, child_tid));
	else
		pid = (int)pre_sys(
			pre_real.clone(begin, stack, flags, &child, parent_tid, tls, child_tid));
	pre_process_forked(pid);
	return pid;
}

int pre_unshare(int flags)
{
	if ((flags & CLONE_FILES) && pre_enabled && !__libc_single_threaded &&
	    pre_process_owns_table())
		pre_step_aside();
	return (int)pre_sys(pre_real.unshare(flags));
}

/* ---- the system calls themselves ------------------------------------------------------------------ */

struct call {
	uint64_t flags;
	bool goes_elsewhere; /* with its child's stack: that does not come back here */
};

/* False: none of those that make children, or an invalid one. */
static bool is_clone(long number, const long *a, struct call *ret_call)
{
	struct clone_args args;

	switch (number) {
	case SYS_clone:
		*ret_call = (struct call){ (uint64_t)a[0], a[1] != 0 };
		return true;
	case SYS_clone3:
		if ((size_t)a[1] < CLONE_ARGS_SIZE_VER0 ||
		    pre_is_bad((const void *)a[0], CLONE_ARGS_SIZE_VER0))
			return false;
		memcpy(&args, (const void *)a[0], CLONE_ARGS_SIZE_VER0);
		*ret_call = (struct call){ args.flags, args.stack != 0 };
		return true;
#ifdef SYS_fork
	case SYS_fork:
		*ret_call = (struct call){ 0, false };
		return true;
#endif
	default:
		return false;
	}
}

bool pre_route_clone(long number, const long *a, long *ret_answer)
{
	struct call call;

	if (!is_clone(number, a, &call) || !is_child(call.flags))
		return false;
	pre_process_forking();
	if (call.goes_elsewhere || (call.flags & CLONE_SETTLS))
		*ret_answer = pre_sys(pre_real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]));
	else
		*ret_answer = raw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (*ret_answer || !(call.flags & CLONE_SETTLS))
		pre_process_forked(*ret_answer);
	return true;
}
