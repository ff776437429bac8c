/*
 * Semaphores in shared memory. Taking and giving back are single atomic operations on it; the
 * kernel is asked only to sleep, and to wake somebody of whom a word says that he may.
 *
 * Two kinds. A plain one is a number. One whose counts have holders is a row of words, one for each
 * count: 0, or who has it. So taking a count and being known as its holder are one step, and when a
 * process is killed at any instruction, whoever knows that it is dead finds exactly what it had
 * (shm_sem_forget). A row of a hundred words is read in less time than a wake-up takes, and a
 * process that takes the same count again finds it where its number says that it begins to look.
 *
 * Sleeping. `turn` is what sleepers sleep on, its lowest bit says that there may be some. A sleeper
 * sets the bit, looks once more, and sleeps if the word is still the same; who gives back does that
 * first and looks at the bit then, all in one order (sequentially consistent): one of the two sees
 * the other. Then the bit is cleared, the word changed, and one sleeper woken. Others may be asleep
 * still, so who has slept sets the bit again, and wakes the next one if there is more to be had. A
 * sleeper that is killed after it was woken has passed nothing on: psid wakes all after a death,
 * and in any case they look again after a second.
 *
 * Source: Drepper 2011 (the futex that says whether it is contended).
 */
#include "sem.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "step.h"

#define SOMEBODY 1u
#define NSEC_PATIENCE NSEC_PER_SEC
/* Attempts at one word: only somebody who scribbles over it makes so many fail. */
#define N_TRIES 1000u

int shm_sem_map(int fd, struct shm_sem **ret_sem)
{
	struct shm_sem *sem;
	struct stat st;
	long p = raw_syscall(SYS_fstat, fd, &st, 0, 0, 0, 0);

	if (p < 0)
		return (int)p;
	if (st.st_size != SHM_PAGE)
		return -EBADMSG;
	p = raw_syscall(SYS_mmap, NULL, SHM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p < 0 && p > -4096)
		return (int)p;
	sem = (struct shm_sem *)p;
	if (sem->magic != SHM_MAGIC_SEM || sem->version != SHM_VERSION) {
		shm_sem_unmap(sem);
		return -EBADMSG;
	}
	*ret_sem = sem;
	return 0;
}

void shm_sem_unmap(struct shm_sem *sem)
{
	if (sem)
		(void)raw_syscall(SYS_munmap, sem, SHM_PAGE, 0, 0, 0, 0);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static bool take_held(const struct shm_sem_view *v)
{
	uint32_t first = v->holder % v->n, nobody;

	for (uint32_t i = 0; i < v->n; i++) {
		_Atomic uint32_t *word = &v->sem->held[(first + i) % v->n];

		nobody = 0;
		if (atomic_load(word) == 0 &&
		    atomic_compare_exchange_strong(word, &nobody, v->holder))
			return true;
	}
	return false;
}

static bool take_counted(struct shm_sem *sem)
{
	uint32_t count = atomic_load(&sem->count);

	for (unsigned i = 0; count && i < N_TRIES; i++)
		if (atomic_compare_exchange_weak(&sem->count, &count, count - 1))
			return true;
	return false;
}

int shm_sem_try(const struct shm_sem_view *v)
{
	if (!(v->n ? take_held(v) : take_counted(v->sem)))
		return -EAGAIN;
	STEP(SEM_TAKEN);
	return 0;
}

uint32_t shm_sem_value(const struct shm_sem_view *v)
{
	uint32_t count = 0;

	if (!v->n)
		return MIN(atomic_load(&v->sem->count), SHM_SEM_MAX);
	for (uint32_t i = 0; i < v->n; i++)
		count += atomic_load(&v->sem->held[i]) == 0;
	return count;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static void wake(struct shm_sem *sem, int n)
{
	uint32_t turn = atomic_load(&sem->turn);

	if (!(turn & SOMEBODY))
		return;
	/* If it is another one by now, somebody has woken a sleeper, who sees to the next. */
	if (atomic_compare_exchange_strong(&sem->turn, &turn, (turn & ~SOMEBODY) + 2) || n > 1) {
		STEP(SEM_TURNED);
		(void)raw_futex(&sem->turn, FUTEX_WAKE, (uint32_t)n, NULL);
	}
}

/* -ETIMEDOUT; -EINTR; 0: look again. */
static int sleep_on(struct shm_sem *sem, uint32_t turn, uint64_t nsec_deadline)
{
	uint64_t now = nsec_now(), nsec = NSEC_PATIENCE;
	struct timespec ts;

	if (now >= nsec_deadline)
		return -ETIMEDOUT;
	if (nsec_deadline != UINT64_MAX)
		nsec = MIN(nsec, nsec_deadline - now);
	ts = timespec_from_nsec(nsec);
	STEP(SEM_SLEEPS);
	return raw_futex(&sem->turn, FUTEX_WAIT, turn, &ts) == -EINTR ? -EINTR : 0;
}

int shm_sem_wait(const struct shm_sem_view *v, uint64_t nsec_deadline)
{
	struct shm_sem *sem = v->sem;
	bool slept = false;
	uint32_t turn;
	int e = shm_sem_try(v);

	while (e == -EAGAIN) {
		turn = atomic_fetch_or(&sem->turn, SOMEBODY) | SOMEBODY;
		STEP(SEM_MARKED);
		e = shm_sem_try(v);
		if (e < 0)
			e = sleep_on(sem, turn, nsec_deadline);
		else
			break;
		slept = true;
		STEP(SEM_SLEPT);
		if (e == 0)
			e = shm_sem_try(v);
	}
	if (slept) {
		/* Others may sleep, and what woke us may have been for them too. */
		(void)atomic_fetch_or(&sem->turn, SOMEBODY);
		if (shm_sem_value(v))
			wake(sem, 1);
		STEP(SEM_PASSED);
	}
	return e;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static int free_held(const struct shm_sem_view *v)
{
	uint32_t first = v->holder % v->n, mine;

	for (uint32_t i = 0; i < v->n; i++) {
		_Atomic uint32_t *word = &v->sem->held[(first + i) % v->n];

		mine = v->holder;
		if (atomic_load_explicit(word, memory_order_relaxed) == mine &&
		    atomic_compare_exchange_strong(word, &mine, 0))
			return 0;
	}
	return -EPERM;
}

static int free_counted(struct shm_sem *sem)
{
	if (atomic_fetch_add(&sem->count, 1) < SHM_SEM_MAX)
		return 0;
	(void)atomic_fetch_sub(&sem->count, 1);
	return -EOVERFLOW;
}

int shm_sem_post(const struct shm_sem_view *v)
{
	int e = v->n ? free_held(v) : free_counted(v->sem);

	if (e == 0) {
		STEP(SEM_FREED);
		wake(v->sem, 1);
	}
	return e;
}

void shm_sem_forget(const struct shm_sem_view *v)
{
	uint32_t theirs;

	for (uint32_t i = 0; i < v->n; i++) {
		theirs = v->holder;
		(void)atomic_compare_exchange_strong(&v->sem->held[i], &theirs, 0);
	}
	(void)atomic_fetch_or(&v->sem->turn, SOMEBODY);
	wake(v->sem, INT_MAX);
}
