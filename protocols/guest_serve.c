/*
 * Shared ports: the owner's side, as far as it is about frames. guest_work.c does what they ask
 * for.
 *
 * A request is made by a guest's frame and ended by our answer, or, if that brings a message, by
 * the guest's word that it has it: until then the message is lent (port_queue.c) and goes back to
 * where it stood if the guest ends or does not want it any more. What of a send is under way when
 * its guest has its answer or is gone is finished, if it is a datagram, for its receiver waits for
 * the rest.
 *
 * Nothing in a frame is believed. Sizes, flags and numbers must fit what was said before, and a
 * guest that has more kept than it may (GUEST_WINDOW; what is refused, or done and not yet
 * answered, takes no room, and its guest may have given it up), asks for more (GUEST_N_MAX), or
 * shows wrong keys again and again, has broken the rules: its link ends. One that asks for a port
 * which is not here, or of which it has not the key, is told so: ports pass, and numbers are used
 * again. Another user's process is refused.
 */
#include <stdlib.h>

#include "guest_work.h"
#include "macros.h"
#include "step.h"

#define N_WRONG_MAX 16u
/* Over the window by the largest request; more in number, for what was withdrawn by a frame that
 * comes behind. */
#define N_REQUESTS_MAX (GUEST_N_MAX + 1024u)
#define FLAGS_SEND (GUEST_DONTWAIT | GUEST_PART)
#define FLAGS_RECEIVE (GUEST_DONTWAIT | GUEST_PEEK | GUEST_LOOK)

/* A process that has asked for something. */
struct guest {
	LIST_ENTRY(guest) link;
	struct peer *peer;
	unsigned n_requests, n_wrong;
	uint64_t size_sends;
};

struct guest_requests guest_requests = TAILQ_HEAD_INITIALIZER(guest_requests);
static LIST_HEAD(guest_list, guest) guests = LIST_HEAD_INITIALIZER(guests);

static struct guest *guest_of(struct peer *peer)
{
	struct guest *g;

	LIST_FOREACH(g, &guests, link)
		if (g->peer == peer)
			return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->peer = peer_ref(peer);
	LIST_INSERT_HEAD(&guests, g, link);
	return g;
}

static struct guest_request *find(const struct guest *g, uint64_t word)
{
	struct guest_request *q;

	TAILQ_FOREACH(q, &guest_requests, link)
		if (q->guest == g && q->word == word)
			return q;
	return NULL;
}

static void uncount(struct guest_request *q)
{
	if (q->guest)
		q->guest->size_sends -= q->size_counted;
	q->size_counted = 0;
}

void guest_data_free(struct guest_request *q)
{
	uncount(q);
	free(q->data);
	q->data = NULL;
}

/* Nobody waits for it any more. */
static void leave(struct guest_request *q)
{
	if (!q->guest)
		return;
	uncount(q);
	q->guest->n_requests--;
	q->guest = NULL;
}

