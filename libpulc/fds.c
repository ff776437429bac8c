/*
 * PULC's own descriptors, out of the program's way.
 *
 * A program may count on getting the lowest free number, may close everything that it does not
 * know, and may claim any number with dup2. So our descriptors live in a small window of high
 * numbers, and each is remembered with the variable that holds it. The window starts below the soft
 * limit of descriptors, but not higher than most programs come: a fork copies the kernel's table up
 * to the highest number, which takes 5 us up to 1,000 and 20 up to 3,584 where a fork takes 30
 * (Linux 6.18), and a table of a million entries is 8 MiB.
 *
 * A program that has that window's numbers itself gets a further one at higher numbers, if its
 * limit allows; one that lowers its limit below the window (memcached does) gets one below the new
 * limit. What lives in an old one stays there. Windows may overlap: a number belongs to the oldest
 * one that covers it.
 *
 * A number inside a window that the program got on its own is not ours: homes[] tells.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include <pulc/fds.h>

#include "cleanup.h"
#include "macros.h"

#define N_WINDOW 512
#define WINDOW_USUAL 896
#define WINDOW_HIGHEST 3584
/* The first, one above it, and one for each time that the limit falls below all of them. */
#define N_WINDOWS 5

static _Atomic int firsts[N_WINDOWS]; /* lowest numbers, 0: not used yet */
static _Atomic int highest_begun;     /* what the limit allowed when the first began */
static LARGE int *_Atomic homes[N_WINDOWS][N_WINDOW];
/* Of the first window the first few: most processes have no more. */
#define N_NEAR 8
static int *_Atomic near_homes[N_NEAR];

static int first_of(unsigned window)
{
	return atomic_load_explicit(&firsts[window], memory_order_acquire);
}

/* Where a window begins at most. An eighth of a small limit is all we take. */
static int highest_for_limit(void)
{
	struct rlimit limit = { .rlim_cur = 1024 };

	(void)raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit, 0, 0);
	if (limit.rlim_cur > WINDOW_HIGHEST / 7 * 8)
		return WINDOW_HIGHEST;
	return MAX((int)(limit.rlim_cur - limit.rlim_cur / 8), 16);
}

/* Where the oldest window begins that lies between the two, or a new one at the higher; -EMFILE:
 * too many have been used up. */
static int window_begin(int lowest, int highest)
{
	int first;

	for (unsigned w = 0; w < N_WINDOWS; w++) {
		first = 0;
		if (atomic_compare_exchange_strong(&firsts[w], &first, highest))
			return highest;
		if (first >= lowest && first <= highest)
			return first;
	}
	return -EMFILE;
}

/* A duplicate of fd at a high number, or a negative errno. */
static int duplicate(int fd)
{
	int highest = highest_for_limit(), none = 0;
	int first = window_begin(0, MIN(highest, WINDOW_USUAL));
	int high;

	(void)atomic_compare_exchange_strong(&highest_begun, &none, highest);
	if (first < 0)
		return first;
	high = raw_fcntl(fd, F_DUPFD_CLOEXEC, first);
	if (LIKELY(high < first + N_WINDOW) || first + N_WINDOW > highest)
		return high;
	(void)raw_close(high);
	first = window_begin(first + N_WINDOW, highest);
	return first < 0 ? first : raw_fcntl(fd, F_DUPFD_CLOEXEC, first);
}

PULC_EXPORT int pulc_fd_lift(int fd)
{
	int high = duplicate(fd);

	if (high < 0)
		return fd;
	(void)raw_close(fd);
	return high;
}

USUAL static int *_Atomic *home_of(int fd)
{
	int first;

	for (unsigned w = 0; w < N_WINDOWS; w++) {
		first = first_of(w);
		if (first == 0 || fd < first || fd >= first + N_WINDOW)
			continue;
		return w == 0 && fd < first + N_NEAR ? &near_homes[fd - first]
						     : &homes[w][fd - first];
	}
	return NULL;
}

PULC_EXPORT int pulc_fd_copy(int fd, int *home)
{
	int high = duplicate(fd);
	int *_Atomic *slot;

	*home = -1;
	if (high < 0)
		return high == -EINVAL ? -EMFILE : high;
	slot = home_of(high);
	if (!slot) {
		(void)raw_close(high);
		return -EMFILE;
	}
	*home = high;
	atomic_store_explicit(slot, home, memory_order_release);
	return 0;
}

PULC_EXPORT int pulc_fd_adopt(int *fd)
{
	int given = *fd, e = pulc_fd_copy(given, fd);

	(void)raw_close(given);
	return e;
}

PULC_EXPORT void pulc_fd_rehome(int *from, int *to)
{
	int *_Atomic *home = home_of(*from);

	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
	if (home)
		atomic_store_explicit(home, to, memory_order_release);
	*from = -1;
}

USUAL PULC_EXPORT void pulc_fd_release(int *fd)
{
	int *_Atomic *home;

	if (*fd < 0)
		return;
	home = home_of(*fd);
	if (home)
		atomic_store_explicit(home, NULL, memory_order_release);
	(void)raw_close(*fd);
	*fd = -1;
}

PULC_EXPORT unsigned pulc_fd_room(void)
{
	int highest = atomic_load_explicit(&highest_begun, memory_order_relaxed);

	return (unsigned)MIN((highest ? highest : highest_for_limit()) / 7, N_WINDOW);
}

USUAL PULC_EXPORT bool pulc_fd_is_own(int fd)
{
	int *_Atomic *home = home_of(fd);

	return home && atomic_load_explicit(home, memory_order_acquire);
}

/* The lowest own number >= from in one window, or INT_MAX. */
static int next_in(unsigned window, int from)
{
	int first = first_of(window);

	if (first == 0)
		return INT_MAX;
	for (int fd = MAX(from, first); fd < first + N_WINDOW; fd++)
		if (pulc_fd_is_own(fd))
			return fd;
	return INT_MAX;
}

PULC_EXPORT int pulc_fd_next_own(int from)
{
	int lowest = INT_MAX;

	for (unsigned w = 0; w < N_WINDOWS; w++)
		lowest = MIN(lowest, next_in(w, from));
	return lowest == INT_MAX ? -1 : lowest;
}

PULC_EXPORT int pulc_fd_evict(int fd)
{
	int *_Atomic *home = home_of(fd), *_Atomic * next;
	int *holder = home ? atomic_load_explicit(home, memory_order_acquire) : NULL;
	int moved;

	if (!holder)
		return 0;
	moved = duplicate(fd);
	if (moved < 0)
		return moved;
	next = home_of(moved);
	if (!next) {
		(void)raw_close(moved);
		return -EMFILE;
	}
	atomic_store_explicit(next, holder, memory_order_release);
	*holder = moved;
	atomic_store_explicit(home, NULL, memory_order_release);
	(void)raw_close(fd);
	return 0;
}
