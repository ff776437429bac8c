/*
 * The way back to the kernel with bytes in the rings.
 *
 * One side must go on with the kernel alone, because the socket goes to somebody who knows nothing
 * of rings, or because of a call that only the kernel can serve. What it has sent is in its own
 * ring and the peer will read it there: that direction ends as usual (tcp_send.c). What it has not
 * yet received lies in the peer's ring, and only the peer can put it into the kernel connection. So
 * it says that it has left (SHM_LEFT), with the exact number of bytes taken, and the peer, at its
 * next call, sends the rest of its ring once more, through the kernel, before anything else. Nobody
 * waits: it is as if the network had been slow.
 *
 *   leaving side                        its peer, under its tx_lock
 *     L1 tail = taken                     R1 may end its ring by itself: ENDED, TX_FIN ...
 *     L2 SHM_LEFT       (full fence)      R2                                (full fence)
 *     L3 looks for ENDED, TX_FIN          R3 looks for SHM_LEFT: if so, RETURNED, and
 *                                            sends what is unread
 *
 * Until the peer has done so a process that does know the rings may change its mind and read what
 * is there (reclaiming): it takes the flag back. The peer may have seen it just before, so it
 * decides in two steps:
 *
 *   reclaiming side                     its peer, under its tx_lock, having seen SHM_LEFT
 *     C1 takes SHM_LEFT back (full fence) D1 SHM_DECIDES                   (full fence)
 *     C2 waits while SHM_DECIDES          D2 looks for SHM_LEFT again: if so, RETURNED
 *     C3 looks for RETURNED               D3 takes SHM_DECIDES back
 *
 * A peer that ends its ring without seeing L2 goes on with other bytes in the kernel, or with none;
 * then it is too late. In the order of the fences L3 sees that, waits until the peer has left its
 * lock, and finds either RETURNED or that it must stay: what is in the ring can then be had from
 * the ring only. A peer that does not leave its lock for long (it gets no processor, or is stopped)
 * leaves that open: this side has left, and who knows the rings finds out by reclaiming whether
 * these bytes are to be had there.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "tcp.h"
#include "tcp_count.h"
#include "tcp_local.h"

/* A peer decides within microseconds, or when it runs again; only one that was stopped in just that
 * moment does not. */
#define N_TURNS 100
#define NSEC_TURN (50 * NSEC_PER_USEC)
#define NSEC_DECIDING (10 * 1000 * NSEC_PER_USEC)
uint64_t tcp_leave_nsec_wait = 5 * NSEC_PER_SEC;
/* One was waited for in vain: until then the others have NSEC_DECIDING. */
static _Atomic uint64_t nsec_hurried;

/* ---- returning ------------------------------------------------------------------------------- */

bool tcp_owes(const struct tcp *t)
{
	const void *piece;

	switch (shm_tx_mode(&t->ring)) {
	case SHM_TX_RING:
		return shm_peer_notice(&t->ring) & SHM_LEFT;
	case SHM_TX_RETURNED:
		return shm_tx_returning(&t->ring, 0, &piece) > 0;
	default:
		return false;
	}
}

bool tcp_is_returned(const struct tcp *t)
{
	return shm_peer_tx_mode(&t->ring) != SHM_TX_RING ||
	       shm_mark(&t->ring) == shm_taken(&t->ring);
}

/*
 * A peer that closed without reading was sent its bytes too late, and has answered them by a reset.
 * Behind its end the kernel calls that a broken pipe, of which a receiver does not hear: had they
 * come in time the program would have been told of the reset.
 */
static void note_refusal(struct tcp *t, int fd)
{
	struct pollfd p = { .fd = fd };
	struct timespec now = { 0, 0 };
	socklen_t len = sizeof(int);
	int error = 0;

	if (LIKELY(raw_ppoll(&p, 1, &now) <= 0) || !(p.revents & POLLERR) ||
	    raw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error == 0)
		return;
	tcp_set_local(t, TCP_LOCAL_RESET | TCP_LOCAL_RESET_SEEN);
}

/* Sends on what the kernel takes. 1: all of it; 0: there is more. */
static int return_pieces(struct tcp *t, int fd)
{
	bool has_sent = false;
	const void *piece;
	size_t len;
	ssize_t n;

	while ((len = shm_tx_returning(&t->ring, 0, &piece)) > 0) {
		n = raw_send(fd, piece, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n == -EAGAIN || n == -EINTR)
			return 0;
		/* A connection that is no more takes nothing; the program's next call hears of
		 * it. */
		if (n < 0)
			tcp_keep_error(t, (int)-n);
		shm_tx_returned(&t->ring, n < 0 ? len : (size_t)n);
		has_sent = true;
	}
	tcp_push_corked(fd);
	if (has_sent)
		note_refusal(t, fd);
	return 1;
}

