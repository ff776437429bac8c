/*
 * HAL tcp by io_uring.
 *
 * One receive stands for all: it completes once for each piece that arrives, into buffers that were
 * lent to the kernel, until those are used up. A piece is copied behind what has arrived before and
 * its buffer lent again; what finds no room keeps its buffer, so that in the end the kernel has
 * none, the receive ends, and TCP holds up the sender. One send is on its way at a time, over
 * everything that waits; frames that are sent meanwhile go together with the next.
 *
 * A completion needs no call: pending() looks at the ring. Whoever sleeps does so on the ring's
 * descriptor.
 *
 * Requests belong to the thread that made them: if it exits they come back cancelled and are made
 * again. What the kernel has still to do for one of them that thread does on its next way out of
 * the kernel, and is sent there as if by a signal: a wait that the kernel does not restart by
 * itself (epoll_wait) ends with EINTR. A ring can leave all of this until its owner asks
 * (IORING_SETUP_DEFER_TASKRUN), but then no other thread may use it, and a link is used by whoever
 * has the lock. A program that must not see EINTR asks for the plain way.
 *
 * The memory that the kernel looks at is its own mapping, shared with forked children rather than
 * copied under the kernel's eyes; stop() returns when no request is left that could touch it.
 *
 * Source: io_uring(7), io_uring_prep_recv_multishot(3), io_uring_register_buf_ring(3); Linux 6.0 is
 * the first with all of it.
 */
#include "tcp_link_private.h"

#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cleanup.h"
#include "clock.h"
#include "copy.h"
#include "macros.h"

#define N_BUFFERS 16u
#define SIZE_BUFFER 16384u
#define N_ENTRIES 32u /* as many completions as buffers, and some: twice this */
#define GROUP 0

#define TAG_RECEIVE 1u
#define TAG_SEND 2u

struct piece {
	uint16_t buffer;
	uint32_t at, len;
};

struct tcp_uring {
	struct io_uring ring;
	int home; /* where the ring's descriptor is kept */
	struct io_uring_buf_ring *lent;
	char *buffers;
	struct piece held[N_BUFFERS]; /* arrived, not copied; a ring */
	unsigned first, n_held;
	bool receives, sends; /* such a request is with the kernel */
	int end;	      /* behind the pieces that are held */
};

/* Room for the ring of buffers and the buffers. */
#define SIZE_LENT ALIGN_UP(N_BUFFERS * sizeof(struct io_uring_buf), 4096ul)
#define SIZE_MAP (SIZE_LENT + (size_t)N_BUFFERS * SIZE_BUFFER)

/* The ring, for a call into the kernel: its descriptor may have been moved since the last one. */
static struct io_uring *ring_of(struct tcp_uring *u)
{
	u->ring.ring_fd = u->ring.enter_ring_fd = u->home;
	return &u->ring;
}

static void lend(struct tcp_uring *u, uint16_t buffer)
{
	io_uring_buf_ring_add(u->lent, u->buffers + (size_t)buffer * SIZE_BUFFER, SIZE_BUFFER,
			      buffer, io_uring_buf_ring_mask(N_BUFFERS), 0);
	io_uring_buf_ring_advance(u->lent, 1);
}

/* Comes again of itself, or says nothing about the connection. */
static bool is_passing(int error)
{
	return error == -EAGAIN || error == -EINTR || error == -ECANCELED || error == -ENOBUFS ||
	       error == -ENOMEM;
}

static void received(struct tcp_uring *u, const struct io_uring_cqe *cqe)
{
	if (!(cqe->flags & IORING_CQE_F_MORE))
		u->receives = false;
	if (cqe->res > 0 && (cqe->flags & IORING_CQE_F_BUFFER) && u->n_held < N_BUFFERS)
		u->held[(u->first + u->n_held++) % N_BUFFERS] = (struct piece){
			.buffer = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT),
			.len = (uint32_t)cqe->res,
		};
	else if (!is_passing(cqe->res))
		u->end = -EPIPE;
}

static void sent(struct hal_tcp *h, int res)
{
	h->uring->sends = h->out_is_read = false;
	if (res > 0) {
		h->out.at += MIN((size_t)res, tcp_len(&h->out));
		h->unsure = true;
	} else if (!is_passing(res))
		h->tx_error = -EPIPE;
}

