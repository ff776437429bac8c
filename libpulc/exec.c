/*
 * exec: whoever lets go of a connection to become another program, and may have to take it back.
 *
 * exec closes what is close-on-exec, and tells nobody. So a process counts itself off before, and
 * on again if exec fails. Meanwhile another process may be the only one that is counted; if it took
 * itself for alone (shm_is_alone) it would write without a lock, and go on at the place that it
 * remembers, while the one that comes back writes too. Nothing that the latter does helps: the
 * former may be between its look at the count and its first store.
 *
 * So the count keeps a mark, SHM_MAY_RETURN, until nobody can come back any more. That the kernel
 * tells: before it counts itself off a process takes a read lock on the slab's file (fcntl(2)),
 * which goes with its descriptors, once exec can fail no more, and with its end; if exec fails it
 * gives the lock up when it is counted again. Another process that finds the mark tries, now and
 * then, to get a write lock; while it has that nobody may come back, and it takes the marks away.
 * Until then the side is shared, which costs a lock in memory with each call.
 *
 * Before the upgrade the nursery does the same with means of its own: it has no file.
 *
 * A slab whose descriptor is not kept (slabs.c), or that somebody else has locked, has the other
 * mark, which stays.
 *
 * Who closes the last counted descriptor meanwhile does not say to the peer that the connection is
 * closed: he leaves one on the count (SHM_AWAITED), for whoever comes back. If nobody does the
 * kernel ends the connection, once the last exec has closed its descriptor, and psid says of the
 * side that nobody holds it. Flows of datagrams are closed: their end the kernel tells nobody.
 */
#include <fcntl.h>

#include <pulc/process.h>

#include "private.h"
#include "rawsys.h"

/* The one who looks for a moment is soon through. */
#define N_TRIES 100

static bool set_lock(const struct slab *slab, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };

	return raw_fcntl(slab->fd, F_SETLK, (long)&lock) == 0;
}

bool exec_guard(struct slab *own)
{
	for (unsigned i = 0; own->guard != client_pid() && own->fd >= 0 && i < N_TRIES; i++) {
		if (set_lock(own, F_RDLCK))
			own->guard = client_pid();
		else
			(void)raw_syscall(SYS_sched_yield);
	}
	return own->guard == client_pid();
}

static void give_up(struct slab *slab)
{
	if (slab->guard == client_pid())
		(void)set_lock(slab, F_UNLCK);
	slab->guard = 0;
}

PULC_EXPORT void pulc_exec_begins(void)
{
	nursery_executes();
}

PULC_EXPORT void pulc_exec_failed(void)
{
	if (client_lock()) {
		slabs_each(give_up);
		client_unlock();
	}
	nursery_exec_failed();
}

static const struct shm_stream *doubted;

static void settle(struct slab *slab)
{
	/* Locks are a process's: of our own we would see nothing. */
	if (slab->fd < 0 || !shm_slab_holds(&slab->map, doubted) || slab->guard == client_pid() ||
	    !set_lock(slab, F_WRLCK))
		return;
	shm_slab_none_returns(&slab->map);
	(void)set_lock(slab, F_UNLCK);
}

void exec_doubted(const struct shm_stream *s)
{
	if (!client_lock())
		return;
	doubted = s;
	slabs_each(settle);
	client_unlock();
}
