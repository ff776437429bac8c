/*
 * What has arrived and nobody waits for yet; and taking it.
 *
 * Three strategies, one queue. Messages stand in the port's row, in order of arrival, and in their
 * source's. Kind D: a message is taken whole, one that is still arriving stands in no row. Kind S:
 * bytes are taken from the head of the port's row. Kind M: from the source named, or from the one
 * whose bytes are the oldest. A call takes bytes of one source.
 *
 * Small pieces of a stream are appended to the last message of their source while that has room:
 * end queueing. Messages of the usual small size are kept when they are freed: preallocated
 * fragments. Of a source that has much unread already each message that nothing will be appended to
 * has just the memory that it needs: else credit for the smallest would be 30 times as much memory.
 *
 * Requests stand in a row of the port's too, in order of posting, and what comes is for the first
 * that wants it. Whatever is queued is offered to them at once, so a message in the row of messages
 * is one that nobody has asked for.
 *
 * A request without a buffer borrows what it gets: the message itself, or, of a stream, one made of
 * what it asked for. It ends that, or returns the message to its place among those that came before
 * and after it, which each message knows.
 *
 * Source: pulc-1998, 4.5.2 (queueing strategies, end queueing, preallocated fragments).
 */
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "macros.h"
#include "pairs.h"
#include "port.h"
#include "state.h"

#define SIZE_USUAL 1984u
#define N_SPARE_MAX 256u
#define SIZE_MUCH (64u << 10)

struct port_message {
	TAILQ_ENTRY(port_message) by_port, by_source;
	struct port_in *in;   /* NULL: it is borrowed, and its port is gone */
	size_t len, at, size; /* bytes there, bytes taken, bytes of room */
	uint64_t cost;
	/* of its first byte: in order for each source, and on a stream of all sources for the
	 * port */
	uint64_t place;
	bool was_lent; /* others that were may belong behind it: nothing is appended */
	unsigned char data[];
};

static struct port_messages spare = TAILQ_HEAD_INITIALIZER(spare);
static unsigned n_spare;

/* What it takes, for budget and credit. */
static size_t memory_of(const struct port_message *m)
{
	return sizeof(*m) + m->size;
}

/* What follows on a stream may be put behind it. */
static bool may_be_appended_to(const struct port_in *in)
{
	const struct port_message *last = TAILQ_LAST(&in->port->messages, port_messages);

	return in->port->kind == PORT_M || (in->port->kind == PORT_S && last && last->in == in);
}

static struct port_message *message_new(struct port_in *in, size_t size)
{
	bool is_exact = in->size_unread > SIZE_MUCH && !may_be_appended_to(in);
	struct port_message *m = !is_exact && size <= SIZE_USUAL ? TAILQ_FIRST(&spare) : NULL;

	if (m) {
		TAILQ_REMOVE(&spare, m, by_port);
		n_spare--;
	} else {
		size = is_exact ? size : MAX(size, (size_t)SIZE_USUAL);
		m = malloc(sizeof(*m) + size);
		if (!m)
			return NULL;
		m->size = size;
	}
	m->in = in;
	m->len = m->at = 0;
	m->was_lent = false;
	m->cost = PORT_OVERHEAD;
	port_budget_take(in, memory_of(m));
	return m;
}

static void message_free(struct port_message *m)
{
	port_budget_give(memory_of(m));
	if (m->size != SIZE_USUAL || n_spare >= N_SPARE_MAX) {
		free(m);
		return;
	}
	TAILQ_INSERT_HEAD(&spare, m, by_port);
	n_spare++;
}

static void count_unread(struct port_in *in, size_t size)
{
	struct port *port = in->port;

	port->size_unread += size;
	in->size_unread += size;
	if (UNLIKELY(in->ended))
		port_budget_leave(in->peer, size);
	shm_state_port_set(port->shown, SHM_PORT_UNREAD, port->size_unread);
	shm_pair_set(in->shown, 0, in->size_unread);
}

static void unqueue(struct port_message *m)
{
	TAILQ_REMOVE(&m->in->port->messages, m, by_port);
	TAILQ_REMOVE(&m->in->queue, m, by_source);
	count_unread(m->in, -memory_of(m));
}

