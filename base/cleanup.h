/*
 * Scope-bound ownership: a local that owns something carries a cleanup attribute,
 * and ownership leaves it with TAKE_PTR or TAKE_FD.
 */
#ifndef PULC_BASE_CLEANUP_H
#define PULC_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>

#include "rawsys.h"

#define CLEANUP(f) __attribute__((cleanup(f)))

#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})

#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int taken_ = (fd);                                                                 \
		(fd) = -EBADF;                                                                     \
		taken_;                                                                            \
	})

/* Closes a descriptor of our own, past any interposed close(). */
static inline int close_own(int fd)
{
	if (fd >= 0)
		(void)raw_close(fd);
	return -EBADF;
}

static inline void cleanup_fd(int *fd)
{
	*fd = close_own(*fd);
}

static inline void cleanup_free(void *pp)
{
	free(*(void **)pp);
}

#define CLEANUP_FD CLEANUP(cleanup_fd)
#define CLEANUP_FREE CLEANUP(cleanup_free)

#endif
