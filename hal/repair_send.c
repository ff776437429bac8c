/*
 * The sending half of the repair layer: a sliding window of packets.
 *
 * A frame is cut into packets that lie in the window, each behind room for its head, so that every
 * one travels as one piece, or is built in the HAL's own buffer where it has such. Packets are sent
 * as far as the peer has said to have room, and stay until it has acknowledged them: all before a
 * number, and single ones behind it.
 *
 * Two things make a packet go again. Three later ones have come and it has not: at once, though not
 * again before an answer to the repetition could have come. Or nothing has been heard of it for the
 * timeout, which follows the measured time of answers (a packet sent twice measures nothing: nobody
 * knows which one was answered) and doubles with every repetition in vain. A sender who waits for
 * room asks in the same rhythm, in case the news of it was lost.
 *
 * The answer travels with every packet; one of its own is sent when the second progress() has found
 * nothing to carry it, or at once when the peer is short of room, has sent something twice or out
 * of order, or asks.
 *
 * Left out: congestion control. The window is what one pair may have on its way; a HAL for a shared
 * network has to pace itself with -EAGAIN.
 *
 * Source: RFC 6298 (timeout), Karn and Partridge 1987 (what measures), RFC 2018 and RFC 6675
 * (selective acknowledgements, three later ones), RFC 9293 3.8.6.1 (asking for room).
 */
#include "repair_private.h"

#include <endian.h>
#include <string.h>

#include "clock.h"
#include "macros.h"

#define NSEC_LEAST (2 * 1000 * NSEC_PER_USEC)
#define NSEC_MOST NSEC_PER_SEC
#define N_DOUBLED_MOST 10u
#define N_LATER 3u
/* A peer that nobody hears is asked so often before it counts as dead, should we have slept
 * ourselves. */
#define N_UNHEARD 4u
/* Bits of a selective acknowledgement. */
#define N_SACK 64u

/* ---- one packet ------------------------------------------------------------------------------ */

static uint64_t sack_of(const struct hal_repair *h)
{
	uint64_t sack = 0, seq = h->rx_next + 1;

	for (unsigned i = 0; i < N_SACK && seq + i < h->rx_top; i++)
		if (h->rx[(seq + i) & h->mask].full)
			sack |= 1ull << i;
	return sack;
}

/* One piece, in the HAL's own buffer where it has some. */
static int put_below(struct hal_repair *h, const struct hal_frame *f, void *packet)
{
	const struct hal_ops *ops = h->below->ops;
	const struct iovec iov = { packet, f->len };
	void *buf;
	int e;

	if (!(h->below->caps.flags & HAL_OWN_BUFFERS))
		return ops->send(h->below, f, &iov, 1);
	e = ops->reserve(h->below, ALIGN_UP(f->len, h->below->caps.alignment), &buf);
	if (e < 0)
		return e;
	memcpy(buf, packet, f->len);
	e = ops->commit(h->below, f);
	if (e < 0)
		ops->cancel(h->below);
	return e;
}

static int put(struct hal_repair *h, struct hal_frame *f, void *packet, uint64_t seq,
	       uint32_t flags)
{
	uint64_t limit = h->rx_first + repair_n_slots(h);
	struct repair_head head = {
		.seq = htole32((uint32_t)seq),
		.ack = htole32((uint32_t)h->rx_next),
		.limit = htole32((uint32_t)limit),
		.flags = htole32(flags),
		.sack = htole64(sack_of(h)),
	};
	int e;

	memcpy(packet, &head, sizeof(head));
	f->len += (uint32_t)sizeof(head);
	e = put_below(h, f, packet);
	if (e < 0) {
		if (e != -EAGAIN)
			h->tx_error = e;
		return e;
	}
	h->limit_told = limit;
	h->ack_due = h->ack_urgent = false;
	return 0;
}

static int put_slot(struct hal_repair *h, uint64_t seq, uint64_t nsec_now)
{
	struct repair_slot *s = &h->tx[seq & h->mask];
	struct hal_frame f = { s->word, s->len, s->protocol, s->kind };
	int e = put(h, &f, repair_packet(h, seq), seq, s->flags);

	if (e == 0) {
		h->link.did_send = true;
		s->n_sent++;
		s->nsec_sent = nsec_now;
	}
	return e;
}

static int put_ack(struct hal_repair *h, uint32_t flags)
{
	unsigned char packet[HAL_FRAME_LEAST];
	struct hal_frame f = { 0 };
	int e = put(h, &f, packet, 0, flags);

	h->counts.n_acks += e == 0;
	h->link.did_send |= e == 0;
	return e;
}

