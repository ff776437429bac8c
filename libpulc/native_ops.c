/*
 * Operations on ports that are begun in one call and end in another: sends and receives that nobody
 * waits for inside of them.
 *
 * An operation belongs to its port. A send stands in the queue of its destination, a receive in the
 * row of its port; both are moved on by whatever thread makes progress, under the lock. So they end
 * in the order in which they were begun, for each destination and for those that want the same
 * message, and blocking calls stand in the same rows.
 *
 * Three states: under way, complete, ended. What is complete holds its result until pulc_op_end
 * takes it; the caller's buffers are the library's until then. An operation that could be done at
 * once is complete from the beginning, and one that fails at once is none. A port that has
 * operations cannot be closed. In a forked child they end at once, with -ECHILD: the parent goes on
 * with them.
 *
 * Cancelling makes an operation complete, with -ECANCELED if nothing of it was done. A datagram of
 * which a part has left is finished from a copy, since its receiver waits for the rest; a stream's
 * send is as long as it got.
 *
 * Source: pulc-1998, 4.6.1 (the non-blocking forms of rawdata); the split into begin, test and wait
 * after bip-1997.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "macros.h"
#include "native.h"

/* ---- beginning ------------------------------------------------------------------------------- */

static struct pulc_op *op_new(const struct iovec *iov, int n)
{
	struct pulc_op *op = calloc(1, sizeof(*op) + (size_t)n * sizeof(*iov));

	if (op && n)
		memcpy(op->iov, iov, (size_t)n * sizeof(*iov));
	return op;
}

void native_op_list(struct pulc_op *op, struct pulc_port *p)
{
	op->p = p;
	p->n_inside++;
	LIST_INSERT_HEAD(&p->ops, op, link);
}

/* 0: it is complete or queued; or why it is none. */
static int begin_send(struct pulc_op *op, struct pulc_port *p, const struct pulc_address *to)
{
	struct port_sending *s = &op->sending;
	struct port_out *out;
	int e = native_find_out(p, to, &out);

	if (e < 0)
		return e;
	if (s->size == 0 && out->kind != PORT_D) {
		s->complete = true;
		return 0;
	}
	native_look_before_long(out, s->size);
	e = port_push(out, s);
	if (e == 0)
		s->complete = true;
	if (e == -EAGAIN) {
		op->out = out;
		port_send_queue(out, s);
		e = 0;
	}
	if (port_is_end(e) && !out->n_inside)
		port_out_free(out);
	return e;
}

PULC_EXPORT int pulc_isendv(pulc_port *p, const struct pulc_address *to, const struct iovec *iov,
			    int n, pulc_op **ret_op)
{
	struct pulc_op *op;
	int e;

	if (n < 0 || n > NATIVE_N_IOV)
		return -EINVAL;
	op = op_new(iov, n);
	if (!op)
		return -ENOMEM;
	op->is_send = true;
	op->sending = (struct port_sending){ .iov = op->iov, .n = (unsigned)n };
	op->sending.size = hal_iov_size(op->iov, (unsigned)n);
	e = native_enter(p);
	if (e == -ECHILD) {
		e = native_guest_begin(op, p, to, (unsigned)n);
	} else if (e == 0) {
		e = begin_send(op, p, to);
		if (e == 0)
			native_op_list(op, p);
		/* There may be room, or credit, that we have not heard of yet. */
		if (e == 0 && !op->sending.complete)
			native_progress();
		native_leave(p);
	}
	if (e < 0)
		free(op);
	else
		*ret_op = op;
	return e;
}

PULC_EXPORT int pulc_isend(pulc_port *p, const struct pulc_address *to, const void *buf, size_t len,
			   pulc_op **ret_op)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };

	return pulc_isendv(p, to, &iov, 1, ret_op);
}

/* 0: it is complete or posted; or why it is none. */
static int begin_receive(struct pulc_op *op, struct pulc_port *p, const struct pulc_address *from)
{
	struct port_request *r = &op->request;
	int e;

	if (p->port->kind == PORT_S && from)
		return -EINVAL;
	if (r->size == 0 && p->port->kind != PORT_D) {
		r->complete = true;
		return 0;
	}
	e = from ? native_know_source(p, from) : 0;
	if (e == 0)
		e = port_take(p->port, r);
	if (e != -EAGAIN)
		return e;
	port_post(p->port, r);
	return 0;
}

PULC_EXPORT int pulc_ireceivev(pulc_port *p, const struct iovec *iov, int n,
			       const struct pulc_address *from, int flags, pulc_op **ret_op)
{
	struct pulc_op *op;
	int e;

	if (n < 0 || n > NATIVE_N_IOV || (flags & ~PULC_TRUNC))
		return -EINVAL;
	op = op_new(iov, n);
	if (!op)
		return -ENOMEM;
	op->flags = flags;
	op->request = (struct port_request){ .iov = op->iov, .n = (unsigned)n, .once = true };
	op->request.size = hal_iov_size(op->iov, (unsigned)n);
	op->request.from = from ? from->port : 0;
	op->request.from_node = from ? native_node(from->node) : 0;
	e = native_enter(p);
	if (e == -ECHILD) {
		e = native_guest_begin(op, p, from, (unsigned)n);
	} else if (e == 0) {
		e = begin_receive(op, p, from);
		if (e == 0)
			native_op_list(op, p);
		native_leave(p);
	}
	if (e < 0)
		free(op);
	else
		*ret_op = op;
	return e;
}

