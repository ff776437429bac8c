/*
 * What the kernel counts of a socket, read past any interposed call: a byte that passes through a
 * ring leaves the count as it was. So a test sees from outside of PULC which way its bytes went.
 */
#ifndef PULC_TESTS_KERNEL_COUNT_H
#define PULC_TESTS_KERNEL_COUNT_H

#include "rawsys.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/ioctl.h>

/* Bytes ever written to the kernel by this end: acknowledged plus queued, one more for the
 * connecting end's SYN. */
static inline uint64_t kernel_count_written(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);
	uint64_t acked;
	int queued = 0;

	do {
		raw_syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &size, 0);
		acked = info.tcpi_bytes_acked;
		raw_syscall(SYS_ioctl, fd, SIOCOUTQ, &queued, 0, 0, 0);
		raw_syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &size, 0);
	} while (info.tcpi_bytes_acked != acked);
	return acked + (uint64_t)queued;
}

/* False while the kernel's socket may find room although nobody reads: acknowledgements are on
 * their way, or its peer's window is open by less than it likes to send, until a timer makes it. */
static inline bool kernel_is_at_rest(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	raw_syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &size, 0);
	return info.tcpi_unacked == 0 && (info.tcpi_notsent_bytes == 0 || info.tcpi_snd_wnd == 0);
}

/* The peer's end, or its reset, has come to the kernel's socket. */
static inline bool kernel_has_end(int fd)
{
	enum { ESTABLISHED = 1, FIN_WAIT1 = 4, FIN_WAIT2 = 5 };
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	raw_syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &size, 0);
	return info.tcpi_state != ESTABLISHED && info.tcpi_state != FIN_WAIT1 &&
	       info.tcpi_state != FIN_WAIT2;
}

#endif
