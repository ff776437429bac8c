/*
 * Message areas: a sparse, sealed memfd of psid's. Its owner maps it read-write and builds messages
 * there; their receivers, processes of the same user, map it read-only. It holds nothing but the
 * bytes of messages: where they lie is said in frames, and checked here.
 *
 * The file cannot shrink, so no access faults; the owner allocates pages before it uses them, where
 * a lack of memory is an answer. An owner can give back pages that others read, or write there:
 * then they read something else, and nothing worse.
 */
#include "area.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "layout.h"
#include "rawsys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int shm_area_map(int fd, uint64_t size, bool writable, struct shm_area *ret_area)
{
	struct stat st;
	int e;
	long p = raw_syscall(SYS_fstat, fd, &st, 0, 0, 0, 0);

	if (p < 0)
		return (int)p;
	if ((uint64_t)st.st_size != size || size == 0)
		return -EBADMSG;
	/* To nobody's use at first, and not locked: a process that locks all it maps (mlockall)
	 * would allocate all of it. */
	p = raw_syscall(SYS_mmap, NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p < 0 && p > -4096)
		return (int)p;
	(void)raw_syscall(SYS_munlock, (void *)p, size, 0, 0, 0, 0);
	e = (int)raw_syscall(SYS_mprotect, (void *)p, size, PROT_READ | (writable ? PROT_WRITE : 0),
			     0, 0, 0);
	if (e < 0) {
		(void)raw_syscall(SYS_munmap, (void *)p, size, 0, 0, 0, 0);
		return e;
	}
	/* A dump of core would read, and so allocate, all of it. */
	(void)raw_syscall(SYS_madvise, (void *)p, size, MADV_DONTDUMP, 0, 0, 0);
	*ret_area = (struct shm_area){ .at = (unsigned char *)p, .size = size };
	return 0;
}

void shm_area_unmap(struct shm_area *area)
{
	if (area->at)
		(void)raw_syscall(SYS_munmap, area->at, area->size, 0, 0, 0, 0);
	area->at = NULL;
}

void shm_area_only_read(const struct shm_area *area)
{
	(void)raw_syscall(SYS_mprotect, area->at, area->size, PROT_READ, 0, 0, 0);
}

int shm_area_allocate(const struct shm_area *area, uint64_t offset, uint64_t size)
{
	return raw_syscall(SYS_madvise, area->at + offset, size, MADV_POPULATE_WRITE, 0, 0, 0) < 0
		       ? -ENOMEM
		       : 0;
}

void shm_area_release(const struct shm_area *area, uint64_t offset, uint64_t size)
{
	(void)raw_syscall(SYS_madvise, area->at + offset, size, MADV_REMOVE, 0, 0, 0);
}
