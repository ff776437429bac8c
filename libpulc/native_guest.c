/*
 * pulc/pulc.h in a forked child: calls on a port that its parent has opened, and that is another
 * process's.
 *
 * Each call is one of protocols/guest_ask.c, to the port's owner: whom psid names, and who is
 * remembered as long as it is the owner. Those that wait have theirs on the stack, operations have
 * it in them. A receive that a signal interrupts is taken back at once. A send whose bytes the
 * owner has can be taken back with the owner's consent only, so the call waits for that and then
 * says which of the two came first.
 *
 * Where the owner is is asked in progress, for those that have just begun and for those that were
 * told it is elsewhere, one behind the other: while the port passes, a later send does not reach
 * the new owner before an earlier one has been told that it was not done by the old one.
 *
 * Source: pulc-1998, 4.6.3 (fork: parent and child share the port).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "macros.h"
#include "native.h"
#include "rawsys.h"

uint64_t native_guest_key(void)
{
	uint64_t key = 0;

	/* Without one the port has no guests. */
	if (raw_syscall(SYS_getrandom, &key, sizeof(key), GRND_NONBLOCK) != sizeof(key))
		key = 0;
	return key;
}

/* ---- for guests of ours ---------------------------------------------------------------------- */

static int find_out(struct port *port, uint32_t node, uint32_t to, struct port_out **ret_out)
{
	const struct pulc_address address = { .node = node, .port = to };

	return native_find_out_by(native_find_peer_now, port, &address, ret_out);
}

/* It is not known yet. */
static int find_source(struct port *port, uint32_t node, uint32_t from)
{
	enum port_kind kind;
	struct peer *peer;
	int e = native_find_peer_now(native_node(node), from, &peer, &kind);

	if (e < 0 || port_in_of(port, node, from))
		return e;
	return port_in_new(port, peer, from) ? 0 : -ENOMEM;
}

void native_guest_start(void)
{
	static const struct guest_finder finder = { .out = find_out, .source = find_source };

	guest_finder = &finder;
}

/* ---- finding the owner ----------------------------------------------------------------------- */

/* Psid knows no such port, or names who is none of its owners. */
static bool is_end(int e)
{
	return e == -ECONNREFUSED || e == -ECONNRESET;
}

static void find_owner(struct guest_call *c)
{
	struct pulc_port *p = c->owner;
	struct peer *peer = p->host && !c->n_parked ? native_peer(p->host) : NULL;
	enum port_kind kind;
	int e = c->key ? 0 : -ECHILD;

	if (e == 0 && !(peer && peer_has(peer, p->number)))
		e = native_find_peer_now(0, p->number, &peer, &kind);
	/* This process has taken it, as another port than this one. */
	if (e == 0 && !peer->conn)
		e = -ECHILD;
	if (e == -EINPROGRESS) {
		protocol_set_unfinished(true);
	} else if (e < 0) {
		guest_call_fail(c, is_end(e) ? -EPIPE : e);
	} else {
		p->host = peer->client;
		if (!guest_call_is_behind(c, peer))
			guest_call_at(c, peer);
	}
}

/* Is it anybody's? */
static void settle(struct guest_call *c)
{
	enum port_kind kind;
	struct peer *peer;
	int e = native_find_peer_now(0, c->number, &peer, &kind);

	c->doubts = e == -EINPROGRESS;
	if (c->doubts)
		protocol_set_unfinished(true);
	else if (e < 0)
		guest_call_fail(c, is_end(e) ? -EPIPE : e);
}