/* The kernel has an error to tell of a connection that is no more, to all who have the socket: to
 * send there would take it. */
static void drop_pieces(struct tcp *t)
{
	const void *piece;
	size_t len;

	while ((len = shm_tx_returning(&t->ring, 0, &piece)) > 0)
		shm_tx_returned(&t->ring, len);
}

/* For a peer that has been seen to have left. 1: RETURNED; 0: it has changed its mind meanwhile;
 * negative errno. */
static int begin_return(struct tcp *t)
{
	int e = 0;

	shm_notice_set(&t->ring, SHM_DECIDES);
	if (shm_peer_notice(&t->ring) & SHM_LEFT)
		e = shm_tx_return(&t->ring) < 0 ? -EBADMSG : 1;
	shm_notice_take_back(&t->ring, SHM_DECIDES);
	return e;
}

static void set_returning(struct tcp *t, bool to)
{
	atomic_signal_fence(memory_order_seq_cst);
	t->returning = to;
	atomic_signal_fence(memory_order_seq_cst);
}

int tcp_return_locked(struct tcp *t, int fd)
{
	int e = 1;

	set_returning(t, true);
	if (shm_tx_mode(&t->ring) == SHM_TX_RING) {
		e = begin_return(t);
		if (e == 1 && tcp_count_is_closed(fd))
			drop_pieces(t);
	}
	if (e >= 0)
		e = shm_tx_mode(&t->ring) == SHM_TX_RETURNED ? return_pieces(t, fd) : 1;
	set_returning(t, false);
	return e;
}

bool tcp_return_instead(struct tcp *t)
{
	bool returns;

	atomic_thread_fence(memory_order_seq_cst);
	set_returning(t, true);
	returns = (shm_peer_notice(&t->ring) & SHM_LEFT) && begin_return(t) == 1;
	set_returning(t, false);
	return returns;
}

int tcp_return(struct tcp *t, int fd)
{
	int e = 0;

	if (!tcp_owes(t) || !shm_lock(&t->ring.own->tx_lock))
		return 0;
	if (tcp_owes(t))
		e = tcp_return_locked(t, fd);
	shm_unlock(&t->ring.own->tx_lock);
	return e;
}

enum tcp_way tcp_enter_leaving(struct tcp *t)
{
	if (LIKELY(shm_lock(&t->ring.own->tx_lock)))
		return TCP_LOCKED;
	return t->returning ? TCP_AMID_RETURN : TCP_AMID_SEND;
}

void tcp_leave_entered(struct tcp *t, enum tcp_way way)
{
	if (LIKELY(way == TCP_LOCKED))
		shm_unlock(&t->ring.own->tx_lock);
}

int tcp_return_leaving(struct tcp *t, int fd)
{
	enum tcp_way way;
	int e = 0;

	if (!tcp_owes(t))
		return 0;
	way = tcp_enter_leaving(t);
	if (way == TCP_AMID_RETURN)
		return -EDEADLK;
	if (tcp_owes(t))
		e = tcp_return_locked(t, fd);
	tcp_leave_entered(t, way);
	return e;
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* Is somebody of the peer about to say what becomes of its ring? */
static bool is_ending(const struct tcp *t)
{
	return shm_peer_is_sending(&t->ring) && shm_peer_tx_mode(&t->ring) != SHM_TX_RETURNED;
}

static bool is_deciding(const struct tcp *t)
{
	return shm_peer_notice(&t->ring) & SHM_DECIDES;
}

/* Waits until the peer has come to an end with that, or is dead. False: it has not for so long. */
static bool wait_out(const struct tcp *t, bool (*is_at_it)(const struct tcp *t), uint64_t nsec)
{
	struct timespec turn = { .tv_nsec = NSEC_TURN };
	uint64_t deadline = nsec_now() + nsec;

	for (unsigned i = 0; is_at_it(t); i++) {
		if (shm_peer_notice(&t->ring) & SHM_DEAD)
			return true;
		if (i < N_TURNS)
			(void)sched_yield();
		else if (nsec_now() < deadline)
			(void)raw_ppoll(NULL, 0, &turn);
		else
			return false;
	}
	return true;
}

/* Peers that are stopped are so at the same time, as a rule, and who leaves many connections leaves
 * them one behind the other: all of these have the time that the first one had. */
static bool wait_out_end(const struct tcp *t)
{
	bool hurried = nsec_now() < atomic_load(&nsec_hurried);
	uint64_t nsec = hurried ? MIN(NSEC_DECIDING, tcp_leave_nsec_wait) : tcp_leave_nsec_wait;

	if (wait_out(t, is_ending, nsec))
		return true;
	if (!hurried)
		atomic_store(&nsec_hurried, nsec_now() + tcp_leave_nsec_wait);
	return false;
}

/* 1: what follows goes through the kernel; 0: not yet. */
static int end_sending(struct tcp *t, int fd)
{
	uint64_t notice = shm_peer_notice(&t->ring);
	int e;

	t->no_switch = true;
	if (!tcp_owes(t) && (shm_tx_mode(&t->ring) != SHM_TX_RING || tcp_try_end(t, notice)))
		return 1;
	e = tcp_owes(t) ? tcp_return_locked(t, fd) : 0;
	return e == 1 && shm_tx_mode(&t->ring) == SHM_TX_RING ? 0 : e;
}

static bool hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };

	return raw_ppoll(&p, 1, &now) > 0;
}

