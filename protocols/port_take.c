/*
 * A port that becomes ours: the taker's side of a hand-over, of which a process has one at a time.
 *
 * What the owner has unread of the port comes over the link to it, message by message, and is
 * queued in a port that nobody finds yet. Each message keeps its source, whom we need not be joined
 * with: it stands there as one who has gone elsewhere, so what it sends to us itself comes behind.
 * When all is here libpulc tells psid, and then the port is entered and is ours.
 *
 * The owner is of the same user, and has given us the port; but its frames are checked as
 * anybody's. What comes of a hand-over that was called off is dropped.
 *
 * If psid ends before it has told the owner, the owner asks us (WHOSE). So what was taken is
 * remembered until the owner says that it knows. One that psid has not said to be ours when that
 * question comes never will be: the answer is given up with it.
 */
#include <stdlib.h>

#include "macros.h"
#include "port.h"
#include "step.h"

static struct port *port; /* NULL: no hand-over */
static struct peer *giver;
static uint64_t move;
static bool began, complete;
static bool refused;	       /* the owner was told that it is not ours */
static struct port_in *within; /* whose message has more to come */

/* One that is ours, as far as its owner may not know. */
struct taken {
	LIST_ENTRY(taken) link;
	struct peer *from;
	uint32_t number;
	uint64_t move;
};
static LIST_HEAD(takings, taken) all_taken = LIST_HEAD_INITIALIZER(all_taken);
static struct taken *record; /* for the one that is being taken */

int port_take_begin(uint32_t number, enum port_kind kind, struct peer *from, uint64_t id)
{
	port_take_forget();
	record = malloc(sizeof(*record));
	port = record ? port_new_apart(number, kind) : NULL;
	if (!port) {
		free(record);
		record = NULL;
		return -ENOMEM;
	}
	giver = peer_ref(from);
	move = id;
	return 0;
}

bool port_take_is_complete(void)
{
	return port && complete;
}

bool port_take_is_lost(void)
{
	return port && (refused || (!giver->link && !complete));
}

static void reset(void)
{
	peer_unref(giver);
	giver = NULL;
	port = NULL;
	within = NULL;
	free(record);
	record = NULL;
	began = complete = refused = false;
}

struct port *port_take_end(void)
{
	struct port *taken = port;

	port_enter(taken);
	if (giver->link) {
		*record = (struct taken){ .from = peer_ref(giver),
					  .number = port->number,
					  .move = move };
		LIST_INSERT_HEAD(&all_taken, record, link);
		record = NULL;
	}
	reset();
	return taken;
}

void port_take_forget(void)
{
	if (port)
		port_forget(port);
	reset();
}

/* ---- the owner does not know ----------------------------------------------------------------- */

int port_take_asked(struct peer *peer, uint32_t number, uint64_t id)
{
	const struct taken *t;
	int e;

	LIST_FOREACH(t, &all_taken, link)
		if (t->from == peer && t->number == number && t->move == id)
			break;
	e = port_control(peer, (uint64_t)number << 32, t ? PORT_MINE : PORT_YOURS, id);
	if (e == -ENOBUFS || e == -ENOMEM)
		return -EAGAIN;
	if (port && peer == giver && number == port->number && id == move)
		refused = true;
	return 0;
}

static void taken_free(struct taken *t)
{
	LIST_REMOVE(t, link);
	peer_unref(t->from);
	free(t);
}

void port_take_told(const struct peer *peer, uint32_t number)
{
	struct taken *t, *next;

	for (t = LIST_FIRST(&all_taken); t; t = next) {
		next = LIST_NEXT(t, link);
		if (t->from == peer && (!number || t->number == number))
			taken_free(t);
	}
}

void port_take_forked(void)
{
	port_take_forget();
	while (!LIST_EMPTY(&all_taken))
		taken_free(LIST_FIRST(&all_taken));
}

/* ---- what comes ------------------------------------------------------------------------------ */

static struct port_in *source_new(uint32_t from, const struct port_carried *head)
{
	struct peer *peer = peer_new(NULL, 0);
	struct port_in *in = peer ? port_in_new(port, peer, from) : NULL;

	if (peer) {
		peer->node = head->node;
		peer->error = -ECONNRESET;
	}
	peer_unref(peer);
	if (in)
		in->ended = head->ended ? head->ended : PORT_ELSEWHERE;
	return in;
}

static int more(struct peer *peer, uint32_t len, uint32_t skip)
{
	struct port_in *in = within;

	int e = port_queue_carry(in, peer->link, len, skip);

	STEP(TAKE_PIECE);
	if (!in->partial)
		within = NULL;
	return e;
}

static int message(struct peer *peer, uint32_t from, uint32_t len)
{
	struct port_carried head = { 0 };
	struct iovec iov = { .iov_base = &head, .iov_len = sizeof(head) };
	struct port_in *in;

	if (within || len < sizeof(head))
		return -EBADMSG;
	(void)peer->link->ops->copy(peer->link, &iov, 1);
	if (head.size > PORT_MESSAGE_MAX || len - sizeof(head) > head.size || head.ended > 0)
		return -EBADMSG;
	in = port_in_of(port, head.node, from);
	if (!in)
		in = source_new(from, &head);
	if (!in || port_queue_begin(in, head.size) < 0)
		return -EAGAIN;
	in->size_long = head.size;
	within = in;
	return more(peer, len, sizeof(head));
}

/* The marks at the beginning and at the end; and the key of the port's guests. */
static int mark(struct peer *peer, const struct hal_frame *f)
{
	uint64_t id = 0;
	struct iovec iov = { .iov_base = &id, .iov_len = sizeof(id) };

	if (f->len != sizeof(id))
		return -EBADMSG;
	(void)peer->link->ops->copy(peer->link, &iov, 1);
	if (f->kind == PORT_KEY) {
		if (!complete)
			port->key = id;
		return 0;
	}
	if (id != move)
		return 0;
	if (f->kind == PORT_CARRIES) {
		began = true;
		STEP(TAKE_CARRIES);
		return 0;
	}
	if (!began || within)
		return -EBADMSG;
	complete = true;
	STEP(TAKE_COMPLETE);
	return 0;
}

int port_take_arrived(struct peer *peer, const struct hal_frame *f)
{
	if (!port || peer != giver || (uint32_t)(f->word >> 32) != port->number)
		return 0;
	if (f->kind == PORT_CARRIES || f->kind == PORT_CARRIED || f->kind == PORT_KEY)
		return mark(peer, f);
	if (!began || complete)
		return 0;
	if (f->kind == PORT_CARRY)
		return message(peer, (uint32_t)f->word, f->len);
	return within && f->len ? more(peer, f->len, 0) : -EBADMSG;
}
