/*
 * Frames over a TCP connection.
 *
 * A frame on the wire is 16 bytes, little-endian (length of the payload, protocol, kind, word), and
 * its payload. A length beyond frame_max is -EBADMSG, before anything is waited for or allocated:
 * memory is two buffers, allocated at the beginning.
 *
 * Sending copies into one buffer and gives it to the kernel at once; what the kernel does not take
 * goes with later frames, as one piece. A full buffer is -EAGAIN. On the plain way a long frame is
 * given to the kernel where it lies, and only what that does not take is copied; behind such a rest
 * the next long one waits, which is a better place for it than a buffer that would be moved to make
 * room. Receiving fills the other buffer; a frame is shown when it is there as a whole, and copied
 * from there. A program that drops nothing leaves the buffer full, then the socket's, and TCP holds
 * up the sender.
 *
 * How the bytes get from and to the kernel is one of two ways with the same results: io_uring
 * (tcp_uring.c), or plain calls and epoll (tcp_plain.c) where that is forbidden or absent.
 *
 * The end: EOF and every error of the connection are -EPIPE, behind the frames that came whole;
 * half a frame at the end is nothing. close() sends what the kernel still takes, then a FIN, and
 * reads away what would turn that FIN into a reset; it cannot wait for a peer that reads nothing.
 *
 * Source: RFC 9293; length checks before use as everywhere in the project; the receiver's buffer as
 * a place, not a queue of allocations, after pulc-1998, 4.4.
 */
#include "tcp_link_private.h"

#include <endian.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "cleanup.h"
#include "clock.h"
#include "copy.h"
#include "macros.h"
#include "pairs.h"
#include "state.h"

#define N_GATHER 16u
/* A frame more is a call into the kernel more on either side; a byte is copied twice. */
#define COSTS                                                                                      \
	{                                                                                          \
		.nsec_frame = 4500, .psec_in = 250, .psec_out = 250                                \
	}
/* A frame that is not worth a copy. */
#define SIZE_DIRECT 4096u
/* What close() reads away at most. */
#define N_DRAIN 64u
/* A peer is gone when its kernel has answered nothing for so long, though it was asked so often. */
#define MSEC_SILENT 10000u
#define N_UNANSWERED 3u

int (*hal_tcp_keep_fd)(int fd, int *home);
void (*hal_tcp_release_fd)(int *home);

void tcp_release_fd(int *home)
{
	if (hal_tcp_release_fd)
		hal_tcp_release_fd(home);
	else
		*home = close_own(*home);
}

int tcp_keep_own(int fd, int *home)
{
	int e;

	if (!hal_tcp_keep_fd) {
		*home = fd;
		return 0;
	}
	e = hal_tcp_keep_fd(fd, home);
	(void)close_own(fd);
	return e;
}

static struct hal_tcp *of(const struct hal_link *link)
{
	return CONTAINER_OF(link, struct hal_tcp, link);
}

void tcp_buffer_compact(struct tcp_buffer *b)
{
	if (b->at == 0)
		return;
	memmove(b->bytes, b->bytes + b->at, tcp_len(b));
	b->end -= b->at;
	b->at = 0;
}

/* ---- what psid is shown of all links --------------------------------------------------------- */

static uint64_t n_sent, n_received, n_arrived, n_unsent;

static void show_buffers(struct hal_tcp *h, size_t n_in, size_t n_out)
{
	n_arrived += n_in - h->n_in;
	n_unsent += n_out - h->n_out;
	h->n_in = n_in;
	h->n_out = n_out;
	shm_state_set(SHM_TCP_ARRIVED, n_arrived);
	shm_state_set(SHM_TCP_UNSENT, n_unsent);
}

static void show_sent(struct hal_tcp *h, size_t len)
{
	n_sent += len;
	h->n_sent += len;
	shm_state_set(SHM_TCP_SENT, n_sent);
	shm_pair_set(h->shown, 1, h->n_sent);
	show_buffers(h, tcp_len(&h->in), tcp_len(&h->out));
}

