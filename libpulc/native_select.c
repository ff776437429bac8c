/*
 * Waiting for ports, messages with tags and descriptors together, and closing ports, which may have
 * to wait as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "macros.h"
#include "native.h"
#include "rawsys.h"

#define N_FDS_FEW 62u

/* ---- select ---------------------------------------------------------------------------------- */

/* An owner says that there is something, or that there will be nothing. */
static bool is_ready(const struct guest_call *look)
{
	return look->complete && look->error != -EAGAIN && look->error != -ECANCELED;
}

/* Under the lock. Returns how many are ready; -EBUSY. looks: of those that are not ours. */
static int look_at_ports(struct pulc_wait *ports, size_t n, const struct guest_call *looks)
{
	int n_ready = 0;

	for (size_t i = 0; i < n; i++) {
		ports[i].ready = false;
		if (ports[i].port && ports[i].port->is_moving)
			return -EBUSY;
		if (ports[i].port && !ports[i].port->port)
			ports[i].ready = looks && is_ready(&looks[i]);
		else if (ports[i].port)
			ports[i].ready = port_look(ports[i].port->port);
		else if (ports[i].tag)
			ports[i].ready = native_tag_ready(ports[i].tag);
		n_ready += ports[i].ready;
	}
	return n_ready;
}

/* The ports' calls must not be closed under us. */
static void stay(struct pulc_wait *ports, size_t n, bool inside)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i].port)
			ports[i].port->n_inside += inside ? 1u : -1u;
}

static int look_at_fds(struct pollfd *fds, size_t n)
{
	struct timespec now = { 0, 0 };

	return n ? raw_ppoll(fds, n, &now) : 0;
}

/* The ports of a call. */
struct selected {
	struct pulc_wait *ports;
	size_t n;
	struct guest_call *looks;
};

/* Returns the number that is ready, 0 when time is over. `all` has room for two descriptors
 * more. */
static int select_until(struct selected *s, struct pollfd *all, size_t n_fds,
			uint64_t nsec_deadline)
{
	struct native_wait w = { .nsec_deadline = nsec_deadline };
	struct pulc_wait *ports = s->ports;
	size_t n_ports = s->n;
	int n, n_ready, e = 0;

	for (;;) {
		native_progress();
		n_ready = look_at_ports(ports, n_ports, s->looks);
		w.seen = protocol_events_now();
		n = n_ready < 0 ? 0 : look_at_fds(all, n_fds);
		if (n_ready < 0 || n < 0)
			return n_ready < 0 ? n_ready : n;
		if (n + n_ready > 0 || e == -EINTR ||
		    (nsec_deadline != UINT64_MAX && nsec_now() >= nsec_deadline))
			return n + n_ready > 0 ? n + n_ready : e;
		stay(ports, n_ports, true);
		native_unlock();
		e = native_wait_fds(&w, all, n_fds);
		while (!native_lock())
			;
		stay(ports, n_ports, false);
	}
}

static bool any_port(const struct pulc_wait *ports, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i].port)
			return true;
	return false;
}

static int select_locked(struct pulc_wait *ports, size_t n_ports, struct pollfd *all, size_t n_fds,
			 int msec_timeout)
{
	uint64_t deadline = msec_timeout < 0 ? UINT64_MAX
					     : nsec_now() + (uint64_t)msec_timeout * NSEC_PER_MSEC;
	struct selected s = { ports, n_ports, NULL };
	int n = native_guest_looks(ports, n_ports, msec_timeout == 0, &s.looks);

	if (n == 0)
		n = select_until(&s, all, n_fds, deadline);
	if (s.looks)
		native_guest_looks_end(ports, n_ports, s.looks);
	return n;
}

