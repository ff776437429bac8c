/*
 * A link's lane: frames of one word, out of registers into a line that both sides write and out of
 * it into registers, built into whoever calls.
 *
 * Between two processors that share a cache a line is there in the time of a hundred instructions,
 * and a call of a slot, with a frame and what is wanted put into memory for it and read again,
 * costs as many. So who exchanges short messages asks whether the link has a lane. What the lane
 * cannot do, put() and take() can; only links of the HAL shm have one.
 */
#ifndef PULC_HAL_LANE_H
#define PULC_HAL_LANE_H

#include "bytes.h"
#include "hal.h"
#include "macros.h"
#include "word.h"

/* A fence at the watcher's side takes the place of one here: notice_after_publishing in shm.c. */
static inline bool lane_needs_fence(const struct hal_link *link, uint64_t notice)
{
	return !(link->caps.flags & HAL_BARRIER) || !(notice & SHM_BARRIER);
}

/* Something was sent: does anybody wait for it? */
static inline int lane_done_sending(const struct hal_link *link, const struct shm_stream *s)
{
	uint64_t notice;

	atomic_signal_fence(memory_order_seq_cst);
	notice = shm_peer_notice(s);
	return UNLIKELY(lane_needs_fence(link, notice) || shm_due_rx(s, notice)) ? HAL_DONE_TELL
										 : HAL_DONE;
}

/* Something was taken: does anybody wait for the room? */
static inline int lane_done_taking(const struct hal_link *link, const struct shm_stream *s)
{
	atomic_signal_fence(memory_order_seq_cst);
	return UNLIKELY(lane_needs_fence(link, shm_peer_notice(s)) || shm_due_tx(s)) ? HAL_DONE_TELL
										     : HAL_DONE;
}

/* Bytes of payload. */
#define HAL_LANE_WORD 8u
/* The second word of a frame's record, of 8 bytes of payload. */
#define HAL_LANE_HEADER(protocol, kind)                                                            \
	(((uint64_t)(protocol) << 16 | (kind)) << 32 | HAL_LANE_WORD)

/* As put(), of 8 bytes. -EAGAIN: nothing is done, by put(). */
static inline __attribute__((always_inline)) int hal_lane_put(struct hal_link *link, uint64_t word,
							      uint64_t header, const void *buf)
{
	struct shm_stream *s = link->lane;
	struct shm_word w = { .stamp = word,
			      .len = HAL_LANE_WORD,
			      .flags = (uint32_t)(header >> 32) };

	if (UNLIKELY(!s || (shm_peer_notice(s) & (SHM_CLOSED | SHM_DEAD))))
		return -EAGAIN;
	memcpy(&w.payload, buf, sizeof(w.payload));
	if (UNLIKELY(!shm_word_put(s, &w)))
		return -EAGAIN;
	link->gathers = false;
	return lane_done_sending(link, s);
}

/* A frame of 8 bytes to be taken: its word is this one, where the mask has ones. */
struct hal_lane_wanted {
	uint64_t word, mask, header;
};

static inline bool lane_is_wanted(struct hal_lane_wanted wanted, uint64_t word, uint64_t header)
{
	return LIKELY(((word ^ wanted.word) & wanted.mask) == 0 && header == wanted.header);
}

/* What to ask for before the next frame is there. */
static inline struct shm_ahead hal_lane_ahead(const struct hal_link *link)
{
	return LIKELY(link->lane) ? shm_ahead(link->lane, link->lane) : (struct shm_ahead){ 0 };
}

/* The next of several that are known to be there. */
static inline __attribute__((always_inline)) int lane_take_known(struct hal_link *link,
								 struct hal_lane_wanted wanted,
								 void *buf, uint64_t *ret_word)
{
	struct shm_stream *s = link->lane;
	struct shm_word w = { 0 };
	bool is_published;

	s->has_just_told = false;
	if (UNLIKELY(!shm_word_next(s, &w) ||
		     !lane_is_wanted(wanted, w.stamp, (uint64_t)w.flags << 32 | w.len)))
		return -EAGAIN;
	memcpy(buf, &w.payload, HAL_LANE_WORD);
	*ret_word = w.stamp;
	is_published = shm_word_took(s, &w);
	link->gathers = shm_rx_gathers(s, shm_taken(s));
	return UNLIKELY(is_published) ? lane_done_taking(link, s) : HAL_DONE;
}

/* As take(), of 8 bytes. -EAGAIN: nothing is done, by take(). */
static inline __attribute__((always_inline)) int hal_lane_take(struct hal_link *link,
							       struct hal_lane_wanted wanted,
							       void *buf, uint64_t *ret_word)
{
	struct shm_stream *s = link->lane;
	uint64_t record[SHM_TOLD / 8], taken, mark;

	if (UNLIKELY(!s))
		return -EAGAIN;
	taken = shm_taken(s);
	/* Then nobody looks: it would take the line from its writer. */
	if (shm_rx_has_more(s, taken))
		return lane_take_known(link, wanted, buf, ret_word);
	mark = EXCHANGE_MARK_WORD(taken);
	if (UNLIKELY(s->has_just_told || !exchange_take_marked(s->told, mark, record) ||
		     !lane_is_wanted(wanted, record[0], record[1])))
		return -EAGAIN;
	memcpy(buf, &record[2], HAL_LANE_WORD);
	*ret_word = record[0];
	link->quiet.idle = mark;
	link->gathers = false;
	shm_ahead_note(s, 0);
	return UNLIKELY(shm_word_took_only(s, taken)) ? lane_done_taking(link, s) : HAL_DONE;
}

#endif
