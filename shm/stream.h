/*
 * A connection's two sides as one process maps them: the rings, and every touch of their control
 * words. The private half (struct shm_stream) holds bases and sizes; the shared words are read once
 * a step, bounded, and only then used.
 *
 * The caller holds the own side's tx_lock around shm_tx_*, rx_lock around shm_rx_*, unless the
 * comment says "no lock".
 */
#ifndef PULC_SHM_STREAM_H
#define PULC_SHM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/single_threaded.h>
#include <sys/types.h>

#include "layout.h"
#include "lock.h"
#include "macros.h"
#include "pace.h"

struct shm_stream {
	struct shm_side *own;
	const struct shm_side *peer;
	_Atomic uint32_t *own_holders;
	const _Atomic uint32_t *peer_holders;
	unsigned char *tx_ring[SHM_N_RINGS];
	const unsigned char *rx_ring[SHM_N_RINGS];
	uint32_t tx_size[SHM_N_RINGS];
	uint32_t rx_size[SHM_N_RINGS];

	/* A link's alone: where this side tells of a new head, and where the peer does
	 * (exchange.h). NULL: nowhere. */
	struct shm_half *telling;
	const struct shm_half *told;
	/* bytes taken when it was last told of a record, and of how many since then */
	uint64_t taken_when_told;
	uint32_t n_told;
	bool has_just_told; /* a word (word.h), and not looked since */

	/* under tx_lock */
	uint32_t tx_cur;
	/* shm_joined when tx_head was own->head and no other process held this side */
	uint32_t tx_known;
	uint64_t tx_head; /* to load the line that the peer spins on would cost its way back */
	uint64_t tail_seen;
	/* up to here there is room in ring tx_cur, by what was seen last, as far as a lone process
	 * has looked */
	uint64_t tx_until;
	struct shm_pace pace;  /* long pieces */
	_Atomic uint32_t when; /* goes with the next message: shm_tx_note (no lock) */
	/* under rx_lock */
	uint32_t rx_cur;
	/* bytes up to here are known to be there: no need to fetch the head's line */
	_Atomic uint64_t head_seen;
	struct shm_pace_reader pace_reader;
	/* looks in a row that found several short messages, nothing being sent in between (no
	 * lock) */
	_Atomic uint32_t n_run;
	_Atomic uint32_t size_apart; /* shm_ahead_note (no lock) */
	/* arms of the peer that this process has served (no lock: serving twice is harmless) */
	_Atomic uint32_t rx_arms_served;
	_Atomic uint32_t tx_arms_served;
};

static inline bool shm_has_one_holder(const struct shm_stream *s)
{
	return (atomic_load_explicit(s->own_holders, memory_order_relaxed) & SHM_HOLDERS) == 1;
}

/* Is to find out whether they still may (shm_slab_none_returns), if it can. No lock is held, as a
 * rule. */
extern void (*shm_on_return_doubted)(const struct shm_stream *s)
	__attribute__((visibility("hidden")));
/* Calls it, now and then. */
void shm_doubt_return(const struct shm_stream *s) __attribute__((noinline, cold));

/* Nobody but this thread can be inside this side: one thread here, and no other process holds it,
 * or may come back to it. */
static inline bool shm_is_alone(const struct shm_stream *s)
{
	uint32_t n;

	if (!__libc_single_threaded)
		return false;
	n = atomic_load_explicit(s->own_holders, memory_order_relaxed);
	if (LIKELY(n == 1))
		return true;
	if (UNLIKELY(n & SHM_MAY_RETURN))
		shm_doubt_return(s);
	return false;
}

/*
 * Counts, from 1, how often others have joined in holding a side of ours: what a process remembers
 * of a side that it held alone is void then. Raised after the holders are counted and before the
 * other process runs.
 */
extern _Atomic uint32_t shm_joined __attribute__((visibility("hidden")));
/* Surely nothing was sent through this side by this process since shm_joined was `joined`: a send
 * has what it knows of that time renewed. */
static inline bool shm_unsent_since(const struct shm_stream *s, uint32_t joined)
{
	return s->tx_known != 0 && (int32_t)(s->tx_known - joined) < 0;
}
/* Another process is about to hold this side as well. */
void shm_add_holder(struct shm_stream *s);
/* One of several holds it no more. False: there are no others. */
bool shm_drop_holder(struct shm_stream *s);
/*
 * The same of one who may come back (shm_return_holder): until it is known that he does not, nobody
 * is alone. seen: he has a lock on the slab's file, which goes with his descriptors.
 */
bool shm_drop_holder_for_now(struct shm_stream *s, bool seen);
/* He has come back. */
void shm_return_holder(struct shm_stream *s);
/* How many hold it. */
static inline uint32_t shm_n_holders(const struct shm_stream *s)
{
	return atomic_load(s->own_holders) & SHM_HOLDERS;
}
/* Like shm_drop_holder, of n that were counted. False: there is another number of them by now, and
 * nothing is done. */
