/*
 * Shared ports: the guest's side.
 *
 * A call is parked until its owner is known, then asks: one frame for a receive, as many as the
 * bytes take for a send. The answer of a send is its result. That of a receive brings the message,
 * which is this process's once the owner has been told so (TAKEN): a call is not complete before
 * that has left. Whoever dies earlier has not received it, and the owner gives it to another one.
 *
 * A receive is taken back without asking: WITHDRAW says that the message, should it be under way,
 * was not taken. A send is taken back so only as long as the owner has not all of its bytes; later
 * the owner says how far it has come.
 *
 * An owner that has the port no longer says so (PORT_ELSEWHERE), or psid does, or its link ends:
 * the call is parked again, for libpulc to ask psid who has it. So is a receive all of whose bytes
 * are here: the link may have ended while both live, and then the owner gives the message to
 * another one. But for a send that the ended one may have sent: it fails. And for one that the
 * owner of before may not have seen: if the port is nobody's it fails too, else the port has
 * passed, and who gave it says how much was sent.
 *
 * What is asked for and not answered is bounded in number and, for sends, in bytes; the rest waits
 * here, sends and receives each in their order.
 */
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "macros.h"
#include "step.h"

#define N_GATHER 16u
/* So often a port is looked for at an owner that does not have it, which it may have passed on just
 * then. */
#define N_PARKED_MAX 256u
#define ERRNO_MAX 4095

static struct guest_calls calls = TAILQ_HEAD_INITIALIZER(calls);
static uint32_t last_id;

struct guest_call *guest_call_next(const struct guest_call *c)
{
	return c ? TAILQ_NEXT(c, link) : TAILQ_FIRST(&calls);
}

/* ---- beginning and ending -------------------------------------------------------------------- */

static void end(struct guest_call *c, int error)
{
	if (c->complete)
		return;
	/* Of a send some parts have been sent before. */
	c->error = c->is_send && c->base ? 0 : error;
	c->complete = true;
	TAILQ_REMOVE(&calls, c, link);
	guest_n_open--;
	peer_unref(c->peer);
	c->peer = NULL;
	protocol_count_event();
}

static void park(struct guest_call *c)
{
	peer_unref(c->peer);
	c->peer = NULL;
	c->at = 0;
	c->size_coming = 0;
	c->doubts = false;
	c->stage = GUEST_PARKED;
	if (c->withdrawn)
		end(c, -ECANCELED);
	else if (++c->n_parked > N_PARKED_MAX)
		end(c, -EPIPE);
	protocol_count_event();
}

void guest_call_begin(struct guest_call *c)
{
	c->stage = GUEST_PARKED;
	TAILQ_INSERT_TAIL(&calls, c, link);
	guest_n_open++;
}

bool guest_call_is_behind(const struct guest_call *c, const struct peer *peer)
{
	const struct guest_call *o;

	for (o = TAILQ_FIRST(&calls); o != c; o = TAILQ_NEXT(o, link)) {
		if (o->number != c->number || o->is_send != c->is_send)
			continue;
		if (o->stage == GUEST_PARKED || (c->is_send && peer && o->peer != peer))
			return true;
	}
	return false;
}

void guest_call_at(struct guest_call *c, struct peer *peer)
{
	c->peer = peer_ref(peer);
	c->id = ++last_id;
	c->stage = GUEST_ASKS;
	STEP(GUEST_FOUND);
}

