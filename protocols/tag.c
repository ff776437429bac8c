/*
 * Tagged messages between processes: the frames, and what both directions share.
 *
 * A message is addressed to a process and not to a port: psid's number of it is who the peer is, so
 * the frame's word is free for the tag. Short messages are sent whole and kept by the receiver,
 * within a credit for each pair of processes. A long one is offered: its bytes stay with the sender
 * until a receive wants it. Then the receiver gets them from the sender's memory by itself
 * (tag_pull.c), or asks for them (PUSH) and they come in pieces straight into its buffer. It says
 * when it has them all (DONE); before that the sender's buffer is not its own.
 *
 * So what a message costs the receiver before it is wanted is bounded by the credit, whatever its
 * length; and there is one place for each of the unlucky cases: a receive that is cancelled leaves
 * the offer standing, and the next one asks anew, under another number; pieces of an old number are
 * dropped. A send that is cancelled asks its receiver (WITHDRAW), for the bytes may be on their
 * way.
 *
 * Nothing in a frame is believed. A number of an offer that was never made, a push of more than the
 * offer has, more unread than the credit allows, or more bytes than were asked for end the link.
 *
 * Source: bip-1997, 2 (tags, queues, short and long messages) and 3.3 (long messages in pieces).
 */
#include "tag.h"

#include <stdlib.h>

#include "macros.h"
#include "pairs.h"

struct tag_peer *tag_peer_of(struct peer *peer)
{
	struct tag_peer *tp = peer->tags;

	if (LIKELY(tp))
		return tp;
	tp = calloc(1, sizeof(*tp));
	if (!tp)
		return NULL;
	tp->peer = peer;
	tp->shown = shm_pair_add(SHM_PAIR_TAGS, peer->client, 0);
	TAILQ_INIT(&tp->queue);
	TAILQ_INIT(&tp->offers);
	TAILQ_INIT(&tp->pushing);
	return peer->tags = tp;
}

int tag_control(struct peer *peer, unsigned kind, uint64_t word, const void *payload, uint32_t len)
{
	const struct hal_frame f = {
		.word = word,
		.len = len,
		.protocol = PROTOCOL_TAG,
		.kind = (uint16_t)kind,
	};
	struct iovec iov = { .iov_base = (void *)payload, .iov_len = len };

	return peer_send_later(peer, &f, &iov, len > 0, NULL);
}

size_t tag_copy_payload(struct tag_peer *tp, void *to, size_t len)
{
	struct hal_link *link = tp->peer->link;
	struct iovec iov = { .iov_base = to, .iov_len = len };

	return len ? link->ops->copy(link, &iov, 1) : 0;
}

/* A sender without credit depends on it: what cannot be told now is told as soon as it can be. */
void tag_tell_credit(struct tag_peer *tp)
{
	int e = tag_control(tp->peer, TAG_CREDIT, tp->taken, NULL, 0);

	tp->owes = e == -ENOBUFS || e == -ENOMEM;
	if (e == 0)
		tp->told = tp->taken;
	tag_set_busy(tp);
}

void tag_taken(struct peer *peer, uint64_t cost)
{
	struct tag_peer *tp = peer->tags;

	tp->taken += cost;
	if (UNLIKELY(tp->taken - tp->told >= TAG_WINDOW / 4))
		tag_tell_credit(tp);
}

/* What has come in full; -EBADMSG: a payload that the kind does not have. */
static int arrived_control(struct tag_peer *tp, const struct hal_frame *f)
{
	if (f->len != 0)
		return -EBADMSG;
	switch (f->kind) {
	case TAG_DONE:
		return tag_arrived_done(tp, f);
	case TAG_WITHDRAW:
		return tag_arrived_withdraw(tp, f);
	case TAG_WITHDRAWN:
		return tag_arrived_withdrawn(tp, f);
	case TAG_CREDIT:
		return tag_arrived_credit(tp, f);
	default:
		return -EBADMSG;
	}
}

static int arrived(struct peer *peer, const struct hal_frame *f)
{
	struct tag_peer *tp = tag_peer_of(peer);

	if (UNLIKELY(!tp))
		return -EAGAIN;
	switch (f->kind) {
	case TAG_EAGER:
		return tag_arrived_eager(tp, f);
	case TAG_OFFER:
	case TAG_OFFER_AWAY:
		return f->len == sizeof(struct tag_offer) ? tag_arrived_offer(tp, f) : -EBADMSG;
	case TAG_BLOCK:
		return f->len == sizeof(struct tag_block) ? tag_arrived_offer(tp, f) : -EBADMSG;
	case TAG_PUSH:
		return f->len == sizeof(struct tag_push) ? tag_arrived_push(tp, f) : -EBADMSG;
	case TAG_DATA:
		return tag_arrived_data(tp, f);
	default:
		return arrived_control(tp, f);
	}
}

/* What is still counted of it is shown to nobody. */
static void show_no_more(struct peer *peer)
{
	if (!peer->tags)
		return;
	shm_pair_remove(peer->tags->shown);
	peer->tags->shown = 0;
}

static void gone(struct peer *peer, unsigned number)
{
	(void)number;
	if (peer->tags)
		tag_sends_gone(peer->tags);
	tag_receives_gone(peer);
	show_no_more(peer);
}

/* Processes, not ports. */
static void closed(struct peer *peer, const struct port_end *end)
{
	(void)peer, (void)end;
}

const struct protocol tag_protocol = {
	.name = "tag",
	.arrived = arrived,
	.gone = gone,
	.closed = closed,
};

void tag_move_on(void)
{
	tag_receives_move_on();
	tag_sends_move_on();
}

void tag_forget(void)
{
	tag_receives_forget();
	tag_sends_forget();
	tag_pull_forget();
}

void tag_forget_peer(struct peer *peer)
{
	show_no_more(peer);
	free(peer->tags);
	peer->tags = NULL;
}