bool shm_drop_holder_of(struct shm_stream *s, uint32_t n);
/* What is left when one of a side's holders closes it. */
enum shm_rest {
	SHM_REST_HELD,	  /* others hold it */
	SHM_REST_AWAITED, /* nobody does, but somebody may come back, and is counted */
	SHM_REST_NONE,
};
/* No lock is held. */
enum shm_rest shm_close_holder(struct shm_stream *s);
/* One holds it no more. True: it was the last one, or those who may come back find it closed. */
bool shm_drop_last_holder(struct shm_stream *s);
/* The same of one who knows otherwise that there are no others, whoever else is counted. */
void shm_drop_only_holder(struct shm_stream *s);

/* ---- sending --------------------------------------------------------------------------------- */

/* Bytes of room in the present ring; -EBADMSG: the peer's tail makes no sense. */
int shm_tx_room(struct shm_stream *s, uint64_t *ret_room);
/* Copies up to len bytes into the present ring and publishes them. Returns their number, 0 when
 * full, or -EBADMSG. */
ssize_t shm_tx_write(struct shm_stream *s, const void *buf, size_t len);
/*
 * The rest of a send, len bytes, all of them or none, into room that the peer has not told of: he
 * has taken all but the last `mine` bytes, those that the same send has written before. To be tried
 * before it goes on elsewhere; who is behind is told of in time, and to look where he counts would
 * keep him up.
 */
bool shm_tx_write_untold(struct shm_stream *s, const void *buf, size_t len, uint64_t mine);
/* The next ring that would take `wanted` more bytes in one go and not be full then, or the last
 * that is begun: the first one that holds `enough` (UINT64_MAX: the largest). SHM_N_RINGS: there is
 * none behind this one. */
uint32_t shm_tx_next_ring(const struct shm_stream *s, uint64_t wanted, uint64_t enough);
/* Allocates ring r's pages and goes on in it. Returns 0 or -ENOMEM, -EOPNOTSUPP: it stays where it
 * is. */
int shm_tx_grow(struct shm_stream *s, uint32_t r);
/* From now on the ring carries the stream; kernel_at bytes went before. */
void shm_tx_begin(struct shm_stream *s, uint64_t kernel_at);
/* The ring's last byte is written; what follows goes through the kernel. */
void shm_tx_end(struct shm_stream *s);
static inline uint32_t shm_tx_mode(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->own->tx_mode, memory_order_acquire);
}

/*
 * The ring is given up: bytes from the peer's tail on are to reach the peer in another way.
 * -EBADMSG: its tail makes no sense. Then piece by piece, until there is none (0);
 * `skip` bytes behind those that have been returned.
 */
int shm_tx_return(struct shm_stream *s);
size_t shm_tx_returning(const struct shm_stream *s, uint64_t skip, const void **ret_piece);
void shm_tx_returned(struct shm_stream *s, size_t len);

/* ---- receiving ------------------------------------------------------------------------------- */

/* Copies up to len bytes at `offset` beyond the last one taken, without taking them. 0: none there.
 * -EBADMSG. */
ssize_t shm_rx_peek(struct shm_stream *s, void *buf, size_t len, uint64_t offset);
/* Copies and takes. True in *ret_published: the tail was published, serve shm_due_tx. */
ssize_t shm_rx_read(struct shm_stream *s, void *buf, size_t len, bool *ret_published);
/* Takes without copying (MSG_TRUNC). */
ssize_t shm_rx_skip(struct shm_stream *s, size_t len, bool *ret_published);
/* Tells the sender of all room there is. True: of some that it did not know of, serve
 * shm_due_tx. */
bool shm_rx_tell(struct shm_stream *s);
/* There is such room: less than a batch, or who took the bytes was killed before he told. No
 * lock. */
static inline bool shm_rx_is_untold(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->own->tail, memory_order_relaxed) !=
	       atomic_load_explicit(&s->own->rx_taken, memory_order_relaxed);
}
/* True once the peer has ended its ring and everything in it is taken. */
bool shm_rx_ended(struct shm_stream *s);

/* Tells the peer that what it finds unread in its ring will not be read there; takes that back, if
 * nobody heard of it. */
void shm_rx_leave(struct shm_stream *s);
void shm_rx_stay(struct shm_stream *s);

/* ---- no lock --------------------------------------------------------------------------------- */

/* Bytes waiting to be received, as far as this process can tell; never more than a ring can
 * hold. */
uint64_t shm_rx_waiting(struct shm_stream *s);
/* Bytes sent and not yet taken by the peer. */
uint64_t shm_tx_unread(const struct shm_stream *s);
/*
 * The sender's bytes that were not given back when it last looked; it looks if they are more than
 * `enough`. Under tx_lock. Cheap: the receiver gives back in batches.
 */
