/*
 * Datagrams that were sent by a flow and will not be taken from it.
 *
 * A peer that is gone leaves them unread. On the kernel a connected socket hears of it
 * (ECONNREFUSED) by the answer to its next datagram; here by psid's word that the peer is dead, or
 * from the kernel, which is asked now and then while something stays unread.
 *
 * A peer whose socket goes to another program gives them back: they are sent once more, through the
 * kernel. Whoever waits for an answer does that before it sleeps; therefore it watches the flow as
 * well (datagram_wait.c).
 *
 * What the kernel knows of by itself it tells the first call that asks. That may be one of ours
 * which has nobody to tell: the error is kept then, for the next call of the program, whatever it
 * does. It is the socket's: where several processes have that, the word that says so is theirs
 * together (nursery.c), and whoever takes it away tells. So it is with a loss, by a word in the
 * flow.
 */
#include <errno.h>

#include "clock.h"
#include "datagram.h"
#include "datagram_hint.h"
#include "macros.h"
#include "rawsys.h"

/* A peer that leaves a datagram unread for so long may be gone. */
#define NSEC_CHECK (100 * 1000 * NSEC_PER_USEC)

static bool is_own_socket(const pulc_stream *s, int fd)
{
	return flow_cookie(fd, SO_COOKIE) == s->cookie;
}

/* Another process that holds the socket may have dissolved what we know of: then the kernel refuses
 * nothing any more. */
static bool is_connected(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	return raw_syscall(SYS_getpeername, fd, &peer, &len, 0, 0, 0) >= 0;
}

/* Is there, as far as the kernel can be asked, a socket that takes what s sends? */
static bool is_received(const pulc_stream *s, struct flow *f)
{
	struct datagram_address own;

	return flow_local(f, s->fd, &own) && is_own_socket(s, s->fd) &&
	       datagram_kernel_has_receiver(&own, &f->peer);
}

/* Nobody reads what was sent to the peer, and the kernel knows why. Between enter and leave. */
static bool is_deserted(pulc_stream *s, struct flow *f)
{
	struct datagram *d = s->datagram;
	struct datagram_address own;
	uint64_t head, now = nsec_now(), notice = shm_peer_notice(&f->queue.ring);
	bool stands;

	/* It has said itself that it takes no more: what was sent before was dropped in silence,
	 * and what is sent from then on goes through the kernel. */
	if (notice & (SHM_CLOSED | SHM_WANT_KERNEL))
		return false;
	if (udp_loss_is_told(&f->queue))
		return false;
	/* Of a child of who has died, or ended, psid may not know. */
	if (notice & SHM_DEAD)
		return !is_received(s, f);
	if (now - d->nsec_checked < NSEC_CHECK)
		return false;
	d->nsec_checked = now;
	head = shm_sent(&f->queue.ring);
	stands = shm_tx_unread(&f->queue.ring) > head - d->head_checked;
	d->head_checked = head;
	return stands && flow_local(f, s->fd, &own) && is_own_socket(s, s->fd) &&
	       is_connected(s->fd) && !datagram_kernel_has_receiver(&own, &f->peer);
}

void datagram_send_unread(struct flow *f, int fd)
{
	if (udp_is_left(&f->queue) && is_own_socket(f->stream, fd) &&
	    udp_send_again(&f->queue, fd) < 0)
		datagram_keep_refusal(f->stream);
}

void datagram_keep_refusal(pulc_stream *s)
{
	_Atomic uint8_t *refused = nursery_refused(s->nursery);

	if (refused)
		atomic_store(refused, true);
	atomic_store(&s->datagram->loss, LOSS_REFUSED);
	/* It comes before what waits in queues. */
	atomic_store(&s->datagram->rx.first_in_kernel, UDP_UNKNOWN);
	/* Who was woken by the kernel may have found nothing there. */
	if (!client_lock())
		return;
	datagram_rouse(s);
	client_unlock();
}

void datagram_forget_refusal(pulc_stream *s)
{
	_Atomic uint8_t *refused = nursery_refused(s->nursery);

	if (refused && atomic_load(refused))
		atomic_store(refused, false);
	atomic_store(&s->datagram->loss, LOSS_NONE);
}

/* Nobody of those that have the socket has told it. */
static bool is_untold(struct datagram *d)
{
	struct flow *f;
	bool untold;

	datagram_enter(d);
	f = atomic_load(&d->to_peer);
	untold = !f || !udp_loss_is_told(&f->queue);
	datagram_leave(d);
	return untold;
}

enum datagram_loss datagram_ask_loss(pulc_stream *s)
{
	_Atomic uint8_t *refused = nursery_refused(s->nursery);
	uint8_t loss = atomic_load(&s->datagram->loss);

	if (refused && atomic_load(refused))
		return LOSS_REFUSED;
	if (loss == LOSS_SEEN ? is_untold(s->datagram) : loss == LOSS_NONE || !refused)
		return loss;
	(void)atomic_compare_exchange_strong(&s->datagram->loss, &loss, LOSS_NONE);
	return LOSS_NONE;
}

bool datagram_send_again(pulc_stream *s, struct flow *f, int fd)
{
	if (LIKELY(!udp_is_left(&f->queue)))
		return false;
	datagram_send_unread(f, fd);
	datagram_flow_over(s, f);
	return true;
}

uint64_t datagram_check_peer(pulc_stream *s)
{
	struct datagram *d = s->datagram;
	struct flow *f = datagram_awaited(d);

	if (!f || shm_tx_unread(&f->queue.ring) == 0 || datagram_has_loss(s) ||
	    datagram_send_again(s, f, s->fd))
		return UINT64_MAX;
	if (f != atomic_load_explicit(&d->to_peer, memory_order_acquire))
		return UINT64_MAX;
	if (is_deserted(s, f))
		atomic_store(&d->loss, LOSS_SEEN);
	return NSEC_CHECK;
}

/* Of several threads, and several processes, one is told, the others go on. */
static bool take_loss(pulc_stream *s)
{
	struct datagram *d = s->datagram;
	struct flow *f;
	bool is_first;

	if (atomic_exchange(&d->loss, LOSS_NONE) == LOSS_NONE)
		return false;
	datagram_enter(d);
	f = atomic_load(&d->to_peer);
	is_first = !f || udp_tell_loss(&f->queue);
	if (f)
		datagram_flow_over(s, f);
	datagram_leave(d);
	return is_first;
}

static bool take_refusal(pulc_stream *s)
{
	_Atomic uint8_t *refused = nursery_refused(s->nursery);
	uint8_t loss = LOSS_REFUSED;
	bool taken = atomic_compare_exchange_strong(&s->datagram->loss, &loss, LOSS_NONE);

	return refused ? atomic_exchange(refused, false) : taken;
}

int datagram_take_loss(pulc_stream *s)
{
	enum datagram_loss loss = datagram_loss(s);

	if (LIKELY(loss == LOSS_NONE))
		return 0;
	return (loss == LOSS_REFUSED ? take_refusal(s) : take_loss(s)) ? -ECONNREFUSED : 0;
}
