/*
 * The repair layer: a HAL that loses, doubles, overtakes or carries only small frames, made into
 * one that every protocol can use.
 *
 * It is a link over a link. Frames of any size up to its own frame_max become packets (a head of 24
 * bytes and data) that are frames of the HAL below, word, protocol and kind among them. If the HAL
 * is reliable and in order, this cuts and joins only, and the HAL's own -EAGAIN holds a sender up;
 * otherwise the window of repair_send.c and repair_receive.c puts in order what comes, repeats what
 * is lost and holds a sender up when the peer does not take what it gets. Memory is bounded: two
 * windows, allocated at the beginning.
 *
 * Time comes from outside if wanted, so that tests need not wait. Nobody keeps a clock for a link:
 * progress() looks at it, the link's nsec_due and pending() say when, and is_trusted() answers no,
 * so a sleeper looks again in time.
 *
 * Remote memory passes through as it is; a note at its end only where the HAL is reliable, for it
 * has no number. Sending into the HAL's own buffers is done inside, from the window that repetition
 * needs anyway.
 *
 * A peer's death: what the HAL below knows of it (-EPIPE), behind all frames that came; with
 * nsec_dead also silence, to questions that were repeated. A peer that sends nonsense: -EBADMSG,
 * and nothing more is read from it.
 *
 * Source: DESIGN's "in one place: never inside a handler or a HAL"; pulc-1998, 4.4 (fragments); for
 * the window see repair_send.c.
 */
#include "repair_private.h"

#include <stdlib.h>

#include "clock.h"
#include "macros.h"

#define SIZE_FRAME 32768u
#define SIZE_FRAME_MOST (1u << 20)
/* A packet of this size costs little beside its copies; larger ones would only make the windows
 * larger. */
#define SIZE_PACKET_MOST 16384u
#define SIZE_WINDOW (1u << 20)
#define N_GATHER 16u
#define NSEC_FIRST_TIMEOUT (20 * 1000 * NSEC_PER_USEC)

static struct hal_repair *of(const struct hal_link *link)
{
	return CONTAINER_OF(link, struct hal_repair, link);
}

/* ---- the link -------------------------------------------------------------------------------- */

static int repair_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		       unsigned n)
{
	struct hal_repair *h = of(link);
	int e;

	if (f->len > link->caps.frame_max)
		return -EMSGSIZE;
	if (h->tx_error || h->rx_error)
		return h->tx_error ? h->tx_error : h->rx_error;
	e = repair_queue(h, f, iov, n);
	if (e == -EAGAIN) {
		repair_pull(h);
		repair_transmit(h);
		e = repair_queue(h, f, iov, n);
	}
	if (e == 0)
		repair_transmit(h);
	return e;
}

static int repair_next(struct hal_link *link, struct hal_frame *ret_f)
{
	struct hal_repair *h = of(link);
	const struct repair_slot *s;

	if (!h->ready)
		repair_pull(h);
	if (!h->ready)
		return h->rx_error;
	s = &h->rx[h->rx_first & h->mask];
	*ret_f = (struct hal_frame){ s->word, h->size_frame, s->protocol, s->kind };
	return 1;
}

static size_t copy_frame(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	return repair_copy(of(link), iov, n);
}

static void drop_frame(struct hal_link *link)
{
	repair_drop(of(link));
}

/* Errors are next()'s to tell, behind the frames that came before them. */
static int repair_progress(struct hal_link *link)
{
	struct hal_repair *h = of(link);
	int e = h->below->ops->progress(h->below);

	if (e < 0 && !h->tx_error)
		h->tx_error = e;
	repair_pull(h);
	repair_transmit(h);
	repair_maintain(h);
	return 0;
}

static bool repair_pending(const struct hal_link *link)
{
	const struct hal_repair *h = of(link);
	uint64_t nsec = atomic_load_explicit(&h->nsec_deadline, memory_order_relaxed);

	return atomic_load_explicit(&h->hint, memory_order_relaxed) ||
	       h->below->ops->pending(h->below) || (nsec != UINT64_MAX && repair_now(h) >= nsec);
}

/* Half of the window: what waits is acknowledged sooner or later, so this comes true. */
static bool repair_room(const struct hal_link *link)
{
	const struct hal_repair *h = of(link);

	return h->tx_end - h->tx_first <= repair_n_slots(h) / 2;
}