uint64_t shm_tx_filled(struct shm_stream *s, uint64_t enough);
/* True if the present ring has the room that makes a socket writable (a third of it, or one more
 * can be begun, as shm_tx_next_ring). */
bool shm_tx_writable(struct shm_stream *s, uint64_t enough);

/* A counter that changes whenever the peer has sent something. */
static inline uint64_t shm_mark(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->peer->head, memory_order_acquire);
}

/*
 * When what lies unread in the ring was sent, or began to be: a word of the sender's that is
 * compared with that of other rings and believed in nothing else. What is sent after shm_tx_note
 * bears it.
 */
static inline void shm_tx_note(struct shm_stream *s, uint32_t when)
{
	atomic_store_explicit(&s->when, when, memory_order_relaxed);
}
static inline uint32_t shm_tx_noted(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->when, memory_order_relaxed);
}
static inline uint32_t shm_rx_noted(const struct shm_stream *s)
{
	return SHM_INLINE_WHEN(atomic_load_explicit(&s->peer->inline_at, memory_order_relaxed));
}
/* Has the peer taken all that was ever sent, as far as it has said? */
bool shm_tx_is_read(const struct shm_stream *s);

/* Bytes ever written to the ring, and those of them that the peer says to have taken (unchecked, at
 * most all). */
uint64_t shm_tx_total(const struct shm_stream *s);
uint64_t shm_tx_taken(const struct shm_stream *s);

static inline uint64_t shm_sent(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->own->head, memory_order_relaxed);
}

static inline uint64_t shm_taken(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->own->rx_taken, memory_order_relaxed);
}

/* The head that the peer has told of. While it is telling, the head itself: stopped or killed there
 * it has sent what it told of before. */
static inline uint64_t shm_told_head(const struct shm_stream *s)
{
	/* pairs with the release in exchange_tell */
	uint64_t mark = atomic_load_explicit(&s->told->mark, memory_order_acquire);

	return LIKELY(mark != SHM_MARK_NONE)
		       ? SHM_MARK_HEAD(mark)
		       : atomic_load_explicit(&s->peer->head, memory_order_acquire);
}

static inline bool shm_rx_maybe(const struct shm_stream *s)
{
	uint64_t taken = atomic_load_explicit(&s->own->rx_taken, memory_order_relaxed);
	uint64_t seen = atomic_load_explicit(&s->head_seen, memory_order_relaxed);

	if (s->told)
		return (int64_t)(seen - taken) > 0 || shm_told_head(s) != taken;
	return (int64_t)(seen - taken) > 0 ||
	       atomic_load_explicit(&s->peer->head, memory_order_acquire) != taken;
}

/* The longest short message, bytes: it goes in one piece (short.h, bytes.h). */
#define SHM_SHORT_MOST 1024u

/*
 * A look takes the line that the sender is writing away from it, and its next message waits until
 * that has come back. A reader who is faster than the sender looks after every message, and both go
 * at the pace of the line. So who finds several at each look, and answers none of them, reads a
 * stream: if he has nothing else to do he lets some gather before he looks again.
 */
#define SHM_RUN_LEAST 2u
/* With more bytes than that the messages are long, or the reader is behind and looks seldom anyway.
 * The records of a queue have headers: a word takes four times its size. */
#define SHM_RUN_MOST (SHM_SHORT_MOST - 1)
#define SHM_RUN_MOST_RECORDS 4095u

/* n bytes were found at a look: several messages, if they are no more than `most`; 0: one. */
static inline void shm_rx_found(struct shm_stream *s, uint64_t n, uint32_t most)
{
	uint32_t run = atomic_load_explicit(&s->n_run, memory_order_relaxed);
	bool gathers = n <= MIN(most, s->rx_size[s->rx_cur] / 2);
	uint32_t now = gathers ? MIN(run + 1, SHM_RUN_LEAST) : 0;

	if (now != run)
		atomic_store_explicit(&s->n_run, now, memory_order_relaxed);
}

/* What is sent may be an answer. */
static inline void shm_rx_answered(struct shm_stream *s)
{
	if (atomic_load_explicit(&s->n_run, memory_order_relaxed))
		atomic_store_explicit(&s->n_run, 0, memory_order_relaxed);
}

/* The last look found several. */
static inline bool shm_rx_is_run(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->n_run, memory_order_relaxed) > 0;
}

/* Is more known to be there than what is taken? Then no look is needed. */
static inline bool shm_rx_has_more(const struct shm_stream *s, uint64_t taken)
{
	return (int64_t)(atomic_load_explicit(&s->head_seen, memory_order_relaxed) - taken) > 0;
}

