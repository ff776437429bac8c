/*
 * What a tcp connection is ready for, and how it ends.
 *
 * Readiness has two sources. The rings answer by memory alone; the kernel socket underneath knows
 * the life-cycle (FIN, reset, errors) and whatever bytes are not in rings. tcp_ready asks the
 * first, tcp_poll both. Kernel write-space means nothing while we send through the ring, kernel
 * read events mean end of file while we receive through it.
 *
 * Closing says CLOSED before the kernel's FIN and only when the last process of the family closes:
 * holders are counted in the area. A holder that is killed stays counted, so CLOSED may never come;
 * then the FIN alone says it, and psid adds SHM_DEAD. So it is where the last one closes while
 * another one executes a program, and may come back if that fails. That one finds the connection
 * reset only if this was due at the last holder's end for what a program outside PULC, or a peer
 * that has left, would otherwise not be told.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/socket.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "macros.h"
#include "rawsys.h"
#include "tcp.h"
#include "tcp_count.h"
#include "tcp_local.h"

static uint32_t own_local(const struct tcp *t)
{
	return atomic_load_explicit(&t->ring.own->local, memory_order_acquire);
}

static bool receiving_from_ring(const struct tcp *t)
{
	return atomic_load_explicit(&t->ring.own->rx_mode, memory_order_acquire) == TCP_RX_RING;
}

static uint32_t low_water(const struct tcp *t)
{
	return atomic_load_explicit(&t->ring.own->rcvlowat, memory_order_relaxed);
}

/* The next byte is in the ring. Of bytes behind some of the kernel's memory does not know whether
 * those are there yet. */
static bool enough_to_read(struct tcp *t)
{
	uint32_t wanted = low_water(t);

	return shm_rx_maybe(&t->ring) && (wanted <= 1 || shm_rx_waiting(&t->ring) >= wanted) &&
	       (LIKELY(receiving_from_ring(t)) || tcp_may_reclaim(t));
}

bool tcp_reads_ring(const struct tcp *t)
{
	return atomic_load_explicit(&t->ring.own->rx_mode, memory_order_relaxed) !=
	       TCP_RX_KERNEL_AGAIN;
}

/* The peer has shut down, before it closed. */
static bool has_ended_in_order(const struct tcp *t)
{
	return (shm_peer_notice(&t->ring) & (SHM_TX_FIN | SHM_ABRUPT)) == SHM_TX_FIN;
}

/* So have both: to the kernel no connection is left that could be reset. */
static bool is_over(const struct tcp *t)
{
	return (shm_own_notice(&t->ring) & SHM_TX_FIN) && has_ended_in_order(t);
}

/* What we have sent is still to be had from the ring, be it that more has followed through the
 * kernel. */
static bool is_read_in_ring(const struct tcp *t)
{
	uint32_t mode = shm_tx_mode(&t->ring);

	return mode == SHM_TX_RING || mode == SHM_TX_ENDED;
}

void tcp_note_reset(struct tcp *t)
{
	if (!tcp_peer_left(t) || (own_local(t) & TCP_LOCAL_RESET_SEEN) || is_over(t) ||
	    !is_read_in_ring(t) || shm_tx_unread(&t->ring) == 0)
		return;
	tcp_set_local(t, TCP_LOCAL_RESET | TCP_LOCAL_RESET_SEEN);
}

void tcp_note_end(struct tcp *t)
{
	uint64_t notice = shm_peer_notice(&t->ring);

	if ((notice & SHM_LEFT) || (own_local(t) & TCP_LOCAL_DISCONNECTED))
		return; /* the kernel alone knows how it ends */
	/* Only a death leaves the kernel's end of file without either flag, once the peer is
	 * attached; but who has shut down reading himself sees that end always. */
	if ((notice & SHM_RX_READY) && !(notice & (SHM_TX_FIN | SHM_CLOSED)) &&
	    !(own_local(t) & TCP_LOCAL_SHUT_RD))
		t->peer_gone = true;
	/* Who closes with bytes of a side unread that has left resets the connection (tcp_refuses):
	 * the kernel tells it, to one of all who hold the socket. */
	if (tcp_has_left(t) && (notice & SHM_CLOSED))
		return;
	tcp_note_reset(t);
}

void tcp_note_dead(struct tcp *t)
{
	t->peer_gone = true;
	tcp_note_end(t);
}

#define READABLE (POLLIN | POLLRDNORM)
#define WRITABLE (POLLOUT | POLLWRNORM)

