/*
 * Protocols that the program registers: they stand in the switch beside the port protocol, see the
 * same frames and may do the same.
 *
 * A handler runs in whatever thread makes progress, under the lock of the native interface, as the
 * handlers of ports do. So no two of them run at once, none runs after it was taken away, and none
 * may wait. What it calls knows that it comes from a handler: the lock is this thread's already,
 * and a handler is on its stack. A frame that a handler sends and that finds no room is copied and
 * follows by itself, bounded by the switch; anybody else's send waits.
 *
 * A peer is named by psid's number of its process, which is not given out again: a number that was
 * kept too long names nobody. A handler's answer can only end the link to the peer whose frame it
 * was given; a process cannot end the one to itself.
 *
 * A child that is forked in a handler has its parent's stack beneath it: calls that hold links,
 * ports and operations of which it has none. Everything of the interface is new in it and can be
 * used; only back there it must not go. If its handler returns all the same, it is ended there, the
 * one case in which the library does so: there is nothing to step aside to. What would follow reads
 * memory that was freed, and takes frames from rings that are the parent's.
 *
 * Left out: flow control beyond the ring's. A protocol that queues what it is sent needs credits of
 * its own, as ports have.
 *
 * Source: pulc-1998, 4.4 and 4.5 (protocols side by side, and further ones beside them).
 */
#include <errno.h>

#include "clock.h"
#include "log.h"
#include "macros.h"
#include "native.h"

_Static_assert(PULC_PROTOCOL_LAST + 1 == PROTOCOLS_MAX, "the switch's highest number");

/* What a handler is shown, and whose link its payload lies on. */
struct shown {
	struct pulc_frame frame;
	struct peer *peer;
	unsigned generation;
};

/* All under the lock. */
static LARGE struct pulc_protocol registered[PROTOCOLS_MAX];
static unsigned n_deep;	    /* handlers on the stack of whoever holds the lock */
static uint64_t n_handled;  /* calls of handlers, ever */
static unsigned generation; /* forks between the first process and this one */

void native_protocol_forked(void)
{
	generation++;
	n_deep = 0;
}

/* ---- from the switch ------------------------------------------------------------------------- */

static void enter_handler(void)
{
	n_handled++;
	n_deep++;
}

static void leave_handler(unsigned entered)
{
	if (UNLIKELY(entered != generation)) {
		pulc_log("a child that was forked in a protocol's handler has returned from it: "
			 "it must exec or _exit there");
		__builtin_trap();
	}
	n_deep--;
}

static int arrived(struct peer *peer, const struct hal_frame *f)
{
	/* A copy: the handler may take its own registration away. */
	const struct pulc_protocol p = registered[f->protocol];
	struct shown shown = {
		.frame = { .word = f->word,
			   .len = f->len,
			   .peer = peer->client,
			   .protocol = f->protocol,
			   .kind = f->kind },
		.peer = peer,
		.generation = generation,
	};
	int e;

	if (f->len > PULC_FRAME_MAX)
		return -EBADMSG;
	enter_handler();
	e = p.arrived(p.arg, &shown.frame);
	leave_handler(shown.generation);
	return e < 0 && peer->conn ? -EBADMSG : 0;
}

static void gone(struct peer *peer, unsigned number)
{
	const struct pulc_protocol p = registered[number];
	const unsigned entered = generation;

	if (!p.gone)
		return;
	enter_handler();
	p.gone(p.arg, peer->client, peer->error);
	leave_handler(entered);
}

/* These protocols are between processes, not between ports. */
static void closed(struct peer *peer, const struct port_end *end)
{
	(void)peer, (void)end;
}

static const struct protocol of_program = {
	.name = "program",
	.arrived = arrived,
	.gone = gone,
	.closed = closed,
};

/* ---- the table ------------------------------------------------------------------------------- */

static bool is_ours(unsigned number)
{
	return number >= PULC_PROTOCOL_FIRST && number <= PULC_PROTOCOL_LAST;
}

/* 0; 1: the lock is taken already, by whoever called the handler that we are called from;
 * -EDEADLK. */
static int enter(void)
{
	if (LIKELY(native_lock()))
		return 0;
	return n_deep ? 1 : -EDEADLK;
}

static void leave(int entered)
{
	if (entered == 0)
		native_unlock();
}

PULC_EXPORT int pulc_protocol_register(unsigned number, const struct pulc_protocol *p)
{
	int entered, e;

	if (!is_ours(number) || !p->arrived)
		return -EINVAL;
	entered = enter();
	if (entered < 0)
		return entered;
	e = protocol_register(number, &of_program);
	if (e == 0)
		registered[number] = *p;
	leave(entered);
	return e;
}