static void request_free(struct guest_request *q)
{
	leave(q);
	TAILQ_REMOVE(&guest_requests, q, link);
	guest_n_open--;
	free(q->data);
	free(q);
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct guest_answer head_of(const struct guest_request *q, size_t whole)
{
	const struct port_request *r = &q->borrow.request;
	struct guest_answer a = { .result = q->result };

	if (q->is_send) {
		a.size = q->result == PORT_ELSEWHERE ? q->sending.at : 0;
	} else if (q->result == 0) {
		a.size = r->size_whole;
		a.len = MIN(q->size, whole);
		a.node = r->source_node;
		a.port = r->source;
	}
	return a;
}

/* The next frame of it. */
static int send_piece(struct guest_request *q)
{
	size_t whole = 0;
	const unsigned char *bytes = q->is_send ? NULL : port_borrow_bytes(&q->borrow, &whole);
	struct guest_answer a = head_of(q, whole);
	unsigned n_head = q->has_begun ? 0 : sizeof(a);
	struct peer *peer = q->guest->peer;
	struct iovec iov[2] = { { .iov_base = &a, .iov_len = sizeof(a) } };
	size_t room = peer->link ? peer->link->caps.frame_good - n_head : 0;
	size_t len = MIN(a.len - q->n_said, room);
	struct hal_frame f = {
		.word = q->word,
		.len = (uint32_t)len + n_head,
		.protocol = PROTOCOL_GUEST,
		.kind = n_head ? GUEST_ANSWER : GUEST_ANSWER_MORE,
	};
	int e;

	if (len)
		iov[1] = (struct iovec){ .iov_base = (void *)(bytes + q->n_said), .iov_len = len };
	e = peer_send(peer, &f, n_head ? iov : &iov[1], (n_head > 0) + (len > 0));
	if (e < 0)
		return e;
	q->has_begun = true;
	q->n_said += len;
	if (q->n_said == a.len)
		return 0;
	STEP(HOST_PIECE);
	return 1;
}

/* An end of the link is told by gone(). */
static void answer_on(struct guest_request *q)
{
	int e;

	do
		e = send_piece(q);
	while (e > 0);
	if (e < 0)
		return;
	STEP(HOST_ANSWERED);
	/* A guest says so too that it has received nothing of a stream. */
	if (q->is_send || q->result < 0 || (q->flags & (GUEST_PEEK | GUEST_LOOK))) {
		port_borrow_end(&q->borrow);
		request_free(q);
	} else {
		q->stage = GUEST_LENT;
	}
}

bool guest_answer_early(struct guest_request *q, int64_t result)
{
	const struct guest_answer a = { .result = result };
	const struct iovec iov = { .iov_base = (void *)&a, .iov_len = sizeof(a) };
	const struct hal_frame f = {
		.word = q->word,
		.len = sizeof(a),
		.protocol = PROTOCOL_GUEST,
		.kind = GUEST_ANSWER,
	};
	int e = peer_send_later(q->guest->peer, &f, &iov, 1, NULL);

	if (e == -ENOBUFS || e == -ENOMEM)
		return false;
	leave(q);
	return true;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* 0: this guest may ask for this port; or what it is told; -EBADMSG. */
static int may_ask(struct guest *g, uint32_t number, uint64_t key, struct port **ret_port)
{
	const struct peer *peer = g->peer;
	struct port *port = port_find(number);

	*ret_port = NULL;
	if (!peer->pid || peer->node)
		return -EPERM;
	if (!port)
		return PORT_ELSEWHERE;
	if (!port->key || port->key != key)
		return ++g->n_wrong > N_WRONG_MAX ? -EBADMSG : -EPIPE;
	*ret_port = port;
	return 0;
}

static bool makes_sense(const struct guest_ask *ask, bool is_send)
{
	if (is_send)
		return !(ask->flags & ~(uint64_t)FLAGS_SEND) && ask->size <= GUEST_SEND_MAX;
	return !(ask->flags & ~(uint64_t)FLAGS_RECEIVE) && ask->size <= PORT_MESSAGE_MAX;
}

static struct guest_request *request_new(struct guest *g, uint64_t word,
					 const struct guest_ask *ask, bool is_send)
{
	struct guest_request *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->guest = g;
	q->word = word;
	q->is_send = is_send;
	q->flags = (unsigned)ask->flags;
	q->node = ask->node;
	q->other = ask->port;
	q->size = ask->size;
	g->n_requests++;
	TAILQ_INSERT_TAIL(&guest_requests, q, link);
	guest_n_open++;
	return q;
}

/* Room for those of a send that is not refused. */
static void expect_bytes(struct guest_request *q)
{
	if (!q->size)
		return;
	q->size_counted = q->size;
	q->guest->size_sends += q->size;
	q->data = malloc(q->size);
	if (!q->data)
		guest_refuse(q, -ENOMEM);
}

/* The bytes of a send, behind the first ones of this frame. */
static void take_bytes(struct guest_request *q, uint32_t len, uint32_t skip)
{
	struct hal_link *link = q->guest->peer->link;
	struct guest_ask scratch;
	struct iovec iov[2] = { { .iov_base = &scratch, .iov_len = skip } };

	if (q->data) {
		iov[1] = (struct iovec){ .iov_base = q->data + q->n_said, .iov_len = len - skip };
		(void)link->ops->copy(link, iov, 2);
	}
	q->n_said += len - skip;
	if (q->n_said < q->size)
		return;
	STEP(HOST_WHOLE);
	q->n_said = 0;
	q->stage = q->port ? GUEST_NEW : GUEST_ANSWERS;
}

/* A new request. */
static int asked(struct guest *g, const struct hal_frame *f, bool is_send)
{
	struct guest_ask ask = { 0 };
	struct iovec iov = { .iov_base = &ask, .iov_len = sizeof(ask) };
	struct hal_link *link = g->peer->link;
	struct guest_request *q;
	struct port *port;
	int e;

	if (f->len < sizeof(ask) || (!is_send && f->len != sizeof(ask)))
		return -EBADMSG;
	(void)link->ops->copy(link, &iov, 1);
	if (!makes_sense(&ask, is_send) || find(g, f->word) || g->n_requests >= N_REQUESTS_MAX ||
	    (is_send && (f->len - sizeof(ask) > ask.size || g->size_sends >= GUEST_WINDOW)))
		return -EBADMSG;
	e = may_ask(g, (uint32_t)(f->word >> 32), ask.key, &port);
	if (e == -EBADMSG)
		return e;
	q = request_new(g, f->word, &ask, is_send);
	if (!q)
		return -EAGAIN;
	q->port = port;
	q->result = e;
	if (port && is_send)
		expect_bytes(q);
	STEP(HOST_HEARD);
	q->stage = is_send ? GUEST_COMING : port ? GUEST_NEW : GUEST_ANSWERS;
	if (is_send)
		take_bytes(q, f->len, sizeof(ask));
	return 0;
}

static int more(struct guest *g, const struct hal_frame *f)
{
	struct guest_request *q = find(g, f->word);

	if (!q || q->stage != GUEST_COMING || !f->len || f->len > q->size - q->n_said)
		return -EBADMSG;
	take_bytes(q, f->len, 0);
	return 0;
}

static int taken(struct guest *g, const struct hal_frame *f)
{
	struct guest_request *q = find(g, f->word);

	if (!q || q->stage != GUEST_LENT || f->len)
		return -EBADMSG;
	STEP(HOST_TAKEN);
	port_borrow_end(&q->borrow);
	request_free(q);
	return 0;
}

/* It may have been answered just now. */
static int withdrawn(struct guest *g, const struct hal_frame *f)
{
	struct guest_request *q = find(g, f->word);

	if (f->len)
		return -EBADMSG;
	if (!q)
		return 0;
	if (q->is_send && q->stage != GUEST_COMING) {
		guest_stop(q);
		return 0;
	}
	(void)guest_drop(q);
	STEP(HOST_WITHDRAWN);
	request_free(q);
	return 0;
}

int guest_asked(struct peer *peer, const struct hal_frame *f)
{
	struct guest *g = guest_of(peer);

	if (!g)
		return -EAGAIN;
	switch (f->kind) {
	case GUEST_SEND:
	case GUEST_RECEIVE:
		return asked(g, f, f->kind == GUEST_SEND);
	case GUEST_SEND_MORE:
		return more(g, f);
	case GUEST_TAKEN:
		return taken(g, f);
	case GUEST_WITHDRAW:
		return withdrawn(g, f);
	default:
		return -EBADMSG;
	}
}

/* ---- moving on, and the end ------------------------------------------------------------------ */

void guest_requests_move_on(void)
{
	struct guest_request *q, *next;
	bool waits = false;

	for (q = TAILQ_FIRST(&guest_requests); q; q = next) {
		next = TAILQ_NEXT(q, link);
		guest_work(q, &waits);
		if (q->stage == GUEST_OVER)
			request_free(q);
		else if (q->stage == GUEST_ANSWERS)
			answer_on(q);
	}
}

void guest_requests_gone(const struct peer *peer)
{
	struct guest_request *q, *next;
	struct guest *g;

	LIST_FOREACH(g, &guests, link)
		if (g->peer == peer)
			break;
	if (!g)
		return;
	for (q = TAILQ_FIRST(&guest_requests); q; q = next) {
		next = TAILQ_NEXT(q, link);
		if (q->guest != g)
			continue;
		if (guest_drop(q))
			request_free(q);
		else
			leave(q);
	}
	STEP(HOST_LEFT);
	LIST_REMOVE(g, link);
	peer_unref(g->peer);
	free(g);
}

void guest_requests_forked(void)
{
	struct guest_request *q;
	struct guest *g;

	while ((q = TAILQ_FIRST(&guest_requests))) {
		guest_forget(q);
		request_free(q);
	}
	while ((g = LIST_FIRST(&guests))) {
		LIST_REMOVE(g, link);
		peer_unref(g->peer);
		free(g);
	}
}
