/*
 * Children that fork() does not make: by clone(), _Fork(), and the system calls themselves. And
 * fork()'s failure, of which it tells nobody else.
 *
 * One with memory of its own is told of as fork()'s, before, in the parent, and in the child before
 * it goes on (process.c); who is to wait for it does so afterwards (awaited.c). Where the child
 * goes on elsewhere than here (a raw call with a stack for it, or with another thread's variables)
 * it finds out at its first call that asks whose records these are.
 *
 * One in its parent's memory that has descriptors of its own, as those who start programs make it,
 * is no matter of ours: what it closes is not the parent's. But one that shares its descriptors,
 * without being a thread that libc has made, closes and opens what another's records are about, and
 * so does a thread that takes a copy of them (unshare, close_range). From then on nothing that is
 * known of a number holds: such a program is left alone (aside.c).
 */
#include <errno.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/single_threaded.h>

#include <pulc/process.h>

#include "awaited.h"
#include "data.h"
#include "process.h"
#include "rawsys.h"
#include "symbols.h"

#define N_ARGUMENTS 6

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
	pid_t pid;

	if (pre_enabled)
		pulc_fork_will_be_told();
	pid = pre_real.fork();
	if (pid != 0 && pre_enabled)
		pulc_fork_told(pid);
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

/* After the call: in the parent, and in a child that comes back here. */
static void made(struct pre_awaited *awaited, long pid)
{
	if (pid != 0)
		pre_awaited_made(awaited);
	pre_process_forked(pid);
	if (pid != 0)
		pre_awaited_wait(awaited);
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
	struct pre_awaited *awaited;
	int pid;

	if (!run || !stack || !is_child((uint64_t)(unsigned)flags))
		return (int)pre_sys(
			pre_real.clone(run, stack, flags, arg, parent_tid, tls, child_tid));
	pre_process_forking();
	awaited = pre_awaited_begin((uint64_t)(unsigned)flags);
	if (awaited)
		flags &= ~CLONE_VFORK;
	if (flags & CLONE_SETTLS)
		pid = (int)pre_sys(
			pre_real.clone(run, stack, flags, arg, parent_tid, tls, child_tid));
	else
		pid = (int)pre_sys(
			pre_real.clone(begin, stack, flags, &child, parent_tid, tls, child_tid));
	made(awaited, pid);
	return pid;
}

/* What threads alone may not do changes nothing for who is the only one. libc does not count down,
 * and a forked child has its parent's word for it. */
static bool has_threads(void)
{
	return !__libc_single_threaded && raw_syscall(SYS_unshare, CLONE_THREAD) < 0;
}

void pre_process_unshares(void)
{
	if (pre_enabled && has_threads() && pre_process_owns_table())
		pre_step_aside();
}

int pre_unshare(int flags)
{
	if (flags & CLONE_FILES)
		pre_process_unshares();
	return (int)pre_sys(pre_real.unshare(flags));
}

/* ---- the system calls themselves ------------------------------------------------------------- */

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

/* The same call without CLONE_VFORK; args: room for those of clone3. */
static void without_waiting(long number, const long *a, long *ret_a, struct clone_args *args)
{
	memcpy(ret_a, a, N_ARGUMENTS * sizeof(*a));
	if (number == SYS_clone) {
		ret_a[0] &= ~(long)CLONE_VFORK;
		return;
	}
	memcpy(args, (const void *)a[0], (size_t)a[1]);
	args->flags &= ~(uint64_t)CLONE_VFORK;
	ret_a[0] = (long)args;
}

/* Arguments of clone3 that later kernels have are not known here. */
static bool can_change(long number, const long *a)
{
	return number == SYS_clone ||
	       (number == SYS_clone3 && (size_t)a[1] <= sizeof(struct clone_args) &&
		!pre_is_bad((const void *)a[0], (size_t)a[1]));
}

bool pre_route_clone(long number, const long *given, long *ret_answer)
{
	struct pre_awaited *awaited = NULL;
	long changed[N_ARGUMENTS];
	const long *a = given;
	struct clone_args args;
	struct call call;

	if (!is_clone(number, given, &call) || !is_child(call.flags))
		return false;
	pre_process_forking();
	if (can_change(number, given))
		awaited = pre_awaited_begin(call.flags);
	if (awaited) {
		without_waiting(number, given, changed, &args);
		a = changed;
	}
	if (call.goes_elsewhere || (call.flags & CLONE_SETTLS))
		*ret_answer = pre_sys(pre_real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]));
	else
		*ret_answer = raw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (*ret_answer || !(call.flags & CLONE_SETTLS))
		made(awaited, *ret_answer);
	return true;
}
