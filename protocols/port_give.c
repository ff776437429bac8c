/*
 * One of our ports passes to another process: the owner's side.
 *
 * Everybody whom we are joined with is asked to stop (port_move.c), because anybody may have been
 * told that the port is here. When all have answered or are gone, nothing is on its way to the
 * port, and what is unread of it lies in its queue, which nobody takes from meanwhile. That is sent
 * to the taker, message by message in the order of arrival, each with its source, and the key that
 * the port's guests show. It is kept here as well until psid says whose the port is: whatever goes
 * wrong before leaves it here with all that it has. If psid ends without saying so, the taker is
 * asked, for whom psid's word has come or never will.
 */
#include <stdlib.h>

#include "macros.h"
#include "port.h"
#include "step.h"

struct asked {
	struct peer *peer;
	bool stopped;
};

struct port_give {
	struct peer *to;
	uint64_t move;
	struct asked *asked;
	unsigned n_asked, n_max;
	bool carries, carried;
	bool asks, answered, is_theirs; /* WHOSE */
	struct port_message *last;	/* that was sent whole, */
	size_t size, n_sent;		/* and how much there is of the next one, and was sent, */
	bool is_within;			/* if it has begun */
};

static uint64_t word_of(const struct port *port)
{
	return (uint64_t)port->number << 32;
}

static unsigned n_given;

bool port_give_any(void)
{
	return n_given > 0;
}

static void give_free(struct port_give *give)
{
	n_given--;
	for (unsigned i = 0; i < give->n_asked; i++)
		peer_unref(give->asked[i].peer);
	peer_unref(give->to);
	free(give->asked);
	free(give);
}

int port_give_begin(struct port *port, struct peer *to, uint64_t move)
{
	struct port_give *give = calloc(1, sizeof(*give));

	if (!give)
		return -ENOMEM;
	give->to = peer_ref(to);
	give->move = move;
	port->give = give;
	n_given++;
	return 0;
}

/* ---- stopping everybody ---------------------------------------------------------------------- */

static struct asked *find(const struct port_give *give, const struct peer *peer)
{
	for (unsigned i = 0; i < give->n_asked; i++)
		if (give->asked[i].peer == peer)
			return &give->asked[i];
	return NULL;
}

static int add(struct port_give *give, struct peer *peer)
{
	unsigned max = give->n_max ? 2 * give->n_max : 8;
	struct asked *asked = give->asked;

	if (give->n_asked == give->n_max) {
		asked = realloc(asked, max * sizeof(*asked));
		if (!asked)
			return -ENOMEM;
		give->asked = asked;
		give->n_max = max;
	}
	give->asked[give->n_asked++] = (struct asked){ .peer = peer_ref(peer) };
	return 0;
}

int port_give_ask(struct port *port, struct peer *peer)
{
	struct port_give *give = port->give;
	int e;

	if (find(give, peer))
		return 0;
	/* It may answer before this returns. */
	e = add(give, peer);
	if (e < 0)
		return e;
	e = port_control(peer, word_of(port), PORT_MOVE, give->move);
	STEP(GIVE_ASKED);
	if (e < 0)
		peer_unref(give->asked[--give->n_asked].peer);
	return e;
}

void port_give_stopped(struct port *port, const struct peer *peer, uint64_t move)
{
	struct asked *asked = find(port->give, peer);

	if (asked && move == port->give->move)
		asked->stopped = true;
}

static bool all_have_stopped(const struct port_give *give)
{
	for (unsigned i = 0; i < give->n_asked; i++)
		if (!give->asked[i].stopped && give->asked[i].peer->link)
			return false;
	return true;
}

/* ---- sending on ------------------------------------------------------------------------------ */

static int send_mark(struct port *port, unsigned kind)
{
	struct port_give *give = port->give;
	uint64_t value = kind == PORT_KEY ? port->key : give->move;
	struct iovec iov = { .iov_base = &value, .iov_len = sizeof(value) };
	struct hal_frame f = {
		.word = word_of(port),
		.len = sizeof(value),
		.protocol = PROTOCOL_PORT,
		.kind = (uint16_t)kind,
	};

	return peer_send(give->to, &f, &iov, 1);
}