/* Would it be well not to look yet, once all up to `taken` is taken? */
static inline bool shm_rx_gathers(const struct shm_stream *s, uint64_t taken)
{
	return UNLIKELY(atomic_load_explicit(&s->n_run, memory_order_relaxed) >= SHM_RUN_LEAST) &&
	       atomic_load_explicit(&s->head_seen, memory_order_relaxed) == taken;
}

static inline uint64_t shm_peer_notice(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->peer->notice, memory_order_acquire);
}
static inline uint64_t shm_own_notice(const struct shm_stream *s)
{
	return atomic_load_explicit(&s->own->notice, memory_order_acquire);
}
static inline void shm_notice_set(struct shm_stream *s, uint32_t flags)
{
	(void)atomic_fetch_or_explicit(&s->own->notice, flags, memory_order_seq_cst);
}
static inline void shm_notice_take_back(struct shm_stream *s, uint32_t flags)
{
	(void)atomic_fetch_and_explicit(&s->own->notice, ~(uint64_t)flags, memory_order_seq_cst);
}
uint64_t shm_peer_kernel_at(const struct shm_stream *s);
/* What the peer's program has given its socket for receiving, bytes; 0: nothing. */
uint32_t shm_peer_rcvbuf(const struct shm_stream *s);
/* Not 0: somebody of the peer is inside a receive. A hint unless a barrier on all processors came
 * before. */
uint32_t shm_peer_receives(const struct shm_stream *s);
/* Does the peer count more than one process? */
static inline bool shm_peer_is_shared(const struct shm_stream *s)
{
	return (atomic_load_explicit(s->peer_holders, memory_order_relaxed) & SHM_HOLDERS) > 1;
}
/* Is somebody of the peer inside a send? */
bool shm_peer_is_sending(const struct shm_stream *s);
static inline uint32_t shm_peer_tx_mode(const struct shm_stream *s)
{
	/* pairs with the release in shm_tx_begin and shm_tx_end */
	return atomic_load_explicit(&s->peer->tx_mode, memory_order_acquire);
}

/* Publishes the processor that the caller runs on; tells whether the peer last waited on the
 * same. */
void shm_ran_on(struct shm_stream *s, uint32_t cpu);
bool shm_peer_ran_on(const struct shm_stream *s, uint32_t cpu);

/* ---- what copying costs, as this side has found: told to whoever looks after processes, no peer
 * uses it */

/* A byte's way into the ring, in picoseconds, and the size of the pieces that a message of 1 MiB is
 * cut into. Under tx_lock. */
static inline void shm_tell_in(struct shm_stream *s, uint32_t psec, uint32_t size_piece)
{
	atomic_store_explicit(&s->own->psec_in, psec, memory_order_relaxed);
	atomic_store_explicit(&s->own->size_piece, size_piece, memory_order_relaxed);
}

/* A byte's way out of the peer's ring. Under rx_lock. */
static inline void shm_tell_out(struct shm_stream *s, uint32_t psec)
{
	atomic_store_explicit(&s->own->psec_out, psec, memory_order_relaxed);
}

/* ---- watches: docs/waiting.md has the recipe and its proof ----------------------------------- */

/* Asks the peer to tell `watch` of data (rx) or space (tx). -ENOSPC: SHM_N_WATCHES others wait
 * already. */
int shm_watch_rx(struct shm_stream *s, uint64_t watch);
int shm_watch_tx(struct shm_stream *s, uint64_t watch);
void shm_unwatch(struct shm_stream *s, uint64_t watch);
/* Who of this side is waiting for data. Fills watches, returns their number. */
size_t shm_watches(const struct shm_stream *s, uint64_t watches[SHM_N_WATCHES]);
/* The same, and who is waiting for space. */
size_t shm_watches_all(const struct shm_stream *s, uint64_t watches[2 * SHM_N_WATCHES]);

#define SHM_NOTICE_ARMS(n) ((uint32_t)((n) >> 32))

/* After publishing bytes (due_rx) or space (due_tx) and leaving the lock: whom the peer wants told.
 * Fills watches, returns their number; 0 nearly always. */
size_t shm_collect_rx(struct shm_stream *s, uint64_t watches[SHM_N_WATCHES]);
size_t shm_collect_tx(struct shm_stream *s, uint64_t watches[SHM_N_WATCHES]);

static inline bool shm_due_rx(const struct shm_stream *s, uint64_t peer_notice)
{
	return SHM_NOTICE_ARMS(peer_notice) !=
	       atomic_load_explicit(&s->rx_arms_served, memory_order_relaxed);
}
static inline bool shm_due_tx(const struct shm_stream *s)
{
	return (uint32_t)atomic_load_explicit(&s->peer->tx_armed, memory_order_acquire) !=
	       atomic_load_explicit(&s->tx_arms_served, memory_order_relaxed);
}

#endif
