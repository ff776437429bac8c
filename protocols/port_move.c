/*
 * Ports of others that pass from one process to another, as those see it who send to them or hear
 * from them.
 *
 * The owner says MOVE on every link that it has. From then on no message to the port is begun here,
 * and when none is under way the answer is STOPPED: behind all that was sent to the port, and,
 * since links are in order, after all that the port has sent to us was taken. Then either it stays,
 * and things go on; or it has moved, which is said by its owner, or by psid, or by the end of the
 * link. Whatever says it, psid alone knows where the port is now, if anywhere, and is asked by
 * whoever next wants something of it; libpulc does that (native_move.c).
 *
 * What came from the port before it moved is received before what comes from its new owner: its
 * source here has ended as far as the old link goes, and ends of that kind (PORT_ELSEWHERE) are
 * told to nobody.
 */
#include <stdlib.h>

#include "macros.h"
#include "port.h"
#include "step.h"

struct move {
	LIST_ENTRY(move) link;
	struct peer *peer;
	uint32_t number;
	uint64_t id;
	uint64_t era; /* protocol_era then */
	bool answered;
};

struct port_moves port_moves = LIST_HEAD_INITIALIZER(port_moves);
bool port_any_elsewhere;

static struct move *find(const struct peer *peer, uint32_t number)
{
	struct move *m;

	LIST_FOREACH(m, &port_moves, link)
		if (m->peer == peer && m->number == number)
			return m;
	return NULL;
}

bool port_is_moving(const struct peer *peer, uint32_t number)
{
	return UNLIKELY(!LIST_EMPTY(&port_moves)) && find(peer, number);
}

static void move_free(struct move *m)
{
	LIST_REMOVE(m, link);
	peer_unref(m->peer);
	free(m);
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* What is done to a destination, if it is the one. */
struct doing {
	const struct move *move;
	uint64_t before; /* what has passed */
	bool is_busy;
};

static bool is_its(const struct port_out *out, const struct move *m)
{
	return out->to == m->number && out->peer == m->peer && !out->error;
}

static void stop(struct port_out *out, void *arg)
{
	const struct doing *doing = arg;

	if (is_its(out, doing->move))
		out->held |= PORT_HELD_MOVE;
}

static void go_on(struct port_out *out, void *arg)
{
	const struct doing *doing = arg;

	if (!is_its(out, doing->move))
		return;
	out->held &= ~PORT_HELD_MOVE;
	port_out_wait(out, false);
}

/* A datagram that has begun is sent to its end; a stream stops anywhere. */
static void look(struct port_out *out, void *arg)
{
	const struct port_sending *head = TAILQ_FIRST(&out->queue);
	struct doing *doing = arg;

	if (is_its(out, doing->move) && out->kind == PORT_D)
		doing->is_busy |= out->busy || (head && head->begun);
}

static void answer(struct move *m)
{
	struct doing doing = { .move = m };

	port_each_out(look, &doing);
	if (doing.is_busy)
		return;
	m->answered = port_control(m->peer, (uint64_t)m->number << 32, PORT_STOPPED, m->id) == 0;
	STEP(MOVE_STOPPED);
}

void port_moves_on(void)
{
	struct move *m;

	LIST_FOREACH(m, &port_moves, link)
		if (!m->answered)
			answer(m);
}

static int begin(struct peer *peer, uint32_t number, uint64_t id)
{
	bool self = peer->link->caps.flags & HAL_IMMEDIATE;
	struct move *m = find(peer, number);
	struct doing doing;

	if (self ? !port_find(number) : !peer_has(peer, number)) {
		peer->held = !self;
		return -EAGAIN;
	}
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return -EAGAIN;
		m->peer = peer_ref(peer);
		m->number = number;
		LIST_INSERT_HEAD(&port_moves, m, link);
	}
	m->id = id;
	m->era = protocol_era;
	m->answered = false;
	doing = (struct doing){ .move = m };
	port_each_out(stop, &doing);
	STEP(MOVE_HEARD);
	answer(m);
	return 0;
}

/* ---- and then -------------------------------------------------------------------------------- */

static void leave(struct port_out *out, void *arg)
{
	const struct doing *doing = arg;

	if (!is_its(out, doing->move) || out->era >= doing->before)
		return;
	if (out->n_inside == 0) {
		port_out_free(out);
		return;
	}
	port_out_end(out, PORT_ELSEWHERE);
	port_any_elsewhere = true;
}

/* What was begun since is of a port that has come back. */
static void has_moved(struct move *m, uint64_t before)
{
	struct doing doing = { .move = m, .before = before };
	struct port *port;
	struct port_in *in;

	port_each_out(leave, &doing);
	for (port = port_next(NULL); port; port = port_next(port)) {
		in = port_in_find(port, m->peer, m->number);
		if (in && in->era >= before)
			continue;
		if (in)
			port_in_end(in, PORT_ELSEWHERE);
		port_any_elsewhere |= in && !TAILQ_EMPTY(&port->posted);
	}
	protocol_count_event();
	STEP(MOVE_GONE);
	move_free(m);
}

int port_move_said(struct peer *peer, uint32_t number, unsigned kind, uint64_t id)
{
	struct move *m = find(peer, number);
	struct doing doing = { .move = m };

	if (kind == PORT_MOVE)
		return begin(peer, number, id);
	if (!m || m->id != id)
		return 0;
	if (kind == PORT_MOVED) {
		has_moved(m, UINT64_MAX);
		return 0;
	}
	port_each_out(go_on, &doing);
	move_free(m);
	return 0;
}

void port_moves_end(struct peer *peer, uint32_t number, uint64_t before)
{
	struct move *m, *next;

	for (m = LIST_FIRST(&port_moves); m; m = next) {
		next = LIST_NEXT(m, link);
		if (m->peer == peer && (!number || m->number == number) && m->era < before)
			has_moved(m, before);
	}
}

void port_moves_forked(void)
{
	while (!LIST_EMPTY(&port_moves))
		move_free(LIST_FIRST(&port_moves));
	port_any_elsewhere = false;
}
