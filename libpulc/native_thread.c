/*
 * The progress thread, for a program that computes while its messages are under way. It begins and
 * ends by pulc_progress_thread alone.
 *
 * It does what a thread of the program would do that waits for something that never comes: makes
 * progress, and sleeps until a peer, psid or another thread has something new. Peers wake it for
 * room as well as for frames, so a long send goes on when its receiver has read. It takes the lock
 * like anybody and never while it sleeps. What it completes is told as ever: events are counted,
 * and sleepers of the program woken. It never spins: it would do so on the processor that the
 * program computes on. For the same reason peers don't wake it for what it has no work with: that a
 * message was fetched out of this process's memory is seen when the program looks.
 *
 * It blocks signals, which are the program's threads' to take, and leaves those open that glibc
 * needs in every thread.
 *
 * Source: pulc-1998, 4.7 (progress is made by who calls; this one calls on the program's behalf).
 */
#include <errno.h>
#include <pthread.h>

#include <pulc/signals.h>

#include "macros.h"
#include "native.h"
#include "rawsys.h"

/* All under the lock. */
static enum { NONE, BEGINS, RUNS, ENDS } state;
static pthread_t thread;

static void *run(void *arg)
{
	struct native_wait w = { .nsec_deadline = UINT64_MAX, .resident = true };
	bool ends;

	(void)arg;
	do {
		while (!native_lock())
			;
		native_progress();
		w.seen = protocol_events_now();
		ends = state == ENDS;
		native_unlock();
		if (!ends)
			(void)native_wait(&w);
	} while (!ends);
	return NULL;
}

/* With the program's signals held off, as the new thread inherits it. */
static int create(void)
{
	uint64_t held = PULC_SIGNALS_HELD, before;
	int e;

	(void)raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held, &before, sizeof(held), 0, 0);
	e = -pthread_create(&thread, NULL, run, NULL);
	(void)raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before), 0, 0);
	return e;
}

/* Both under the lock, which they give up meanwhile: a thread that is alone takes it in a way that
 * no other one may see. */
static int begin(void)
{
	int e = native_attach();

	if (e < 0)
		return e;
	state = BEGINS;
	native_unlock();
	e = create();
	while (!native_lock())
		;
	state = e == 0 ? RUNS : NONE;
	tag_send_away(e == 0);
	return e;
}

static int end(void)
{
	state = ENDS;
	tag_send_away(false);
	/* It may be asleep. */
	protocol_count_event();
	native_unlock();
	(void)pthread_join(thread, NULL);
	while (!native_lock())
		;
	state = NONE;
	return 0;
}

PULC_EXPORT int pulc_progress_thread(bool on)
{
	int e = 0;

	if (!native_lock())
		return -EDEADLK;
	if (state == BEGINS || state == ENDS)
		e = -EBUSY;
	else if (on != (state == RUNS))
		e = on ? begin() : end();
	native_unlock();
	return e;
}

bool native_thread_ends(void)
{
	return state == ENDS;
}

void native_thread_forked(void)
{
	state = NONE;
	tag_send_away(false);
}