bool tcp_is_ending(const struct tcp *t)
{
	return (shm_peer_notice(&t->ring) & (SHM_TX_FIN | SHM_CLOSED | SHM_DEAD | SHM_LEFT)) ||
	       (shm_own_notice(&t->ring) & (SHM_TX_FIN | SHM_LEFT)) ||
	       (own_local(t) & ~TCP_LOCAL_URGENT) || t->peer_gone;
}

/* What only we know of the connection's end: a side shut for reading, a reset that the survivor
 * makes. */
static unsigned end_states(struct tcp *t)
{
	uint32_t local;
	unsigned ready = 0;

	if (UNLIKELY(shm_peer_notice(&t->ring) & (SHM_CLOSED | SHM_DEAD)))
		tcp_note_end(t);
	local = own_local(t);
	if (UNLIKELY(local & TCP_LOCAL_SHUT_RD))
		ready |= READABLE | POLLRDHUP;
	/* Once it is told, the kernel says the rest of a side that has left: its socket may be no
	 * connection any more. Of one that was disconnected it does so before. */
	if (UNLIKELY(local & TCP_LOCAL_RESET_SEEN) &&
	    (!tcp_has_left(t) ||
	     (local & (TCP_LOCAL_RESET | TCP_LOCAL_DISCONNECTED)) == TCP_LOCAL_RESET))
		ready |= READABLE | WRITABLE | POLLRDHUP | POLLHUP;
	if (UNLIKELY(local & TCP_LOCAL_RESET))
		ready |= POLLERR;
	return ready;
}

bool tcp_is_reset(struct tcp *t)
{
	(void)end_states(t);
	return own_local(t) & TCP_LOCAL_RESET_SEEN;
}

unsigned tcp_ready(struct tcp *t, unsigned events)
{
	unsigned ready = end_states(t);

	if ((events & READABLE) && enough_to_read(t))
		ready |= READABLE;
	if ((events & WRITABLE) && shm_tx_mode(&t->ring) == SHM_TX_RING && !tcp_peer_left(t) &&
	    shm_tx_writable(&t->ring, tcp_size_of_buffers(t)))
		ready |= WRITABLE;
	return ready & (events | POLLERR | POLLHUP);
}

/* A ring that has ended and is read out counts as left, before anybody notes it in rx_mode. */
unsigned tcp_on_kernel(struct tcp *t)
{
	return (receiving_from_ring(t) && !shm_rx_ended(&t->ring) ? 0 : POLLIN) |
	       (shm_tx_mode(&t->ring) == SHM_TX_RING ? 0 : POLLOUT);
}

short tcp_kernel_events(struct tcp *t, unsigned events)
{
	short wanted = POLLERR | POLLHUP;

	if (!receiving_from_ring(t))
		wanted |= (short)(events & (POLLIN | POLLRDNORM | POLLPRI));
	/* Once the peer has half-closed, its FIN would wake us for ever. */
	if (!(own_local(t) & TCP_LOCAL_EOF) || (events & (POLLIN | POLLRDHUP)))
		wanted |= POLLRDHUP | (short)(events & POLLIN);
	if (((events & (POLLOUT | POLLWRNORM)) && shm_tx_mode(&t->ring) != SHM_TX_RING) ||
	    UNLIKELY(tcp_owes(t)))
		wanted |= POLLOUT;
	return wanted;
}

/* What the kernel's answer means, given where the bytes are. */
static unsigned merge(struct tcp *t, unsigned kernel, unsigned events)
{
	unsigned ready;

	if (kernel & (POLLRDHUP | POLLHUP)) {
		tcp_set_local(t, TCP_LOCAL_EOF);
		tcp_note_end(t);
	}
	ready = tcp_ready(t, events);
	/* Dissolved from here, by somebody who may not have said so yet: that is no end of the
	 * peer's. */
	if (UNLIKELY(kernel & POLLHUP) && !(kernel & POLLRDHUP))
		return (kernel & (events | POLLERR | POLLHUP | POLLNVAL)) | (ready & POLLERR);
	ready |= kernel & (POLLERR | POLLHUP | POLLRDHUP | POLLPRI | POLLNVAL);
	if (!receiving_from_ring(t) || (kernel & (POLLRDHUP | POLLERR | POLLHUP)) ||
	    tcp_is_short(t))
		ready |= kernel & READABLE;
	if (shm_tx_mode(&t->ring) != SHM_TX_RING || (kernel & (POLLERR | POLLHUP)) ||
	    tcp_peer_left(t) || (shm_own_notice(&t->ring) & SHM_TX_FIN))
		ready |= kernel & WRITABLE;
	return ready & (events | POLLERR | POLLHUP | POLLNVAL);
}

