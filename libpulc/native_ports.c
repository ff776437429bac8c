/*
 * pulc/pulc.h: ports, as a program uses them.
 *
 * Each call tries, makes progress if there is nothing, tries again, and waits without the lock. A
 * port that somebody is inside of cannot be closed. A destination is looked up once, when it is
 * first used (native_find.c).
 *
 * Source: pulc-1998, 4.6.2 (the port interface).
 */
#include <errno.h>
#include <stdlib.h>

#include "at_once.h"
#include "macros.h"
#include "native.h"

int native_enter(struct pulc_port *p)
{
	if (UNLIKELY(!native_lock()))
		return -EDEADLK;
	if (UNLIKELY(!p->port)) {
		native_unlock();
		return -ECHILD;
	}
	if (UNLIKELY(p->is_moving)) {
		native_unlock();
		return -EBUSY;
	}
	p->n_inside++;
	return 0;
}

void native_leave(struct pulc_port *p)
{
	p->n_inside--;
	native_unlock();
}

/* Gives the lock up until something has happened. 0; -EINTR. With the lock again. */
static int wait_locked(void)
{
	struct native_wait w = { .seen = protocol_events_now(), .nsec_deadline = UINT64_MAX };
	int e;

	native_unlock();
	e = native_wait(&w);
	while (!native_lock())
		;
	return e == -EINTR ? e : 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

static inline int find_out(native_finder *find, struct port *port, const struct pulc_address *to,
			   struct port_out **ret_out)
{
	uint32_t node = native_node(to->node);
	enum port_kind kind;
	struct peer *peer;
	int e;

	*ret_out = port_out_find(port, node, to->port);
	if (LIKELY(*ret_out && !(*ret_out)->error))
		return 0;
	e = *ret_out ? (*ret_out)->error : PORT_ELSEWHERE;
	if (*ret_out && (*ret_out)->n_inside)
		return e == PORT_ELSEWHERE ? 0 : e;
	/* Said once; whoever has the number by then is another one. */
	if (*ret_out)
		port_out_free(*ret_out);
	if (e != PORT_ELSEWHERE)
		return e;
	e = find(node, to->port, &peer, &kind);
	if (e < 0)
		return e;
	/* Another thread may have looked for it meanwhile. */
	*ret_out = port_out_find(port, node, to->port);
	if (*ret_out)
		return (*ret_out)->error == PORT_ELSEWHERE ? 0 : (*ret_out)->error;
	*ret_out = port_out_new(port, to->port, kind, peer);
	return *ret_out ? 0 : -ENOMEM;
}

int native_find_out(struct pulc_port *p, const struct pulc_address *to, struct port_out **ret_out)
{
	return find_out(native_find_peer, p->port, to, ret_out);
}

int native_find_out_by(native_finder *find, struct port *port, const struct pulc_address *to,
		       struct port_out **ret_out)
{
	return find_out(find, port, to, ret_out);
}

/* The call ends in the middle of a message. What has begun must go on: a datagram's rest is
 * copied. */
static ssize_t end_early(struct port_out *out, struct port_sending *s, int e)
{
	if (!s->begun)
		return e;
	if (out->kind != PORT_D)
		return s->at ? (ssize_t)s->at : e;
	e = port_push_later(out, s);
	return e < 0 ? e : (ssize_t)s->size;
}

static ssize_t send_waiting(struct port_out *out, struct port_sending *s)
{
	int e = -EAGAIN;

	out->n_inside++;
	while (e == -EAGAIN) {
		/* Nobody else begins one in the middle of this message. */
		out->busy |= s->begun;
		e = wait_locked();
		native_progress();
		if (e == 0)
			e = port_push(out, s);
	}
	out->n_inside--;
	if (s->begun) {
		out->busy = false;
		port_moves_on();
		protocol_count_event();
	}
	return e == 0 ? (ssize_t)s->size : e == -EINTR ? end_early(out, s, e) : e;
}

static ssize_t send_slow(struct port_out *out, struct port_sending *s, int flags)
{
	int e;

	out->n_inside++;
	native_progress();
	out->n_inside--;
	e = port_push(out, s);
	if (e == 0)
		return (ssize_t)s->size;
	if (e != -EAGAIN)
		return e;
	return flags & PULC_DONTWAIT ? end_early(out, s, e) : send_waiting(out, s);
}

/* Shorter ones need no leave. */
#define SIZE_LONG 16384u

/* A link may always have room: who sends long ones by many ways would not hear that he is to
 * wait. */
void native_look_before_long(struct port_out *out, size_t size)
{
	static const struct port_out *last; /* only compared: it may be gone */

	if (LIKELY(size <= SIZE_LONG || out == last))
		return;
	last = out;
	out->n_inside++;
	native_progress();
	out->n_inside--;
}

static ssize_t send_locked(struct pulc_port *p, const struct pulc_address *to,
			   struct port_sending *s, int flags)
{
	struct port_out *out;
	ssize_t n;
	int e = native_find_out(p, to, &out);

	if (UNLIKELY(e < 0))
		return e;
	if (UNLIKELY(s->size == 0 && out->kind != PORT_D))
		return 0;
	native_look_before_long(out, s->size);
	e = port_push(out, s);
	if (LIKELY(e == 0))
		return (ssize_t)s->size;
	n = e == -EAGAIN ? send_slow(out, s, flags) : e;
	/* The end is told once; the next send asks psid anew. */
	if (port_is_end(n) && !out->n_inside)
		port_out_free(out);
	return n;
}

PULC_EXPORT ssize_t pulc_sendv(pulc_port *p, const struct pulc_address *to, const struct iovec *iov,
			       int n, int flags)
{
	struct port_sending s = { .iov = iov, .n = (unsigned)n };
	ssize_t sent;
	int e;

	if (UNLIKELY(n < 0 || n > NATIVE_N_IOV || (flags & ~PULC_DONTWAIT)))
		return -EINVAL;
	s.size = hal_iov_size(iov, s.n);
	e = native_enter(p);
	if (UNLIKELY(e < 0))
		return e == -ECHILD ? native_guest_send(p, to, iov, s.n, flags) : e;
	sent = send_locked(p, to, &s, flags);
	native_leave(p);
	return sent;
}

/* All that is not quick. */
static __attribute__((noinline)) ssize_t send_one(struct pulc_port *p,
						  const struct pulc_address *to, const void *buf,
						  size_t len, int flags)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct port_sending s = { .iov = &iov, .n = 1, .size = len };

	return send_locked(p, to, &s, flags);
}

