/*
 * Killing.
 *
 * With a cgroup one write takes every process in it, forks under way and setsid'ed ones included.
 * Without one the keeper is the subreaper: whatever the tasks started descends from it, so the tree
 * is read from /proc and killed through pidfds, again and again until no child is left: what a dead
 * process leaves behind becomes our child. A process that does not go (it hangs in the kernel) is
 * given SEC_PATIENCE, and then named to the owner and left: a task counts as killed then, and what
 * stands in the pipes is the rest of what was said.
 */
#include "kill.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "descendants.h"
#include "keeper.h"
#include "macros.h"
#include "owner.h"
#include "reap.h"
#include "task.h"

#define MSEC_AGAIN 20
#define SEC_PATIENCE 10

void keeper_kill_open(struct keeper *k)
{
	k->kill_fd = -EBADF;
	if (k->cgroup_fd >= 0)
		k->kill_fd = openat(k->cgroup_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
}

static void on_again(uv_timer_t *timer);

static void kill_once(struct keeper *k)
{
	if (k->kill_fd < 0 || write(k->kill_fd, "1", 1) != 1)
		descendants_kill(getpid(), keeper_helpers(k));
	(void)uv_timer_start(&k->kill_timer, on_again, MSEC_AGAIN, 0);
}

static void on_again(uv_timer_t *timer)
{
	struct keeper *k = CONTAINER_OF(timer, struct keeper, kill_timer);

	if (k->childless)
		return;
	if (++k->n_kills * MSEC_AGAIN > SEC_PATIENCE * 1000u) {
		keeper_say(k, "some processes of the job can't be killed; they are left behind");
		keeper_tasks_leave(k);
		keeper_all_gone(k);
		return;
	}
	kill_once(k);
}

/* When nothing is left, as after the end of every job, there is nothing to look for in the process
 * tree. */
void keeper_kill(struct keeper *k)
{
	if (k->killing || k->childless)
		return;
	k->killing = true;
	keeper_tasks_cancel(k);
	kill_once(k);
}