/* The kernel's bytes may all have been read, or the ring may hold the first of them: settle
 * which. */
static void settle_receive_mode(struct tcp *t, int fd)
{
	uint64_t size;

	if (!receiving_from_ring(t) && shm_peer_tx_mode(&t->ring) != SHM_TX_KERNEL)
		(void)tcp_inq(t, fd, &size);
}

bool tcp_is_split(struct tcp *t)
{
	return UNLIKELY(!receiving_from_ring(t)) && shm_rx_maybe(&t->ring);
}

bool tcp_has(struct tcp *t, int fd, uint64_t size)
{
	uint64_t there;
	int e = tcp_inq(t, fd, &there);

	return e < 0 ? e == -EBADMSG : there >= size;
}

bool tcp_is_short(struct tcp *t)
{
	uint32_t wanted = low_water(t);

	return UNLIKELY(wanted > 1) && shm_peer_tx_mode(&t->ring) == SHM_TX_ENDED &&
	       shm_rx_maybe(&t->ring) && shm_rx_waiting(&t->ring) < wanted;
}

/* Neither the kernel nor the ring may have SO_RCVLOWAT bytes, and both together do. */
static bool parts_are_enough(struct tcp *t, int fd)
{
	return (tcp_is_split(t) || tcp_is_short(t)) && tcp_has(t, fd, low_water(t));
}

bool tcp_is_split_enough(struct tcp *t, int fd)
{
	uint64_t low = low_water(t), left;
	bool is;

	if (LIKELY(low <= 1) || !tcp_is_split(t) || !shm_lock(&t->ring.own->rx_lock))
		return false;
	is = tcp_count_left(fd, shm_peer_kernel_at(&t->ring),
			    shm_peer_tx_mode(&t->ring) != SHM_TX_RING, &left) == 0 &&
	     left + shm_rx_waiting(&t->ring) >= low;
	shm_unlock(&t->ring.own->rx_lock);
	return is;
}

/* A reset sets the error first, then the state, then what is shut down. */
static bool is_half_reset(unsigned short kernel)
{
	return ((kernel & POLLERR) && !(kernel & POLLHUP)) ||
	       ((kernel & POLLHUP) && !(kernel & POLLRDHUP));
}

/*
 * The kernel's poll reads a socket's fields without its lock, so one who does not sleep may look
 * into the midst of a reset. Whatever takes the lock waits for the end of it.
 */
static int look_at_socket(struct pollfd *p)
{
	struct timespec now = { 0, 0 };
	int queued, n = raw_ppoll(p, 1, &now);

	if (LIKELY(n <= 0) || LIKELY(!is_half_reset((unsigned short)p->revents)))
		return n;
	(void)raw_ioctl(p->fd, SIOCINQ, &queued);
	return raw_ppoll(p, 1, &now);
}

void tcp_look_for_end(struct tcp *t, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	if (look_at_socket(&p) <= 0 || !(p.revents & (POLLRDHUP | POLLHUP)))
		return;
	tcp_set_local(t, TCP_LOCAL_EOF);
	tcp_note_end(t);
}

/* Of a connection that its peer has reset nothing can be received either; of one that is dissolved
 * that has not been said. */
bool tcp_is_dissolved(const struct tcp *t, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	if (tcp_is_disconnected(t))
		return true;
	return look_at_socket(&p) > 0 && (p.revents & POLLHUP) && !(p.revents & POLLRDHUP);
}

unsigned tcp_poll(struct tcp *t, int fd, unsigned events)
{
	struct pollfd p = { .fd = fd, .events = (short)(events | POLLRDHUP) };

	(void)tcp_return(t, fd);
	settle_receive_mode(t, fd);
	if (look_at_socket(&p) < 0)
		return 0;
	if ((events & (READABLE | POLLRDHUP)) && !(p.revents & (POLLRDHUP | POLLHUP | POLLERR)) &&
	    tcp_end_is_awaited(t)) {
		tcp_end_await(t, fd);
		if (look_at_socket(&p) < 0)
			return 0;
	}
	tcp_settle_end(t);
	if (parts_are_enough(t, fd))
		p.revents |= (short)(events & READABLE);
	return merge(t, (unsigned short)p.revents, events);
}

