/*
 * The raw door: syscall(number, ...).
 *
 * Programs and libraries (libuv, Go's and Rust's runtimes in parts) make some of the calls of
 * symbols.def this way. Those whose parameters are the function's are routed by the table; those
 * that differ from libc's function, by a line each here. The mask of these comes with its size, and
 * only the kernel's own size is a valid one.
 */
#include <errno.h>

#include "rawsys.h"
#include "symbols.h"

static bool valid_mask(long mask, long size)
{
	return mask == 0 || size == RAW_SIZE_SIGSET;
}

static bool route_masked(long number, const long *a, long *ret_answer)
{
	long answer = -EINVAL;

	switch (number) {
	case SYS_ppoll:
		if (valid_mask(a[3], a[4]))
			answer = pre_ppoll((void *)a[0], (nfds_t)a[1], (void *)a[2], (void *)a[3]);
		break;
	case SYS_epoll_pwait:
		if (valid_mask(a[4], a[5]))
			answer = pre_epoll_pwait((int)a[0], (void *)a[1], (int)a[2], (int)a[3],
						 (void *)a[4]);
		break;
	case SYS_epoll_pwait2:
		if (valid_mask(a[4], a[5]))
			answer = pre_epoll_pwait2((int)a[0], (void *)a[1], (int)a[2], (void *)a[3],
						  (void *)a[4]);
		break;
	default:
		return false;
	}
	*ret_answer = answer;
	return true;
}

static long pselect6(const long *a)
{
	const struct {
		long mask;
		long size;
	} *with = (void *)a[5];

	if (with && !valid_mask(with->mask, with->size))
		return -EINVAL;
	return pre_pselect((int)a[0], (void *)a[1], (void *)a[2], (void *)a[3], (void *)a[4],
			   with ? (void *)with->mask : NULL);
}

static bool route_odd(long number, const long *a, long *ret_answer)
{
	switch (number) {
	case SYS_io_uring_setup:
		pre_step_aside();
		return false;
	case SYS_seccomp:
		pre_seccomp((unsigned)a[0], (const void *)a[2]);
		return false;
	case SYS_preadv2:
		*ret_answer = pre_preadv2((int)a[0], (void *)a[1], (int)a[2], a[3], (int)a[5]);
		return true;
	case SYS_pwritev2:
		*ret_answer = pre_pwritev2((int)a[0], (void *)a[1], (int)a[2], a[3], (int)a[5]);
		return true;
	case SYS_pselect6:
		*ret_answer = pselect6(a);
		return true;
	case SYS_fcntl:
		*ret_answer = pre_fcntl((int)a[0], (int)a[1], (void *)a[2]);
		return true;
	case SYS_ioctl:
		*ret_answer = pre_ioctl((int)a[0], (unsigned long)a[1], (void *)a[2]);
		return true;
	default:
		return route_masked(number, a, ret_answer) ||
		       pre_route_clone(number, a, ret_answer);
	}
}

bool pre_route(long number, const long *a, long *ret_answer)
{
#define PRE_FD(served, ret, name, sys, n, ...)                                                     \
	if ((sys) != NONE && number == (sys)) {                                                    \
		*ret_answer = pre_##name(PRE_CASTS_##n(__VA_ARGS__));                              \
		return true;                                                                       \
	}
#define PRE_PLAIN(served, ret, name, sys, n, ...)
#define PRE_VARIADIC(served, ret, name, sys, n, ...)
#include "symbols.def"
	return route_odd(number, a, ret_answer);
}
