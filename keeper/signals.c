/*
 * Signals.
 *
 * A signal reaches every process in the group of a task. One that comes before the tasks are there
 * (the PMIx server starts, a keeper of another node has not called) is kept for them, as the kernel
 * keeps what is pending: each number once, in the order of their last coming. Tasks get them when
 * they have begun, keepers when they call.
 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "head.h"
#include "keeper.h"

struct kept_signal {
	int number;
	uint32_t only;
};

/* Its group, or, in the moment before it has made one, itself. It is not reaped: the number is its
 * own. */
static void signal_task(const struct task *task, int number)
{
	if (kill(-task->pid, number) < 0 && errno == ESRCH)
		(void)kill(task->pid, number);
}

static void deliver(struct keeper *k, int number, uint32_t only)
{
	for (uint32_t i = 0; k->tasks && i < k->n_tasks; i++)
		if (k->tasks[i].state == TASK_RUNS && (only == 0 || k->tasks[i].rank == only - 1))
			signal_task(&k->tasks[i], number);
}

static bool is_awaited(const struct keeper *k)
{
	return (k->n_tasks > 0 && !k->launched) || keeper_head_awaits_callers(k);
}

static void forget(struct keeper *k, int number, uint32_t only)
{
	for (size_t i = 0; i < k->n_signals; i++)
		if (k->signals[i].number == number && k->signals[i].only == only) {
			k->n_signals--;
			memmove(&k->signals[i], &k->signals[i + 1],
				(k->n_signals - i) * sizeof(*k->signals));
			return;
		}
}

static void keep(struct keeper *k, int number, uint32_t only)
{
	struct kept_signal *signals;

	if (number <= 0 || number > SIGRTMAX || only > k->n_ranks)
		return;
	forget(k, number, only);
	signals = reallocarray(k->signals, k->n_signals + 1, sizeof(*signals));
	if (!signals)
		keeper_fail("signals", -ENOMEM);
	signals[k->n_signals++] = (struct kept_signal){ number, only };
	k->signals = signals;
}

void keeper_signal(struct keeper *k, int number, uint32_t only)
{
	if (is_awaited(k))
		keep(k, number, only);
	deliver(k, number, only);
}

void keeper_signals_begin(struct keeper *k)
{
	for (size_t i = 0; i < k->n_signals; i++)
		deliver(k, k->signals[i].number, k->signals[i].only);
}

void keeper_signals_replay(struct keeper *k, struct channel *channel)
{
	Pulc__Job__Signal signal = PULC__JOB__SIGNAL__INIT;
	JOB_MESSAGE(msg, SIGNAL, signal) = &signal;

	for (size_t i = 0; i < k->n_signals; i++) {
		signal.number = k->signals[i].number;
		signal.only = k->signals[i].only;
		channel_put(channel, &msg);
	}
}
