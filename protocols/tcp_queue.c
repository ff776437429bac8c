/*
 * What is on its way: the counts of a connection's queues, for programs that ask.
 *
 * A ring is send queue and receive queue in one. The kernel calls a byte acknowledged when it has
 * reached the receiver's queue, read or not; here the first half of the largest ring stands for
 * that queue, and only what is unread beyond it counts as unsent. So a program that waits until
 * nothing is unacknowledged does not wait for its peer to read, and one that fills the ring sees
 * that it is full.
 *
 * TCP_INFO counts bytes of both ways together. Bytes that were sent again through the kernel
 * (tcp_return.c) are counted there.
 */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "macros.h"
#include "rawsys.h"
#include "tcp.h"
#include "tcp_count.h"
#include "tcp_local.h"

bool tcp_at_mark(struct tcp *t, int fd)
{
	int mark = 0;

	/* Urgent data goes through the kernel alone, behind what is in the ring. */
	return shm_peer_tx_mode(&t->ring) != SHM_TX_RING &&
	       !(tcp_reads_ring(t) && shm_rx_maybe(&t->ring)) &&
	       raw_ioctl(fd, SIOCATMARK, &mark) == 0 && mark;
}

/* SIOCINQ counts up to the mark, unless urgent data is in line; then it counts all. */
static bool mark_is_behind(struct tcp *t, int fd, uint64_t n)
{
	int in_line = 0, on = 1, off = 0, all = 0, to_mark = 0;
	uint64_t in_ring = tcp_reads_ring(t) ? shm_rx_waiting(&t->ring) : 0;
	socklen_t len = sizeof(in_line);
	const int *was;

	if (raw_getsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &in_line, &len) < 0)
		return false;
	was = in_line ? &on : &off;
	(void)raw_syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_OOBINLINE, in_line ? &off : &on, len,
			  0);
	(void)raw_ioctl(fd, SIOCINQ, in_line ? &to_mark : &all);
	(void)raw_syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_OOBINLINE, was, len, 0);
	(void)raw_ioctl(fd, SIOCINQ, in_line ? &all : &to_mark);
	return all > to_mark && n == in_ring + (uint64_t)to_mark;
}

/* Under the lock, as all that changes the option for a moment: who saw it changed would leave it
 * so. */
bool tcp_mark_is_behind(struct tcp *t, int fd, uint64_t n)
{
	bool is;

	if (LIKELY(shm_peer_tx_mode(&t->ring) == SHM_TX_RING) || !shm_lock(&t->ring.own->rx_lock))
		return false;
	is = mark_is_behind(t, fd, n);
	shm_unlock(&t->ring.own->rx_lock);
	return is;
}

/* Ring bytes that are not yet "in the peer's receive queue". */
static uint64_t backlog(const struct tcp *t)
{
	uint64_t unread = shm_tx_unread(&t->ring);
	uint64_t queue = t->ring.tx_size[SHM_N_RINGS - 1] / 2;

	if (shm_tx_mode(&t->ring) == SHM_TX_RETURNED)
		return 0;
	return unread > queue ? unread - queue : 0;
}

int tcp_outq(struct tcp *t, int fd, uint64_t *ret_size)
{
	int e, queued = 0;

	e = raw_ioctl(fd, SIOCOUTQ, &queued);
	if (e < 0)
		return e;
	/* A receiver that is past the kernel part has those bytes, acknowledged or not. */
	if (shm_tx_mode(&t->ring) == SHM_TX_RING && (shm_peer_notice(&t->ring) & SHM_RX_RING))
		queued = 0;
	*ret_size = (uint64_t)queued + backlog(t);
	return 0;
}

/* As tcpi_state has it. */
#define STATE_CLOSE 7

static void add64(char *info, size_t len, size_t at, uint64_t n)
{
	uint64_t value;

	if (at + sizeof(value) > len)
		return;
	memcpy(&value, info + at, sizeof(value));
	value += n;
	memcpy(info + at, &value, sizeof(value));
}

static void add32(char *info, size_t len, size_t at, uint64_t n)
{
	uint32_t value;

	if (at + sizeof(value) > len)
		return;
	memcpy(&value, info + at, sizeof(value));
	value += (uint32_t)MIN(n, (uint64_t)(UINT32_MAX - value));
	memcpy(info + at, &value, sizeof(value));
}

void tcp_add_info(struct tcp *t, void *info, size_t len)
{
	bool returned = shm_tx_mode(&t->ring) == SHM_TX_RETURNED;
	uint64_t sent = returned ? shm_tx_taken(&t->ring) : shm_tx_total(&t->ring);
	uint64_t received = tcp_reads_ring(t) ? shm_mark(&t->ring) : shm_taken(&t->ring);

	add64(info, len, offsetof(struct tcp_info, tcpi_bytes_acked), sent - backlog(t));
	add64(info, len, offsetof(struct tcp_info, tcpi_bytes_received), received);
	add64(info, len, offsetof(struct tcp_info, tcpi_bytes_sent), sent);
	add32(info, len, offsetof(struct tcp_info, tcpi_notsent_bytes), backlog(t));
	/* The kernel does not know of a reset that the survivor has made. */
	if (len > offsetof(struct tcp_info, tcpi_state) && tcp_is_reset(t))
		((uint8_t *)info)[offsetof(struct tcp_info, tcpi_state)] = STATE_CLOSE;
}

bool tcp_end_counts(struct tcp *t, int fd)
{
	if (tcp_is_reset(t))
		return tcp_is_broken_pipe(t);
	return tcp_count_has_fin(fd, shm_peer_kernel_at(&t->ring),
				 shm_peer_tx_mode(&t->ring) != SHM_TX_RING);
}
