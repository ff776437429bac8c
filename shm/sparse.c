/*
 * Slabs and message areas are sparse files of hundreds of MiB: what nobody has used takes no
 * memory. In somebody else's process that must stay so, whatever the kernel does there with all
 * that is mapped: a program that locks what it will map (mlockall, MCL_FUTURE) would allocate all
 * of it, and so would a dump of core, which reads it. These mappings are kept out of both.
 *
 * Left out: a program that locks what is mapped by then (MCL_CURRENT). The kernel lets no mapping
 * out of that.
 */
#include "sparse.h"

#include <stddef.h>
#include <sys/mman.h>

#include "rawsys.h"

int shm_sparse_map(int fd, uint64_t size, bool writable, void **ret_at)
{
	int prot = PROT_READ | (writable ? PROT_WRITE : 0), e;
	/* To nobody's use until it is not locked: only what could be used is allocated. */
	long p = raw_syscall(SYS_mmap, NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p < 0 && p > -4096)
		return (int)p;
	(void)raw_syscall(SYS_munlock, (void *)p, size, 0, 0, 0, 0);
	e = (int)raw_syscall(SYS_mprotect, (void *)p, size, prot, 0, 0, 0);
	if (e < 0) {
		shm_sparse_unmap((void *)p, size);
		return e;
	}
	(void)raw_syscall(SYS_madvise, (void *)p, size, MADV_DONTDUMP, 0, 0, 0);
	*ret_at = (void *)p;
	return 0;
}

void shm_sparse_unmap(void *at, uint64_t size)
{
	(void)raw_syscall(SYS_munmap, at, size, 0, 0, 0, 0);
}