PULC_EXPORT int pulc_select(struct pulc_wait *ports, size_t n_ports, struct pollfd *fds,
			    size_t n_fds, int msec_timeout)
{
	struct pollfd few[N_FDS_FEW + 2], *all = few;
	int n;

	if (n_fds > N_FDS_FEW) {
		all = calloc(n_fds + 2, sizeof(*all));
		if (!all)
			return -ENOMEM;
	}
	if (n_fds)
		memcpy(all, fds, n_fds * sizeof(*all));
	n = -EDEADLK;
	if (native_lock()) {
		n = native_attach_or_linked();
		/* Ports that are there go on without psid, as links do. */
		if (n < 0 && n != -EDEADLK && any_port(ports, n_ports))
			n = 0;
		if (n == 0)
			n = select_locked(ports, n_ports, all, n_fds, msec_timeout);
		native_unlock();
	}
	for (size_t i = 0; i < n_fds; i++)
		fds[i].revents = n > 0 ? all[i].revents : 0;
	if (all != few)
		free(all);
	return n;
}

/* ---- close ----------------------------------------------------------------------------------- */

/* A datagram of a guest's that has begun is finished. */
static bool is_busy(const struct port_out *out)
{
	const struct port_sending *head = TAILQ_FIRST(&out->queue);

	return out->n_waiting || (head && head->begun && out->kind == PORT_D);
}

/* Something of what was sent there would be lost if this process ended now. */
static bool is_left(struct port_out *out)
{
	const struct hal_link *link = out->peer->link;

	return link && link->ops->flush(link, &out->mark) == -EAGAIN;
}

static bool is_drained(const struct port *port)
{
	struct port_out *out;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		LIST_FOREACH(out, &port->outs[i], link)
			if (!out->error && (is_busy(out) || is_left(out)))
				return false;
	return true;
}

/* As far as things are now: others send over the same links meanwhile. */
static void mark_anew(const struct port *port)
{
	struct port_out *out;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		LIST_FOREACH(out, &port->outs[i], link)
			out->mark = 0;
}

/* Under the lock, which it gives up meanwhile: until something has happened. 0, or an error. */
static int wait_a_turn(void)
{
	struct native_wait w = { .seen = protocol_events_now(), .nsec_deadline = UINT64_MAX };
	int e;

	native_unlock();
	e = native_wait(&w);
	while (!native_lock())
		;
	return e;
}

static int drain(struct pulc_port *p)
{
	int e = 0;

	mark_anew(p->port);
	for (native_progress(); e != -EINTR && !is_drained(p->port); native_progress()) {
		p->n_inside++;
		e = wait_a_turn();
		p->n_inside--;
	}
	return e == -EINTR ? e : 0;
}

/* Behind all that it has sent. */
static void say_the_end(struct pulc_port *p)
{
	struct port_out *out;
	struct peer *peer;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		LIST_FOREACH(out, &p->port->outs[i], link)
			out->peer->is_to_hear |= !out->error;
	port_free(p->port);
	TAILQ_FOREACH(peer, native_peers(), link_all) {
		port_say_over(peer, p->number);
		if (peer->is_to_hear)
			peer->mark_said = 0;
	}
}

static bool has_heard(struct peer *peer)
{
	const struct hal_link *link = peer->link;

	if (!link || (link->caps.flags & HAL_PRESENT))
		return true;
	if (STAILQ_EMPTY(&peer->pending))
		return link->ops->flush(link, &peer->mark_said) != -EAGAIN;
	peer->mark_said = 0;
	return false;
}

static bool is_said(void)
{
	struct peer *peer;

	TAILQ_FOREACH(peer, native_peers(), link_all) {
		peer->is_to_hear = peer->is_to_hear && !has_heard(peer);
		if (peer->is_to_hear)
			return false;
	}
	return true;
}

/* Who closes a port may make no other call for long. */
static void await_said(void)
{
	for (int e = 0; e != -EINTR && !is_said(); native_progress())
		e = wait_a_turn();
}

PULC_EXPORT int pulc_port_close(pulc_port *p)
{
	int e = 0;

	if (!p)
		return 0;
	if (!native_lock())
		return -EDEADLK;
	if (p->n_inside || p->is_moving)
		e = -EBUSY;
	else if (p->port)
		e = drain(p);
	if (e == 0) {
		native_port_unlist(p);
		if (p->port) {
			guest_port_end(p->port);
			say_the_end(p);
			await_said();
			native_give_back(p->number);
		}
	}
	native_unlock();
	if (e == 0)
		free(p);
	return e;
}