PULC_EXPORT int pulc_protocol_unregister(unsigned number)
{
	int entered, e;

	if (!is_ours(number))
		return -EINVAL;
	entered = enter();
	if (entered < 0)
		return entered;
	e = registered[number].arrived ? 0 : -ENOENT;
	protocol_unregister(number);
	registered[number] = (struct pulc_protocol){ 0 };
	leave(entered);
	return e;
}

/* ---- frames ---------------------------------------------------------------------------------- */

PULC_EXPORT size_t pulc_frame_copy(const struct pulc_frame *f, void *buf, size_t len)
{
	const struct shown *shown = CONTAINER_OF(f, const struct shown, frame);
	struct iovec iov = { .iov_base = buf, .iov_len = MIN(len, (size_t)f->len) };
	struct hal_link *link;

	if (UNLIKELY(shown->generation != generation) || iov.iov_len == 0)
		return 0;
	link = shown->peer->link;
	return link->ops->copy(link, &iov, 1);
}

/* What a frame is sent from: the caller's until the call ends. */
struct outgoing {
	struct hal_frame frame;
	struct iovec iov;
	unsigned n;
};

/* From a handler. To the process itself nothing is kept: a handler that answers itself for ever is
 * told. */
static int send_from_handler(struct peer *peer, const struct outgoing *o)
{
	int e = peer->conn ? peer_send_later(peer, &o->frame, &o->iov, o->n, NULL)
			   : peer_send(peer, &o->frame, &o->iov, o->n);

	return e == -ENOBUFS ? -EAGAIN : e;
}

static int send_waiting(struct peer *peer, const struct outgoing *o)
{
	int e = -EAGAIN;

	(void)peer_ref(peer);
	while (e == -EAGAIN) {
		struct native_wait w = { .seen = protocol_events_now(),
					 .nsec_deadline = UINT64_MAX };

		native_unlock();
		e = native_wait(&w);
		while (!native_lock())
			;
		native_progress();
		if (e != -EINTR)
			e = peer_send(peer, &o->frame, &o->iov, o->n);
	}
	peer_unref(peer);
	return e;
}

static int send_locked(struct peer *peer, const struct outgoing *o, int flags)
{
	int e = peer_send(peer, &o->frame, &o->iov, o->n);

	if (LIKELY(e != -EAGAIN))
		return e;
	(void)peer_ref(peer);
	native_progress();
	e = peer_send(peer, &o->frame, &o->iov, o->n);
	if (e == -EAGAIN && !(flags & PULC_DONTWAIT))
		e = send_waiting(peer, o);
	peer_unref(peer);
	return e;
}

PULC_EXPORT int pulc_protocol_send(const struct pulc_frame *f, const void *buf, int flags)
{
	struct outgoing o = {
		.frame = { .word = f->word,
			   .len = f->len,
			   .protocol = f->protocol,
			   .kind = f->kind },
		.iov = { .iov_base = (void *)buf, .iov_len = f->len },
		.n = f->len > 0,
	};
	struct peer *peer;
	int entered, e;

	if (!is_ours(f->protocol) || (flags & ~PULC_DONTWAIT))
		return -EINVAL;
	if (f->len > PULC_FRAME_MAX)
		return -EMSGSIZE;
	entered = enter();
	if (entered < 0)
		return entered;
	peer = f->peer ? native_peer(f->peer) : native_self();
	if (!peer)
		e = f->peer ? -ECONNRESET : -ENOMEM;
	else
		e = entered ? send_from_handler(peer, &o) : send_locked(peer, &o, flags);
	leave(entered);
	return e == -EPIPE ? -ECONNRESET : e;
}

/* ---- peers and progress ---------------------------------------------------------------------- */

PULC_EXPORT int pulc_peer_find(const struct pulc_address *port, uint32_t *ret_peer)
{
	enum port_kind kind;
	struct peer *peer;
	int e;

	if (!native_lock())
		return -EDEADLK;
	e = native_find_peer(native_node(port->node), port->port, &peer, &kind);
	if (e == 0)
		*ret_peer = peer->client;
	native_unlock();
	return e;
}

static int has_handled(void *seen)
{
	return n_handled != *(const uint64_t *)seen ? 1 : -EAGAIN;
}

PULC_EXPORT int pulc_progress(uint64_t *seen, int msec_timeout)
{
	uint64_t deadline = UINT64_MAX;
	int e;

	if (msec_timeout >= 0)
		deadline = nsec_now() + (uint64_t)msec_timeout * 1000 * NSEC_PER_USEC;
	if (!native_lock())
		return -EDEADLK;
	e = native_attach_or_linked();
	if (e == 0)
		e = native_look_until(has_handled, seen, deadline);
	if (e == -ETIMEDOUT)
		e = 0;
	if (e >= 0)
		*seen = n_handled;
	native_unlock();
	return e;
}