static void queue(struct port_message *m)
{
	TAILQ_INSERT_TAIL(&m->in->port->messages, m, by_port);
	TAILQ_INSERT_TAIL(&m->in->queue, m, by_source);
	m->place = m->in->port->place;
	m->in->port->place += m->len + 1;
	count_unread(m->in, memory_of(m));
	port_serve_posted(m->in->port);
}

void port_queue_free(struct port_in *in)
{
	struct port_message *m;

	while ((m = TAILQ_FIRST(&in->queue))) {
		unqueue(m);
		message_free(m);
	}
	port_queue_drop_partial(in);
}

void port_queue_drop_partial(struct port_in *in)
{
	if (in->partial)
		message_free(in->partial);
	in->partial = NULL;
}

/* ---- arriving -------------------------------------------------------------------------------- */

/* Appends the payload of the frame that is shown, without its first bytes. */
static void append(struct port_message *m, struct hal_link *link, uint32_t len, uint32_t skip)
{
	unsigned char scratch[64];
	uint32_t n_scratch = MIN(skip, (uint32_t)sizeof(scratch));
	struct iovec iov[2] = {
		{ .iov_base = scratch, .iov_len = n_scratch },
		{ .iov_base = m->data + m->len, .iov_len = len - skip },
	};

	if (skip <= sizeof(scratch)) {
		(void)link->ops->copy(link, iov, 2);
	} else {
		/* The reader has taken the beginning: all comes here, and what it has is passed
		 * over. */
		iov[1].iov_len = len;
		(void)link->ops->copy(link, &iov[1], 1);
		memmove(m->data + m->len, m->data + m->len + skip, len - skip);
	}
	m->len += len - skip;
}

/* The last message of the source, if these bytes may follow there. */
static struct port_message *message_to_append(struct port_in *in, uint32_t len)
{
	struct port_message *m = TAILQ_LAST(&in->queue, port_messages);

	if (in->port->kind == PORT_D || !m || m->size - m->len < len || m->was_lent)
		return NULL;
	if (in->port->kind == PORT_S && m != TAILQ_LAST(&in->port->messages, port_messages))
		return NULL;
	return m;
}

int port_queue_frame(struct port_in *in, uint32_t len, uint32_t skip)
{
	struct port_message *m = message_to_append(in, len);

	if (m) {
		append(m, in->peer->link, len, skip);
		m->cost += len + PORT_OVERHEAD;
		in->port->place += len - skip;
		return 0;
	}
	m = message_new(in, len);
	if (!m)
		return -EAGAIN;
	append(m, in->peer->link, len, skip);
	m->cost += len;
	queue(m);
	return 0;
}

int port_queue_begin(struct port_in *in, size_t size)
{
	in->partial = message_new(in, size);
	if (!in->partial)
		return -ENOMEM;
	in->partial->cost += size;
	return 0;
}

int port_queue_more(struct port_in *in, uint32_t len, uint32_t skip, bool last)
{
	struct port_message *m = in->partial;
	size_t whole = in->size_long, got = m->len + len - skip;

	if (got > whole || (last && got != whole))
		return -EBADMSG;
	append(m, in->peer->link, len, skip);
	if (!last)
		return 0;
	in->partial = NULL;
	queue(m);
	return 0;
}

/* ---- passing to another process -------------------------------------------------------------- */

struct port_message *port_queue_next(const struct port *port, const struct port_message *m)
{
	return m ? TAILQ_NEXT(m, by_port) : TAILQ_FIRST(&port->messages);
}

size_t port_queue_look(const struct port_message *m, struct port_in **ret_in,
		       const unsigned char **ret_data)
{
	*ret_in = m->in;
	*ret_data = m->data + m->at;
	return m->len - m->at;
}

