/*
 * The last bytes of a side whose peer has left (tcp_return.c).
 *
 * To end a stream is to have done with it: the kernel keeps what it has been given, and goes on
 * sending that by itself, be the process alive or not. But it has only been given what it had room
 * for. The rest is in our ring, which nobody reads any more, and must not be taken for sent.
 *
 *   1. psid takes it, with a descriptor of the socket, and does what the kernel would have done
 *      (psid/deliver.c). That needs bytes that are the last ones: nobody who holds the socket may
 *      send behind them.
 *   2. Otherwise we wait for room. A receiver that takes nothing for tcp_last_nsec_wait gets no
 *      end of a stream that lacks its last bytes, but a reset.
 *
 * One that ends its connections by a reset (SO_LINGER with no time) wants neither.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "cleanup.h"
#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "tcp.h"
#include "tcp_local.h"

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

uint64_t tcp_last_nsec_wait = TCP_NSEC_OWED;
bool (*tcp_pass_on)(int fd, int memory, uint64_t size, bool shut);

/* What the receiver's side has not taken. */
static int queued(int fd)
{
	int size = 0;

	(void)raw_ioctl(fd, SIOCOUTQ, &size);
	return size;
}

/* Whatever handlers run meanwhile: who closes does not hear of them. There may be room only long
 * after the receiver has taken some. */
static bool await_room(int fd, uint64_t nsec)
{
	uint64_t deadline = nsec_now() + nsec, now;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int before = queued(fd), after;
	struct timespec left;
	long n;

	for (;;) {
		now = nsec_now();
		left = timespec_from_nsec(now < deadline ? deadline - now : 0);
		n = raw_ppoll(&p, 1, &left);
		if (n != 0 && n != -EINTR)
			return n > 0;
		after = queued(fd);
		if (after != before)
			deadline = nsec_now() + nsec;
		else if (n == 0)
			return false;
		before = after;
	}
}

static bool ends_by_reset(int fd)
{
	struct linger linger = { 0, 0 };
	socklen_t len = sizeof(linger);

	return raw_getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len) == 0 && linger.l_onoff &&
	       linger.l_linger == 0;
}

/* What is owed, into a file in memory that cannot change any more. Returns its size; negative
 * errno. */
static int64_t copy_rest(const struct tcp *t, int memory)
{
	struct rlimit most = { .rlim_cur = 0 };
	const void *piece;
	int64_t size = 0;
	size_t len;
	long n;

	/* Beyond that a write would be a signal to the program. */
	(void)raw_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &most);
	while ((len = shm_tx_returning(&t->ring, (uint64_t)size, &piece)) > 0) {
		if ((uint64_t)size + len > most.rlim_cur)
			return -EFBIG;
		n = raw_syscall(SYS_write, memory, piece, len);
		if (n <= 0)
			return n < 0 ? n : -ENOSPC;
		size += n;
	}
	n = raw_fcntl(memory, F_ADD_SEALS, ALL_SEALS);
	return n < 0 ? n : size;
}

static bool pass_on_rest(struct tcp *t, int fd, bool shut)
{
	CLEANUP_FD int memory = -EBADF;
	int64_t size;
	bool passed;

	if (!tcp_pass_on || (atomic_load(&t->ring.own->local) & TCP_LOCAL_OUTSIDE))
		return false;
	memory = (int)raw_syscall(SYS_memfd_create, "pulc-rest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory < 0)
		return false;
	size = copy_rest(t, memory);
	if (size <= 0)
		return false;
	t->returning = true;
	passed = tcp_pass_on(fd, memory, (uint64_t)size, shut);
	if (passed) {
		tcp_set_local(t, TCP_LOCAL_PASSED_ON);
		shm_tx_returned(&t->ring, (size_t)size);
	}
	t->returning = false;
	return passed;
}

bool tcp_is_passed_on(const struct tcp *t)
{
	return atomic_load(&t->ring.own->local) & TCP_LOCAL_PASSED_ON;
}

bool tcp_return_last(struct tcp *t, int fd, enum tcp_last last)
{
	bool closes = last == TCP_LAST_CLOSED;

	while (tcp_owes(t) && tcp_return_locked(t, fd) == 0) {
		if (closes && ends_by_reset(fd))
			return false;
		if (last != TCP_LAST_OF_MANY && pass_on_rest(t, fd, !closes))
			return true;
		if (await_room(fd, tcp_last_nsec_wait))
			continue;
		if (last != TCP_LAST_OF_MANY)
			tcp_reset(fd);
		return false;
	}
	return false;
}

void tcp_return_all(struct tcp *t, int fd)
{
	int e;

	do {
		if (!shm_lock(&t->ring.own->tx_lock))
			return;
		e = tcp_owes(t) ? tcp_return_locked(t, fd) : 1;
		shm_unlock(&t->ring.own->tx_lock);
	} while (e == 0 && tcp_owes(t) && await_room(fd, tcp_last_nsec_wait));
}

bool tcp_pass_on_ending(struct tcp *t, int fd)
{
	enum tcp_way way = tcp_enter_leaving(t);
	bool done;

	if (way == TCP_AMID_RETURN)
		return true;
	done = !tcp_owes(t) || tcp_return_locked(t, fd) != 0 || ends_by_reset(fd) ||
	       pass_on_rest(t, fd, false);
	tcp_leave_entered(t, way);
	return done;
}

uint64_t tcp_unpaid(const struct tcp *t, int fd)
{
	return shm_tx_unread(&t->ring) + (uint64_t)queued(fd);
}
