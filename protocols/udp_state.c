/*
 * What a udp socket is ready for, and the beginning and the end of its flows.
 *
 * A flow is taken in when it is bound to its memory, and opened to its sender (SHM_RX_READY) by
 * whoever knows that nobody is asleep inside the kernel's receive. It ends from either side: the
 * sender closes or dies, which leaves what it has sent to be read; or the receiver stops it
 * (SHM_WANT_KERNEL), because something about the socket has changed and the kernel has to decide
 * again who gets what.
 *
 * Both ends are counted in their areas as those of a TCP connection are: CLOSED comes when the last
 * process of a family closes. A family whose processes all died is told of by psid (SHM_DEAD).
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "rawsys.h"
#include "udp.h"

/* shm_side.local of a sender */
#define LOCAL_LOSS_TOLD 0x1u

/* Before a flow is opened: the first one's times matter to the kernel's datagrams alone, from the
 * second one on all are compared. What remains of several may be of other processes as well: so
 * nothing is taken back. */
static void tell_how_many(struct udp *u)
{
	struct udp_flow *first = NULL, *f;

	for (uint32_t i = 0; i < UDP_N_FLOWS; i++) {
		f = atomic_load(&u->flows[i]);
		if (!f)
			continue;
		if (!first) {
			first = f;
			continue;
		}
		shm_notice_take_back(&first->ring, SHM_RX_LONE);
		return;
	}
	if (first)
		shm_notice_set(&first->ring, SHM_RX_LONE);
}

bool udp_add(struct udp *u, int fd, struct udp_flow *f)
{
	struct timespec ts;
	struct udp_flow *nobody;

	/* The first time it only begins to take note, and answers that there is none yet. */
	(void)raw_ioctl(fd, SIOCGSTAMPNS, &ts);
	atomic_store(&u->first_in_kernel, UDP_UNKNOWN);
	for (uint32_t i = 0; i < UDP_N_FLOWS; i++) {
		nobody = NULL;
		if (!atomic_compare_exchange_strong(&u->flows[i], &nobody, f))
			continue;
		if (atomic_load(&u->n_flows) <= i)
			atomic_store(&u->n_flows, i + 1);
		if (atomic_load(&u->n_counted) <= i)
			atomic_store(&u->n_counted, i + 1);
		(void)atomic_fetch_or(&u->counted[i], UDP_COUNTS);
		tell_how_many(u);
		return true;
	}
	return false;
}

void udp_remove(struct udp *u, struct udp_flow *f)
{
	struct udp_flow *here;
	uint32_t n = 0;

	for (uint32_t i = 0; i < UDP_N_FLOWS; i++) {
		here = atomic_load(&u->flows[i]);
		if (here == f) {
			atomic_store(&u->counted[i],
				     (atomic_load(&u->counted[i]) + shm_mark(&f->ring)) &
					     ~UDP_COUNTS);
			atomic_store(&u->flows[i], NULL);
		} else if (here) {
			n = i + 1;
		}
	}
	atomic_store(&u->n_flows, n);
}

unsigned udp_poll(struct udp *u, int fd, unsigned events)
{
	struct pollfd p = { .fd = fd, .events = (short)events };
	struct timespec now = { 0, 0 };
	unsigned ready = 0;

	if (raw_ppoll(&p, 1, &now) > 0)
		ready = (unsigned short)p.revents;
	/* Whoever is told so finds it. */
	if (ready & ~(unsigned)POLLOUT)
		atomic_store(&u->first_in_kernel, UDP_UNKNOWN);
	if (udp_has_datagram(u))
		ready |= events & (POLLIN | POLLRDNORM);
	return ready;
}

bool udp_is_drained(struct udp_flow *f)
{
	uint64_t peer = shm_peer_notice(&f->ring);

	if (atomic_load_explicit(&f->broken, memory_order_relaxed) ||
	    (shm_own_notice(&f->ring) & SHM_LEFT))
		return true;
	return (peer & (SHM_CLOSED | SHM_DEAD)) && !shm_rx_maybe(&f->ring);
}

void udp_stop(struct udp_flow *f)
{
	shm_notice_set(&f->ring, SHM_WANT_KERNEL);
}

bool udp_loss_is_told(const struct udp_flow *f)
{
	return atomic_load(&f->ring.own->local) & LOCAL_LOSS_TOLD;
}

bool udp_tell_loss(struct udp_flow *f)
{
	return !(atomic_fetch_or(&f->ring.own->local, LOCAL_LOSS_TOLD) & LOCAL_LOSS_TOLD);
}

void udp_close(struct udp_flow *f, bool is_only_one)
{
	if (is_only_one)
		shm_drop_only_holder(&f->ring);
	if (is_only_one || shm_drop_last_holder(&f->ring))
		shm_notice_set(&f->ring, SHM_CLOSED);
}