int tcp_shutdown(struct tcp *t, int fd, int how)
{
	bool passed_on = false;
	int e;

	/* What somebody else has dissolved is none of the peer's matter any more. */
	if (UNLIKELY(tcp_has_left(t)) && (tcp_is_disconnected(t) || tcp_count_is_closed(fd)))
		return raw_shutdown(fd, how);
	/* A reset that comes before is one. */
	if (UNLIKELY(tcp_peer_left(t)))
		tcp_note_end(t);
	if (how == SHUT_WR || how == SHUT_RDWR) {
		/* Under the lock: no byte of another thread follows the flag. */
		if (!shm_lock(&t->ring.own->tx_lock))
			return -EAGAIN;
		shm_notice_set(&t->ring, SHM_TX_FIN);
		if (UNLIKELY(tcp_owes(t)))
			(void)tcp_return_last(t, fd, TCP_LAST_SHUT);
		passed_on = tcp_is_passed_on(t);
		shm_unlock(&t->ring.own->tx_lock);
	}
	if (how == SHUT_RD || how == SHUT_RDWR)
		tcp_set_local(t, TCP_LOCAL_SHUT_RD);
	e = LIKELY(!passed_on) ? raw_shutdown(fd, how)
	    : how == SHUT_RDWR ? raw_shutdown(fd, SHUT_RD)
			       : 0;
	/* From now on the kernel answers bytes by a reset, if it is the one that gets them. */
	if (own_local(t) & TCP_LOCAL_SHUT_RD && shm_own_notice(&t->ring) & SHM_TX_FIN)
		shm_notice_set(&t->ring, SHM_WANT_KERNEL);
	return own_local(t) & TCP_LOCAL_RESET_SEEN && e == 0 ? -ENOTCONN : e;
}

void tcp_note_shut(struct tcp *t, int fd)
{
	bool is_deaf = tcp_count_is_deaf(fd), is_shut = tcp_count_is_shut(fd);

	if (is_deaf)
		tcp_set_local(t, TCP_LOCAL_SHUT_RD);
	if (is_shut)
		shm_notice_set(&t->ring, SHM_TX_FIN | (is_deaf ? SHM_WANT_KERNEL : 0));
}

static void say_closed(struct tcp *t)
{
	uint32_t abrupt = shm_own_notice(&t->ring) & SHM_TX_FIN ? 0 : SHM_ABRUPT;

	shm_notice_set(&t->ring, SHM_TX_FIN | SHM_CLOSED | abrupt);
}

void tcp_close(struct tcp *t, int fd)
{
	enum shm_rest rest = shm_close_holder(&t->ring);
	bool locked;

	if (LIKELY(rest == SHM_REST_HELD))
		return;
	tcp_close_for_outside(t, fd);
	locked = shm_lock(&t->ring.own->tx_lock);
	if (LIKELY(rest == SHM_REST_NONE))
		say_closed(t);
	if (UNLIKELY(tcp_owes(t)))
		(void)tcp_return_last(t, fd,
				      rest == SHM_REST_NONE ? TCP_LAST_CLOSED : TCP_LAST_OF_MANY);
	if (locked)
		shm_unlock(&t->ring.own->tx_lock);
	if (tcp_refuses(t))
		tcp_reset(fd);
}

bool tcp_is_broken_pipe(const struct tcp *t)
{
	return (own_local(t) & TCP_LOCAL_RESET_SEEN) && has_ended_in_order(t);
}

bool tcp_has_reset(const struct tcp *t)
{
	return own_local(t) & TCP_LOCAL_RESET;
}

bool tcp_may_be_reset(struct tcp *t)
{
	return !tcp_is_reset(t) && !tcp_peer_left(t) && is_read_in_ring(t) &&
	       shm_tx_unread(&t->ring) > 0;
}

bool tcp_finds_reset(struct tcp *t, int fd)
{
	if (tcp_may_be_reset(t))
		tcp_look_for_end(t, fd);
	return tcp_has_reset(t);
}

bool tcp_urgent_is_gone(struct tcp *t, int fd)
{
	(void)tcp_finds_reset(t, fd);
	return tcp_is_reset(t) && !tcp_is_broken_pipe(t);
}

int tcp_take_error(struct tcp *t, int fd)
{
	socklen_t len = sizeof(int);
	uint32_t before;
	int kernel;

	if (UNLIKELY(tcp_peer_left(t)))
		tcp_note_end(t);
	before = atomic_fetch_and(&t->ring.own->local, ~TCP_LOCAL_RESET);
	if (!(before & TCP_LOCAL_RESET))
		return 0;
	/* The kernel may know of the same one, which is told once. */
	(void)raw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &kernel, &len);
	return tcp_is_broken_pipe(t) ? EPIPE : ECONNRESET;
}

