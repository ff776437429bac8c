/*
 * The protocol of shared ports against any peers, on both of its sides: two processes that are
 * guests at ports of ours, owners of ports at which we are one, and sources and destinations of
 * what is received and sent. Frames of every kind come from them between the steps of a program
 * that calls, cancels, receives, closes and gives up.
 *
 * Whatever comes, a link goes on or ends with -EBADMSG (-ECONNRESET, if its peer has ended it); a
 * message that is received, by us or by a guest, is just the bytes that were said, and fits; what
 * is kept for a guest is within its window and one request, in bytes and in number; what is lent is
 * counted at its source; and nothing is left in the end.
 *
 * Bytes of a message count up. Each step takes 4 bytes: what to do, to which port of whom, how
 * much, and flags; a raw value takes 8 more.
 */
#include <errno.h>

#include "fuzz_link.h"
#include "guest_work.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_PEERS 2u
#define N_PORTS 2u	 /* ours: 1, a port D, and 2, a port S */
#define FIRST_THEIRS 11u /* sources and destinations, of kinds D and M */
#define FIRST_SHARED 21u /* ports that they own and we are guests at */
#define KEY 0x1234u
#define N_CALLS 4u
#define N_IDS 8u
#define SIZE_BUF 150000u
#define N_REQUESTS_MAX (GUEST_N_MAX + 1024u)

struct calling {
	struct guest_call c;
	struct iovec iov[20];
	unsigned char *buf; /* NULL: free */
	uint8_t said;	    /* the byte with which its owner's answer goes on */
};

static const enum port_kind kinds[N_PORTS] = { PORT_D, PORT_S };
static struct fuzz_link links[N_PEERS];
static struct port *ports[N_PORTS];
static struct calling callings[N_CALLS];
static uint8_t said_by_guest[N_PEERS][N_IDS], said_by_source[N_PORTS][N_PEERS];
static unsigned char bytes[SIZE_BUF];
static bool is_late; /* destinations and owners are not to be found at once */

/* ---- what leaves ----------------------------------------------------------------------------- */

static void check_tail(const struct iovec *iov, size_t len, size_t n_head)
{
	fuzz_must(len >= n_head && iov[0].iov_len >= n_head);
	if (len > n_head && iov[0].iov_len == n_head)
		fuzz_check_counting(iov[1].iov_base, MIN(iov[1].iov_len, len - n_head));
	else if (len > n_head)
		fuzz_check_counting((unsigned char *)iov[0].iov_base + n_head,
				    MIN(iov[0].iov_len, len) - n_head);
}

static void sent(struct fuzz_link *link, const struct hal_frame *f, const struct iovec *iov)
{
	static const size_t heads[] = {
		[GUEST_SEND] = sizeof(struct guest_ask),
		[GUEST_RECEIVE] = sizeof(struct guest_ask),
		[GUEST_ANSWER] = sizeof(struct guest_answer),
		[GUEST_ANSWER_MORE] = 0,
	};

	(void)link;
	if (f->protocol == PROTOCOL_PORT) {
		if (f->kind <= (PORT_FIRST | PORT_LAST) && f->len)
			check_tail(iov, f->len, f->kind == PORT_FIRST ? sizeof(uint64_t) : 0);
		return;
	}
	fuzz_must(f->protocol == PROTOCOL_GUEST && f->kind >= GUEST_SEND &&
		  f->kind <= GUEST_ANSWER_MORE);
	if (f->kind == GUEST_WITHDRAW || f->kind == GUEST_TAKEN)
		fuzz_must(f->len == 0);
	else if (f->len)
		check_tail(iov, f->len, heads[f->kind]);
}

/* ---- the peers ------------------------------------------------------------------------------- */

static void say_bytes(struct fuzz_frame *f, const void *head, size_t n_head, uint8_t *said)
{
	memcpy(f->head, head, n_head);
	f->n_head = (uint32_t)n_head;
	f->first = *said;
	*said = (uint8_t)(*said + f->f.len - MIN(f->f.len, f->n_head));
}

static void join(unsigned i)
{
	fuzz_link_open(&links[i], 1 + i, sent);
	links[i].peer->pid = 1 + i;
	links[i].peer->conn = 1 + i;
	fuzz_must(peer_grant(links[i].peer, FIRST_THEIRS + i) == 0);
	fuzz_must(peer_grant(links[i].peer, FIRST_SHARED + i) == 0);
	for (unsigned k = 0; k < N_PORTS; k++) {
		const struct port_about about = { 1, kinds[k] };
		uint8_t none = 0;

		say_bytes(fuzz_say(&links[i], (uint64_t)(1 + k) << 32 | (FIRST_THEIRS + i),
				   PROTOCOL_PORT, PORT_BEGIN, sizeof(about)),
			  &about, sizeof(about), &none);
		said_by_source[k][i] = 0;
	}
}