int port_queue_carry(struct port_in *in, struct hal_link *link, uint32_t len, uint32_t skip)
{
	struct port_message *m = in->partial;

	if (len - skip > in->size_long - m->len)
		return -EBADMSG;
	append(m, link, len, skip);
	if (m->len < in->size_long)
		return 0;
	in->partial = NULL;
	queue(m);
	return 0;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static size_t scatter(const struct port_request *r, size_t at, const unsigned char *from,
		      size_t len)
{
	size_t done = 0, piece;

	for (unsigned i = 0; i < r->n && done < len; i++) {
		if (at >= r->iov[i].iov_len) {
			at -= r->iov[i].iov_len;
			continue;
		}
		piece = MIN(r->iov[i].iov_len - at, len - done);
		copy_bytes((char *)r->iov[i].iov_base + at, from + done, piece);
		done += piece;
		at = 0;
	}
	return done;
}

static struct port_message *oldest(const struct port *port, const struct port_in *in)
{
	return in ? TAILQ_FIRST(&in->queue) : TAILQ_FIRST(&port->messages);
}

static void take_datagram(struct port_message *m, struct port_request *r)
{
	r->done = scatter(r, 0, m->data, m->len);
	r->size_whole = m->len;
	if (r->peek)
		return;
	unqueue(m);
	port_taken(m->in, m->cost);
	message_free(m);
}

/* As much of the source's bytes as fits; kind S as long as no other source's come between. */
static void take_stream(struct port_in *in, struct port_request *r)
{
	struct port_message *m = TAILQ_FIRST(&in->queue), *next;
	size_t n;

	for (; m && r->done < r->size; m = next) {
		next = TAILQ_NEXT(m, by_source);
		if (in->port->kind == PORT_S && next != TAILQ_NEXT(m, by_port))
			next = NULL;
		n = scatter(r, r->done, m->data + m->at, m->len - m->at);
		r->done += n;
		if (r->peek)
			continue;
		m->at += n;
		if (m->at < m->len)
			break;
		unqueue(m);
		port_taken(in, m->cost);
		message_free(m);
	}
	r->size_whole = r->done;
}

/* ---- lent ------------------------------------------------------------------------------------ */

void port_borrow_init(struct port_borrow *b, size_t size)
{
	port_request_init(&b->request, NULL, 0, size);
	b->request.once = true;
	b->message = NULL;
}

/* Bytes that take_stream would take. */
static size_t size_of_stream(const struct port_in *in, size_t most)
{
	const struct port_message *m = TAILQ_FIRST(&in->queue), *next;
	size_t size = 0;

	for (; m && size < most; m = next) {
		next = TAILQ_NEXT(m, by_source);
		if (in->port->kind == PORT_S && next != TAILQ_NEXT(m, by_port))
			next = NULL;
		size += m->len - m->at;
	}
	return MIN(size, most);
}

/* A message of its own with what the request asks for of those that are queued, which may lie in
 * several, or stay. NULL: no memory. */
static struct port_message *extract(struct port_message *m, struct port_request *r)
{
	struct port_in *in = m->in;
	bool stream = in->port->kind != PORT_D;
	size_t size = stream ? size_of_stream(in, r->size) : MIN(m->len, r->size);
	struct port_message *copy = message_new(in, size);
	struct port_request to = *r;
	struct iovec iov;

	if (!copy)
		return NULL;
	iov = (struct iovec){ .iov_base = copy->data, .iov_len = size };
	to.iov = &iov;
	to.n = 1;
	to.size = size;
	copy->place = m->place + m->at;
	copy->cost = 0;
	copy->len = size;
	if (stream)
		take_stream(in, &to);
	else
		take_datagram(m, &to);
	r->size_whole = to.size_whole;
	return copy;
}

static int lend(struct port_message *m, struct port_request *r)
{
	struct port_borrow *b = CONTAINER_OF(r, struct port_borrow, request);
	struct port_in *in = m->in;

	if (in->port->kind != PORT_D || r->peek) {
		m = extract(m, r);
		if (!m)
			return -ENOMEM;
	} else {
		unqueue(m);
		r->size_whole = m->len;
	}
	in->n_borrowed++;
	b->message = m;
	r->complete = true;
	return 0;
}

const unsigned char *port_borrow_bytes(const struct port_borrow *b, size_t *ret_len)
{
	const struct port_message *m = b->message;

	*ret_len = m ? m->len : 0;
	return m ? m->data : NULL;
}

void port_borrow_detach(struct port_borrow *b)
{
	struct port_message *m = b->message;

	if (!m || !m->in)
		return;
	m->in->n_borrowed--;
	m->in = NULL;
}

void port_borrow_end(struct port_borrow *b)
{
	struct port_message *m = b->message;

	if (!m)
		return;
	if (m->in && m->cost)
		port_taken(m->in, m->cost);
	port_borrow_detach(b);
	message_free(m);
	b->message = NULL;
}

/* Before the first that came behind it. */
static void queue_again(struct port_message *m)
{
	struct port_in *in = m->in;
	struct port_message *behind;

	TAILQ_FOREACH(behind, &in->queue, by_source)
		if (behind->place + behind->at > m->place)
			break;
	if (behind)
		TAILQ_INSERT_BEFORE(behind, m, by_source);
	else
		TAILQ_INSERT_TAIL(&in->queue, m, by_source);
	TAILQ_FOREACH(behind, &in->port->messages, by_port)
		if (behind->place + behind->at > m->place)
			break;
	if (behind)
		TAILQ_INSERT_BEFORE(behind, m, by_port);
	else
		TAILQ_INSERT_TAIL(&in->port->messages, m, by_port);
	m->was_lent = true;
	count_unread(in, memory_of(m));
}

void port_borrow_return(struct port_borrow *b)
{
	struct port_message *m = b->message;

	if (!m || !m->in || b->request.peek) {
		port_borrow_end(b);
		return;
	}
	m->in->n_borrowed--;
	b->message = NULL;
	queue_again(m);
	port_serve_posted(m->in->port);
	protocol_count_event();
}

int port_take(struct port *port, struct port_request *r)
{
	struct port_in *in = r->from ? port_in_of(port, r->from_node, r->from) : NULL;
	struct port_message *m;

	if (r->from && !in)
		return -EAGAIN;
	m = oldest(port, in);
	if (!m && in)
		in->sought = true;
	if (!m && UNLIKELY(!LIST_EMPTY(&port->wanting)))
		port_long_sought(port, in);
	if (!m)
		return in && in->ended ? in->ended : -EAGAIN;
	r->source = m->in->from;
	r->source_node = m->in->peer->node;
	if (UNLIKELY(port_is_borrow(r)))
		return lend(m, r);
	if (port->kind == PORT_D)
		take_datagram(m, r);
	else
		take_stream(m->in, r);
	r->complete = true;
	port_budget_move_on();
	return 0;
}

/* ---- posted ---------------------------------------------------------------------------------- */

static void insert(struct port *port, struct port_request *r, struct port_request *behind)
{
	if (behind)
		TAILQ_INSERT_AFTER(&port->posted, behind, r, link);
	else
		TAILQ_INSERT_HEAD(&port->posted, r, link);
	r->posted = true;
}

void port_take_off(struct port *port, struct port_request *r)
{
	TAILQ_REMOVE(&port->posted, r, link);
	r->posted = false;
}

void port_post(struct port *port, struct port_request *r)
{
	static uint64_t turns;
	struct port_request *before = TAILQ_LAST(&port->posted, port_requests);

	/* A stream's reader who has something takes no more: the order of sources would be lost. */
	if (before && before->complete) {
		port_take_off(port, before);
		before = TAILQ_LAST(&port->posted, port_requests);
	}
	r->turn = ++turns;
	insert(port, r, before);
	if (UNLIKELY(!LIST_EMPTY(&port->wanting)))
		port_long_move_on();
}

void port_repost(struct port *port, struct port_request *r)
{
	struct port_request *before = TAILQ_LAST(&port->posted, port_requests);

	while (before && before->turn > r->turn)
		before = TAILQ_PREV(before, port_requests, link);
	insert(port, r, before);
}

void port_serve_posted(struct port *port)
{
	struct port_request *r, *next;
	int e;

	for (r = TAILQ_FIRST(&port->posted); r; r = next) {
		next = TAILQ_NEXT(r, link);
		e = r->complete ? -EAGAIN : port_take(port, r);
		if (e == -EAGAIN)
			continue;
		r->complete = true;
		r->error = e;
		port_take_off(port, r);
	}
}

/* The part of a message that lies in the buffer moves to the queue. */
static int unbind(struct port_in *in, struct port_request *r)
{
	in->direct = NULL;
	r->bound = NULL;
	if (port_queue_begin(in, in->size_long) < 0) {
		peer_break(in->peer, -ENOMEM);
		return -ENOMEM;
	}
	copy_bytes(in->partial->data, r->iov[0].iov_base, r->done);
	in->partial->len = r->done;
	in->partial->cost -= r->done; /* which was given back as it came */
	r->done = 0;
	return 0;
}

int port_unpost(struct port *port, struct port_request *r)
{
	if (r->posted)
		port_take_off(port, r);
	return r->bound ? unbind(r->bound, r) : 0;
}
