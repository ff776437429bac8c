/*
 * Frames between two processes of a node.
 *
 * A link is a connection of psid's making without a socket: a slot that this process alone writes
 * and one that it only reads (shm/layout.h). A frame is a record of shm/queue.c: its 16 bytes are
 * the record's header, so a frame with up to 32 bytes of payload comes in the very line that tells
 * of it. Two processes of one user tell in a line that both write (shm/exchange.h); with up to 8
 * bytes it comes there.
 *
 * One process on either side, and the caller's lock around everything: the side's own locks, which
 * serve the families of sockets, are not taken. A forked child leaves its parent's links alone.
 *
 * A ring starts small and grows when it is full, on credit that psid has granted; a receiver that
 * is slow fills it up to the largest, then the sender gets -EAGAIN. Where many frames of SIZE_WIDE
 * go it grows to SIZE_ROOMY however fast they are taken: the lines of a small ring always lie in
 * the other side's nearest caches, from where writer and reader take twice as long to fetch them.
 * The peer's end is seen in its notice word: closed by itself, or dead, which psid writes for it.
 * What it sent before is shown first.
 *
 * What a byte costs, and a frame, is measured at one in N_MEASURE.
 *
 * Left out: remote memory. Between two processes that don't trust each other nobody's memory is
 * another one's to write.
 *
 * Source: one single-producer channel for each pair and direction, against queues whose enqueuer
 * may die half-way (DESIGN: UCX, MPICH, Open MPI stall for good then); fragments: pulc-1998, 4.4.
 */
#include "shm.h"

#include <stdlib.h>

#include "barrier.h"
#include "clock.h"
#include "lane.h"
#include "macros.h"
#include "queue.h"

#define SIZE_GOOD 16384u
/* Two such frames, and a line: before a long message's first piece stands the message's size. */
#define SIZE_MOST (2 * SIZE_GOOD + 64)
static_assert(SIZE_MOST <= SHM_DATAGRAM_MAX, "a frame in a ring is a datagram there");
/* One in so many frames of SIZE_WIDE and more is measured: a long one for what its bytes cost, one
 * of half that length at most for what it costs itself. No power of two, as pieces come in such. */
#define N_MEASURE 61u
#define SIZE_LONG 8192u
/* The size of its pieces is shown by pulcctl. */
#define SIZE_SHOWN (1u << 20)
/* Until then: between two processors that share a cache. */
#define COSTS_USUAL                                                                                \
	{                                                                                          \
		.nsec_frame = 150, .psec_in = 70, .psec_out = 60                                   \
	}
/* A link that has carried so many bytes in frames of SIZE_WIDE has such a ring, if psid has it. */
#define SIZE_ROOMY (1u << 20)
#define SIZE_WIDE 2048u
_Static_assert(SHM_SHORT_MOST < SIZE_WIDE, "what goes at once is not measured");
#define N_GATHER 16u
/* After so many sends it looks whether the peer has a line for both. */
#define N_LOOK 32u

struct hal_shm {
	struct hal_link link;
	struct shm_stream ring;
	struct shm_slab_map peer;
	struct shm_datagram at; /* what next() has shown */
	struct hal_shm_line line;
	uint32_t n_sent; /* until the peer's line is known */
	uint64_t size_credit;
	uint64_t size_wide;   /* bytes in such frames since the ring was last looked at */
	uint32_t n_in, n_out; /* such frames, to measure one now and then */
	bool no_growth;
};

bool (*hal_shm_take_credit)(uint64_t size);
void (*hal_shm_return_credit)(uint64_t size);
void (*hal_shm_wake)(uint64_t watch);
struct shm_exchange *(*hal_shm_find_line)(uint32_t client, uint64_t name);
void (*hal_shm_return_line)(const struct hal_shm_line *line, bool peer_is_done);

static inline struct hal_shm *of(const struct hal_link *link)
{
	return CONTAINER_OF(link, struct hal_shm, link);
}

