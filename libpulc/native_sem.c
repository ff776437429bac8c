/*
 * pulc/sem.h: semaphores, as a program uses them. What happens in the shared page is shm/sem.c; psid finds it by name and frees what dead
 * processes held (psid/sems.c).
 *
 * The page's descriptor is kept: by it a forked child takes part, with a number of its own, when it first uses the semaphore. Its parent, and
 * the psid that made the page, may be gone by then.
 *
 * Source: pulc-1998, 4.2.
 */
#include <pulc/sem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pulc/fds.h>

#include "clock.h"
#include "macros.h"
#include "native.h"
#include "sem.h"
#include "unsent.h"

_Static_assert(PULC_SEM_MAX == SHM_SEM_MAX && PULC_SEM_HELD_MAX == SHM_SEM_N_HELD, "the same");

struct pulc_sem {
	LIST_ENTRY(pulc_sem) link;
	struct shm_sem_view view;
	_Atomic bool joined; /* false: the view's holder is the parent */
	_Atomic uint32_t n_asleep;
	int fd;
};

static LIST_HEAD(, pulc_sem) sems = LIST_HEAD_INITIALIZER(sems); /* under the native lock */

static void say_closed(uint32_t holder)
{
	if (!client_lock())
		return;
	unsent_say(PULC__WIRE__FROM_CLIENT__BODY_SEM_CLOSE, holder);
	client_unlock();
}

/* ---- opening and closing ------------------------------------------------------------------------ */

/* 1: it was made; 0. */
static int open_locked(struct pulc_sem *sem, const char *name, unsigned count, int flags)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__SemOpen open = PULC__WIRE__SEM_OPEN__INIT;
	struct native_reply reply;
	int e;

	open.request = native_request();
	open.name = (char *)(name ? name : "");
	open.count = count;
	open.held = flags & PULC_SEM_HELD;
	open.all = flags & PULC_SEM_ALL;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SEM_OPEN;
	msg.sem_open = &open;
	e = native_ask_with(&msg, open.request, -1, &reply, &sem->fd);
	if (e < 0)
		return e;
	e = sem->fd < 0 ? -EMFILE : shm_sem_map(sem->fd, &sem->view.sem);
	if (e == 0 && (reply.holder == 0 || reply.count > SHM_SEM_N_HELD))
		e = -EBADMSG;
	if (e < 0) {
		say_closed(reply.holder);
		return e;
	}
	sem->view.n = reply.count;
	sem->view.holder = reply.holder;
	sem->joined = true;
	LIST_INSERT_HEAD(&sems, sem, link);
	return reply.made;
}

static void discard(struct pulc_sem *sem)
{
	shm_sem_unmap(sem->view.sem);
	pulc_fd_release(&sem->fd);
	free(sem);
}

static bool makes_sense(const char *name, unsigned count, int flags)
{
	if ((flags & ~(PULC_SEM_HELD | PULC_SEM_ALL)) ||
	    (name && (!name[0] || strlen(name) > PULC_NAME_MAX)))
		return false;
	return flags & PULC_SEM_HELD ? count > 0 && count <= PULC_SEM_HELD_MAX
				     : count <= PULC_SEM_MAX;
}

PULC_EXPORT int pulc_sem_open(const char *name, unsigned count, int flags, pulc_sem **ret_sem)
{
	struct pulc_sem *sem;
	int e;

	if (!makes_sense(name, count, flags))
		return -EINVAL;
	sem = calloc(1, sizeof(*sem));
	if (!sem)
		return -ENOMEM;
	sem->fd = -1;
	e = -EDEADLK;
	if (native_lock()) {
		e = open_locked(sem, name, count, flags);
		native_unlock();
	}
	if (e < 0)
		discard(sem);
	else
		*ret_sem = sem;
	return e;
}

PULC_EXPORT int pulc_sem_close(pulc_sem *sem)
{
	if (!sem)
		return 0;
	if (!native_lock())
		return -EDEADLK;
	if (sem->n_asleep) {
		native_unlock();
		return -EBUSY;
	}
	LIST_REMOVE(sem, link);
	if (sem->joined) {
		shm_sem_forget(&sem->view);
		say_closed(sem->view.holder);
	}
	native_unlock();
	discard(sem);
	return 0;
}

/* ---- fork --------------------------------------------------------------------------------------- */

void native_sem_forked(void)
{
	struct pulc_sem *sem;

	LIST_FOREACH(sem, &sems, link)
	{
		sem->joined = false;
		sem->n_asleep = 0;
	}
}

static int join_locked(struct pulc_sem *sem)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__SemJoin join = PULC__WIRE__SEM_JOIN__INIT;
	struct native_reply reply;
	int e;

	join.request = native_request();
	join.count = sem->view.n;
	join.held = sem->view.n > 0;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SEM_JOIN;
	msg.sem_join = &join;
	e = native_ask_with(&msg, join.request, sem->fd, &reply, NULL);
	if (e < 0)
		return e == -ENOENT ? -EPERM : e;
	sem->view.holder = reply.holder;
	sem->joined = true;
	return 0;
}

static int join(struct pulc_sem *sem)
{
	int e = 0;

	if (!native_lock())
		return -EDEADLK;
	e = native_attach();
	if (e == 0 && !sem->joined)
		e = join_locked(sem);
	native_unlock();
	return e;
}

static inline int enter(struct pulc_sem *sem)
{
	return LIKELY(sem->joined) ? 0 : join(sem);
}

/* ---- using -------------------------------------------------------------------------------------- */

PULC_EXPORT int pulc_sem_wait(pulc_sem *sem, int msec_timeout)
{
	uint64_t deadline = UINT64_MAX;
	int e = enter(sem);

	if (UNLIKELY(e < 0))
		return e;
	e = shm_sem_try(&sem->view);
	if (LIKELY(e == 0))
		return 0;
	if (msec_timeout == 0)
		return -ETIMEDOUT;
	if (msec_timeout > 0)
		deadline = nsec_now() + (uint64_t)msec_timeout * NSEC_PER_MSEC;
	sem->n_asleep++;
	e = shm_sem_wait(&sem->view, deadline);
	sem->n_asleep--;
	return e;
}

PULC_EXPORT int pulc_sem_post(pulc_sem *sem)
{
	int e = enter(sem);

	return LIKELY(e == 0) ? shm_sem_post(&sem->view) : e;
}

PULC_EXPORT unsigned pulc_sem_value(const pulc_sem *sem)
{
	return shm_sem_value(&sem->view);
}