static int repair_watch(struct hal_link *link, hal_watch watch, unsigned events)
{
	struct hal_repair *h = of(link);

	/* Room comes with the peer's answers. */
	if ((events & HAL_WATCH_SPACE) && !h->reliable)
		events |= HAL_WATCH_DATA;
	return h->below->ops->watch(h->below, watch, events);
}

static void repair_unwatch(struct hal_link *link, hal_watch watch)
{
	struct hal_repair *h = of(link);

	h->below->ops->unwatch(h->below, watch);
}

static bool repair_is_trusted(const struct hal_link *link, hal_watch watch)
{
	(void)link, (void)watch;
	return false;
}

/* Packets are sent and taken whatever the owner did. */
static void repair_tell(struct hal_link *link, unsigned did)
{
	struct hal_repair *h = of(link);

	h->below->ops->tell(h->below, did ? HAL_DID_SEND | HAL_DID_TAKE : 0);
}

static int repair_fd(const struct hal_link *link)
{
	const struct hal_repair *h = of(link);

	return h->below->ops->fd(h->below);
}

static bool repair_peer_here(struct hal_link *link, uint32_t cpu)
{
	struct hal_repair *h = of(link);

	return h->below->ops->peer_here(h->below, cpu);
}

static int repair_expose(struct hal_link *link, void *addr, size_t len, uint64_t *ret_key)
{
	struct hal_repair *h = of(link);

	return h->below->ops->expose(h->below, addr, len, ret_key);
}

static void repair_conceal(struct hal_link *link, uint64_t key)
{
	struct hal_repair *h = of(link);

	h->below->ops->conceal(h->below, key);
}

static int repair_write(struct hal_link *link, uint64_t key, uint64_t offset,
			const struct iovec *iov, unsigned n, const struct hal_frame *notify,
			bool *ret_done)
{
	struct hal_repair *h = of(link);

	if (notify && !(link->caps.flags & HAL_REMOTE_NOTIFY))
		return -EOPNOTSUPP;
	if (h->tx_error)
		return h->tx_error;
	/* A note may not come between the packets of a frame. */
	repair_transmit(h);
	if (notify && h->tx_next < h->tx_end)
		return -EAGAIN;
	return h->below->ops->write(h->below, key, offset, iov, n, notify, ret_done);
}

static void release(struct hal_repair *h)
{
	free(h->tx);
	free(h->tx_packets);
	free(h->rx);
	free(h->rx_data);
	free(h);
}

static void repair_close(struct hal_link *link)
{
	struct hal_repair *h = of(link);

	repair_last_words(h);
	h->below->ops->close(h->below);
	release(h);
}

static void repair_forget(struct hal_link *link)
{
	struct hal_repair *h = of(link);

	h->below->ops->forget(h->below);
	release(h);
}

/* The mark: the packet behind the last one, and 1. */
static int repair_flush(const struct hal_link *link, uint64_t *mark)
{
	const struct hal_repair *h = of(link);

	if (*mark == 0)
		*mark = h->tx_end + 1;
	if (h->tx_first >= *mark - 1)
		return 0;
	if (h->tx_error || h->rx_error)
		return h->tx_error ? h->tx_error : h->rx_error;
	return -EAGAIN;
}

static const struct hal_ops ops = {
	.name = "repair",
	.version = HAL_VERSION,
	.send = repair_send,
	.reserve = hal_no_reserve,
	.commit = hal_no_commit,
	.cancel = hal_no_cancel,
	.next = repair_next,
	.copy = copy_frame,
	.drop = drop_frame,
	.put = hal_any_put,
	.take = hal_any_take,
	.progress = repair_progress,
	.pending = repair_pending,
	.room = repair_room,
	.backlog = hal_no_backlog,
	.flush = repair_flush,
	.watch = repair_watch,
	.unwatch = repair_unwatch,
	.is_trusted = repair_is_trusted,
	.tell = repair_tell,
	.fd = repair_fd,
	.peer_here = repair_peer_here,
	.expose = repair_expose,
	.conceal = repair_conceal,
	.write = repair_write,
	.close = repair_close,
	.forget = repair_forget,
};

/* ---- beginning ------------------------------------------------------------------------------- */

bool hal_repair_is_needed(const struct hal_caps *caps)
{
	const uint32_t wanted = HAL_ORDERED | HAL_RELIABLE;

	return (caps->flags & wanted) != wanted || caps->frame_max < SIZE_FRAME ||
	       caps->n_gather < N_GATHER || (caps->flags & HAL_OWN_BUFFERS);
}