void guest_call_fail(struct guest_call *c, int error)
{
	end(c, error);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static size_t size_of_part(const struct guest_call *c)
{
	return MIN(c->size - c->base, (size_t)GUEST_SEND_MAX);
}

/* Its owner knows of it. */
static bool has_asked(const struct guest_call *c)
{
	return c->stage != GUEST_ASKS || c->at > 0;
}

/* What this owner has been asked for, and has not answered. */
static bool is_window_open(const struct guest_call *c)
{
	const struct guest_call *o;
	uint64_t size = 0;
	unsigned n = 0;

	TAILQ_FOREACH(o, &calls, link)
		if (o != c && o->peer == c->peer && has_asked(o)) {
			n++;
			size += o->is_send ? size_of_part(o) : 0;
		}
	return n < GUEST_N_MAX && (!c->is_send || size < GUEST_WINDOW);
}

static uint64_t word_of(const struct guest_call *c)
{
	return (uint64_t)c->number << 32 | c->id;
}

static int say(struct guest_call *c, unsigned kind, const struct iovec *iov, unsigned n)
{
	struct hal_frame f = {
		.word = word_of(c),
		.len = (uint32_t)hal_iov_size(iov, n),
		.protocol = PROTOCOL_GUEST,
		.kind = (uint16_t)kind,
	};

	return peer_send(c->peer, &f, iov, n);
}

static struct guest_ask head_of(const struct guest_call *c)
{
	size_t part = size_of_part(c);

	return (struct guest_ask){
		.key = c->key,
		.size = c->is_send ? part : c->size,
		.node = c->node,
		.port = c->port,
		.flags = c->flags | (c->is_send && part < c->size - c->base ? GUEST_PART : 0),
	};
}

static int ask_to_receive(struct guest_call *c)
{
	struct guest_ask head = head_of(c);
	const struct iovec iov = { .iov_base = &head, .iov_len = sizeof(head) };
	int e = say(c, GUEST_RECEIVE, &iov, 1);

	if (e < 0)
		return e;
	STEP(GUEST_SAID);
	c->stage = GUEST_ASKED;
	return 0;
}

/* The next frame of a send. `begun`: its first one has left. */
static int send_piece(struct guest_call *c, bool begun)
{
	const struct hal_caps *caps = &c->peer->link->caps;
	struct guest_ask head = head_of(c);
	struct iovec iov[N_GATHER] = { { .iov_base = &head, .iov_len = sizeof(head) } };
	size_t part = size_of_part(c), len;
	size_t most = MIN(part - c->at, caps->frame_good - (begun ? 0 : sizeof(head)));
	unsigned n_head = !begun, n;
	int e;

	n = n_head + port_slice(c->iov, c->n, c->base + c->at, most, iov + n_head,
				MIN(caps->n_gather, N_GATHER) - n_head, &len);
	e = say(c, begun ? GUEST_SEND_MORE : GUEST_SEND, iov, n);
	if (e < 0)
		return e;
	c->at += len;
	if (c->at < part) {
		STEP(GUEST_PIECE);
		return 0;
	}
	STEP(GUEST_SAID);
	c->stage = GUEST_ASKED;
	return 0;
}

/* 0; -EAGAIN: no room, or others first; or its link's end, of which gone() tells. */
static int ask(struct guest_call *c)
{
	int e = c->at > 0 || is_window_open(c) ? 0 : -EAGAIN;

	if (e == 0 && !c->is_send)
		return ask_to_receive(c);
	while (e == 0 && c->stage == GUEST_ASKS)
		e = send_piece(c, c->at > 0);
	return e;
}

static int tell_taken(struct guest_call *c)
{
	int e = say(c, GUEST_TAKEN, NULL, 0);

	if (e < 0)
		return e;
	STEP(GUEST_TOOK);
	end(c, 0);
	return 0;
}

static void move_on(struct guest_call *c)
{
	const uint8_t kind = c->is_send ? 1 : 2;
	bool asks = c->stage == GUEST_ASKS;
	int e;

	if (!c->peer->link || (asks && (c->peer->waiting & kind)))
		return;
	e = asks ? ask(c) : tell_taken(c);
	if (asks && e == -EAGAIN)
		c->peer->waiting |= kind;
}

/* One that waits for room or window lets none of its kind pass who asks the same owner. Receives
 * pass sends: what these wait for may wait for them. */
void guest_calls_move_on(void)
{
	struct guest_call *c, *next;

	TAILQ_FOREACH(c, &calls, link)
		if (c->peer)
			c->peer->waiting = 0;
	for (c = TAILQ_FIRST(&calls); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->peer && (c->stage == GUEST_ASKS || c->stage == GUEST_OWES))
			move_on(c);
	}
}

/* ---- taking back ----------------------------------------------------------------------------- */

static int withdraw(struct guest_call *c)
{
	const struct hal_frame f = {
		.word = word_of(c),
		.protocol = PROTOCOL_GUEST,
		.kind = GUEST_WITHDRAW,
	};
	int e = peer_send_later(c->peer, &f, NULL, 0, NULL);

	return e == -ENOBUFS || e == -ENOMEM ? -EAGAIN : 0;
}