void native_guest_move_on(void)
{
	struct guest_call *c, *next;

	guest_requests_move_on();
	for (c = guest_call_next(NULL); c; c = next) {
		next = guest_call_next(c);
		if (c->stage == GUEST_PARKED && !guest_call_is_behind(c, NULL))
			find_owner(c);
		else if (c->doubts)
			settle(c);
	}
	guest_calls_move_on();
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Returns 0 with the lock held; or why not, without it. */
static int enter(struct pulc_port *p)
{
	int e;

	if (!native_lock())
		return -EDEADLK;
	/* Another thread makes it this process's own. */
	if (p->port || p->is_moving)
		e = -EBUSY;
	else
		e = p->key ? native_attach_or_linked() : -ECHILD;
	if (e < 0) {
		native_unlock();
		return e;
	}
	p->n_inside++;
	return 0;
}

static unsigned flags_of(int flags)
{
	return (flags & PULC_DONTWAIT ? GUEST_DONTWAIT : 0) | (flags & PULC_PEEK ? GUEST_PEEK : 0);
}

static void call_init(struct guest_call *c, struct pulc_port *p, const struct iovec *iov,
		      unsigned n)
{
	*c = (struct guest_call){
		.owner = p,
		.key = p->key,
		.number = p->number,
		.iov = iov,
		.n = n,
		.size = hal_iov_size(iov, n),
	};
}

static void for_send(struct guest_call *c, const struct pulc_address *to)
{
	c->is_send = true;
	c->node = native_node(to->node);
	c->port = to->port;
}

static void for_receive(struct guest_call *c, const struct pulc_address *from)
{
	c->size = MIN(c->size, (size_t)PORT_MESSAGE_MAX);
	c->node = from ? native_node(from->node) : 0;
	c->port = from ? from->port : 0;
}

static int is_over(void *arg)
{
	const struct guest_call *c = arg;

	return c->complete ? 0 : -EAGAIN;
}

/* The call is not left before it is complete. Under the lock, which it gives up meanwhile. */
static void await(struct guest_call *c)
{
	bool interrupted = false;
	int e = native_look_until(is_over, c, UINT64_MAX);

	while (e == -EINTR) {
		if (!interrupted)
			interrupted = guest_call_cancel(c) >= 0;
		e = native_look_until(is_over, c, UINT64_MAX);
	}
}

static ssize_t result(const struct guest_call *c, bool trunc)
{
	if (c->error < 0)
		return c->error;
	return (ssize_t)(c->is_send ? c->base : trunc ? c->size_whole : c->at);
}

ssize_t native_guest_send(struct pulc_port *p, const struct pulc_address *to,
			  const struct iovec *iov, unsigned n, int flags)
{
	struct guest_call c;
	ssize_t sent;
	int e = enter(p);

	if (e < 0)
		return e;
	call_init(&c, p, iov, n);
	for_send(&c, to);
	c.flags = flags_of(flags);
	guest_call_begin(&c);
	await(&c);
	native_leave(p);
	sent = result(&c, false);
	return sent == -ECANCELED ? -EINTR : sent;
}

ssize_t native_guest_receive(struct pulc_port *p, const struct iovec *iov, unsigned n,
			     const struct pulc_address *from, struct pulc_address *ret_from,
			     int flags)
{
	struct guest_call c;
	int e = enter(p);

	if (e < 0)
		return e;
	call_init(&c, p, iov, n);
	for_receive(&c, from);
	c.flags = flags_of(flags);
	guest_call_begin(&c);
	await(&c);
	native_leave(p);
	if (c.error < 0)
		return c.error == -ECANCELED ? -EINTR : c.error;
	if (ret_from)
		*ret_from = (struct pulc_address){ .node = c.source_node, .port = c.source };
	return result(&c, flags & PULC_TRUNC);
}

/* ---- operations ------------------------------------------------------------------------------ */

int native_guest_begin(struct pulc_op *op, struct pulc_port *p, const struct pulc_address *other,
		       unsigned n)
{
	struct guest_call *c = &op->guest;
	int e = enter(p);

	if (e < 0)
		return e;
	op->is_guest = true;
	call_init(c, p, op->iov, n);
	if (op->is_send)
		for_send(c, other);
	else
		for_receive(c, other);
	guest_call_begin(c);
	native_progress();
	/* What fails at once is no operation. */
	e = c->complete && c->error < 0 ? c->error : 0;
	if (e == 0)
		native_op_list(op, p);
	native_leave(p);
	return e;
}

ssize_t native_guest_result(const struct pulc_op *op, struct pulc_address *ret_from)
{
	const struct guest_call *c = &op->guest;

	if (ret_from && !op->is_send && c->error == 0)
		*ret_from = (struct pulc_address){ .node = c->source_node, .port = c->source };
	return result(c, op->flags & PULC_TRUNC);
}

/* ---- select ---------------------------------------------------------------------------------- */

static bool is_guests(const struct pulc_wait *w)
{
	return w->port && !w->port->port;
}

/* How many there are; -EBUSY: another thread makes one this process's own. */
static int count_guests(const struct pulc_wait *ports, size_t n)
{
	int n_guests = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_guests(&ports[i]))
			continue;
		if (ports[i].port->is_moving)
			return -EBUSY;
		n_guests++;
	}
	return n_guests;
}

int native_guest_looks(const struct pulc_wait *ports, size_t n, bool now,
		       struct guest_call **ret_looks)
{
	struct guest_call *looks;
	int n_guests = count_guests(ports, n);

	if (LIKELY(n_guests <= 0))
		return n_guests;
	looks = calloc(n, sizeof(*looks));
	if (!looks)
		return -ENOMEM;
	*ret_looks = looks;
	for (size_t i = 0; i < n; i++) {
		if (!is_guests(&ports[i]))
			continue;
		call_init(&looks[i], ports[i].port, NULL, 0);
		looks[i].flags = GUEST_LOOK | (now ? GUEST_DONTWAIT : 0);
		ports[i].port->n_inside++;
		guest_call_begin(&looks[i]);
	}
	for (size_t i = 0; now && i < n; i++) {
		if (!looks[i].owner)
			continue;
		await(&looks[i]);
		if (looks[i].error == -ECANCELED)
			return -EINTR;
	}
	return 0;
}

void native_guest_looks_end(const struct pulc_wait *ports, size_t n, struct guest_call *looks)
{
	for (size_t i = 0; i < n; i++) {
		if (!looks[i].owner)
			continue;
		/* If it cannot be said now, the answer is dropped when it comes. */
		if (guest_call_cancel(&looks[i]) < 0)
			guest_call_fail(&looks[i], -ECANCELED);
		ports[i].port->n_inside--;
	}
	free(looks);
}