static uint64_t clock_now(void *arg)
{
	(void)arg;
	return nsec_now();
}

/* What comes from ourselves is taken into the window at once, and shown later. */
static void on_arrival(struct hal_link *below, void *arg)
{
	(void)below;
	repair_pull(arg);
}

static uint32_t n_slots_for(const struct hal_repair *h)
{
	uint32_t n = REPAIR_SLOTS_LEAST;

	while (n < REPAIR_SLOTS_MOST && n * h->size_data < SIZE_WINDOW)
		n *= 2;
	return n;
}

/* The sizes of everything. The largest frame takes half a window. */
static int measure_out(struct hal_repair *h)
{
	const struct hal_caps *below = &h->below->caps;
	uint32_t flags = below->flags & (HAL_REMOTE_WRITE | HAL_REMOTE_KEYS | HAL_BARRIER), n, max;
	uint32_t size = MIN(below->frame_max, SIZE_PACKET_MOST);

	/* Lengths are rounded up in the HAL's own buffers. */
	if (below->flags & HAL_OWN_BUFFERS)
		size &= ~(below->alignment - 1);
	if (size < HAL_FRAME_LEAST)
		return -EINVAL;
	h->reliable = (below->flags & HAL_ORDERED) && (below->flags & HAL_RELIABLE);
	if (h->reliable)
		flags |= below->flags & HAL_REMOTE_NOTIFY;
	h->size_data = size - (uint32_t)sizeof(struct repair_head);
	n = h->config.n_slots ? h->config.n_slots : n_slots_for(h);
	if (n < REPAIR_SLOTS_LEAST || n > REPAIR_SLOTS_MOST || !is_power_of_two(n))
		return -EINVAL;
	h->mask = n - 1;
	max = MIN(h->config.frame_max ? h->config.frame_max : SIZE_FRAME, SIZE_FRAME_MOST);
	max = MIN(max, n / 2 * h->size_data);
	h->link.caps = (struct hal_caps){
		.name = below->name,
		.flags = HAL_ORDERED | HAL_RELIABLE | flags,
		.frame_max = max,
		.n_gather = N_GATHER,
		.alignment = flags & HAL_REMOTE_WRITE ? below->alignment : 1,
	};
	h->link.caps.frame_good = h->link.caps.frame_max;
	h->link.costs = h->below->costs;
	if (below->inline_max > sizeof(struct repair_head))
		h->link.caps.inline_max = below->inline_max - (uint32_t)sizeof(struct repair_head);
	return 0;
}

static int allocate(struct hal_repair *h)
{
	uint32_t n = repair_n_slots(h);

	h->tx = calloc(n, sizeof(*h->tx));
	h->tx_packets = calloc(n, sizeof(struct repair_head) + h->size_data);
	h->rx = calloc(n, sizeof(*h->rx));
	h->rx_data = calloc(n, h->size_data);
	return h->tx && h->tx_packets && h->rx && h->rx_data ? 0 : -ENOMEM;
}

int hal_repair_open(struct hal_link *below, const struct hal_repair_config *config,
		    struct hal_link **ret_link)
{
	struct hal_repair *h = calloc(1, sizeof(*h));
	int e;

	if (!h)
		return -ENOMEM;
	h->below = below;
	if (config)
		h->config = *config;
	if (!h->config.nsec_now)
		h->config.nsec_now = clock_now;
	h->link.ops = &ops;
	e = measure_out(h);
	if (e == 0)
		e = allocate(h);
	if (e < 0) {
		release(h);
		return e;
	}
	h->tx_first = h->tx_next = h->tx_end = repair_begin(h);
	h->rx_first = h->rx_next = h->rx_top = h->rx_scan = repair_begin(h);
	h->tx_limit = h->tx_first + REPAIR_SLOTS_LEAST;
	h->limit_told = h->rx_first + REPAIR_SLOTS_LEAST;
	h->nsec_timeout = NSEC_FIRST_TIMEOUT;
	atomic_init(&h->hint, false);
	atomic_init(&h->nsec_deadline, UINT64_MAX);
	h->link.nsec_due = &h->nsec_deadline;
	below->arrived = on_arrival;
	below->arg = h;
	*ret_link = &h->link;
	return 0;
}

void hal_repair_count(const struct hal_link *link, struct hal_repair_counts *ret_counts)
{
	*ret_counts = of(link)->counts;
}