/* ---- frames into packets, packets onto their way --------------------------------------------- */

struct source {
	const struct iovec *iov;
	size_t at;
};

static void gather(struct source *from, unsigned char *to, size_t len)
{
	size_t piece;

	while (len > 0) {
		piece = MIN(from->iov->iov_len - from->at, len);
		if (piece > 0)
			memcpy(to, (const char *)from->iov->iov_base + from->at, piece);
		to += piece;
		len -= piece;
		from->at += piece;
		if (from->at == from->iov->iov_len) {
			from->iov++;
			from->at = 0;
		}
	}
}

int repair_queue(struct hal_repair *h, const struct hal_frame *f, const struct iovec *iov,
		 unsigned n)
{
	uint32_t n_packets = f->len ? (f->len - 1) / h->size_data + 1 : 1, left = f->len, len;
	struct source from = { iov, 0 };
	struct repair_slot *s;

	if (n > h->link.caps.n_gather || hal_iov_size(iov, n) < f->len)
		return -EINVAL;
	if (h->tx_end - h->tx_first + n_packets > repair_n_slots(h))
		return -EAGAIN;
	for (uint32_t i = 0; i < n_packets; i++, h->tx_end++) {
		s = &h->tx[h->tx_end & h->mask];
		len = MIN(left, h->size_data);
		*s = (struct repair_slot){
			.word = f->word,
			.len = len,
			.protocol = f->protocol,
			.kind = f->kind,
			.flags = (uint8_t)(REPAIR_DATA | (i == 0 ? REPAIR_FIRST : 0) |
					   (i + 1 == n_packets ? REPAIR_LAST : 0)),
		};
		gather(&from, repair_packet(h, h->tx_end) + sizeof(struct repair_head), s->len);
		left -= s->len;
	}
	return 0;
}

static uint64_t timeout(const struct hal_repair *h)
{
	return MIN(h->nsec_timeout << h->n_doubled, NSEC_MOST);
}

static bool is_blocked(const struct hal_repair *h)
{
	return h->tx_first == h->tx_next && h->tx_next < h->tx_end;
}

static void set_deadline(struct hal_repair *h)
{
	uint64_t nsec = UINT64_MAX;

	if (h->tx_first < h->tx_next)
		nsec = h->tx[h->tx_first & h->mask].nsec_sent + timeout(h);
	else if (is_blocked(h))
		nsec = h->nsec_asked + timeout(h);
	atomic_store_explicit(&h->nsec_deadline, nsec, memory_order_relaxed);
}

