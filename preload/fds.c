/*
 * Closing and duplicating descriptors.
 *
 * The table's entry goes before the kernel's, so that a number given out again meanwhile is never
 * taken for its predecessor; libpulc hears of the last close while the descriptor still works.
 * PULC's own descriptors are not there for the program: closing one answers EBADF, closing a range
 * leaves them out, and one that stands on a number the program asks for by dup2 moves away.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/resource.h>

#include <pulc/fds.h>

#include "file.h"
#include "process.h"
#include "rawsys.h"
#include "sockets.h"
#include "symbols.h"

/* What has been told an end of does not stay open: a thread is cancelled before that or after the
 * kernel's close. */
USUAL int pre_close_for_good(int fd)
{
	int ret, state;

	if (pulc_fd_is_own(fd))
		return -EBADF;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (pre_file_at(fd) && pre_process_owns_table())
		pre_file_forget(fd);
	ret = (int)pre_sys(pre_real.close(fd));
	(void)pthread_setcancelstate(state, NULL);
	return ret;
}

USUAL int pre_close(int fd)
{
	if (!pre_file_at(fd) && !pulc_fd_is_own(fd))
		return (int)pre_sys(pre_real.close(fd));
	pre_cancellation_point();
	return pre_close_for_good(fd);
}

/* Closes the range piece by piece around PULC's own descriptors. */
static int close_between(unsigned first, unsigned last, int flags)
{
	int own, ret;

	for (;;) {
		own = first <= INT_MAX ? pulc_fd_next_own((int)first) : -1;
		if (own < 0 || (unsigned)own > last)
			return (int)pre_sys(pre_real.close_range(first, last, flags));
		if ((unsigned)own > first) {
			ret = (int)pre_sys(pre_real.close_range(first, (unsigned)own - 1, flags));
			if (ret < 0)
				return ret;
		}
		if ((unsigned)own == last)
			return 0;
		first = (unsigned)own + 1;
	}
}

/* What the kernel refuses (flags, or the call as such behind a filter) it refuses for a range that
 * holds nothing, too, before anything is done. */
int pre_close_range(unsigned first, unsigned last, int flags)
{
	if (first > last ||
	    pre_real.close_range(UINT_MAX, UINT_MAX, flags & ~CLOSE_RANGE_UNSHARE) < 0)
		return (int)pre_sys(pre_real.close_range(first, last, flags));
	if (flags & CLOSE_RANGE_UNSHARE)
		pre_process_unshares();
	if (flags & CLOSE_RANGE_CLOEXEC)
		return (int)pre_sys(pre_real.close_range(first, last, flags));
	if (pre_enabled && pre_process_owns_table())
		pre_file_forget_range(first, last);
	return close_between(first, last, flags);
}

void pre_closefrom(int first)
{
	if (pre_close_range(first > 0 ? (unsigned)first : 0, UINT_MAX, 0) < 0)
		pre_real.closefrom(first);
}

static int shared(int fd, int copy)
{
	if (copy >= 0 && pre_file_at(fd) && pre_process_owns_table())
		pre_file_share(fd, copy);
	return copy;
}

int pre_dup(int fd)
{
	return shared(fd, (int)pre_sys(pre_real.dup(fd)));
}

static bool is_beyond_limit(int fd)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	(void)raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
	return (rlim_t)fd >= limit.rlim_cur;
}

/* Makes room at `wanted` for a duplicate of fd. Returns 0 or -EBADF as the call itself would: then
 * nothing has changed. */
static int make_room(int fd, int wanted)
{
	if (pulc_fd_is_own(fd) || raw_syscall(SYS_fcntl, fd, F_GETFD) < 0 ||
	    is_beyond_limit(wanted))
		return -EBADF;
	if (!pre_process_owns_table())
		return 0;
	if (pulc_fd_is_own(wanted))
		return pulc_fd_evict(wanted);
	pre_file_forget(wanted);
	return 0;
}

int pre_dup2(int fd, int wanted)
{
	int ret = 0;

	if (fd != wanted && (pre_file_at(wanted) || pulc_fd_is_own(wanted) || pulc_fd_is_own(fd)))
		ret = make_room(fd, wanted);
	if (ret < 0)
		return ret;
	ret = (int)pre_sys(pre_real.dup2(fd, wanted));
	return fd == wanted ? ret : shared(fd, ret);
}

int pre_dup3(int fd, int wanted, int flags)
{
	int ret = 0;

	if (fd != wanted && !(flags & ~O_CLOEXEC) &&
	    (pre_file_at(wanted) || pulc_fd_is_own(wanted) || pulc_fd_is_own(fd)))
		ret = make_room(fd, wanted);
	if (ret < 0)
		return ret;
	return shared(fd, (int)pre_sys(pre_real.dup3(fd, wanted, flags)));
}

static void status_changed(int fd, long flags)
{
	struct pre_use use;

	if (!pre_use_stream(&use, fd))
		return;
	pulc_stream_nonblock_changed(use.stream, flags & O_NONBLOCK);
	pre_use_end(&use);
}

int pre_fcntl(int fd, int command, void *arg)
{
	int ret;

	if (__builtin_expect(!pre_file_at(fd), 1))
		return (int)pre_sys(pre_real.fcntl(fd, command, arg));
	if (command == F_SETFL && ((long)arg & O_ASYNC))
		pre_keep_on_kernel(fd, PULC_REASON_UNSUPPORTED);
	ret = (int)pre_sys(pre_real.fcntl(fd, command, arg));
	if (ret < 0)
		return ret;
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return shared(fd, ret);
	if (command == F_SETFL)
		status_changed(fd, (long)arg);
	return ret;
}