/* ---- a line for both ------------------------------------------------------------------------- */

void hal_shm_share(struct hal_link *link, const struct hal_shm_line *line)
{
	struct hal_shm *h = of(link);

	h->line = *line;
	if (line->at)
		exchange_begin(&h->ring, &line->at->halves[0], line->name);
}

/* The peer tells in a line: look there, if it is ours, or the one that it has made. */
static void __attribute__((noinline)) look_for_line(struct hal_shm *h)
{
	uint64_t said = exchange_said(&h->ring);

	if (!h->line.at && said && !h->line.ours && h->line.client && hal_shm_find_line) {
		h->line.at = hal_shm_find_line(h->line.client, said);
		if (!h->line.at)
			return;
		h->line.name = said;
		exchange_begin(&h->ring, &h->line.at->halves[1], said);
	}
	if (h->line.at && said == h->line.name)
		exchange_hear(&h->ring, &h->line.at->halves[h->line.ours]);
	if (!h->ring.told)
		return;
	h->link.quiet = (struct hal_quiet){ &h->ring.told->mark, SHM_MARK_NONE, true };
	h->link.lane = &h->ring;
}

static void return_line(struct hal_shm *h)
{
	if (h->line.at && hal_shm_return_line)
		hal_shm_return_line(&h->line,
				    shm_peer_notice(&h->ring) & (SHM_CLOSED | SHM_EXITED));
	h->line.at = NULL;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Goes on in a ring with room for two such records. */
static bool grow(struct hal_shm *h, uint64_t size)
{
	uint32_t r = shm_tx_next_ring(&h->ring, 2 * size, UINT64_MAX);

	if (h->no_growth || r >= SHM_N_RINGS || h->ring.tx_size[r] < size)
		return false;
	if (!hal_shm_take_credit || !hal_shm_take_credit(h->ring.tx_size[r]))
		return false;
	h->size_credit += h->ring.tx_size[r];
	h->no_growth = shm_tx_grow(&h->ring, r) < 0;
	return !h->no_growth;
}

static int put_growing(struct hal_shm *h, const struct shm_datagram *d, const struct iovec *iov,
		       unsigned n, size_t len)
{
	int e = -EAGAIN;

	while ((e == -EAGAIN || e == -EMSGSIZE) && grow(h, shm_queue_size(len)))
		e = shm_queue_put(&h->ring, d, iov, n, len);
	/* Too large for the ring of the moment, and psid has no more memory. */
	return e == -EMSGSIZE ? -EAGAIN : e;
}

/* One of SIZE_WIDE bytes or more went in or out in so many ns. */
static void learn(struct hal_costs *costs, uint32_t *psec, size_t len, uint64_t nsec)
{
	if (len >= SIZE_LONG)
		hal_costs_learn(costs, psec, len, nsec);
	else if (len <= SIZE_LONG / 2)
		hal_costs_learn_frame(costs, *psec, len, nsec);
}

static int put_measured(struct hal_shm *h, const struct shm_datagram *d, const struct iovec *iov,
			unsigned n, size_t len)
{
	uint64_t before = nsec_now();
	int e = shm_queue_put(&h->ring, d, iov, n, len);
	struct hal_costs *costs = &h->link.costs;

	if (e < 0)
		return e;
	learn(costs, &costs->psec_in, len, nsec_now() - before);
	if (len >= SIZE_LONG)
		shm_tell_in(&h->ring, costs->psec_in,
			    hal_piece(costs, SIZE_SHOWN, h->link.caps.frame_max));
	return 0;
}

static void __attribute__((noinline)) make_roomy(struct hal_shm *h)
{
	h->size_wide = 0;
	if (h->ring.tx_size[h->ring.tx_cur] < SIZE_ROOMY)
		(void)grow(h, SIZE_ROOMY / 2);
}

static inline int put(struct hal_shm *h, const struct shm_datagram *d, const struct iovec *iov,
		      unsigned n, size_t len)
{
	if (LIKELY(len < SIZE_WIDE))
		return shm_queue_put(&h->ring, d, iov, n, len);
	if (UNLIKELY((h->size_wide += len) >= SIZE_ROOMY))
		make_roomy(h);
	if (UNLIKELY(++h->n_in % N_MEASURE == 0))
		return put_measured(h, d, iov, n, len);
	return shm_queue_put(&h->ring, d, iov, n, len);
}

static int shm_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		    unsigned n)
{
	struct hal_shm *h = of(link);
	struct shm_datagram d = {
		.stamp = f->word,
		.flags = (uint32_t)f->protocol << 16 | f->kind,
	};
	int e;

	if (UNLIKELY(shm_peer_notice(&h->ring) & (SHM_CLOSED | SHM_DEAD)))
		return -EPIPE;
	if (UNLIKELY(f->len > link->caps.frame_max))
		return -EMSGSIZE;
	link->gathers = false;
	if (UNLIKELY(!h->ring.told) && ++h->n_sent % N_LOOK == 0)
		look_for_line(h);
	e = put(h, &d, iov, n, f->len);
	if (UNLIKELY(e == -EAGAIN || e == -EMSGSIZE))
		e = put_growing(h, &d, iov, n, f->len);
	return e;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* All is taken that the peer has told of. */
static inline void is_quiet(struct hal_shm *h)
{
	const struct shm_stream *s = &h->ring;
	uint64_t taken = shm_taken(s), mark;

	if (!s->told) {
		h->link.quiet = (struct hal_quiet){ &s->peer->head, taken, false };
		return;
	}
	/* It may tell of more by now. */
	mark = atomic_load_explicit(&s->told->mark, memory_order_relaxed);
	h->link.quiet = (struct hal_quiet){
		&s->told->mark,
		SHM_MARK_HEAD(mark) == SHM_MARK_HEAD(SHM_MARK(taken, 0)) ? mark : SHM_MARK_NONE,
		s->telling != NULL,
	};
}
_Static_assert(HAL_BEING_WRITTEN == SHM_MARK_NONE, "the same");

static int shm_next(struct hal_link *link, struct hal_frame *ret_f)
{
	struct hal_shm *h = of(link);
	int e = shm_queue_next(&h->ring, &h->at);

	if (e == 0 && UNLIKELY(shm_peer_notice(&h->ring) & (SHM_CLOSED | SHM_DEAD))) {
		/* The end was announced after the last frame: look again. */
		e = shm_queue_next(&h->ring, &h->at);
		if (e == 0)
			return -EPIPE;
	}
	if (e == 0)
		is_quiet(h);
	if (e <= 0)
		return e;
	if (UNLIKELY(h->at.len > link->caps.frame_max))
		return -EBADMSG;
	link->shown = h->at.inlined ? h->at.payload : NULL;
	link->gathers = shm_rx_gathers(&h->ring, h->at.at + shm_queue_size(h->at.len));
	*ret_f = (struct hal_frame){
		.word = h->at.stamp,
		.len = h->at.len,
		.protocol = (uint16_t)(h->at.flags >> 16),
		.kind = (uint16_t)h->at.flags,
	};
	return 1;
}

static size_t shm_copy(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	struct hal_shm *h = of(link);
	uint64_t before;
	size_t len;

	if (LIKELY(h->at.len < SIZE_WIDE) || ++h->n_out % N_MEASURE)
		return shm_queue_copy(&h->ring, &h->at, iov, n);
	before = nsec_now();
	len = shm_queue_copy(&h->ring, &h->at, iov, n);
	if (len < SIZE_WIDE)
		return len;
	learn(&link->costs, &link->costs.psec_out, len, nsec_now() - before);
	if (len >= SIZE_LONG)
		shm_tell_out(&h->ring, link->costs.psec_out);
	return len;
}

static void shm_drop(struct hal_link *link)
{
	struct hal_shm *h = of(link);

	(void)shm_queue_drop(&h->ring, &h->at);
}

/* ---- at once --------------------------------------------------------------------------------- */

static int shm_put(struct hal_link *link, struct hal_frame f, const void *buf)
{
	struct hal_shm *h = of(link);
	struct shm_word w = { .stamp = f.word, .flags = (uint32_t)f.protocol << 16 | f.kind };

	link->gathers = false;
	if (UNLIKELY(shm_peer_notice(&h->ring) & (SHM_CLOSED | SHM_DEAD)))
		return -EPIPE;
	if (!link->lane || f.len > SHM_SHORT_MOST)
		return hal_any_put(link, f, buf);
	if (f.len != 0 && f.len != sizeof(w.payload))
		return shm_bytes_put(&h->ring, w.stamp, w.flags, buf, f.len)
			       ? lane_done_sending(link, &h->ring)
			       : hal_any_put(link, f, buf);
	w.len = f.len;
	if (f.len) /* else there may be no buffer */
		memcpy(&w.payload, buf, sizeof(w.payload));
	return shm_word_put(&h->ring, &w) ? lane_done_sending(link, &h->ring)
					  : hal_any_put(link, f, buf);
}

/* As hal_is_wanted but for the length, by registers: stored in halves, it is read after both. */
static inline bool is_header_wanted(const struct hal_wanted *wanted, uint64_t stamp, uint32_t flags)
{
	return ((stamp ^ wanted->word) & wanted->mask) == 0 &&
	       flags == ((uint32_t)wanted->protocol << 16 | wanted->kind);
}

/* One that is longer than a word. */
static int take_bytes(struct hal_shm *h, bool is_known, const struct hal_wanted *wanted,
		      struct hal_frame *ret_f)
{
	struct hal_link *link = &h->link;
	struct shm_bytes b;
	bool is_published;

	if (!link->lane ||
	    !(is_known ? shm_bytes_next(&h->ring, &b) : shm_bytes_look(&h->ring, &b)) ||
	    b.len > MIN(link->caps.frame_max, wanted->len_max))
		return hal_any_take(link, wanted, ret_f);
	if (!is_header_wanted(wanted, b.stamp, b.flags))
		return 0;
	*ret_f = (struct hal_frame){
		.word = b.stamp,
		.len = b.len,
		.protocol = wanted->protocol,
		.kind = wanted->kind,
	};
	if (b.len && wanted->size) /* else there may be no buffer */
		memcpy(wanted->buf, b.payload, MIN((size_t)b.len, wanted->size));
	if (!is_known)
		link->quiet.idle = b.mark;
	is_published = shm_bytes_took(&h->ring, &b, !is_known);
	link->gathers = shm_rx_gathers(&h->ring, shm_taken(&h->ring));
	return is_published ? lane_done_taking(link, &h->ring) : HAL_DONE;
}

static int shm_take(struct hal_link *link, const struct hal_wanted *wanted, struct hal_frame *ret_f)
{
	struct hal_shm *h = of(link);
	bool is_known = shm_rx_has_more(&h->ring, shm_taken(&h->ring)), is_published;
	struct shm_word w;

	if (shm_word_is_early(&h->ring))
		return 0;
	if (!(is_known ? shm_word_next(&h->ring, &w) : shm_word_look(&h->ring, &w)))
		return take_bytes(h, is_known, wanted, ret_f);
	if (UNLIKELY(!is_header_wanted(wanted, w.stamp, w.flags) || w.len > wanted->len_max))
		return 0;
	*ret_f = (struct hal_frame){
		.word = w.stamp,
		.len = w.len,
		.protocol = wanted->protocol,
		.kind = wanted->kind,
	};
	if (LIKELY(w.len == sizeof(w.payload) && wanted->size >= sizeof(w.payload)))
		memcpy(wanted->buf, &w.payload, sizeof(w.payload));
	else if (w.len && wanted->size) /* else there may be no buffer */
		memcpy(wanted->buf, &w.payload, MIN((size_t)w.len, wanted->size));
	if (!is_known)
		link->quiet = (struct hal_quiet){
			&h->ring.told->mark,
			w.mark,
			h->ring.telling != NULL,
		};
	is_published = shm_word_took(&h->ring, &w);
	link->gathers = shm_rx_gathers(&h->ring, shm_taken(&h->ring));
	return is_published ? lane_done_taking(&h->link, &h->ring) : HAL_DONE;
}

static bool shm_pending(const struct hal_link *link)
{
	const struct hal_shm *h = of(link);

	return shm_rx_maybe(&h->ring) || (shm_peer_notice(&h->ring) & (SHM_CLOSED | SHM_DEAD));
}

/* The peer has taken something since the last look at its tail. */
static bool shm_room(const struct hal_link *link)
{
	const struct hal_shm *h = of(link);

	return atomic_load_explicit(&h->ring.peer->tail, memory_order_acquire) != h->ring.tail_seen;
}

static uint64_t shm_backlog(struct hal_link *link)
{
	return shm_tx_filled(&of(link)->ring, 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int shm_watch(struct hal_link *link, hal_watch watch, unsigned events)
{
	struct hal_shm *h = of(link);
	int e = 0;

	if (events & HAL_WATCH_DATA)
		e = shm_watch_rx(&h->ring, watch);
	if (e == 0 && (events & HAL_WATCH_SPACE))
		e = shm_watch_tx(&h->ring, watch);
	return e;
}

static void shm_stop_watch(struct hal_link *link, hal_watch watch)
{
	shm_unwatch(&of(link)->ring, watch);
}

static bool shm_is_trusted(const struct hal_link *link, hal_watch watch)
{
	return shm_slab_is_acquainted(&of(link)->peer, SHM_WATCH_CLIENT(watch),
				      SHM_WATCH_BOARD(watch));
}

static void wake_all(const uint64_t *watches, size_t n)
{
	for (size_t i = 0; i < n && hal_shm_wake; i++)
		hal_shm_wake(watches[i]);
}

/*
 * What was published must be visible before the peer's wish to be told is read, else both sides
 * could miss each other. A peer that makes a barrier on all processors after it has placed its
 * watch makes the fence that is wanted here, where this processor is.
 */
static inline uint64_t notice_after_publishing(const struct hal_shm *h)
{
	uint64_t notice;

	atomic_signal_fence(memory_order_seq_cst);
	notice = shm_peer_notice(&h->ring);
	if (LIKELY((h->link.caps.flags & HAL_BARRIER) && (notice & SHM_BARRIER)))
		return notice;
	/* pairs with the fence in shm_watch_rx and shm_watch_tx */
	atomic_thread_fence(memory_order_seq_cst);
	return shm_peer_notice(&h->ring);
}

_Static_assert(HAL_WATCH_LAZY == SHM_WATCH_LAZY, "the same");

/* Somebody waits, be it for a frame that needs no work. The lazy ones are told of the next. */
static bool anybody_waits(const struct shm_stream *ring)
{
	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		/* pairs with the exchange in shm_watch_rx */
		uint64_t watch = atomic_load_explicit(&ring->peer->rx_watch[i],
						      memory_order_acquire);

		if (watch && !(watch & SHM_WATCH_LAZY))
			return true;
	}
	return false;
}

static void __attribute__((noinline)) tell_of_data(struct shm_stream *ring)
{
	uint64_t watches[SHM_N_WATCHES];

	wake_all(watches, shm_collect_rx(ring, watches));
}

static void __attribute__((noinline)) tell_of_space(struct shm_stream *ring)
{
	uint64_t watches[SHM_N_WATCHES];

	wake_all(watches, shm_collect_tx(ring, watches));
}

static void shm_tell(struct hal_link *link, unsigned did)
{
	struct shm_stream *ring = &of(link)->ring;
	uint64_t notice = notice_after_publishing(of(link));

	if (UNLIKELY(shm_due_rx(ring, notice)) &&
	    ((did & HAL_DID_SEND) || ((did & HAL_DID_SEND_IDLY) && anybody_waits(ring))))
		tell_of_data(ring);
	if ((did & HAL_DID_TAKE) && UNLIKELY(shm_due_tx(ring)))
		tell_of_space(ring);
}

static bool shm_peer_here(struct hal_link *link, uint32_t cpu)
{
	struct hal_shm *h = of(link);

	shm_ran_on(&h->ring, cpu);
	return shm_peer_ran_on(&h->ring, cpu);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void shm_forget(struct hal_link *link)
{
	return_line(of(link));
	free(of(link));
}

static void shm_close(struct hal_link *link)
{
	struct hal_shm *h = of(link);
	uint64_t watches[SHM_N_WATCHES];

	shm_notice_set(&h->ring, SHM_CLOSED);
	wake_all(watches, shm_collect_rx(&h->ring, watches));
	wake_all(watches, shm_collect_tx(&h->ring, watches));
	if (hal_shm_return_credit)
		hal_shm_return_credit(h->size_credit);
	shm_forget(link);
}

static const struct hal_ops ops = {
	.name = "shm",
	.version = HAL_VERSION,
	.send = shm_send,
	.reserve = hal_no_reserve,
	.commit = hal_no_commit,
	.cancel = hal_no_cancel,
	.next = shm_next,
	.copy = shm_copy,
	.drop = shm_drop,
	.put = shm_put,
	.take = shm_take,
	.progress = hal_no_progress,
	.pending = shm_pending,
	.room = shm_room,
	.backlog = shm_backlog,
	.flush = hal_no_flush,
	.watch = shm_watch,
	.unwatch = shm_stop_watch,
	.is_trusted = shm_is_trusted,
	.tell = shm_tell,
	.fd = hal_no_fd,
	.peer_here = shm_peer_here,
	.expose = hal_no_expose,
	.conceal = hal_no_conceal,
	.write = hal_no_write,
	.close = shm_close,
	.forget = shm_forget,
};

/* Both directions must be able to carry a frame of this size. */
static uint32_t frame_max(const struct shm_stream *ring)
{
	uint32_t largest = MIN(ring->tx_size[SHM_N_RINGS - 1], ring->rx_size[SHM_N_RINGS - 1]);

	return MIN(largest / 4, SIZE_MOST);
}

int hal_shm_open(const struct shm_slab_map *own, uint32_t own_slot, const struct shm_slab_map *peer,
		 uint32_t peer_slot, struct hal_link **ret_link)
{
	struct hal_shm *h = calloc(1, sizeof(*h));
	uint32_t max, good;
	int e;

	if (!h)
		return -ENOMEM;
	e = shm_stream_bind(&h->ring, own, own_slot, peer, peer_slot);
	max = e == 0 ? frame_max(&h->ring) : 0;
	if (max < HAL_FRAME_LEAST) {
		free(h);
		return -EBADMSG;
	}
	good = MIN(max, SIZE_GOOD);
	h->peer = *peer;
	h->link.ops = &ops;
	h->link.caps = (struct hal_caps){
		.name = ops.name,
		.flags = HAL_ORDERED | HAL_RELIABLE | HAL_PRESENT,
		.frame_max = max,
		.frame_good = good,
		.inline_max = SHM_INLINE - sizeof(struct shm_record),
		.n_gather = N_GATHER,
		.alignment = 1,
	};
	h->link.costs = (struct hal_costs)COSTS_USUAL;
	if (shm_tx_mode(&h->ring) != SHM_TX_RING)
		shm_tx_begin(&h->ring, 0);
	if (barrier_join())
		h->link.caps.flags |= HAL_BARRIER;
	shm_notice_set(&h->ring,
		       SHM_RX_READY | (h->link.caps.flags & HAL_BARRIER ? SHM_BARRIER : 0));
	*ret_link = &h->link;
	return 0;
}