/*
 * The peer ends its ring, or has ended it, or is no more. Returns 0: what is unread will come
 * through the kernel after all, or nothing is; -EBUSY: it can be had from the ring only;
 * -ETIMEDOUT: not to be found out yet.
 */
static int was_too_late(struct tcp *t)
{
	if (!wait_out_end(t))
		return -ETIMEDOUT;
	return shm_peer_tx_mode(&t->ring) != SHM_TX_RETURNED && shm_rx_maybe(&t->ring) ? -EBUSY : 0;
}

static bool has_ended(const struct tcp *t)
{
	return (shm_peer_notice(&t->ring) & (SHM_TX_FIN | SHM_CLOSED | SHM_DEAD)) ||
	       shm_peer_tx_mode(&t->ring) == SHM_TX_ENDED;
}

/* With the kernel all the same, in every process that holds this side. */
static void stay(struct tcp *t)
{
	shm_notice_set(&t->ring, SHM_WANT_KERNEL);
	shm_rx_stay(&t->ring);
}

static int end_receiving(struct tcp *t, int fd)
{
	int e = 0;

	if (atomic_load(&t->ring.own->rx_mode) == TCP_RX_KERNEL_AGAIN)
		return 0;
	shm_rx_leave(&t->ring);
	if (has_ended(t))
		e = was_too_late(t);
	else if (hung_up(fd) && shm_rx_maybe(&t->ring))
		e = -EBUSY; /* all of them are dead */
	if (e == -EBUSY) {
		stay(t);
		return e;
	}
	atomic_store(&t->ring.own->rx_mode, TCP_RX_KERNEL_AGAIN);
	return e;
}

void tcp_end_left(const struct tcp *t, int fd)
{
	const uint32_t told = TCP_LOCAL_RESET_SEEN, all = TCP_LOCAL_RESET_SEEN | TCP_LOCAL_RESET;

	/* A socket without a connection would take the shutdown for the next one, and say so. */
	if ((atomic_load(&t->ring.own->local) & all) == told && !tcp_count_is_closed(fd))
		(void)raw_shutdown(fd, SHUT_RDWR);
}

int tcp_leave(struct tcp *t, int fd)
{
	bool had_left = tcp_has_left(t);
	int e;

	if (!shm_lock(&t->ring.own->tx_lock))
		return -EDEADLK;
	/* A reset that comes before is one: behind an ended ring nobody finds it. */
	if (tcp_peer_left(t))
		tcp_note_end(t);
	e = end_sending(t, fd);
	shm_unlock(&t->ring.own->tx_lock);
	if (e <= 0)
		return e < 0 ? e : -EAGAIN;
	if (!shm_lock(&t->ring.own->rx_lock))
		return -EDEADLK;
	e = end_receiving(t, fd);
	/* A peer that has closed meanwhile may not have seen that we leave. */
	if (!had_left)
		tcp_note_reset(t);
	tcp_end_left(t, fd);
	shm_unlock(&t->ring.own->rx_lock);
	return e;
}

/* ---- programs that know nothing of rings ----------------------------------------------------- */

void tcp_reset(int fd)
{
	struct sockaddr unspecified = { .sa_family = AF_UNSPEC };

	(void)raw_syscall(SYS_connect, fd, &unspecified, sizeof(unspecified), 0, 0, 0);
	(void)raw_shutdown(fd, SHUT_RDWR);
}

/* A ring that has ended without being returned ended while we were changing our mind (below): then
 * it is ours to read. */
static bool is_unreturned(const struct tcp *t)
{
	return shm_peer_tx_mode(&t->ring) != SHM_TX_RETURNED;
}

/* We have left a peer that has ended its ring, or is about to, and has returned nothing. */
static bool is_stranded(const struct tcp *t)
{
	return tcp_has_left(t) && has_ended(t) && is_unreturned(t) && shm_rx_maybe(&t->ring);
}