static __attribute__((noinline)) ssize_t send_as_guest(struct pulc_port *p,
						       const struct pulc_address *to,
						       const void *buf, size_t len, int flags)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	return native_guest_send(p, to, &iov, 1, flags);
}

PULC_EXPORT ssize_t pulc_send(pulc_port *p, const struct pulc_address *to, const void *buf,
			      size_t len, int flags)
{
	ssize_t sent = (ssize_t)len;
	int e;

	if (UNLIKELY(flags & ~PULC_DONTWAIT))
		return -EINVAL;
	e = native_enter(p);
	if (UNLIKELY(e < 0))
		return e == -ECHILD ? send_as_guest(p, to, buf, len, flags) : e;
	if (LIKELY(port_push_at_once(p->port, native_node(to->node), to->port, buf, len)))
		turn_sent(&native_core.turn);
	else
		sent = send_one(p, to, buf, len, flags);
	native_leave(p);
	return sent;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* More turns of progress than a ring has frames for. */
#define N_TURNS_MAX 1024u

/* psid says that nobody has this port, or is not there to be asked: what its owner sent before that
 * is on the links already. */
static bool has_come(struct pulc_port *p, uint32_t node, uint32_t from)
{
	uint64_t seen = protocol_events_now() - 1;

	for (unsigned i = 0; i < N_TURNS_MAX && seen != protocol_events_now(); i++) {
		seen = protocol_events_now();
		native_progress();
		if (port_in_of(p->port, node, from))
			return true;
	}
	return false;
}

/* Whoever has the port now, so that its end is noticed. */
int native_know_source(struct pulc_port *p, const struct pulc_address *from)
{
	uint32_t node = native_node(from->node);
	enum port_kind kind;
	struct peer *peer;
	int e;

	if (LIKELY(port_in_of(p->port, node, from->port)))
		return 0;
	e = native_find_peer(node, from->port, &peer, &kind);
	if (e < 0)
		return (e == -ECONNREFUSED || e == -ENOENT) && has_come(p, node, from->port) ? 0
											     : e;
	/* Its first frame may have come with that. */
	if (port_in_of(p->port, node, from->port))
		return 0;
	return port_in_new(p->port, peer, from->port) ? 0 : -ENOMEM;
}

/* A look at what is there is taken anew each time; who is posted is served as things come. */
static int look(struct port *port, struct port_request *r)
{
	if (UNLIKELY(r->peek))
		return port_take(port, r);
	return r->complete ? r->error : -EAGAIN;
}

static int receive_waiting(struct pulc_port *p, const struct pulc_address *from,
			   struct port_request *r, int flags)
{
	struct port *port = p->port;
	int e, left;

	if (LIKELY(!r->peek))
		port_post(port, r);
	for (;;) {
		native_progress();
		/* Those who are posted are seen to in progress. */
		e = UNLIKELY(r->peek) && from ? native_know_source(p, from) : 0;
		if (e == 0)
			e = look(port, r);
		if (e == -EAGAIN && (flags & PULC_DONTWAIT))
			native_glance();
		if (e != -EAGAIN || (flags & PULC_DONTWAIT))
			break;
		e = wait_locked();
		/* Another thread may have served it meanwhile: what comes next is not for it any
		 * more. */
		if (r->complete)
			e = r->error;
		if (r->complete || e < 0)
			break;
	}
	left = port_unpost(port, r);
	return r->complete ? e : left < 0 ? left : e;
}

static int receive_locked(struct pulc_port *p, const struct pulc_address *from,
			  struct port_request *r, int flags)
{
	int e = UNLIKELY(from) ? native_know_source(p, from) : 0;

	if (UNLIKELY(e < 0))
		return e;
	e = from || port_has(p->port) ? port_take(p->port, r) : -EAGAIN;
	return e == -EAGAIN ? receive_waiting(p, from, r, flags) : e;
}

static inline ssize_t receive(pulc_port *p, const struct iovec *iov, unsigned n, size_t size,
			      const struct pulc_address *from, struct pulc_address *ret_from,
			      int flags)
{
	struct port_request r;
	int e;

	if (UNLIKELY(flags & ~(PULC_DONTWAIT | PULC_PEEK | PULC_TRUNC)))
		return -EINVAL;
	port_request_init(&r, iov, n, size);
	r.peek = flags & PULC_PEEK;
	r.from = from ? from->port : 0;
	r.from_node = from ? native_node(from->node) : 0;
	e = native_enter(p);
	if (UNLIKELY(e == -ECHILD))
		return native_guest_receive(p, iov, n, from, ret_from, flags);
	if (UNLIKELY(e < 0))
		return e;
	if (UNLIKELY(p->port->kind == PORT_S && from))
		e = -EINVAL;
	else if (LIKELY(r.size || p->port->kind == PORT_D))
		e = receive_locked(p, from, &r, flags);
	native_leave(p);
	if (UNLIKELY(e < 0))
		return e;
	if (ret_from)
		*ret_from = (struct pulc_address){ .node = r.source_node, .port = r.source };
	return (ssize_t)(flags & PULC_TRUNC ? r.size_whole : r.done);
}

PULC_EXPORT ssize_t pulc_receivev(pulc_port *p, const struct iovec *iov, int n,
				  const struct pulc_address *from, struct pulc_address *ret_from,
				  int flags)
{
	if (UNLIKELY(n < 0 || n > NATIVE_N_IOV))
		return -EINVAL;
	return receive(p, iov, (unsigned)n, hal_iov_size(iov, (unsigned)n), from, ret_from, flags);
}

/* Where the last message came from, if the next one may be taken from there. */
static inline struct port_in *short_source(const struct port *port)
{
	struct port_in *in = port->in_last;

	return LIKELY(in && !port_has(port) && in->peer->link) && native_may_be_short() ? in : NULL;
}

/* Where the next look is made: where the last message came from, unless somebody is known to have
 * something. */
static inline struct port_in *short_in(const struct port *port, const struct native_short *w)
{
	struct port_in *in = port->in_last;

	if (UNLIKELY(w->has_found) && (!in || in->peer != native_core.last))
		in = native_core.last->in_last;
	return LIKELY(in && in->port == port) ? in : NULL;
}

/* From where the last one came, or from another one's, now or in a moment. Returns the bytes;
 * -EAGAIN: nothing that is so simple; -EINTR. Under the lock, which it gives up. */
static inline ssize_t receive_at_once(struct port *port, void *buf, size_t len,
				      const struct port_in **ret_in)
{
	struct port_in *in = short_source(port);
	struct native_short w;
	ssize_t n;
	int e;

	if (UNLIKELY(!in))
		return -EAGAIN;
	if (UNLIKELY(in->peer->link->gathers && native_is_single())) {
		native_let_gather(in->peer->link);
		in = short_source(port);
		if (!in)
			return -EAGAIN;
	}
	native_short_init(&w);
	for (;;) {
		*ret_in = in;
		n = port_take_at_once(in, buf, len, w.takes_any);
		if (LIKELY(n != -EAGAIN))
			return n;
		e = native_short_turn(&w, in->peer);
		if (UNLIKELY(e <= 0))
			return e < 0 ? e : -EAGAIN;
		in = short_in(port, &w);
		if (UNLIKELY(!in)) {
			native_short_end();
			return -EAGAIN;
		}
	}
}

PULC_EXPORT ssize_t pulc_receive(pulc_port *p, void *buf, size_t len, struct pulc_address *ret_from,
				 int flags)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	const struct port_in *in;
	ssize_t n;
	int e;

	if (UNLIKELY(flags))
		return receive(p, &iov, 1, len, NULL, ret_from, flags);
	e = native_enter(p);
	if (UNLIKELY(e < 0))
		return e == -ECHILD ? native_guest_receive(p, &iov, 1, NULL, ret_from, 0) : e;
	n = LIKELY(len || p->port->kind == PORT_D) ? receive_at_once(p->port, buf, len, &in)
						   : -EAGAIN;
	if (LIKELY(n >= 0))
		turn_received(&native_core.turn);
	if (LIKELY(n >= 0) && ret_from)
		*ret_from = (struct pulc_address){ .node = in->peer->node, .port = in->from };
	native_leave(p);
	return n == -EAGAIN ? receive(p, &iov, 1, len, NULL, ret_from, flags) : n;
}