/* A message to one of our ports, or a piece of a stream. */
static void say_message(unsigned i, uint8_t addr, uint8_t much)
{
	unsigned k = addr >> 1 & 1;
	uint32_t len = much < 128 ? much + 1u : (much - 127u) * 500;

	say_bytes(fuzz_say(&links[i], (uint64_t)(1 + k) << 32 | (FIRST_THEIRS + i), PROTOCOL_PORT,
			   PORT_FIRST | PORT_LAST, len),
		  "", 0, &said_by_source[k][i]);
}

/* What is asked for. */
static void say_ask(unsigned i, struct fuzz_input *in, unsigned kind, const uint8_t s[4])
{
	uint8_t addr = s[1], much = s[2], *said = &said_by_guest[i][addr >> 3 & (N_IDS - 1)];
	uint32_t number = addr & 0x40 ? 3 : 1 + (addr >> 1 & 1), len = sizeof(struct guest_ask);
	uint32_t others[] = { 0, FIRST_THEIRS, FIRST_THEIRS + 1, 99 };
	struct guest_ask ask = {
		.key = addr & 0x80 && much & 1 ? 7 : KEY + number,
		.size = much < 128 ? much : (much - 127u) * 1000,
		.port = others[s[3] >> 1 & 3],
		.flags = s[3] >> 3 & 15,
	};

	if (much == 255)
		ask.size = fuzz_value(in);
	if (kind == GUEST_SEND)
		len += (uint32_t)MIN(s[3] & 0x80 ? ask.size / 2 : ask.size,
				     (uint64_t)FUZZ_FRAME_MAX - sizeof(ask));
	*said = 0;
	say_bytes(fuzz_say(&links[i], (uint64_t)number << 32 | (addr >> 3 & (N_IDS - 1)),
			   PROTOCOL_GUEST, kind, len),
		  &ask, sizeof(ask), said);
}

/* What goes on with it, or is over. */
static void say_of_ask(unsigned i, unsigned kind, uint8_t addr, uint8_t much)
{
	uint64_t word = (uint64_t)(1 + (addr >> 1 & 1)) << 32 | (addr >> 3 & (N_IDS - 1));
	uint32_t len = kind == GUEST_SEND_MORE ? much * 200u : addr >= 0xf0 ? much : 0;

	say_bytes(fuzz_say(&links[i], word, PROTOCOL_GUEST, kind, len), "", 0,
		  &said_by_guest[i][addr >> 3 & (N_IDS - 1)]);
}

/* To one of our calls. */
static void say_answer(unsigned i, struct fuzz_input *in, unsigned kind, const uint8_t s[4])
{
	struct calling *g = &callings[s[1] >> 3 & (N_CALLS - 1)];
	const struct guest_call *c = &g->c;
	const int64_t results[] = { 0, -EAGAIN, PORT_ELSEWHERE, (int64_t)(c->size - c->base) };
	uint64_t len = MIN((uint64_t)s[2] * 100, (uint64_t)c->size);
	struct guest_answer a = { .result = results[s[3] >> 1 & 3],
				  .size = len + (s[3] >> 3 & 1),
				  .len = s[3] & 0x10 || c->is_send ? 0 : len,
				  .port = FIRST_THEIRS };
	uint32_t n = kind == GUEST_ANSWER ? sizeof(a) : 0;
	uint64_t word = (uint64_t)c->number << 32 | c->id;

	if (s[3] & 0x20)
		a.size = a.len = fuzz_value(in);
	n += (uint32_t)MIN(s[3] & 0x40 ? a.len / 2 : a.len, (uint64_t)50000);
	if (kind == GUEST_ANSWER)
		g->said = 0;
	say_bytes(fuzz_say(&links[i], word, PROTOCOL_GUEST, kind, n), &a,
		  kind == GUEST_ANSWER ? sizeof(a) : 0, &g->said);
}

static void say(struct fuzz_input *in, const uint8_t s[4])
{
	unsigned i = s[1] & 1, kind = s[0] >> 3 & 15;

	if (links[i].n == FUZZ_N_FRAMES)
		return;
	if (kind == GUEST_SEND || kind == GUEST_RECEIVE)
		say_ask(i, in, kind, s);
	else if (kind == GUEST_ANSWER || kind == GUEST_ANSWER_MORE)
		say_answer(i, in, kind, s);
	else if (kind <= 8)
		say_of_ask(i, kind, s[1], s[2]);
	else
		say_message(i, s[1], s[2]);
}

