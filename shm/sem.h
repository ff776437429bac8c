/*
 * A semaphore: one page that every process which uses it can read and write. So nothing in it is
 * believed: how many there are and of which kind is known from psid, values are compared and never
 * used as places, and no wait is without an end.
 */
#ifndef PULC_SHM_SEM_H
#define PULC_SHM_SEM_H

#include "layout.h"

#define SHM_MAGIC_SEM 0x6d65736c75703031ull
#define SHM_SEM_MAX 0x3fffffffu
/* Of the kind whose counts have holders. */
#define SHM_SEM_N_HELD 992u

struct shm_sem {
	uint64_t magic;
	uint32_t version;
	uint32_t reserved;
	_Atomic uint32_t turn;	/* what sleepers sleep on; bit 0: somebody may */
	_Atomic uint32_t count; /* of the kind without holders */
	uint8_t pad[SHM_LINE - 24];
	_Atomic uint32_t held[SHM_SEM_N_HELD]; /* each count's holder, 0: it is free */
};

static_assert(sizeof(struct shm_sem) == SHM_PAGE, "shared layout");

/* What a process knows of a semaphore, and nobody else can change. */
struct shm_sem_view {
	struct shm_sem *sem;
	uint32_t n;	 /* counts, if they have holders; else 0 */
	uint32_t holder; /* this process; psid gives no two the same, and never 0 */
};

/* Maps the page. 0; -EBADMSG: it is none; or the kernel's negative errno. */
int shm_sem_map(int fd, struct shm_sem **ret_sem);
void shm_sem_unmap(struct shm_sem *sem);

/* Takes one. 0; -EAGAIN: there is none. Never sleeps. */
int shm_sem_try(const struct shm_sem_view *v);
/* Takes one, asleep until there is one. 0; -ETIMEDOUT; -EINTR. nsec_deadline: UINT64_MAX: none. */
int shm_sem_wait(const struct shm_sem_view *v, uint64_t nsec_deadline);
/* Gives one back. 0; -EPERM: they have holders, and this process holds none; -EOVERFLOW. */
int shm_sem_post(const struct shm_sem_view *v);
/* How many could be taken, at most SHM_SEM_MAX. */
uint32_t shm_sem_value(const struct shm_sem_view *v);
/* What this holder has is free again, and all sleepers look. */
void shm_sem_forget(const struct shm_sem_view *v);

#endif