static void reap(struct hal_tcp *h)
{
	struct tcp_uring *u = h->uring;
	struct io_uring_cqe *cqe;
	unsigned head, n = 0;

	io_uring_for_each_cqe(&u->ring, head, cqe) {
		n++;
		if (cqe->user_data == TAG_RECEIVE)
			received(u, cqe);
		else if (cqe->user_data == TAG_SEND)
			sent(h, cqe->res);
	}
	io_uring_cq_advance(&u->ring, n);
}

/* From the lent buffers to where frames are shown. */
static void take_pieces(struct hal_tcp *h)
{
	struct tcp_uring *u = h->uring;
	struct tcp_buffer *in = &h->in;
	struct piece *p;
	size_t len;

	while (u->n_held > 0) {
		p = &u->held[u->first];
		if (TCP_SIZE_BUFFER - in->end < p->len)
			tcp_buffer_compact(in);
		len = MIN(TCP_SIZE_BUFFER - in->end, (size_t)p->len);
		copy_bytes(in->bytes + in->end,
			   u->buffers + (size_t)p->buffer * SIZE_BUFFER + p->at, len);
		in->end += len;
		p->at += (uint32_t)len;
		p->len -= (uint32_t)len;
		if (p->len > 0)
			return;
		lend(u, p->buffer);
		u->first = (u->first + 1) % N_BUFFERS;
		u->n_held--;
	}
	if (u->end && !h->rx_error)
		h->rx_error = u->end;
}

static void receive_again(struct hal_tcp *h)
{
	struct tcp_uring *u = h->uring;
	struct io_uring_sqe *sqe;

	if (u->receives || u->end || u->n_held == N_BUFFERS)
		return;
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe)
		return;
	io_uring_prep_recv_multishot(sqe, h->fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->user_data = TAG_RECEIVE;
	u->receives = true;
}

static void send_again(struct hal_tcp *h)
{
	struct tcp_uring *u = h->uring;
	struct io_uring_sqe *sqe;

	if (u->sends || h->tx_error || tcp_len(&h->out) == 0)
		return;
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe)
		return;
	io_uring_prep_send(sqe, h->fd, h->out.bytes + h->out.at, tcp_len(&h->out), MSG_NOSIGNAL);
	sqe->user_data = TAG_SEND;
	u->sends = h->out_is_read = true;
}

/* What was prepared goes to the kernel, together; what it finishes on the spot is taken. It may
 * refuse all calls for the ring from some time on, if the program has confined itself. */
static void submit(struct hal_tcp *h)
{
	struct tcp_uring *u = h->uring;
	int e;

	if (io_uring_sq_ready(&u->ring) == 0)
		return;
	e = io_uring_submit(ring_of(u));
	reap(h);
	if (e < 0 && !is_passing(e) && e != -EBUSY)
		h->tx_error = u->end = -EPIPE;
}

/* What was reaped and is for pull() to go on with, the ring tells nobody any more. */
static void owe(struct hal_tcp *h)
{
	const struct tcp_uring *u = h->uring;

	h->owed = u->n_held > 0 || (u->end ? !h->rx_error : !u->receives) ||
		  io_uring_sq_ready(&u->ring) > 0;
	if (h->owed)
		atomic_store_explicit(&h->hint, true, memory_order_relaxed);
}

static void uring_pull(struct hal_tcp *h)
{
	reap(h);
	take_pieces(h);
	receive_again(h);
	submit(h);
	take_pieces(h);
	owe(h);
}

static void uring_push(struct hal_tcp *h)
{
	reap(h);
	send_again(h);
	submit(h);
	owe(h);
}

static bool uring_pending(const struct hal_tcp *h)
{
	return io_uring_cq_ready(&h->uring->ring) > 0;
}

/* The ring's descriptor tells in any case. */
static int uring_watch(struct hal_tcp *h, hal_watch watch)
{
	(void)h, (void)watch;
	return 0;
}

static void uring_unwatch(struct hal_tcp *h, hal_watch watch)
{
	(void)h, (void)watch;
}

static int uring_fd(const struct hal_tcp *h)
{
	return h->uring->home;
}

/* What the kernel never took will not end. */
static void take_back(struct tcp_uring *u)
{
	const struct io_uring_sq *sq = &u->ring.sq;

	for (unsigned i = io_uring_sq_ready(&u->ring); i > 0; i--)
		if (sq->sqes[(sq->sqe_tail - i) & sq->ring_mask].user_data == TAG_SEND)
			u->sends = false;
		else
			u->receives = false;
}

/* The kernel refuses to take anything back, or to say when it has: the end of the connection ends
 * all requests, and each call of ours brings their completions. */