/* ---- what libpulc does ----------------------------------------------------------------------- */

static int find_out(struct port *port, uint32_t node, uint32_t to, struct port_out **ret_out)
{
	unsigned i = to - FIRST_THEIRS;

	if (is_late)
		return -EINPROGRESS;
	if (node || i >= N_PEERS || !links[i].peer->link)
		return -ECONNREFUSED;
	*ret_out = port_out_find(port, 0, to);
	if (*ret_out && (*ret_out)->error && !(*ret_out)->n_inside) {
		port_out_free(*ret_out);
		*ret_out = NULL;
	}
	if (!*ret_out)
		*ret_out = port_out_new(port, to, i ? PORT_M : PORT_D, links[i].peer);
	fuzz_must(*ret_out != NULL);
	return (*ret_out)->error;
}

static int find_source(struct port *port, uint32_t node, uint32_t from)
{
	(void)port, (void)node, (void)from;
	return is_late ? -EINPROGRESS : -ECONNREFUSED;
}

static void find_owner(struct guest_call *c)
{
	struct peer *peer = links[c->number - FIRST_SHARED].peer;

	if (is_late)
		return;
	if (!peer->link || !peer_has(peer, c->number))
		guest_call_fail(c, -EPIPE);
	else if (!guest_call_is_behind(c, peer))
		guest_call_at(c, peer);
}

static void move_guests(void)
{
	struct guest_call *c, *next;

	guest_requests_move_on();
	for (c = guest_call_next(NULL); c; c = next) {
		next = guest_call_next(c);
		if (c->stage == GUEST_PARKED && !guest_call_is_behind(c, NULL))
			find_owner(c);
		else if (c->doubts)
			guest_call_fail(c, -EPIPE);
	}
	guest_calls_move_on();
}

/* ---- our calls ------------------------------------------------------------------------------- */

static void end_calling(struct calling *g)
{
	const struct guest_call *c = &g->c;

	fuzz_must(c->complete && c->error <= 0);
	if (c->error == 0 && !c->is_send) {
		fuzz_must(c->at <= c->size && c->at <= MAX(c->size_whole, c->size_coming));
		fuzz_check_counting(g->buf, c->at);
	} else if (c->error == 0) {
		fuzz_must(c->base <= c->size);
	}
	free(g->buf);
	g->buf = NULL;
}