int guest_call_cancel(struct guest_call *c)
{
	bool has_all = c->is_send && c->stage == GUEST_ASKED;
	bool has_any = c->stage >= GUEST_ASKED || (c->is_send && c->at > 0);
	int e = 0;

	if (c->complete)
		return 0;
	if (c->withdrawn)
		return 1;
	if (has_any && c->peer->link)
		e = withdraw(c);
	if (e < 0)
		return e;
	STEP(GUEST_WITHDREW);
	c->withdrawn = true;
	if (has_all)
		return 1;
	end(c, -ECANCELED);
	return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct guest_call *find(const struct peer *peer, uint64_t word)
{
	struct guest_call *c;

	TAILQ_FOREACH(c, &calls, link)
		if (c->peer == peer && word_of(c) == word)
			return c;
	return NULL;
}

/* Into more pieces than are worth naming at once. */
static int copy_bounced(struct guest_call *c, struct hal_link *link, uint32_t len, uint32_t skip)
{
	unsigned char *bounce = malloc(len);
	struct iovec all = { .iov_base = bounce, .iov_len = len }, piece[N_GATHER];
	size_t at = skip, got;
	unsigned n;

	if (!bounce)
		return -EAGAIN;
	(void)link->ops->copy(link, &all, 1);
	while (at < len) {
		n = port_slice(c->iov, c->n, c->at, len - at, piece, N_GATHER, &got);
		for (unsigned i = 0; i < n; i++) {
			memcpy(piece[i].iov_base, bounce + at, piece[i].iov_len);
			at += piece[i].iov_len;
		}
		c->at += got;
	}
	free(bounce);
	return 0;
}

/* The bytes of this frame, behind its first ones. There is room for them. */
static int copy_payload(struct guest_call *c, const struct hal_frame *f, uint32_t skip)
{
	struct hal_link *link = c->peer->link;
	struct guest_answer scratch;
	struct iovec iov[N_GATHER] = { { .iov_base = &scratch, .iov_len = skip } };
	uint32_t len = f->len - skip;
	unsigned n;
	size_t got;

	n = 1 + port_slice(c->iov, c->n, c->at, len, iov + 1, N_GATHER - 1, &got);
	if (got < len)
		return copy_bounced(c, link, f->len, skip);
	(void)link->ops->copy(link, iov, n);
	c->at += len;
	return 0;
}

/* What came of a send, or of a part of it. */
static int send_answered(struct guest_call *c, const struct guest_answer *a)
{
	uint64_t part = size_of_part(c);

	if (c->stage != GUEST_ASKED || a->len || a->result > (int64_t)part || a->size > part)
		return -EBADMSG;
	if (a->result == PORT_ELSEWHERE) {
		c->base += a->size;
		park(c);
		return 0;
	}
	if (a->result < 0) {
		end(c, (int)a->result);
		return 0;
	}
	STEP(GUEST_SENT);
	c->base += (uint64_t)a->result;
	c->at = 0;
	if (a->result == (int64_t)part && c->base < c->size && !c->withdrawn) {
		c->id = ++last_id;
		c->stage = GUEST_ASKS;
		protocol_count_event();
	} else {
		end(c, 0);
	}
	return 0;
}

static int received(struct guest_call *c)
{
	int e;

	if (c->at < c->size_coming) {
		STEP(GUEST_CAME);
		return 0;
	}
	if (c->flags & (GUEST_PEEK | GUEST_LOOK)) {
		end(c, 0);
		return 0;
	}
	c->stage = GUEST_OWES;
	STEP(GUEST_HERE);
	e = tell_taken(c);
	return e == -EAGAIN || e == -EPIPE ? 0 : e;
}

static int receive_answered(struct guest_call *c, const struct guest_answer *a,
			    const struct hal_frame *f)
{
	int e;

	if (c->stage != GUEST_ASKED || a->result > 0)
		return -EBADMSG;
	if (a->result < 0) {
		if (a->len)
			return -EBADMSG;
		if (a->result == PORT_ELSEWHERE)
			park(c);
		else
			end(c, (int)a->result);
		return 0;
	}
	if (a->len > c->size || a->len > a->size || a->size > PORT_MESSAGE_MAX)
		return -EBADMSG;
	e = copy_payload(c, f, sizeof(*a));
	if (e < 0)
		return e;
	c->size_coming = a->len;
	c->size_whole = a->size;
	c->source = a->port;
	c->source_node = a->node;
	c->stage = GUEST_COMES;
	return received(c);
}

/* An answer that nobody waits for any more is dropped. */
int guest_answered(struct peer *peer, const struct hal_frame *f)
{
	struct guest_call *c = find(peer, f->word);
	struct guest_answer a;
	struct iovec iov = { .iov_base = &a, .iov_len = sizeof(a) };
	int e;

	if (f->kind == GUEST_ANSWER && f->len < sizeof(a))
		return -EBADMSG;
	if (!c)
		return 0;
	if (f->kind == GUEST_ANSWER_MORE) {
		if (c->stage != GUEST_COMES || !f->len || f->len > c->size_coming - c->at)
			return -EBADMSG;
		e = copy_payload(c, f, 0);
		return e < 0 ? e : received(c);
	}
	(void)peer->link->ops->copy(peer->link, &iov, 1);
	if (a.result < -ERRNO_MAX || f->len - sizeof(a) > a.len)
		return -EBADMSG;
	return c->is_send ? send_answered(c, &a) : receive_answered(c, &a, f);
}

/* ---- the end --------------------------------------------------------------------------------- */

void guest_calls_gone(const struct peer *peer)
{
	struct guest_call *c, *next;

	for (c = TAILQ_FIRST(&calls); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->peer != peer)
			continue;
		if (peer->error == -EBADMSG)
			end(c, -EBADMSG);
		else if (c->is_send && c->stage == GUEST_ASKED)
			end(c, -EPIPE);
		else
			park(c);
	}
}

/* An owner that closes its port answers all that it has seen, and may make no call afterwards. */
void guest_calls_closed(const struct peer *peer, uint32_t number)
{
	struct guest_call *c, *next;

	for (c = TAILQ_FIRST(&calls); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->peer != peer || c->number != number)
			continue;
		if (c->is_send && c->stage == GUEST_ASKED)
			c->doubts = true;
		else if (c->stage == GUEST_ASKED ||
			 (c->stage == GUEST_ASKS && (c->at == 0 || withdraw(c) == 0)))
			park(c);
		protocol_count_event();
	}
}

/* They are the parent's, and so are their peers. */
void guest_calls_forked(void)
{
	struct guest_call *c;

	while ((c = TAILQ_FIRST(&calls)))
		end(c, -ECHILD);
}