static void show_received(struct hal_tcp *h, size_t len)
{
	n_received += len;
	h->n_received += len;
	shm_state_set(SHM_TCP_RECEIVED, n_received);
	shm_pair_set(h->shown, 0, h->n_received);
	show_buffers(h, tcp_len(&h->in), tcp_len(&h->out));
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool is_direct(const struct hal_tcp *h, size_t len)
{
	return h->way->direct && len >= SIZE_DIRECT;
}

static bool has_room(struct hal_tcp *h, size_t len)
{
	if (h->out.at == h->out.end && !h->out_is_read)
		h->out.at = h->out.end = 0;
	if (is_direct(h, len))
		return h->out.end == 0;
	if (TCP_SIZE_BUFFER - h->out.end < len && !h->out_is_read)
		tcp_buffer_compact(&h->out);
	return TCP_SIZE_BUFFER - h->out.end >= len;
}

static void append(struct tcp_buffer *out, const void *bytes, size_t len)
{
	copy_bytes(out->bytes + out->end, bytes, len);
	out->end += len;
}

/* What goes over the wire, in its pieces. Returns how many there are. */
static unsigned put_together(const struct hal_frame *f, const struct iovec *iov, unsigned n,
			     char head[TCP_HEAD], struct iovec all[1 + N_GATHER])
{
	const uint32_t len = htole32(f->len);
	const uint16_t numbers[2] = { htole16(f->protocol), htole16(f->kind) };
	const uint64_t word = htole64(f->word);
	size_t left = f->len;

	memcpy(head, &len, sizeof(len));
	memcpy(head + 4, numbers, sizeof(numbers));
	memcpy(head + 8, &word, sizeof(word));
	all[0] = (struct iovec){ .iov_base = head, .iov_len = TCP_HEAD };
	for (unsigned i = 0; i < n; i++) {
		size_t part = MIN(iov[i].iov_len, left);

		all[1 + i] = (struct iovec){ iov[i].iov_base, part };
		left -= part;
	}
	return 1 + n;
}

/* Sends what the kernel takes where it lies, and copies what it does not. */
static void send_frame(struct hal_tcp *h, const struct hal_frame *f, const struct iovec *iov,
		       unsigned n)
{
	struct iovec all[1 + N_GATHER];
	char head[TCP_HEAD];
	size_t done = 0, skip;

	n = put_together(f, iov, n, head, all);
	if (is_direct(h, TCP_HEAD + f->len))
		done = h->way->direct(h, all, n);
	for (unsigned i = 0; i < n; i++, done -= skip) {
		skip = MIN(done, all[i].iov_len);
		append(&h->out, (const char *)all[i].iov_base + skip, all[i].iov_len - skip);
	}
}

static int tcp_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		    unsigned n)
{
	struct hal_tcp *h = of(link);

	if (f->len > TCP_FRAME_MAX)
		return -EMSGSIZE;
	if (n > N_GATHER || hal_iov_size(iov, n) < f->len)
		return -EINVAL;
	if (h->tx_error || h->rx_error)
		return h->tx_error ? h->tx_error : h->rx_error;
	if (!has_room(h, TCP_HEAD + f->len)) {
		atomic_store_explicit(&h->refused, TCP_HEAD + f->len, memory_order_relaxed);
		h->way->push(h);
		if (h->tx_error || !has_room(h, TCP_HEAD + f->len))
			return h->tx_error ? h->tx_error : -EAGAIN;
	}
	if (atomic_load_explicit(&h->refused, memory_order_relaxed))
		atomic_store_explicit(&h->refused, 0, memory_order_relaxed);
	send_frame(h, f, iov, n);
	h->way->push(h);
	show_sent(h, TCP_HEAD + f->len);
	return h->tx_error;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Is the frame at the front whole? Nonsense becomes rx_error. */
static bool parse(struct hal_tcp *h, struct hal_frame *ret_f)
{
	const char *head = h->in.bytes + h->in.at;
	struct hal_frame f;

	if (h->rx_error == -EBADMSG || tcp_len(&h->in) < TCP_HEAD)
		return false;
	memcpy(&f.len, head, sizeof(f.len));
	memcpy(&f.protocol, head + 4, sizeof(f.protocol));
	memcpy(&f.kind, head + 6, sizeof(f.kind));
	memcpy(&f.word, head + 8, sizeof(f.word));
	f = (struct hal_frame){ le64toh(f.word), le32toh(f.len), le16toh(f.protocol),
				le16toh(f.kind) };
	if (f.len > TCP_FRAME_MAX)
		h->rx_error = -EBADMSG;
	if (f.len > TCP_FRAME_MAX || tcp_len(&h->in) - TCP_HEAD < f.len)
		return false;
	*ret_f = f;
	return true;
}

static void set_hint(struct hal_tcp *h, bool found)
{
	atomic_store_explicit(&h->hint, found || h->rx_error || h->owed, memory_order_relaxed);
}

static int tcp_next(struct hal_link *link, struct hal_frame *ret_f)
{
	struct hal_tcp *h = of(link);
	bool found = parse(h, ret_f);

	if (!found && !h->rx_error) {
		h->way->pull(h);
		found = parse(h, ret_f);
	}
	set_hint(h, found);
	return found ? 1 : h->rx_error;
}

static size_t tcp_copy(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	const struct hal_tcp *h = of(link);
	const char *from = h->in.bytes + h->in.at + TCP_HEAD;
	struct hal_frame f;
	size_t done = 0, len;

	if (!parse(of(link), &f))
		return 0;
	for (unsigned i = 0; i < n; i++, done += len) {
		len = MIN(iov[i].iov_len, f.len - done);
		copy_bytes(iov[i].iov_base, from + done, len);
	}
	return done;
}

static void tcp_drop(struct hal_link *link)
{
	struct hal_tcp *h = of(link);
	struct hal_frame f;

	if (parse(h, &f)) {
		h->in.at += TCP_HEAD + f.len;
		show_received(h, TCP_HEAD + f.len);
	}
	set_hint(h, parse(h, &f));
}

/* ---- silence --------------------------------------------------------------------------------- */

/*
 * A peer whose machine is gone sends neither FIN nor reset. While nothing is unacknowledged
 * keep-alive finds out, if whoever made the socket has asked for it; otherwise the kernel repeats
 * for a quarter of an hour, so we ask it how that goes. TCP_USER_TIMEOUT is of no use: it also ends
 * connections whose peer answers that it has no room.
 */
static void check_silence(struct hal_tcp *h)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int n_unacked = 0;

	h->nsec_checked = nsec_now();
	if (raw_ioctl(h->fd, TIOCOUTQ, &n_unacked) < 0)
		return;
	h->unsure = n_unacked > 0;
	if (!h->unsure || raw_getsockopt(h->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
	    info.tcpi_last_ack_recv < MSEC_SILENT ||
	    (unsigned)MAX(info.tcpi_retransmits, info.tcpi_probes) < N_UNANSWERED)
		return;
	if (!h->rx_error)
		h->rx_error = -EPIPE;
	if (!h->tx_error)
		h->tx_error = -EPIPE;
}

/* ---- moving on and waiting ------------------------------------------------------------------- */

/* Errors are next()'s to tell, behind the frames that came before them. */
static int tcp_progress(struct hal_link *link)
{
	struct hal_tcp *h = of(link);
	struct hal_frame f;

	if (UNLIKELY(h->unsure) && nsec_now() - h->nsec_checked >= NSEC_PER_SEC)
		check_silence(h);
	if (!h->rx_error)
		h->way->pull(h);
	if (!h->tx_error)
		h->way->push(h);
	if (h->tx_error || has_room(h, atomic_load_explicit(&h->refused, memory_order_relaxed)))
		atomic_store_explicit(&h->refused, 0, memory_order_relaxed);
	set_hint(h, parse(h, &f));
	show_buffers(h, tcp_len(&h->in), tcp_len(&h->out));
	return 0;
}

static bool tcp_pending(const struct hal_link *link)
{
	const struct hal_tcp *h = of(link);

	return atomic_load_explicit(&h->hint, memory_order_relaxed) || h->way->pending(h);
}

/* Refused, and nothing has happened since: no. */
static bool tcp_room(const struct hal_link *link)
{
	const struct hal_tcp *h = of(link);

	return atomic_load_explicit(&h->refused, memory_order_relaxed) == 0 || h->way->pending(h);
}

/* The kernel tells, through the descriptor, of whatever there is. */
static int tcp_watch(struct hal_link *link, hal_watch watch, unsigned events)
{
	struct hal_tcp *h = of(link);

	(void)events;
	return h->way->watch(h, watch);
}

static void tcp_unwatch(struct hal_link *link, hal_watch watch)
{
	struct hal_tcp *h = of(link);

	h->way->unwatch(h, watch);
}

/* The kernel does not say that nobody answers: who sleeps looks now and then. */
static bool tcp_is_trusted(const struct hal_link *link, hal_watch watch)
{
	struct hal_tcp *h = of(link);

	(void)watch;
	if (h->unsure)
		check_silence(h);
	return !h->unsure;
}

/* The mark: all bytes, and 1. They have left with the kernel. */
static int tcp_flush(const struct hal_link *link, uint64_t *mark)
{
	const struct hal_tcp *h = of(link);

	if (*mark == 0)
		*mark = h->n_sent + 1;
	if (h->n_sent - tcp_len(&h->out) >= *mark - 1)
		return 0;
	return h->tx_error ? h->tx_error : -EAGAIN;
}

static void tcp_tell(struct hal_link *link, unsigned did)
{
	(void)link, (void)did;
}

static int tcp_fd(const struct hal_link *link)
{
	const struct hal_tcp *h = of(link);

	return h->way->fd(h);
}

static bool tcp_peer_here(struct hal_link *link, uint32_t cpu)
{
	(void)link, (void)cpu;
	return false;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void release(struct hal_tcp *h)
{
	show_buffers(h, 0, 0);
	shm_pair_remove(h->shown);
	if (h->way)
		h->way->free(h);
	free(h->in.bytes);
	free(h->out.bytes);
	free(h);
}

static void let_go(struct hal_tcp *h)
{
	tcp_release_fd(&h->fd);
	release(h);
}

/* What went over the links so far is the parent's. */
static void tcp_forget(struct hal_link *link)
{
	n_sent = n_received = 0;
	let_go(of(link));
}

static void tcp_close(struct hal_link *link)
{
	struct hal_tcp *h = of(link);
	ssize_t len = 1;

	h->way->stop(h);
	while (tcp_len(&h->out) > 0 && len > 0) {
		len = raw_send(h->fd, h->out.bytes + h->out.at, tcp_len(&h->out),
			       MSG_DONTWAIT | MSG_NOSIGNAL);
		h->out.at += len > 0 ? (size_t)len : 0;
	}
	(void)raw_shutdown(h->fd, SHUT_WR);
	/* Closing with something unread would be a reset, which overtakes what was sent. */
	for (unsigned i = 0; i < N_DRAIN && len != 0; i++) {
		len = raw_recv(h->fd, h->in.bytes, TCP_SIZE_BUFFER, MSG_DONTWAIT);
		if (len < 0)
			break;
	}
	let_go(h);
}

static const struct hal_ops ops = {
	.name = "tcp",
	.version = HAL_VERSION,
	.send = tcp_send,
	.reserve = hal_no_reserve,
	.commit = hal_no_commit,
	.cancel = hal_no_cancel,
	.next = tcp_next,
	.copy = tcp_copy,
	.drop = tcp_drop,
	.put = hal_any_put,
	.take = hal_any_take,
	.progress = tcp_progress,
	.pending = tcp_pending,
	.room = tcp_room,
	.backlog = hal_no_backlog,
	.flush = tcp_flush,
	.watch = tcp_watch,
	.unwatch = tcp_unwatch,
	.is_trusted = tcp_is_trusted,
	.tell = tcp_tell,
	.fd = tcp_fd,
	.peer_here = tcp_peer_here,
	.expose = hal_no_expose,
	.conceal = hal_no_conceal,
	.write = hal_no_write,
	.close = tcp_close,
	.forget = tcp_forget,
};

int tcp_open(int fd, int (*start)(struct hal_tcp *h), struct hal_link **ret_link)
{
	struct hal_tcp *h = calloc(1, sizeof(*h));
	int type = 0, one = 1, e = -ENOMEM;
	socklen_t len = sizeof(type);

	if (!h)
		return -ENOMEM;
	h->fd = fd;
	h->epoll = -1;
	h->in.bytes = malloc(TCP_SIZE_BUFFER);
	h->out.bytes = malloc(TCP_SIZE_BUFFER);
	if (raw_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
		e = -EINVAL;
	else if (h->in.bytes && h->out.bytes)
		e = hal_tcp_keep_fd ? hal_tcp_keep_fd(fd, &h->fd) : 0;
	if (e == 0)
		e = start(h);
	if (e < 0) {
		if (h->fd != fd)
			tcp_release_fd(&h->fd);
		release(h);
		return e;
	}
	if (h->fd != fd)
		(void)close_own(fd);
	(void)raw_syscall(SYS_setsockopt, h->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	h->link.ops = &ops;
	h->link.caps = (struct hal_caps){
		.name = ops.name,
		.flags = HAL_ORDERED | HAL_RELIABLE,
		.frame_max = TCP_FRAME_MAX,
		.frame_good = TCP_FRAME_MAX,
		.n_gather = N_GATHER,
		.alignment = 1,
	};
	h->link.costs = (struct hal_costs)COSTS;
	h->link.inside = &h->hint;
	*ret_link = &h->link;
	return 0;
}

void hal_tcp_show(struct hal_link *link, uint32_t client)
{
	struct hal_tcp *h = of(link);

	h->shown = shm_pair_add(h->uring ? SHM_PAIR_URING : SHM_PAIR_TCP, client, 0);
	shm_pair_set(h->shown, 0, h->n_received);
	shm_pair_set(h->shown, 1, h->n_sent);
}

bool hal_tcp_is_uring(const struct hal_link *link)
{
	return of(link)->uring != NULL;
}