/* The next frame of this message. */
static int send_piece(struct port *port, struct port_message *m)
{
	struct port_give *give = port->give;
	struct port_carried head;
	const unsigned char *data;
	struct port_in *in;
	size_t there = port_queue_look(m, &in, &data);
	/* A source that has lied of its stopping may have added to it. */
	size_t size = give->is_within ? give->size : there;
	unsigned n_head = give->is_within ? 0 : sizeof(head);
	struct iovec iov[2] = { { .iov_base = &head, .iov_len = sizeof(head) } };
	size_t len = MIN(size - give->n_sent, give->to->link->caps.frame_good - n_head);
	struct hal_frame f = {
		.word = word_of(port) | in->from,
		.len = (uint32_t)len + n_head,
		.protocol = PROTOCOL_PORT,
		.kind = give->is_within ? PORT_MORE : PORT_CARRY,
	};
	int e;

	head = (struct port_carried){ .node = in->peer->node, .ended = in->ended, .size = size };
	iov[1] = (struct iovec){ .iov_base = (void *)(data + give->n_sent), .iov_len = len };
	e = peer_send(give->to, &f, n_head ? iov : &iov[1], n_head ? 2 : 1);
	if (e < 0)
		return e;
	give->size = size;
	give->n_sent += len;
	give->is_within = give->n_sent < size;
	STEP(GIVE_PIECE);
	if (give->is_within)
		return 0;
	give->last = m;
	give->n_sent = 0;
	return 0;
}

int port_give_on(struct port *port)
{
	struct port_give *give = port->give;
	struct port_message *next;
	int e = 0;

	if (!give->to->link)
		return give->to->error;
	if (give->carried)
		return 0;
	if (!all_have_stopped(give))
		return -EAGAIN;
	STEP(GIVE_STOPPED);
	if (!give->carries)
		e = send_mark(port, PORT_CARRIES);
	if (e < 0)
		return e;
	STEP(GIVE_CARRIES);
	give->carries = true;
	while ((next = port_queue_next(port, give->last))) {
		e = send_piece(port, next);
		if (e < 0)
			return e;
	}
	/* Said again, it is the same. */
	e = send_mark(port, PORT_KEY);
	if (e == 0)
		e = send_mark(port, PORT_CARRIED);
	give->carried = e == 0;
	STEP(GIVE_CARRIED);
	return e;
}

/* ---- in doubt -------------------------------------------------------------------------------- */

bool port_give_is_carried(const struct port *port)
{
	return port->give && port->give->carried;
}

int port_give_settle(struct port *port)
{
	struct port_give *give = port->give;

	if (give->answered)
		return give->is_theirs ? 0 : -ENOTCONN;
	/* If it was the taker's, it has ended with it. */
	if (!give->to->link)
		return -ENOTCONN;
	if (!give->asks)
		give->asks = port_control(give->to, word_of(port), PORT_WHOSE, give->move) == 0;
	return -EAGAIN;
}

void port_give_answered(struct port *port, const struct peer *peer, uint64_t move, bool is_theirs)
{
	struct port_give *give = port->give;

	if (!give->asks || peer != give->to || move != give->move)
		return;
	give->answered = true;
	give->is_theirs = is_theirs;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void tell(struct port_give *give, uint32_t number, unsigned kind)
{
	for (unsigned i = 0; i < give->n_asked; i++)
		if (give->asked[i].peer->link)
			(void)port_control_surely(give->asked[i].peer, (uint64_t)number << 32, kind,
						  give->move);
}

void port_give_off(struct port *port)
{
	tell(port->give, port->number, PORT_STAYS);
	port_give_forget(port);
}

void port_give_done(struct port *port)
{
	struct port_give *give = port->give;
	uint32_t number = port->number;

	/* Whoever of our own looks for it is not to find it here. */
	port->give = NULL;
	port_forget(port);
	STEP(GIVE_TELLS);
	tell(give, number, PORT_MOVED);
	STEP(GIVE_TOLD);
	give_free(give);
}

void port_give_forget(struct port *port)
{
	if (port->give)
		give_free(port->give);
	port->give = NULL;
}
