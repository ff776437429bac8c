/*
 * Lists that are longer than the kernel's poll takes: it knows RLIMIT_NOFILE, which may have been
 * lowered since the descriptors were opened, and select, which is made from poll, does not. They
 * are asked about in pieces, without waiting; whoever waits asks so every now and then.
 */
#include <sys/resource.h>

#include "polling.h"
#include "rawsys.h"

nfds_t pre_poll_piece_of(nfds_t n)
{
	struct rlimit limit = { 0 };

	(void)raw_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
	return n > limit.rlim_cur ? (nfds_t)limit.rlim_cur : 0;
}

long pre_poll_by_pieces(struct pollfd *fds, nfds_t n, nfds_t size_piece)
{
	struct timespec now = { 0 };
	long n_ready = 0, ret;
	nfds_t size;

	for (; n > 0; fds += size, n -= size) {
		size = n < size_piece ? n : size_piece;
		ret = raw_syscall(SYS_ppoll, fds, size, &now);
		if (ret < 0)
			return ret;
		n_ready += ret;
	}
	return n_ready;
}