static void begin_calling(uint8_t addr, uint8_t much)
{
	struct calling *g = callings;
	size_t size = 1 + (size_t)much * much * 2;
	unsigned n = addr & 0x80 ? ARRAY_SIZE(g->iov) : 1;

	while (g < callings + N_CALLS && g->buf)
		g++;
	if (g == callings + N_CALLS)
		return;
	g->buf = malloc(size);
	fuzz_must(g->buf != NULL);
	memcpy(g->buf, bytes, size);
	for (unsigned i = 0; i < n; i++)
		g->iov[i] = (struct iovec){ g->buf + i * (size / n), size / n };
	g->iov[n - 1].iov_len = size - (n - 1) * (size / n);
	g->said = 0;
	g->c = (struct guest_call){
		.key = KEY,
		.number = FIRST_SHARED + (addr & 1),
		.iov = g->iov,
		.n = n,
		.size = size,
		.is_send = addr & 2,
		.flags = addr >> 2 & (addr & 2 ? GUEST_DONTWAIT : GUEST_DONTWAIT | GUEST_PEEK),
		.port = addr & 2 ? FIRST_THEIRS : 0,
	};
	guest_call_begin(&g->c);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Of all that this one's guest has asked for. */
static void check_guest(const struct guest_request *one)
{
	const struct guest_request *q;
	uint64_t size = 0;
	unsigned n = 0;

	TAILQ_FOREACH(q, &guest_requests, link)
		if (q->guest == one->guest) {
			size += q->size_counted;
			n++;
		}
	fuzz_must(size < (uint64_t)GUEST_WINDOW + GUEST_SEND_MAX && n <= N_REQUESTS_MAX);
}

static void check_lent(const struct port *port)
{
	const struct guest_request *q;
	const struct port_in *in;
	unsigned n = 0, n_lent = 0;

	TAILQ_FOREACH(q, &guest_requests, link)
		n_lent += q->port == port && q->borrow.message;
	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		LIST_FOREACH(in, &port->ins[i], link)
			n += in->n_borrowed;
	fuzz_must(n == n_lent);
}

static void check_all(void)
{
	const struct guest_request *q;
	const struct guest_call *c;
	unsigned n = 0;

	TAILQ_FOREACH(q, &guest_requests, link) {
		if (q->guest)
			check_guest(q);
		n++;
	}
	for (c = guest_call_next(NULL); c; c = guest_call_next(c))
		n++;
	fuzz_must(n == guest_n_open);
	for (unsigned i = 0; i < N_PORTS; i++)
		check_lent(ports[i]);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void open_port(unsigned i)
{
	ports[i] = port_new(1 + i, kinds[i]);
	fuzz_must(ports[i] != NULL);
	ports[i]->key = KEY + 1 + i;
}

/* Not in the middle of a datagram, for which libpulc waits. */
static void close_port(unsigned i)
{
	const struct port_out *out;

	for (unsigned k = 0; k < PORT_N_BUCKETS; k++)
		LIST_FOREACH(out, &ports[i]->outs[k], link) {
			const struct port_sending *head = TAILQ_FIRST(&out->queue);

			if (out->n_waiting || (head && head->begun && out->kind == PORT_D))
				return;
		}
	guest_port_end(ports[i]);
	port_free(ports[i]);
	open_port(i);
}

static void receive(struct port *port)
{
	struct iovec iov = { bytes, SIZE_BUF };
	struct port_request r;

	port_request_init(&r, &iov, 1, SIZE_BUF);
	if (port_take(port, &r) == 0)
		fuzz_check_counting(bytes, r.done);
	for (size_t i = 0; i < r.done; i++)
		bytes[i] = (unsigned char)i;
}

static void change(uint8_t addr, uint8_t much)
{
	struct fuzz_link *link = &links[addr & 1];

	switch (much & 7) {
	case 0:
	case 1:
		link->is_full = much & 1;
		break;
	case 2:
		link->is_closed = true;
		break;
	case 3:
		peer_revoke(link->peer, FIRST_SHARED + (addr & 1));
		break;
	case 4:
		fuzz_must(peer_grant(link->peer, FIRST_SHARED + (addr & 1)) == 0);
		break;
	case 5:
		is_late = much & 8;
		break;
	case 6:
		close_port(addr >> 1 & 1);
		break;
	default:
		receive(ports[addr >> 1 & 1]);
	}
}

static void step(struct fuzz_input *in, const uint8_t s[4])
{
	struct calling *g = &callings[s[2] % N_CALLS];

	switch (s[0] & 7) {
	case 5:
		begin_calling(s[1], s[2]);
		break;
	case 6:
		if (g->buf)
			(void)guest_call_cancel(&g->c);
		break;
	case 7:
		change(s[1], s[2]);
		break;
	default:
		say(in, s);
	}
}

static void serve(unsigned i)
{
	struct peer *peer = links[i].peer;

	if (!peer_serve(peer, 64))
		return;
	fuzz_must(peer->error == -EBADMSG || (links[i].is_closed && peer->error == -ECONNRESET));
	peer_unref(peer);
	join(i);
}

static void move_on(void)
{
	for (unsigned i = 0; i < N_PEERS; i++)
		serve(i);
	if (port_any_to_move())
		port_push_queued();
	move_guests();
	protocol_set_unfinished(false);
	protocol_tell();
	for (unsigned i = 0; i < N_CALLS; i++)
		if (callings[i].buf && callings[i].c.complete)
			end_calling(&callings[i]);
	check_all();
}

static void finish(void)
{
	guest_forked();
	for (unsigned i = 0; i < N_CALLS; i++)
		if (callings[i].buf)
			end_calling(&callings[i]);
	for (unsigned i = 0; i < N_PORTS; i++)
		port_free(ports[i]);
	for (unsigned i = 0; i < N_PEERS; i++) {
		peer_break(links[i].peer, -ECONNRESET);
		peer_unref(links[i].peer);
	}
	fuzz_must(port_budget_used() == 0 && TAILQ_EMPTY(&port_queued) &&
		  TAILQ_EMPTY(&guest_requests) && !guest_call_next(NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct guest_finder finder = { .out = find_out, .source = find_source };
	struct fuzz_input in = { data, size };
	uint8_t s[4];

	guest_finder = &finder;
	(void)protocol_register(PROTOCOL_PORT, &port_protocol);
	(void)protocol_register(PROTOCOL_GUEST, &guest_protocol);
	for (size_t i = 0; i < SIZE_BUF; i++)
		bytes[i] = (unsigned char)i;
	is_late = false;
	for (unsigned i = 0; i < N_PORTS; i++)
		open_port(i);
	for (unsigned i = 0; i < N_PEERS; i++)
		join(i);
	while (in.left >= sizeof(s)) {
		memcpy(s, in.at, sizeof(s));
		in.at += sizeof(s);
		in.left -= sizeof(s);
		step(&in, s);
		if (s[3] & 1)
			move_on();
	}
	move_on();
	finish();
	return 0;
}
