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
#include "sparse.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int shm_area_map(int fd, uint64_t size, bool writable, struct shm_area *ret_area)
{
	struct stat st;
	void *at;
	int e = (int)raw_syscall(SYS_fstat, fd, &st, 0, 0, 0, 0);

	if (e < 0)
		return e;
	if ((uint64_t)st.st_size != size || size == 0)
		return -EBADMSG;
	e = shm_sparse_map(fd, size, writable, &at);
	if (e < 0)
		return e;
	*ret_area = (struct shm_area){ .at = at, .size = size };
	return 0;
}

void shm_area_unmap(struct shm_area *area)
{
	if (area->at)
		shm_sparse_unmap(area->at, area->size);
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
