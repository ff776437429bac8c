/*
 * The receiving half of the repair layer: packets into slots, slots into frames.
 *
 * A window of slots begins with the first packet of the oldest frame that is not dropped. What
 * comes is put into the slot of its number if that is empty, whatever the order; a frame is shown
 * when its packets, first to last, stand there without a hole. Its bytes stay in the slots until it
 * is dropped, so nothing is copied twice here, and a program that drops nothing gives its peer no
 * new room.
 *
 * Everything in a packet is the peer's word. A number outside of the window that it was told, an
 * acknowledgement of what was never sent, a frame without beginning or end or beyond the agreed
 * size: -EBADMSG. What was lost, doubled or overtaken on the way makes sense, and none of these.
 */
#include "repair_private.h"

#include <endian.h>
#include <string.h>

#include "macros.h"

/* Finds the end of the oldest frame. */
static void scan(struct hal_repair *h)
{
	const struct repair_slot *s;

	while (!h->ready && h->rx_error != -EBADMSG && h->rx_scan < h->rx_next) {
		s = &h->rx[h->rx_scan & h->mask];
		if ((h->rx_scan == h->rx_first) != !!(s->flags & REPAIR_FIRST) ||
		    s->len > h->link.caps.frame_max - h->size_frame) {
			h->rx_error = -EBADMSG;
			break;
		}
		h->size_frame += s->len;
		h->rx_scan++;
		h->ready = s->flags & REPAIR_LAST;
	}
	/* A frame that fills the window and has no end will never get one. */
	if (!h->ready && h->rx_scan - h->rx_first == repair_n_slots(h))
		h->rx_error = -EBADMSG;
}

/* The packet that below shows goes into its slot. */
static void store(struct hal_repair *h, uint64_t seq, const struct hal_frame *f, uint32_t flags)
{
	struct repair_slot *s = &h->rx[seq & h->mask];
	struct repair_head again;
	struct iovec iov[2] = { { &again, sizeof(again) },
				{ repair_data(h, seq), f->len - sizeof(again) } };

	*s = (struct repair_slot){
		.word = f->word,
		.len = f->len - (uint32_t)sizeof(again),
		.protocol = f->protocol,
		.kind = f->kind,
		.flags = (uint8_t)flags,
		.full = true,
	};
	(void)h->below->ops->copy(h->below, iov, 2);
	h->rx_top = MAX(h->rx_top, seq + 1);
	while (h->rx_next < h->rx_top && h->rx[h->rx_next & h->mask].full)
		h->rx_next++;
}

static int take_numbered(struct hal_repair *h, const struct repair_head *head,
			 const struct hal_frame *f)
{
	uint64_t seq = repair_expand(h->rx_next, head->seq);
	int e = repair_take_ack(h, head);

	if (e < 0)
		return e;
	h->ack_urgent |= head->flags & REPAIR_ASK;
	h->ack_due |= h->ack_urgent;
	if (!(head->flags & REPAIR_DATA))
		return f->len == sizeof(*head) ? 0 : -EBADMSG;
	if (seq < repair_begin(h) || (int64_t)(seq - h->rx_first) >= repair_n_slots(h))
		return -EBADMSG;
	h->ack_due = true;
	if (seq < h->rx_next || h->rx[seq & h->mask].full) {
		h->counts.n_duplicates++;
		h->ack_urgent = true;
		return 0;
	}
	/* Out of order: the sender should know soon. */
	h->ack_urgent |= seq != h->rx_next;
	store(h, seq, f, head->flags);
	return 0;
}

/* The note at the end of a remote write: a frame of its own. */
static void take_note(struct hal_repair *h, const struct hal_frame *f)
{
	h->rx[h->rx_next & h->mask] = (struct repair_slot){
		.word = f->word,
		.protocol = f->protocol,
		.kind = f->kind,
		.flags = REPAIR_FIRST | REPAIR_LAST,
		.full = true,
	};
	h->rx_top = ++h->rx_next;
}

static int take(struct hal_repair *h, const struct hal_frame *f)
{
	struct repair_head head;
	struct iovec iov = { &head, sizeof(head) };

	if (f->len == 0 && (h->link.caps.flags & HAL_REMOTE_NOTIFY)) {
		take_note(h, f);
		return 0;
	}
	if (f->len < sizeof(head) || f->len - sizeof(head) > h->size_data ||
	    h->below->ops->copy(h->below, &iov, 1) != sizeof(head))
		return -EBADMSG;
	head = (struct repair_head){
		.seq = le32toh(head.seq),
		.ack = le32toh(head.ack),
		.limit = le32toh(head.limit),
		.flags = le32toh(head.flags),
		.sack = le64toh(head.sack),
	};
	if (head.flags & ~REPAIR_FLAGS)
		return -EBADMSG;
	if (!h->reliable)
		return take_numbered(h, &head, f);
	if (!(head.flags & REPAIR_DATA))
		return -EBADMSG;
	store(h, h->rx_next, f, head.flags);
	return 0;
}

void repair_pull(struct hal_repair *h)
{
	struct hal_frame f;
	int e = 0;

	/* A window at a time: whoever floods us must not keep us here. */
	for (uint32_t i = 0; i < repair_n_slots(h) && !h->rx_error; i++) {
		/* Without a window the peer is held up by the HAL, whose frames we leave where they
		 * are. */
		if (h->reliable && h->rx_next - h->rx_first == repair_n_slots(h))
			break;
		e = h->below->ops->next(h->below, &f);
		if (e <= 0)
			break;
		e = take(h, &f);
		h->below->ops->drop(h->below);
		if (e < 0)
			break;
		if (h->config.nsec_dead)
			h->nsec_heard = repair_now(h);
		h->n_unheard = 0;
		scan(h);
	}
	if (e < 0 && !h->rx_error)
		h->rx_error = e;
	repair_hint(h);
}

void repair_drop(struct hal_repair *h)
{
	for (; h->rx_first < h->rx_scan; h->rx_first++)
		h->rx[h->rx_first & h->mask].full = false;
	h->ready = false;
	h->size_frame = 0;
	scan(h);
	/* A sender who is out of room should not have to ask for it. */
	if (!h->reliable && h->rx_first + repair_n_slots(h) - h->limit_told > h->mask / 4)
		h->ack_due = h->ack_urgent = true;
	repair_hint(h);
}

size_t repair_copy(const struct hal_repair *h, const struct iovec *iov, unsigned n)
{
	uint64_t seq = h->rx_first;
	size_t done = 0, from = 0, at = 0, len;

	for (unsigned i = 0; i < n && seq < h->rx_scan;) {
		len = MIN(iov[i].iov_len - at, h->rx[seq & h->mask].len - from);
		if (len > 0)
			memcpy((char *)iov[i].iov_base + at, repair_data(h, seq) + from, len);
		done += len;
		at += len;
		from += len;
		if (from == h->rx[seq & h->mask].len) {
			seq++;
			from = 0;
		}
		if (at == iov[i].iov_len) {
			i++;
			at = 0;
		}
	}
	return done;
}
