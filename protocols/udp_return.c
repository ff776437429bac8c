/*
 * Datagrams that were put into a queue and will not be taken from it: their receiver's socket goes
 * to a program that knows of no queue, so they have to be in the kernel. Only their sender can put
 * them there, for they must come from its socket.
 *
 * The receiver leaves the queue: it says exactly how far it has come, and takes nothing from then
 * on. The sender sends what follows once more when it next sends there or waits for an answer. One
 * that is dead or has closed cannot: then the queue is not left, and whoever has it reads it.
 */
#include <errno.h>

#include "rawsys.h"
#include "udp.h"

void udp_leave(struct udp_flow *f)
{
	_Atomic uint32_t *lock = &f->ring.own->rx_lock;
	enum shm_way way;

	udp_stop(f);
	if (shm_peer_notice(&f->ring) & (SHM_CLOSED | SHM_DEAD))
		return;
	way = shm_enter(lock, shm_is_alone(&f->ring));
	if (way == SHM_BUSY) /* a handler amid a receive */
		return;
	shm_rx_leave(&f->ring);
	shm_leave(lock, way);
}

/* What the kernel can't take now it would have dropped. Returns 0, or the error that was pending.
 * One that answers these has nobody to hear of it: to the kernel they went to a socket that was
 * there. */
static int send_pieces(struct udp_flow *f, int fd)
{
	struct iovec payload[2];
	struct msghdr msg = { .msg_name = &f->name,
			      .msg_namelen = f->len_name,
			      .msg_iov = payload,
			      .msg_iovlen = 2 };
	int error = 0, answer;
	socklen_t len = sizeof(answer);
	bool is_first = true;
	size_t size;

	for (; (size = shm_queue_returning(&f->ring, payload)) > 0; is_first = false) {
		if (raw_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == -ECONNREFUSED) {
			if (is_first)
				error = -ECONNREFUSED;
			(void)raw_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		}
		shm_tx_returned(&f->ring, size);
		udp_note_kernel_send(f->port);
	}
	if (!is_first)
		(void)raw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &answer, &len);
	return error;
}

int udp_send_again(struct udp_flow *f, int fd)
{
	_Atomic uint32_t *lock = &f->ring.own->tx_lock;
	enum shm_way way = shm_enter(lock, shm_is_alone(&f->ring));
	int e = 0;

	if (way == SHM_BUSY) /* amid a send, which looks afterwards */
		return 0;
	if (shm_tx_mode(&f->ring) != SHM_TX_RETURNED)
		e = shm_tx_return(&f->ring);
	if (e == 0)
		e = send_pieces(f, fd);
	shm_leave(lock, way);
	return e == -ECONNREFUSED ? e : 0;
}