PULC_EXPORT int pulc_ireceive(pulc_port *p, void *buf, size_t len, pulc_op **ret_op)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	return pulc_ireceivev(p, &iov, 1, NULL, 0, ret_op);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static bool is_complete(const struct pulc_op *op)
{
	if (op->is_parents)
		return true;
	if (op->is_tagged)
		return native_tag_is_complete(op);
	if (op->is_guest)
		return op->guest.complete;
	return op->is_send ? op->sending.complete : op->request.complete;
}

struct row {
	pulc_op *const *ops;
	size_t n;
};

/* Which one is complete; -EAGAIN: none; -EINVAL: there is none at all. */
static int find_complete(void *arg)
{
	const struct row *row = arg;
	int e = -EINVAL;

	for (size_t i = 0; i < row->n; i++) {
		if (!row->ops[i])
			continue;
		if (is_complete(row->ops[i]))
			return (int)i;
		e = -EAGAIN;
	}
	return e;
}

/* Under the lock, which it gives up meanwhile. */
static int wait_complete(pulc_op *const *ops, size_t n, uint64_t nsec_deadline)
{
	struct row row = { ops, n };
	int i = find_complete(&row);

	return i == -EAGAIN ? native_look_until(find_complete, &row, nsec_deadline) : i;
}

int native_op_await(struct pulc_op *op)
{
	int i = wait_complete(&op, 1, UINT64_MAX);

	return i < 0 ? i : 0;
}

PULC_EXPORT int pulc_op_wait(pulc_op *const *ops, size_t n, int msec_timeout)
{
	uint64_t deadline = UINT64_MAX;
	int i;

	if (n > INT32_MAX)
		return -EINVAL;
	if (msec_timeout >= 0)
		deadline = nsec_now() + (uint64_t)msec_timeout * NSEC_PER_MSEC;
	if (!native_lock())
		return -EDEADLK;
	i = wait_complete(ops, n, deadline);
	native_unlock();
	return i;
}

PULC_EXPORT int pulc_op_test(pulc_op *op)
{
	int i = pulc_op_wait(&op, 1, 0);

	return i == 0 ? 1 : i == -ETIMEDOUT ? 0 : i;
}

static ssize_t result(const struct pulc_op *op, struct pulc_address *ret_from)
{
	const struct port_request *r = &op->request;
	const struct port_sending *s = &op->sending;
	int error;

	if (op->is_parents)
		return -ECHILD;
	if (op->is_tagged)
		return native_tag_result(op);
	if (op->is_guest)
		return native_guest_result(op, ret_from);
	if (op->is_cancelled)
		return -ECANCELED;
	error = op->is_send ? s->error : r->error;
	if (error < 0)
		return error;
	if (op->is_send)
		return (ssize_t)s->at;
	if (ret_from)
		*ret_from = (struct pulc_address){ .node = r->source_node, .port = r->source };
	return (ssize_t)(op->flags & PULC_TRUNC ? r->size_whole : r->done);
}

PULC_EXPORT ssize_t pulc_op_end(pulc_op *op, struct pulc_address *ret_from)
{
	ssize_t n;
	int e;

	if (!native_lock())
		return -EDEADLK;
	e = wait_complete(&op, 1, UINT64_MAX);
	if (e < 0) {
		native_unlock();
		return e;
	}
	n = result(op, ret_from);
	if (!op->is_parents)
		LIST_REMOVE(op, link);
	if (op->p)
		op->p->n_inside--;
	native_unlock();
	free(op);
	return n;
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static int cancel_send(struct pulc_op *op)
{
	struct port_sending *s = &op->sending;
	int e = 0;

	if (s->begun && op->out->kind == PORT_D)
		e = port_push_later(op->out, s);
	/* Its peer has gone meanwhile, which is the result: the next progress says so. */
	if (e < 0 && e != -ENOMEM)
		s->error = e;
	if (e == -ENOMEM)
		return e;
	op->is_cancelled = !s->begun;
	s->complete = true;
	port_send_unqueue(op->out, s);
	return 0;
}

static int cancel_receive(struct pulc_op *op)
{
	int e = port_unpost(op->p->port, &op->request);

	op->is_cancelled = e == 0;
	op->request.error = e;
	op->request.complete = true;
	protocol_count_event();
	return 0;
}

PULC_EXPORT int pulc_op_cancel(pulc_op *op)
{
	int e = 0;

	if (!op)
		return -EINVAL;
	if (!native_lock())
		return -EDEADLK;
	if (!is_complete(op) && op->is_tagged)
		e = native_tag_cancel(op);
	else if (!is_complete(op) && op->is_guest)
		e = guest_call_cancel(&op->guest);
	else if (!is_complete(op))
		e = op->is_send ? cancel_send(op) : cancel_receive(op);
	native_unlock();
	return e;
}