bool tcp_goes_outside(struct tcp *t)
{
	if (is_stranded(t))
		(void)wait_out_end(t);
	if (!shm_rx_maybe(&t->ring) || (tcp_has_left(t) && !is_stranded(t)))
		return false;
	tcp_set_local(t, TCP_LOCAL_OUTSIDE);
	return true;
}

void tcp_close_for_outside(struct tcp *t, int fd)
{
	if ((atomic_load(&t->ring.own->local) & TCP_LOCAL_OUTSIDE) &&
	    (tcp_leave(t, fd) == -EBUSY || is_stranded(t)))
		tcp_reset(fd);
}

bool tcp_is_last_inside(const struct tcp *t)
{
	return (atomic_load(&t->ring.own->local) & TCP_LOCAL_OUTSIDE) &&
	       shm_has_one_holder(&t->ring);
}

/* A side that has left itself may be held by programs that nobody counts. */
bool tcp_refuses(const struct tcp *t)
{
	return (shm_peer_notice(&t->ring) & SHM_LEFT) && tcp_reads_ring(t) &&
	       shm_rx_maybe(&t->ring);
}

/* ---- a socket that is another connection's, or none's ---------------------------------------- */

static bool has_error(int fd)
{
	struct pollfd p = { .fd = fd };
	struct timespec now = { 0, 0 };

	return raw_ppoll(&p, 1, &now) > 0 && (p.revents & POLLERR);
}

/*
 * The kernel knew nothing of a reset that the survivor has made: it has dissolved a connection that
 * stood, and counts that as an error, which it would not have done after a reset of its own. If the
 * reset is still to be told that error tells it, for all who hold the socket; if the connection
 * stood no more, for both had shut down, or if it was another error, we do.
 */
static void settle_dissolution(struct tcp *t, int fd)
{
	socklen_t len = sizeof(int);
	int error;

	if (!tcp_is_reset(t))
		return;
	if (tcp_has_reset(t) && !tcp_is_broken_pipe(t) && has_error(fd))
		tcp_note_told(t);
	else
		(void)raw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
}

bool tcp_disconnected(struct tcp *t, int fd)
{
	settle_dissolution(t, fd);
	if (!shm_lock(&t->ring.own->tx_lock))
		return tcp_has_reset(t);
	/* The peer may still read what is in our ring. */
	if (shm_tx_mode(&t->ring) == SHM_TX_RING)
		shm_tx_end(&t->ring);
	tcp_set_local(t, TCP_LOCAL_DISCONNECTED);
	(void)atomic_fetch_and(&t->ring.own->local, ~(TCP_LOCAL_SHUT_RD | TCP_LOCAL_PASSED_ON));
	shm_unlock(&t->ring.own->tx_lock);
	if (!shm_lock(&t->ring.own->rx_lock))
		return tcp_has_reset(t);
	tcp_leave_for_good(t);
	shm_rx_leave(&t->ring);
	atomic_store(&t->ring.own->rx_mode, TCP_RX_KERNEL_AGAIN);
	shm_unlock(&t->ring.own->rx_lock);
	return tcp_has_reset(t);
}

bool tcp_is_disconnected(const struct tcp *t)
{
	return atomic_load(&t->ring.own->local) & TCP_LOCAL_DISCONNECTED;
}

bool tcp_connected_anew(struct tcp *t)
{
	if (!tcp_is_disconnected(t))
		return false;
	(void)atomic_fetch_and(&t->ring.own->local, ~TCP_LOCAL_RESET);
	return true;
}

/* ---- changing one's mind --------------------------------------------------------------------- */

void tcp_leave_for_good(struct tcp *t)
{
	tcp_set_local(t, TCP_LOCAL_FOR_GOOD);
}

bool tcp_may_reclaim(struct tcp *t)
{
	return tcp_has_left(t) && is_unreturned(t) && shm_rx_maybe(&t->ring) &&
	       !(atomic_load(&t->ring.own->local) & TCP_LOCAL_FOR_GOOD);
}

int tcp_reclaim(struct tcp *t)
{
	int e = 0;

	if (!tcp_may_reclaim(t) || !shm_lock(&t->ring.own->rx_lock))
		return 0;
	if (tcp_may_reclaim(t)) {
		stay(t);
		e = !wait_out(t, is_deciding, NSEC_DECIDING) ? -EAGAIN : is_unreturned(t);
		if (e == 1)
			atomic_store(&t->ring.own->rx_mode, shm_own_notice(&t->ring) & SHM_RX_RING
								    ? TCP_RX_RING
								    : TCP_RX_KERNEL);
		if (e != 1)
			shm_notice_set(&t->ring, SHM_LEFT);
	}
	shm_unlock(&t->ring.own->rx_lock);
	return e;
}