static void cut_off(const struct hal_tcp *h)
{
	const struct timespec a_moment = { .tv_nsec = 100 * NSEC_PER_USEC };

	(void)raw_shutdown(h->fd, SHUT_RDWR);
	(void)raw_syscall(SYS_nanosleep, &a_moment, NULL);
}

/*
 * Does not wait for the peer: a request that waits for one is taken back. But one that a worker of
 * the kernel's is busy with is not done when that call returns, and sends what it can until it
 * hears of it; so each must have said how it ended.
 */
static void uring_stop(struct hal_tcp *h)
{
	struct tcp_uring *u = h->uring;
	struct __kernel_timespec a_moment = { .tv_nsec = 1000 * NSEC_PER_USEC };
	struct io_uring_cqe *cqe;
	int e;

	if (io_uring_sq_ready(ring_of(u)) > 0 && io_uring_submit(ring_of(u)) < 0)
		take_back(u);
	while (u->receives || u->sends) {
		struct io_uring_sync_cancel_reg all = {
			.fd = -1,
			.flags = IORING_ASYNC_CANCEL_ANY,
			.timeout = { -1, -1 },
		};

		(void)io_uring_register_sync_cancel(ring_of(u), &all);
		e = io_uring_wait_cqe_timeout(ring_of(u), &cqe, &a_moment);
		if (e < 0 && e != -ETIME && !is_passing(e))
			cut_off(h);
		reap(h);
	}
}

static void uring_free(struct hal_tcp *h)
{
	struct tcp_uring *u = TAKE_PTR(h->uring);

	tcp_release_fd(&u->home);
	io_uring_queue_exit(ring_of(u));
	(void)munmap(u->lent, SIZE_MAP);
	free(u);
}

static const struct tcp_way uring = {
	.pull = uring_pull,
	.push = uring_push,
	.pending = uring_pending,
	.watch = uring_watch,
	.unwatch = uring_unwatch,
	.fd = uring_fd,
	.stop = uring_stop,
	.free = uring_free,
};

static int lend_all(struct tcp_uring *u)
{
	struct io_uring_buf_reg reg = {
		.ring_addr = (uintptr_t)u->lent,
		.ring_entries = N_BUFFERS,
		.bgid = GROUP,
	};
	int e = io_uring_register_buf_ring(ring_of(u), &reg, 0);

	if (e < 0)
		return e;
	io_uring_buf_ring_init(u->lent);
	for (uint16_t i = 0; i < N_BUFFERS; i++)
		lend(u, i);
	return 0;
}

/* An older kernel knows the request, but not that it may stand for many. */
static int try_receiving(struct hal_tcp *h)
{
	struct io_uring_cqe *cqe;
	int e;

	receive_again(h);
	e = io_uring_submit(ring_of(h->uring));
	if (e < 0)
		return e;
	if (io_uring_peek_cqe(&h->uring->ring, &cqe) == 0 && cqe->res == -EINVAL)
		return -EOPNOTSUPP;
	return 0;
}

static int map(struct tcp_uring *u)
{
	void *at = mmap(NULL, SIZE_MAP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	u->lent = at;
	u->buffers = (char *)at + SIZE_LENT;
	return 0;
}

/* A request on a non-blocking socket would not wait, but fail. */
static int make_waiting(int fd)
{
	int flags = raw_fcntl(fd, F_GETFL, 0);

	return flags < 0 ? flags : raw_fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

static int make_ring(struct tcp_uring *u)
{
	int e = io_uring_queue_init(N_ENTRIES, &u->ring, 0);

	if (e < 0)
		return e;
	e = tcp_keep_own(u->ring.ring_fd, &u->home);
	if (e < 0)
		io_uring_queue_exit(ring_of(u));
	return e;
}

/* On failure nothing is left of it. */
static int make(struct tcp_uring **ret_uring)
{
	struct tcp_uring *u = calloc(1, sizeof(*u));
	int e = u ? map(u) : -ENOMEM;

	if (e < 0) {
		free(u);
		return e;
	}
	u->home = -1;
	e = make_ring(u);
	if (e < 0) {
		(void)munmap(u->lent, SIZE_MAP);
		free(u);
		return e;
	}
	*ret_uring = u;
	return 0;
}

int tcp_uring_start(struct hal_tcp *h)
{
	int e = make(&h->uring);

	if (e < 0)
		return e;
	e = lend_all(h->uring);
	if (e == 0)
		e = make_waiting(h->fd);
	if (e == 0)
		e = try_receiving(h);
	if (e < 0)
		uring_free(h);
	else
		h->way = &uring;
	return e;
}
