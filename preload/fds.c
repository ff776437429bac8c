/*
 * Closing and duplicating descriptors.
 *
 * The table's entry goes before the kernel's, so that a number given out again meanwhile is never
 * taken for its predecessor, and says in between that it is going (change.c) where other threads
 * may come by; libpulc hears of the last close while the descriptor still works.
 * PULC's own descriptors are not there for the program: closing one answers EBADF, closing a range
 * leaves them out, and one that stands on a number the program asks for by dup2 moves away.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/resource.h>

#include <pulc/fds.h>

#include "change.h"
#include "file.h"
#include "inherit.h"
#include "process.h"
#include "rawsys.h"
#include "sockets.h"
#include "symbols.h"

/* psid is told of the last close when the file goes, and may ask the kernel at once who has the
 * socket: so it is kept until the kernel's close is done. */
static void let_go(struct pre_use *use)
{
	pre_use_end(use);
	pre_files_reclaim();
}

/* The kernel's close of a number that is in the table. */
static int close_tracked(int fd)
{
	struct pre_use use;
	bool is_used = pre_use_file(&use, fd), is_change = pre_change_begins(fd, -1);
	int ret;

	if (!is_change)
		pre_file_forget(fd);
	ret = (int)pre_sys(pre_real.close(fd));
	if (is_change)
		pre_change_ends(fd, -1);
	if (is_used)
		let_go(&use);
	return ret;
}

/* What has been told an end of does not stay open: a thread is cancelled before that or after the
 * kernel's close. */
USUAL int pre_close_for_good(int fd)
{
	int ret, state;

	if (pulc_fd_is_own(fd))
		return -EBADF;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (pre_file_at(fd) && pre_process_owns_table())
		ret = close_tracked(fd);
	else
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

static void close_behind(int fd, void *first)
{
	if (fd >= *(int *)first)
		(void)pre_close_for_good(fd);
}

/* One by one where there is no close_range; libc's own knows nothing of PULC's descriptors. */
void pre_closefrom(int first)
{
	if (pre_close_range(first > 0 ? (unsigned)first : 0, UINT_MAX, 0) < 0)
		pre_each_open(close_behind, &first);
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

/* What the call would be refused for, before anything has changed. */
static int judge(int fd, int wanted)
{
	if (pulc_fd_is_own(fd) || raw_syscall(SYS_fcntl, fd, F_GETFD) < 0 ||
	    is_beyond_limit(wanted))
		return -EBADF;
	return 0;
}

/* flags: dup3's; -1: dup2 */
static int in_kernel(int fd, int wanted, int flags)
{
	return (int)pre_sys(flags < 0 ? pre_real.dup2(fd, wanted)
				      : pre_real.dup3(fd, wanted, flags));
}

/* In the process whose table it is. */
static int replace(int fd, int wanted, int flags)
{
	int ret = pulc_fd_evict(wanted);
	bool is_used, is_change;
	struct pre_use use;

	if (ret < 0)
		return ret;
	is_used = pre_use_file(&use, wanted);
	is_change = pre_change_begins(wanted, fd);
	if (!is_change)
		pre_file_forget(wanted);
	ret = in_kernel(fd, wanted, flags);
	if (ret >= 0 && pre_file_at(fd))
		pre_file_share(fd, wanted);
	if (is_change)
		pre_change_ends(wanted, fd);
	if (is_used)
		let_go(&use);
	return ret;
}

static int onto(int fd, int wanted, int flags)
{
	bool is_known = pre_file_at(wanted) || pulc_fd_is_own(wanted) || pulc_fd_is_own(fd);
	int ret = is_known ? judge(fd, wanted) : 0;

	if (ret < 0)
		return ret;
	if ((!is_known && !pre_file_at(fd)) || !pre_process_owns_table())
		return in_kernel(fd, wanted, flags);
	return replace(fd, wanted, flags);
}

int pre_dup2(int fd, int wanted)
{
	return fd == wanted ? in_kernel(fd, wanted, -1) : onto(fd, wanted, -1);
}

int pre_dup3(int fd, int wanted, int flags)
{
	if (fd == wanted || (flags & ~O_CLOEXEC))
		return in_kernel(fd, wanted, flags);
	return onto(fd, wanted, flags);
}

static void status_changed(int fd, long flags)
{
	struct pre_use use;

	if (flags & O_APPEND)
		atomic_store(&pre_some_append, true);
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
