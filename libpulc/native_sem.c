/*
 * pulc/sem.h: semaphores, as a program uses them. What happens in the shared page is shm/sem.c;
 * psid finds it by name and frees what dead processes held (psid/sems.c).
 *
 * The page's descriptor is kept: by it a forked child takes part, with a number of its own, when it
 * first uses the semaphore. Its parent, and the psid that made the page, may be gone by then. By it
 * too the process comes back to a new psid, with its old number, so that what it holds is known
 * there: whenever it attaches (return.c), and for that whoever sleeps here, or has taken often,
 * looks whether psid is there.
 *
 * Source: pulc-1998, 4.2.
 */
#include <pulc/sem.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <pulc/fds.h>

#include "clock.h"
#include "macros.h"
#include "native.h"
#include "rawsys.h"
#include "sem.h"
#include "step.h"
#include "unsent.h"

_Static_assert(PULC_SEM_MAX == SHM_SEM_MAX && PULC_SEM_HELD_MAX == SHM_SEM_N_HELD, "the same");

/* Between two looks of who sleeps, and of who takes without sleeping: a look costs what some ten
 * takes cost. */
#define NSEC_LOOK NSEC_PER_SEC
#define N_TAKES_LOOK 4096u

struct pulc_sem {
	LIST_ENTRY(pulc_sem) link;
	struct shm_sem_view view;
	_Atomic bool joined; /* false: the view's holder is the parent */
	_Atomic uint32_t n_asleep;
	int fd;
	uint32_t generation; /* of the channel over which psid has heard of the holder */
	bool all;
	char name[PULC_NAME_MAX + 1]; /* "": none */
};

/* Changed under the native lock and the client lock, with what is in it. */
static LIST_HEAD(, pulc_sem) sems = LIST_HEAD_INITIALIZER(sems);

static void say_closed(uint32_t holder)
{
	if (!client_lock())
		return;
	unsent_say(PULC__WIRE__FROM_CLIENT__BODY_SEM_CLOSE, holder);
	client_unlock();
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void take_part(struct pulc_sem *sem, const struct native_reply *reply)
{
	sem->view.holder = reply->holder;
	sem->generation = reply->generation;
	sem->joined = true;
}

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
	STEP(SEM_OPENED);
	e = sem->fd < 0 ? -EMFILE : shm_sem_map(sem->fd, &sem->view.sem);
	if (e == 0 && (reply.holder == 0 || reply.count > SHM_SEM_N_HELD))
		e = -EBADMSG;
	if (e < 0) {
		say_closed(reply.holder);
		return e;
	}
	sem->view.n = reply.count;
	sem->all = reply.all;
	(void)stpncpy(sem->name, open.name, PULC_NAME_MAX);
	if (!client_lock())
		return -EDEADLK;
	take_part(sem, &reply);
	LIST_INSERT_HEAD(&sems, sem, link);
	client_unlock();
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
	if (!client_lock()) {
		native_unlock();
		return -EDEADLK;
	}
	LIST_REMOVE(sem, link);
	client_unlock();
	if (sem->joined) {
		shm_sem_forget(&sem->view);
		STEP(SEM_CLOSED);
		say_closed(sem->view.holder);
	}
	native_unlock();
	discard(sem);
	return 0;
}

/* ---- fork ------------------------------------------------------------------------------------ */

void native_sem_forked(void)
{
	struct pulc_sem *sem;

	LIST_FOREACH(sem, &sems, link) {
		sem->joined = false;
		sem->n_asleep = 0;
	}
}

static Pulc__Wire__SemJoin joining(struct pulc_sem *sem)
{
	Pulc__Wire__SemJoin join = PULC__WIRE__SEM_JOIN__INIT;

	join.count = sem->view.n;
	join.held = sem->view.n > 0;
	join.all = sem->all;
	join.name = sem->name;
	return join;
}

static int join_locked(struct pulc_sem *sem)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__SemJoin join = joining(sem);
	struct native_reply reply;
	int e;

	join.request = native_request();
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SEM_JOIN;
	msg.sem_join = &join;
	e = native_ask_with(&msg, join.request, sem->fd, &reply, NULL);
	if (e < 0)
		return e == -ENOENT ? -EPERM : e;
	if (!client_lock())
		return -EDEADLK;
	take_part(sem, &reply);
	client_unlock();
	STEP(SEM_JOINED);
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

/* ---- a new psid ------------------------------------------------------------------------------ */

/* Nobody waits for the answer: without a psid that knows of it, it works among those who have
 * it. */
static int come_back(struct pulc_sem *sem)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__SemJoin join = joining(sem);
	int e;

	join.holder = sem->view.holder;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SEM_JOIN;
	msg.sem_join = &join;
	e = client_send(&msg, &sem->fd, 1);
	if (e == 0)
		sem->generation = client_generation();
	return e;
}

int native_sem_return(void)
{
	struct pulc_sem *sem;
	int e = 0;

	LIST_FOREACH(sem, &sems, link)
		if (e == 0 && sem->joined && sem->generation != client_generation())
			e = come_back(sem);
	return e;
}

/* Its messages are for others to take: only its end is looked at. */
static void look_for_psid(void)
{
	struct pollfd p = { .fd = client_channel() };
	struct timespec now = { 0, 0 };

	if (client_is_confined() || (p.fd >= 0 && raw_ppoll(&p, 1, &now) <= 0) || !client_lock())
		return;
	client_look();
	(void)client_attach();
	client_unlock();
}

static void look_in_passing(void)
{
	static __thread uint32_t n_takes __attribute__((tls_model("initial-exec")));

	if (UNLIKELY(++n_takes % N_TAKES_LOOK == 0))
		look_for_psid();
}

/* ---- using ----------------------------------------------------------------------------------- */

static int sleep_until(const struct pulc_sem *sem, uint64_t deadline)
{
	uint64_t look;
	int e;

	do {
		look = MIN(deadline, nsec_now() + NSEC_LOOK);
		e = shm_sem_wait(&sem->view, look);
		look_for_psid();
	} while (e == -ETIMEDOUT && look < deadline);
	return e;
}

PULC_EXPORT int pulc_sem_wait(pulc_sem *sem, int msec_timeout)
{
	uint64_t deadline = UINT64_MAX;
	int e = enter(sem);

	if (UNLIKELY(e < 0))
		return e;
	look_in_passing();
	e = shm_sem_try(&sem->view);
	if (LIKELY(e == 0))
		return 0;
	if (msec_timeout == 0)
		return -ETIMEDOUT;
	if (msec_timeout > 0)
		deadline = nsec_now() + (uint64_t)msec_timeout * NSEC_PER_MSEC;
	sem->n_asleep++;
	e = sleep_until(sem, deadline);
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
