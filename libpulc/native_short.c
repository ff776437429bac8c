/*
 * Waiting for a short message, which is taken right from its link (protocols/at_once.c), of one
 * peer or of many.
 *
 * Between the peer's storing of a message and ours of the answer there is to be as little as can
 * be. A processor goes on past a load that takes the way of a line, by a few hundred instructions;
 * what comes after them waits. So all that can be asked before the look is asked before it (is
 * anything else to be done, who is awaited, is his message next), and the look is the taking of a
 * word by the caller himself. Only when there was none do we look whose line has changed: each link
 * says where its news are told (hal_link.quiet), so that a look at a peer that has none is a load
 * and a comparison; the one from whom the last message came is looked at in each turn, of the
 * others some, in turn.
 *
 * Nobody is forgotten for it. After some messages that were taken so the next call makes progress,
 * which takes what all peers have sent, and looks whether psid has something to say. What a look
 * does not see (the end of a peer, room that somebody waits for) is seen when the short wait is
 * over, or then.
 *
 * Whoever has just answered does not look before the next message can be there (turn.h), and then
 * asks for the line to be written: the answer to what is found goes into the same one.
 *
 * The lock is held while the peers are looked at, for threads and handlers may change who they are,
 * and not in between.
 */
#include <errno.h>

#include "clock.h"
#include "line.h"
#include "macros.h"
#include "native.h"
#include "private.h"

#define N_TURNS 64u
/* So many of them without a pause, which takes as long as a line's way between two processors that
 * share a cache: an answer is late by half of it. */
#define N_TURNS_EAGER 16u
/* So many of the others are looked at in a turn: their lines have each the same place in a page,
 * and so one place in the nearest cache. */
#define N_LOOKED 8u
/* Who has no word to look at is asked at one turn in so many: it may take a system call. */
#define N_TURNS_ASKED 8u
/* Messages from the only peer before the next call makes progress. */
#define N_TURN_SINGLE 4096u

bool native_may_be_short(void)
{
	uint64_t n = protocol_events_now() - native_core.events_served;

	return LIKELY(n < NATIVE_N_TURN || (native_is_single() && n < N_TURN_SINGLE)) &&
	       LIKELY(!TAILQ_EMPTY(native_peers())) && !native_has_news() &&
	       !protocol_is_unfinished() && !port_any_elsewhere && !port_any_to_move() &&
	       !tag_any_to_move();
}

/* ---- looking --------------------------------------------------------------------------------- */

static inline bool has_news(const struct hal_link *link)
{
	uint64_t told = atomic_load_explicit(link->quiet.word, memory_order_acquire);

	return told != link->quiet.idle && told != HAL_BEING_WRITTEN;
}

/* One without a word is asked at its turns. */
static inline bool has_something(struct peer *peer, unsigned turn)
{
	const struct hal_link *link = peer->link;

	if (UNLIKELY(!link || peer->held))
		return false;
	if (LIKELY(link->quiet.word))
		return has_news(link);
	if (native_net_is_many())
		return native_net_pending(peer);
	return (turn % N_TURNS_ASKED == 0 || native_core.n_peers > N_LOOKED ||
		native_core.n_peers == 1) &&
	       link->ops->pending(link);
}

static struct peer *look_at_others(unsigned turn)
{
	struct peer *peer = native_core.next;

	if (!peer)
		peer = TAILQ_FIRST(native_peers());
	for (unsigned i = 0; peer && i < N_LOOKED; i++) {
		native_core.next = TAILQ_NEXT(peer, link_all);
		if (peer != native_core.last && UNLIKELY(has_something(peer, turn)))
			return peer;
		peer = native_core.next;
	}
	return NULL;
}

/* Many on other nodes are asked together: at each turn if one of them is awaited. */
static struct peer *look_at_net(unsigned turn)
{
	struct peer *peer = NULL;

	if (turn % N_TURNS_ASKED == 0 || (native_core.last && native_core.last->node))
		peer = native_net_look();
	return peer && has_something(peer, turn) ? peer : NULL;
}

static inline struct peer *look(unsigned turn)
{
	struct peer *far = native_net_is_many() ? look_at_net(turn) : NULL;

	if (far)
		return far;
	if (LIKELY(native_core.last && has_something(native_core.last, turn)))
		return native_core.last;
	/* It may be this process itself, to whom something was sent before. */
	return LIKELY(native_is_single() && native_core.last == TAILQ_FIRST(native_peers()))
		       ? NULL
		       : look_at_others(turn);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static inline void lock_again(void)
{
	while (!native_lock())
		;
}

/* Under the lock: where the answer will be told, and ours after it; NULL: not in one line. */
static const void *line_of_both(void)
{
	const struct peer *last = native_core.last;

	return last && last->link && last->link->quiet.is_ours_too ? last->link->quiet.word : NULL;
}

/* Until the peer may have answered. Without the lock: the lines are only asked for. True: it was
 * too early to look. */
static inline bool wait_for_turn(const struct native_short *w)
{
	bool early = turn_wait(&native_core.turn, NULL, pulse_ticks());

	if (LIKELY(w->line))
		line_ask_to_write(w->line);
	shm_ahead_ask(&w->ahead);
	return early;
}

/* What the wait before this one was good for is counted now: once its message had come there was no
 * time for it. */
static void begin(struct native_short *w, struct peer *last)
{
	if (turn_count(&native_core.turn))
		wait_paid();
	native_core.last = last;
	w->has_begun = true;
	w->signals = signals_counted();
	w->seen = protocol_events_now();
	w->is_turn = turn_is_peers(&native_core.turn);
	w->line = w->is_turn ? line_of_both() : NULL;
	w->ahead = hal_lane_ahead(last->link);
	w->has_found = false;
	w->n_turns = native_budget() ? N_TURNS : 0;
	w->n = 0;
}

/* Something has come that is no word, or from another one, or later than the caller has looked. */
static bool has_found(const struct native_short *w)
{
	struct peer *peer = look(w->n - 1);

	if (LIKELY(!peer))
		return false;
	native_core.last = peer;
	return true;
}

static int end(int e)
{
	native_short_end();
	return e;
}

/* True: the caller may look now. Gives up the lock meanwhile. */
static bool take_turn(struct native_short *w)
{
	bool early = false;

	native_unlock();
	/* At first at once, if it is not the peer's turn: nothing was known of the others. */
	if (w->n > N_TURNS_EAGER)
		cpu_relax();
	else if (w->n == 0 && w->is_turn)
		early = wait_for_turn(w);
	lock_again();
	if (UNLIKELY(protocol_events_now() != w->seen || !native_may_be_short()))
		return false;
	if (w->is_turn)
		turn_looks(&native_core.turn, early, w->n == 0);
	else
		turn_looks_aside(&native_core.turn);
	w->n++;
	return true;
}

int native_short_turn(struct native_short *w, struct peer *last)
{
	if (UNLIKELY(!last->link))
		return end(0);
	if (!w->has_begun) {
		begin(w, last);
	} else {
		if (UNLIKELY(w->has_found))
			return end(0);
		w->has_found = has_found(w);
		if (w->has_found) {
			w->takes_any = true;
			return 1;
		}
	}
	w->takes_any = w->ahead.size;
	if (LIKELY(w->n < w->n_turns))
		return take_turn(w) ? 1 : end(0);
	return end(signals_since(w->signals) == -EINTR ? -EINTR : 0);
}

void native_let_gather(struct hal_link *link)
{
	uint64_t budget = native_budget();

	link->gathers = false;
	native_unlock();
	wait_gather(budget);
	lock_again();
}
