/*
 * The end that a peer has announced, and that the kernel does not know of yet.
 *
 * A peer that closes or shuts down says so in memory (CLOSED, TX_FIN) and then makes the system
 * call. On loopback its FIN, or its reset, is usually there when that call returns; on a busy
 * machine the kernel puts the work off, for milliseconds. What the peer sends through the ring of
 * another connection is there at once, and a program that goes by the order of the two is misled.
 * The kernel alone knows what kind of end it is, and whether somebody else still holds the socket:
 * so the peer's word is not believed, but waited for, once for each connection and not for long, by
 * whoever has read out the ring and asks what there is.
 *
 * A word that nothing follows (another program holds the socket, the peer was stopped between the
 * two, it lies) costs one wait in NSEC_PAUSE of this process: nobody can hold a server up with it
 * for more than a hundredth of its time.
 */
#include <poll.h>

#include "clock.h"
#include "rawsys.h"
#include "tcp.h"
#include "tcp_local.h"

#define NSEC_PAUSE NSEC_PER_SEC

uint64_t tcp_end_nsec_wait = 10 * 1000 * NSEC_PER_USEC;
/* No wait before. */
static _Atomic uint64_t nsec_next;

bool tcp_end_is_awaited(const struct tcp *t)
{
	uint64_t notice = shm_peer_notice(&t->ring);

	return (notice & (SHM_TX_FIN | SHM_CLOSED)) && !(notice & (SHM_DEAD | SHM_LEFT)) &&
	       !atomic_load_explicit(&t->end_awaited, memory_order_relaxed) &&
	       shm_peer_tx_mode(&t->ring) == SHM_TX_RING && !shm_rx_maybe(&t->ring) &&
	       atomic_load_explicit(&t->ring.own->rx_mode, memory_order_relaxed) == TCP_RX_RING;
}

void tcp_end_await(struct tcp *t, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec most = timespec_from_nsec(tcp_end_nsec_wait);
	uint64_t now = nsec_now();

	if (now < atomic_load_explicit(&nsec_next, memory_order_relaxed))
		return;
	atomic_store_explicit(&t->end_awaited, true, memory_order_relaxed);
	if (raw_ppoll(&p, 1, &most) == 0)
		atomic_store_explicit(&nsec_next, now + NSEC_PAUSE, memory_order_relaxed);
}