void repair_transmit(struct hal_repair *h)
{
	uint64_t nsec_now = 0;

	while (!h->tx_error && h->tx_next < h->tx_end &&
	       (h->reliable || h->tx_next < h->tx_limit)) {
		if (!h->reliable)
			nsec_now = repair_now(h);
		/* Begins to wait for an answer. */
		if (h->tx_next == h->tx_first)
			h->nsec_heard = nsec_now;
		/* Counted first: to ourselves it may be answered before this returns. */
		h->tx_next++;
		if (put_slot(h, h->tx_next - 1, nsec_now) < 0) {
			h->tx_next--;
			break;
		}
		h->counts.n_packets++;
		if (h->reliable)
			h->tx_first = h->tx_next;
	}
	if (!h->reliable)
		set_deadline(h);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void measure(struct hal_repair *h, uint64_t nsec)
{
	uint64_t off;

	if (h->nsec_smooth == 0) {
		h->nsec_smooth = nsec;
		h->nsec_varies = nsec / 2;
	} else {
		off = nsec > h->nsec_smooth ? nsec - h->nsec_smooth : h->nsec_smooth - nsec;
		h->nsec_varies = (3 * h->nsec_varies + off) / 4;
		h->nsec_smooth = (7 * h->nsec_smooth + nsec) / 8;
	}
	h->n_doubled = 0;
	h->nsec_timeout = MIN(MAX(h->nsec_smooth + 4 * h->nsec_varies, NSEC_LEAST), NSEC_MOST);
}

/* Returns the time that the packet took if it says something, otherwise 0. */
static uint64_t arrived(struct hal_repair *h, uint64_t seq, uint64_t nsec_now)
{
	struct repair_slot *s = &h->tx[seq & h->mask];
	bool counts = !s->full && s->n_sent == 1 && nsec_now > s->nsec_sent;

	s->full = true;
	return counts ? nsec_now - s->nsec_sent : 0;
}

int repair_take_ack(struct hal_repair *h, const struct repair_head *head)
{
	uint64_t ack = repair_expand(h->tx_first, head->ack), nsec_now = repair_now(h), took = 0;
	uint64_t sample = 0, sack = head->sack;
	uint32_t room = head->limit - head->ack;

	if (ack > h->tx_next || room > REPAIR_SLOTS_MOST)
		return -EBADMSG;
	if (ack < h->tx_first) /* a later one has overtaken it */
		return ack < repair_begin(h) ? -EBADMSG : 0;
	h->tx_limit = MAX(h->tx_limit, ack + room);
	for (uint64_t seq = h->tx_first; seq < ack; seq++) {
		took = arrived(h, seq, nsec_now);
		sample = took ? took : sample;
	}
	h->tx_first = ack;
	h->any_lost |= sack != 0;
	for (uint64_t seq = ack + 1; sack; seq++, sack >>= 1) {
		if (!(sack & 1))
			continue;
		if (seq >= h->tx_next)
			return -EBADMSG;
		took = arrived(h, seq, nsec_now);
		sample = took ? took : sample;
	}
	if (sample)
		measure(h, sample);
	/* It said that one had come, and now that it has not. */
	return ack < h->tx_next && h->tx[ack & h->mask].full ? -EBADMSG : 0;
}

/* ---- what time brings ------------------------------------------------------------------------ */

/* Those that enough later ones have overtaken, from the last to the first. */
static void repeat_overtaken(struct hal_repair *h, uint64_t nsec_now)
{
	uint64_t seq = MIN(h->tx_next, h->tx_first + N_SACK + 1);
	struct repair_slot *s;
	unsigned n_later = 0;

	h->any_lost = false;
	while (seq-- > h->tx_first && !h->tx_error) {
		s = &h->tx[seq & h->mask];
		if (s->full)
			n_later++;
		else if (n_later >= N_LATER &&
			 (s->n_sent == 1 ||
			  nsec_now - s->nsec_sent > h->nsec_smooth + 4 * h->nsec_varies))
			h->counts.n_fast += put_slot(h, seq, nsec_now) == 0;
	}
}

static void unanswered(struct hal_repair *h)
{
	h->n_unheard++;
	h->n_doubled = MIN(h->n_doubled + 1, N_DOUBLED_MOST);
}

/* All that are overdue, as far as one answer reaches. */
static void repeat_late(struct hal_repair *h, uint64_t nsec_now)
{
	uint64_t end = MIN(h->tx_next, h->tx_first + N_SACK + 1), wait = timeout(h);
	const struct repair_slot *s;
	unsigned n = 0;

	for (uint64_t seq = h->tx_first; seq < end && !h->tx_error; seq++) {
		s = &h->tx[seq & h->mask];
		if (s->full || nsec_now - s->nsec_sent < wait)
			continue;
		if (put_slot(h, seq, nsec_now) < 0)
			break;
		n++;
	}
	h->counts.n_late += n;
	if (n > 0)
		unanswered(h);
	if (is_blocked(h) && nsec_now - h->nsec_asked >= wait && put_ack(h, REPAIR_ASK) == 0) {
		h->nsec_asked = nsec_now;
		unanswered(h);
	}
}

static void bury_the_dead(struct hal_repair *h, uint64_t nsec_now)
{
	if (!h->config.nsec_dead || h->tx_first == h->tx_end || h->n_unheard < N_UNHEARD ||
	    nsec_now - h->nsec_heard < h->config.nsec_dead)
		return;
	h->tx_error = -EPIPE;
	if (!h->rx_error)
		h->rx_error = -EPIPE;
}

void repair_maintain(struct hal_repair *h)
{
	uint64_t nsec_now;

	if (h->reliable)
		return;
	nsec_now = repair_now(h);
	if (h->any_lost)
		repeat_overtaken(h, nsec_now);
	repeat_late(h, nsec_now);
	if (h->ack_urgent && !h->tx_error)
		(void)put_ack(h, 0);
	/* The next round finds it urgent, if nothing has carried it until then. */
	h->ack_urgent |= h->ack_due;
	bury_the_dead(h, nsec_now);
	set_deadline(h);
	repair_hint(h);
}

void repair_last_words(struct hal_repair *h)
{
	uint64_t nsec_now = h->reliable ? 0 : repair_now(h);
	/* One that the peer has no room for would cost it those that it has not read. */
	uint64_t end = h->reliable ? h->tx_end : MIN(h->tx_end, h->tx_limit);

	for (uint64_t seq = h->tx_first; seq < end && !h->tx_error; seq++)
		if (!h->tx[seq & h->mask].full && put_slot(h, seq, nsec_now) < 0)
			break;
	if (h->ack_due && !h->reliable && !h->tx_error)
		(void)put_ack(h, 0);
}
