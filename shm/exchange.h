/*
 * A line that both sides of a link write, each its own half (struct shm_exchange).
 *
 * One side makes it, the other one finds its name in the first one's slot (shm_side.line) and says
 * the same name in its own. From when a side says it each new head is told there too, with the last
 * message if that is short; who has seen the other one say it looks there instead of at the other's
 * head. So both may begin at any time, and none may end.
 *
 * A half is worth what its writer's ring is: a reader takes nothing from it that it would not take
 * from there, and checks it in the same way. That the other process could write ours too makes it
 * read, at worst, what we have not sent.
 */
#ifndef PULC_SHM_EXCHANGE_H
#define PULC_SHM_EXCHANGE_H

#include "line.h"
#include "step.h"
#include "stream.h"

/* Under tx_lock, after the head was stored. n bytes of the message that ends there come along, if
 * it is not 0; `words` has SHM_TOLD bytes then. */
static inline void exchange_tell(struct shm_half *half, uint64_t head, const uint64_t *words,
				 unsigned n)
{
	if (n) {
		atomic_store_explicit(&half->mark, SHM_MARK_NONE, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		STEP(LINE_TELLS);
		for (unsigned i = 0; i < SHM_TOLD / 8; i++)
			atomic_store_explicit(&half->words[i], words[i], memory_order_relaxed);
		STEP(LINE_WORDS);
	}
	/* pairs with the acquire in shm_told_head and exchange_take_record */
	atomic_store_explicit(&half->mark, SHM_MARK(head, n), memory_order_release);
	/* A stream writes it again at once. */
	if (n)
		line_pass_on(half);
	STEP(LINE_TOLD);
}

/* So many records come with the news of them when nothing is received in between. */
#define EXCHANGE_N_RECORDS 4u

/* Who hears nothing in between sends a stream: its reader takes many records at a time, and finds
 * them in the ring. */
static inline bool exchange_is_stream(struct shm_stream *s)
{
	uint64_t taken = atomic_load_explicit(&s->own->rx_taken, memory_order_relaxed);

	if (s->taken_when_told == taken)
		return ++s->n_told > EXCHANGE_N_RECORDS;
	s->taken_when_told = taken;
	s->n_told = 1;
	return false;
}

/* A record that may come along: a header alone, or a header and a word of payload; the bytes that
 * are told, and what it takes in a ring. */
#define EXCHANGE_TOLD_EMPTY ((unsigned)sizeof(struct shm_record))
#define EXCHANGE_SIZE_EMPTY ((uint64_t)sizeof(struct shm_record))
#define EXCHANGE_SIZE_WORD (2 * EXCHANGE_SIZE_EMPTY)

/* The same with a record of n bytes, EXCHANGE_TOLD_EMPTY or SHM_TOLD; or 0. */
static inline void exchange_tell_record(struct shm_stream *s, uint64_t head, const uint64_t *record,
					unsigned n)
{
	exchange_tell(s->telling, head, record, n && !exchange_is_stream(s) ? n : 0);
}

/* The bytes that the mark tells of, if that was told last. */
static inline bool exchange_take(const struct shm_half *half, uint64_t mark,
				 uint64_t words[SHM_TOLD / 8])
{
	for (unsigned i = 0; i < SHM_TOLD / 8; i++)
		words[i] = atomic_load_explicit(&half->words[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return LIKELY(atomic_load_explicit(&half->mark, memory_order_relaxed) == mark);
}

/* The same if it is this mark. */
static inline bool exchange_take_marked(const struct shm_half *half, uint64_t mark,
					uint64_t words[SHM_TOLD / 8])
{
	/* pairs with the release in exchange_tell */
	return LIKELY(atomic_load_explicit(&half->mark, memory_order_acquire) == mark) &&
	       exchange_take(half, mark, words);
}

/* What is told of a record that begins at `at`. */
#define EXCHANGE_MARK_WORD(at) SHM_MARK((at) + EXCHANGE_SIZE_WORD, SHM_TOLD)
#define EXCHANGE_MARK_EMPTY(at) SHM_MARK((at) + EXCHANGE_SIZE_EMPTY, EXCHANGE_TOLD_EMPTY)

/* The record that begins at `at`, if that was told last: one of these two marks; else 0. */
static inline uint64_t exchange_take_record(const struct shm_half *half, uint64_t at,
					    uint64_t words[SHM_TOLD / 8])
{
	/* pairs with the release in exchange_tell */
	uint64_t mark = atomic_load_explicit(&half->mark, memory_order_acquire);

	if (UNLIKELY(mark != EXCHANGE_MARK_WORD(at) && mark != EXCHANGE_MARK_EMPTY(at)))
		return 0;
	return exchange_take(half, mark, words) ? mark : 0;
}

/* From now on this side tells in its half of the line, and says so. Under tx_lock. */
void exchange_begin(struct shm_stream *s, struct shm_half *half, uint64_t name);
/* From now on this side looks there, unless less is told there so far than it has seen: then it is
 * to try again later. Under both locks. */
void exchange_hear(struct shm_stream *s, const struct shm_half *half);
/* The name of the line that the peer tells in; 0: none. Any value. */
static inline uint64_t exchange_said(const struct shm_stream *s)
{
	/* pairs with the release in exchange_begin */
	return atomic_load_explicit(&s->peer->line, memory_order_acquire);
}

#endif
