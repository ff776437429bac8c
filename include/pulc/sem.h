/*
 * pulc/sem.h: semaphores that processes of a node share, by name or by fork.
 *
 * A semaphore is a number of counts. A wait takes one, and sleeps while there is none; a post gives
 * one. Both work in memory that its users share, without a system call when nobody has to sleep or
 * to be woken. There are two kinds, chosen when it is made:
 *
 *   plain                 counts are nobody's: one process posts what another one waits for. What a
 *                         process has taken is gone with it.
 *   PULC_SEM_HELD         counts belong to the process that took them, as locks do: it alone can
 *                         post them, and when it ends, however it ends, they are free again within
 *                         a millisecond.
 *
 * Functions return 0 or a count, or a negative errno, and never touch errno. All may be called from
 * any thread; pulc_sem_post and _value also from a signal handler, except in a forked child that
 * has not used the semaphore yet. A forked child has its parent's semaphores and holds none of
 * their counts. docs/native.md says what happens underneath; pulc_sem(3) is the manual page.
 */
#ifndef PULC_SEM_H
#define PULC_SEM_H

#include <pulc/pulc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pulc_sem pulc_sem;

#define PULC_SEM_HELD 0x1	 /* counts belong to who took them */
#define PULC_SEM_ALL 0x2	 /* every user may open it by its name; else its maker's and root */
#define PULC_SEM_MAX 0x3fffffffu /* the most counts of a plain one, */
#define PULC_SEM_HELD_MAX 992u	 /* and of one that has holders */

/*
 * Makes a semaphore, or opens the one of that name. It lives until the last process that has it
 * closes it or ends.
 *
 * name: 1 to PULC_NAME_MAX bytes, of a name space of this node's semaphores, or NULL: nobody else
 * opens it, it is shared by fork. count: what a new one has; PULC_SEM_HELD: 1 to PULC_SEM_HELD_MAX.
 * flags: PULC_SEM_HELD, for an old one as it was made; PULC_SEM_ALL. ret_sem: the semaphore.
 * Return: 1: it was made; 0: it was there. Errors: as pulc_attach; -EINVAL: unknown flags, name or
 * count out of bounds; -EADDRINUSE: the name is another user's, or that of one of the other kind;
 * -EMFILE: no descriptor, or psid's limits; -ENOMEM. Ownership: the caller's, until pulc_sem_close.
 * Opened twice by a process it is two, with counts of their own. Threads and fork: any thread. A
 * child takes part with its first call, which asks psid. Blocking: until psid has answered. Source:
 * pulc-1998, 4.2 (user-level semaphores shared by processes).
 */
int pulc_sem_open(const char *name, unsigned count, int flags, pulc_sem **ret_sem);

/*
 * Closes it: what this process holds is free again.
 *
 * sem: NULL does nothing. Return: 0. Errors: -EBUSY: another thread sleeps for it; -EDEADLK: called
 * from a protocol's handler. Threads and fork: any thread, and no other one may begin a call on it
 * meanwhile, or later; in a forked child, the child's part only. Blocking: never. Source:
 * pulc-1998, 4.2.
 */
int pulc_sem_close(pulc_sem *sem);

/*
 * Takes a count. Messages are not moved on meanwhile.
 *
 * msec_timeout: -1: for ever; 0: only looks. Return: 0. Errors: -ETIMEDOUT: none within the time;
 * -EINTR: a signal handler ran; and in a forked child's first call those of pulc_attach and -EPERM:
 * it has become another user, -EMFILE, -ENOMEM, -EDEADLK. Threads and fork: any thread; what is
 * held belongs to the process. Blocking: as said. Source: pulc-1998, 4.2.
 */
int pulc_sem_wait(pulc_sem *sem, int msec_timeout);

/*
 * Gives a count.
 *
 * Return: 0. Errors: -EPERM: PULC_SEM_HELD, and this process holds none; -EOVERFLOW: there would be
 * more than PULC_SEM_MAX; and those of a child's first call. Threads and fork: any thread.
 * Blocking: never, but for psid's answer in a forked child's first call. Source: pulc-1998, 4.2.
 */
int pulc_sem_post(pulc_sem *sem);

/* How many counts could be taken now. Never fails, never blocks. */
unsigned pulc_sem_value(const pulc_sem *sem);

#ifdef __cplusplus
}
#endif

#endif