int tcp_take_receive_error(struct tcp *t, int fd)
{
	return tcp_is_broken_pipe(t) && !tcp_is_disconnected(t) ? 0 : tcp_take_error(t, fd);
}

void tcp_note_told(struct tcp *t)
{
	if (own_local(t) & TCP_LOCAL_DISCONNECTED)
		return;
	tcp_set_local(t, TCP_LOCAL_RESET_SEEN);
	(void)atomic_fetch_and(&t->ring.own->local, ~TCP_LOCAL_RESET);
}

void tcp_keep_error(struct tcp *t, int error)
{
	if (error == ECONNRESET)
		tcp_set_local(t, TCP_LOCAL_RESET);
	/* The kernel may have made this reset: the number of the error depends on whether it was
	 * seen. */
	if (error == EPIPE && has_ended_in_order(t) && !is_over(t))
		tcp_set_local(t, TCP_LOCAL_RESET | TCP_LOCAL_RESET_SEEN);
}

static int get_option(int fd, int level, int option, int otherwise)
{
	socklen_t len = sizeof(int);
	int value = otherwise;

	return raw_getsockopt(fd, level, option, &value, &len) < 0 ? otherwise : value;
}

static uint64_t get_timeout(int fd, int option)
{
	struct timeval tv;
	socklen_t len = sizeof(tv);

	if (raw_getsockopt(fd, SOL_SOCKET, option, &tv, &len) < 0)
		return 0;
	return (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec;
}

/* It takes up to a 16th more than both (measured with pieces of 10 B to 64 KiB and buffers of 1 to
 * 256 KiB). */
uint64_t tcp_size_of_buffers(const struct tcp *t)
{
	uint64_t own = atomic_load_explicit(&t->ring.own->size_sndbuf, memory_order_relaxed);
	uint64_t peer = own ? shm_peer_rcvbuf(&t->ring) : 0;

	return peer ? (own + peer) / 8 * 9 : UINT64_MAX;
}

/* The sizes of those buffers that the program has given the socket. */
static void note_buffers(struct shm_side *own, int fd)
{
	int given = get_option(fd, SOL_SOCKET, SO_BUF_LOCK, 0);

	atomic_store(&own->size_sndbuf, given & SOCK_SNDBUF_LOCK
						? (uint32_t)get_option(fd, SOL_SOCKET, SO_SNDBUF, 0)
						: 0);
	atomic_store(&own->size_rcvbuf, given & SOCK_RCVBUF_LOCK
						? (uint32_t)get_option(fd, SOL_SOCKET, SO_RCVBUF, 0)
						: 0);
}

/* No more than comes before a full buffer, or the largest ring, stops the sender: the kernel sees
 * to that too, whatever was set first. */
static uint32_t low_water_of(const struct tcp *t, int fd)
{
	uint32_t low = (uint32_t)MAX(get_option(fd, SOL_SOCKET, SO_RCVLOWAT, 1), 1);
	uint32_t size_given = atomic_load(&t->ring.own->size_rcvbuf);
	uint32_t size = MIN(size_given ? size_given : UINT32_MAX, t->ring.rx_size[SHM_N_RINGS - 1]);

	return MIN(low, MAX(size / 2, 1u));
}

void tcp_attach(struct tcp *t, int fd)
{
	struct shm_side *own = t->ring.own;
	int flags = raw_fcntl(fd, F_GETFL, 0);

	atomic_store(&own->nonblock, flags >= 0 && (flags & O_NONBLOCK));
	atomic_store(&own->usec_rcvtimeo, get_timeout(fd, SO_RCVTIMEO));
	atomic_store(&own->usec_sndtimeo, get_timeout(fd, SO_SNDTIMEO));
	atomic_store(&own->inq, (uint32_t)get_option(fd, IPPROTO_TCP, TCP_INQ, 0));
	note_buffers(own, fd);
	atomic_store(&own->rcvlowat, low_water_of(t, fd));
}

bool tcp_heeds(int level, int option)
{
	if (level != SOL_SOCKET)
		return level == IPPROTO_TCP && option == TCP_INQ;
	switch (option) {
	case SO_RCVLOWAT:
	case SO_RCVTIMEO_OLD:
	case SO_RCVTIMEO_NEW:
	case SO_SNDTIMEO_OLD:
	case SO_SNDTIMEO_NEW:
	case SO_SNDBUF:
	case SO_SNDBUFFORCE:
	case SO_RCVBUF:
	case SO_RCVBUFFORCE:
	case SO_BUF_LOCK:
		return true;
	default:
		return false;
	}
}
