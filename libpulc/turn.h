/*
 * Whose turn it is, between two who answer each other in short messages.
 *
 * Who has sent something waits for the answer, and there is nothing to look at before the message
 * has gone its way, and the answer too. To look earlier is worse than useless: it fetches the line
 * that the peer is about to write, which has to be called back before the answer can be written. So
 * the first look waits as long as answers have taken before: more when it finds nothing, less when
 * it finds the answer. And before it the line that we write next is asked for: the peer has fetched
 * that one meanwhile, to read what we have sent, and the next message would wait for it.
 *
 * Only the first send after a receive counts, and only a call that may wait: in a stream that
 * nobody answers there are no turns. No wait is longer than TURN_WAIT_MAX, so that an answer which
 * comes earlier than those before is late by no more than that. Where no counter is at hand nobody
 * waits. All of this is a hint: threads that share a socket spoil each other's, and nothing else.
 */
#ifndef PULC_LIB_TURN_H
#define PULC_LIB_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "macros.h"
#include "pulse.h"
#include "short.h"

/* Ticks of the processor's counter: of the longest wait, and by how much it changes, a long one by
 * more. Four answers in five come before the first look. */
#define TURN_WAIT_MAX 2400u
#define TURN_LESS(wait) MAX(4u, (uint32_t)(wait) / 128)
#define TURN_MORE(wait) (4 * TURN_LESS(wait))

struct turn {
	_Atomic bool has_received; /* since the last send */
	/* when it became the peer's, ticks; 0: it is not, or has been waited for */
	_Atomic uint64_t sent;
	_Atomic uint32_t wait; /* from then to the first look, ticks */
	/* what the last look of a wait was, TURN_LOOKED_; 0: the wait is over without an answer, or
	 * counted */
	_Atomic uint8_t looked;
};

#define TURN_LOOKED 1u
#define TURN_LOOKED_EARLY 2u /* behind a wait before which it was too early */
#define TURN_LOOKED_FIRST 4u
#define TURN_LOOKED_ASIDE                                                                          \
	8u /* of a wait that was no turn: the next one's length is none of its business */

/* What is sent next is an answer. */
static inline bool turn_has_received(const struct turn *t)
{
	return atomic_load_explicit(&t->has_received, memory_order_relaxed);
}

/* A message was sent. ticks: the counter, if it was an answer; else 0. */
static inline void turn_sent_at(struct turn *t, uint64_t ticks)
{
	if (ticks)
		atomic_store_explicit(&t->has_received, false, memory_order_relaxed);
	if (ticks || atomic_load_explicit(&t->sent, memory_order_relaxed))
		atomic_store_explicit(&t->sent, ticks, memory_order_relaxed);
}

/* Something was sent that is not short: the next message is no first one. */
static inline void turn_passed(struct turn *t)
{
	if (turn_has_received(t))
		atomic_store_explicit(&t->has_received, false, memory_order_relaxed);
}

static inline void turn_sent(struct turn *t)
{
	turn_sent_at(t, turn_has_received(t) ? pulse_ticks() : 0);
}

/* The same, where the counter is known. */
static inline void turn_sent_then(struct turn *t, uint64_t ticks)
{
	turn_sent_at(t, turn_has_received(t) ? ticks : 0);
}

/* One was received. */
static inline void turn_received(struct turn *t)
{
	if (!atomic_load_explicit(&t->has_received, memory_order_relaxed))
		atomic_store_explicit(&t->has_received, true, memory_order_relaxed);
}

/* It is the peer's, and nobody has waited for it: who may wait (turn_wait) need not look before. */
static inline bool turn_is_peers(const struct turn *t)
{
	return atomic_load_explicit(&t->sent, memory_order_relaxed) != 0;
}

/* Until the first look, if it is the peer's turn. ring: where the next message is sent, or NULL;
 * ticks: the counter, just now. True: it was too early to look. */
static inline bool turn_wait(struct turn *t, const struct shm_stream *ring, uint64_t ticks)
{
	uint64_t sent = atomic_load_explicit(&t->sent, memory_order_relaxed);
	uint32_t wait = atomic_load_explicit(&t->wait, memory_order_relaxed);
	bool early = ticks - sent < wait;

	if (!sent)
		return false;
	atomic_store_explicit(&t->sent, 0, memory_order_relaxed);
	while (ticks - sent < wait)
		ticks = pulse_ticks();
	if (ring)
		shm_tx_ask(ring);
	return early;
}

/* The answer has come: before the first look or soon after it. early: as turn_wait has said. */
static inline void turn_found(struct turn *t, bool early, bool at_first)
{
	uint32_t wait = atomic_load_explicit(&t->wait, memory_order_relaxed), now = wait;

	if (!at_first)
		now = MIN(wait + TURN_MORE(wait), TURN_WAIT_MAX);
	else if (early)
		now = wait - MIN(wait, TURN_LESS(wait));
	if (now != wait)
		atomic_store_explicit(&t->wait, now, memory_order_relaxed);
}

/* The same, by one who has no time once the answer is there: before each look, what it is, and
 * before the next wait whether it has found something. */
static inline void turn_looks(struct turn *t, bool early, bool at_first)
{
	uint8_t looked = (uint8_t)(TURN_LOOKED | (early ? TURN_LOOKED_EARLY : 0) |
				   (at_first ? TURN_LOOKED_FIRST : 0));

	atomic_store_explicit(&t->looked, looked, memory_order_relaxed);
}

static inline void turn_looks_aside(struct turn *t)
{
	atomic_store_explicit(&t->looked, TURN_LOOKED | TURN_LOOKED_ASIDE, memory_order_relaxed);
}

static inline void turn_looked_in_vain(struct turn *t)
{
	atomic_store_explicit(&t->looked, 0, memory_order_relaxed);
}

/* True: the last look has found something. */
static inline bool turn_count(struct turn *t)
{
	uint8_t looked = atomic_load_explicit(&t->looked, memory_order_relaxed);

	if (!looked)
		return false;
	if (!(looked & TURN_LOOKED_ASIDE))
		turn_found(t, looked & TURN_LOOKED_EARLY, looked & TURN_LOOKED_FIRST);
	turn_looked_in_vain(t);
	return true;
}

#endif
