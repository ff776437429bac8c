/*
 * When what lies unread in a ring was sent: for who finds several connections ready at once, and
 * has to tell of the first one first (docs/waiting-epoll.md, "Order"). A reader believes it in
 * nothing else.
 *
 * To read the processor's counter takes a tenth of a short message's way, so a send does it only
 * when it may matter:
 *  - after a receive, when turn.h reads it anyway. What was sent before has been read then, if what
 *    the peer has sent is an answer;
 *  - not behind another send of the same thread to the same stream: nothing that this thread has
 *    sent or heard elsewhere lies between the two;
 *  - otherwise if the peer has read all that was sent before. If not, what is unread began to be
 *    sent when the time was noted last.
 * Where the counter is not at hand nothing is noted.
 */
#ifndef PULC_LIB_ORDER_H
#define PULC_LIB_ORDER_H

#include "private.h"
#include "pulse.h"

/* To whom this thread has sent last, and heard of nobody since; NULL: to nobody. Compared and
 * nothing else. */
extern __thread const struct pulc_stream *order_last
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Some 10 ns each, in 32 bits: ten seconds lie before and behind. Never 0. */
static inline uint32_t order_when(uint64_t ticks)
{
	return (uint32_t)(ticks >> 4) | 1;
}

void order_note(struct pulc_stream *s) __attribute__((visibility("hidden")));

/* Before a send on an attached stream. Returns the counter, if it was read: the send is an answer,
 * by what turn.h knows; 0: it is not. */
static inline uint64_t order_sending(struct pulc_stream *s)
{
	uint64_t ticks = turn_has_received(&s->turn) ? pulse_ticks() : 0;

	if (LIKELY(ticks))
		shm_tx_note(&s->tcp.ring, order_when(ticks));
	else if (order_last != s)
		order_note(s);
	order_last = s;
	return ticks;
}

/* Something was received. */
static inline void order_heard(void)
{
	order_last = NULL;
}

#endif
