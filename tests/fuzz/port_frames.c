/*
 * The port protocol against any peers: frames of every kind from two of them, between the steps of
 * a program that sends, receives, cancels, and passes ports on. Whatever comes, a link goes on or
 * ends with -EBADMSG (-ECONNRESET, if its peer or psid has ended it); what is kept of a source's
 * stays within its credit and one message; a reader gets just the bytes of his source that are
 * next; and nothing is left in the end.
 *
 * The bytes that a source sends to a port count up, so a reader can tell what is next. Where
 * something may rightly be dropped (a message that was under way when its source ended) that flow
 * is only checked to be pieces in a row.
 *
 * Each step takes 4 bytes: what to do, to which port from which, how much; a raw value takes 8
 * more.
 */
#include <errno.h>

#include "at_once.h"
#include "fuzz_link.h"
#include "port.h"
#include "port_accounts.h"
#include "port_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_PEERS 2u
#define N_PORTS 3u /* ours: 1 to 3, of kinds D, S, M */
#define N_THEIRS 3u
#define FIRST_THEIRS 11u /* 11 and 12 are the first peer's, 13 the second one's */
#define TAKEN 21u
#define MOVE 5u
#define N_OPS 4u
#define SIZE_BUF 150000u

struct flow {
	uint32_t sent, got;
	bool loose;
};

struct reading {
	struct port_request r;
	struct iovec iov[20];
	struct port *port; /* NULL: free */
	unsigned char *buf;
};

struct writing {
	struct port_sending s;
	struct iovec iov;
	struct port_out *out; /* NULL: free */
};

static const enum port_kind kinds[N_PORTS] = { PORT_D, PORT_S, PORT_M };
static struct fuzz_link links[N_PEERS];
static struct port *ports[N_PORTS];
static struct flow flows[N_PORTS][N_THEIRS];
static struct reading readings[N_OPS];
static struct writing writings[N_OPS];
static unsigned char bytes[SIZE_BUF];
static bool any_taken, any_given;

static struct fuzz_link *owner_of(unsigned theirs)
{
	return &links[theirs == N_THEIRS - 1];
}

static void loosen(void)
{
	for (unsigned i = 0; i < N_PORTS * N_THEIRS; i++)
		flows[i / N_THEIRS][i % N_THEIRS].loose = true;
}

/* ---- the peers ------------------------------------------------------------------------------- */

static void grant(unsigned theirs)
{
	fuzz_must(peer_grant(owner_of(theirs)->peer, FIRST_THEIRS + theirs) == 0);
}

static void join(unsigned i)
{
	fuzz_link_open(&links[i], 1 + i, sent);
	for (unsigned k = 0; k < N_THEIRS; k++) {
		if (owner_of(k) != &links[i])
			continue;
		grant(k);
		for (unsigned ours = 0; ours < N_PORTS; ours++)
			say_about(&links[i], PORT_BEGIN,
				  (uint64_t)(1 + ours) << 32 | (FIRST_THEIRS + k),
				  (struct port_about){ 1, kinds[ours] });
	}
}

/* A frame of data goes on with its flow. */
static void say_data(struct fuzz_link *link, struct fuzz_input *in, unsigned kind, uint8_t addr,
		     uint8_t much)
{
	unsigned ours = addr >> 1 & 3, theirs = (addr >> 3 & 3) % N_THEIRS;
	uint64_t word = (uint64_t)(1 + ours) << 32 | (FIRST_THEIRS + theirs);
	uint32_t len = much < 128 ? much : (much - 127u) * 500;
	struct flow *flow = ours < N_PORTS && owner_of(theirs) == link ? &flows[ours][theirs]
								       : NULL;
	struct fuzz_frame *f;
	uint64_t size = (uint64_t)(addr >> 5) * len;

	if (addr >= 0xe0)
		size = fuzz_value(in);
	f = fuzz_say(link, word, PROTOCOL_PORT, kind, len);
	if (kind == PORT_FIRST) {
		f->n_head = sizeof(size);
		memcpy(f->head, &size, sizeof(size));
	}
	if (!flow)
		return;
	f->first = (uint8_t)flow->sent;
	flow->sent += len - MIN(len, f->n_head);
}

/* Of the way that there is, or a former one. */
static struct port_about control_about(struct fuzz_input *in, unsigned kind, uint64_t word,
				       uint8_t much)
{
	struct port *port = port_find((uint32_t)(word >> 32));
	const struct port_out *out = port ? port_out_find(port, 0, (uint32_t)word) : NULL;
	struct port_about about = { .life = kind == PORT_BEGIN		? much >> 2
					    : out && kind != PORT_WANTS ? out->life - !(much & 7)
									: 1 };

	if (kind == PORT_BEGIN)
		about.value = (much & 3) | (much & 128 ? PORT_ASKS : 0);
	if (kind == PORT_HOLD)
		about.value = much % 3;
	if (kind == PORT_WANTS || kind == PORT_MAY)
		about.value = much >> 3 & 3;
	if (kind == PORT_CREDIT)
		about.value = much == 255 ? fuzz_value(in) : out ? out->freed + much * 512u : 0;
	return about;
}

static void say_control(struct fuzz_link *link, struct fuzz_input *in, unsigned kind, uint8_t addr,
			uint8_t much)
{
	unsigned theirs = FIRST_THEIRS + (addr >> 3 & 3);
	uint64_t word = (uint64_t)(1 + (addr >> 1 & 3)) << 32 | theirs, v = much & 7;
	struct fuzz_frame *f;

	/* Those that the owner says of his port. */
	if (kind == PORT_MOVE || kind == PORT_STAYS || kind == PORT_MOVED || kind == PORT_OVER)
		word = (uint64_t)theirs << 32;
	if (is_about(kind)) {
		f = say_about(link, kind, word, control_about(in, kind, word, much));
	} else {
		if (much == 255)
			v = fuzz_value(in);
		f = fuzz_say(link, word, PROTOCOL_PORT, kind, kind >= PORT_MOVE ? 8 : 0);
		f->n_head = sizeof(v);
		memcpy(f->head, &v, sizeof(v));
	}
	if (addr >> 5 == 7)
		f->f.len = much;
	if (kind == PORT_CLOSED || kind == PORT_MOVED || kind == PORT_REFUSED ||
	    kind == PORT_BEGIN || kind == PORT_OVER)
		loosen();
}

/* To the port that is being taken. */
static void say_carry(struct fuzz_link *link, struct fuzz_input *in, unsigned kind, uint8_t addr,
		      uint8_t much)
{
	struct port_carried head = { .node = addr >> 1 & 1, .size = (uint64_t)much * (addr >> 5) };
	const uint64_t id = MOVE;
	struct fuzz_frame *f = fuzz_say(link, (uint64_t)TAKEN << 32 | (addr >> 3 & 3),
					PROTOCOL_PORT, kind, much);

	if (kind == PORT_CARRY) {
		if (addr >= 0xe0)
			head.size = fuzz_value(in);
		head.ended = addr & 4 ? -EPIPE : 0;
		f->f.len += sizeof(head);
		f->n_head = sizeof(head);
		memcpy(f->head, &head, sizeof(head));
	} else if (kind != PORT_MORE) {
		f->f.len = f->n_head = sizeof(id);
		memcpy(f->head, &id, sizeof(id));
	}
}

static void say(struct fuzz_input *in, uint8_t what, uint8_t addr, uint8_t much)
{
	struct fuzz_link *link = &links[addr & 1];
	unsigned kind = (what >> 3) % (PORT_OVER + 2u);

	if (link->n == FUZZ_N_FRAMES)
		return;
	if (kind <= (PORT_FIRST | PORT_LAST))
		say_data(link, in, kind, addr, much);
	else if (kind >= PORT_CARRIES && kind <= PORT_CARRIED)
		say_carry(link, in, kind, addr, much);
	else
		say_control(link, in, kind, addr, much);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void check_read(const struct reading *g)
{
	const struct port_request *r = &g->r;
	struct flow *flow = &flows[g->port->number - 1][r->source - FIRST_THEIRS];
	size_t len = g->port->kind == PORT_D ? r->size_whole : r->done;

	fuzz_must(r->source >= FIRST_THEIRS && r->source < FIRST_THEIRS + N_THEIRS);
	fuzz_must(r->done <= r->size && r->done <= len);
	fuzz_must(r->done > 0 || g->port->kind == PORT_D);
	fuzz_check_counting(g->buf, r->done);
	if (flow->loose)
		return;
	fuzz_must(len <= flow->sent - flow->got);
	fuzz_must(r->done == 0 || g->buf[0] == (uint8_t)flow->got);
	if (!r->peek)
		flow->got += (uint32_t)len;
}

static void end_reading(struct reading *g)
{
	if (port_unpost(g->port, &g->r) < 0)
		loosen();
	if (g->r.complete && g->r.error == 0)
		check_read(g);
	fuzz_must(g->r.error <= 0);
	free(g->buf);
	g->buf = NULL;
	g->port = NULL;
}

/* In the order in which they were posted. */
static void check_readings(void)
{
	struct reading *oldest;

	do {
		oldest = NULL;
		for (unsigned i = 0; i < N_OPS; i++)
			if (readings[i].port && readings[i].r.complete &&
			    (!oldest || readings[i].r.turn < oldest->r.turn))
				oldest = &readings[i];
		if (oldest)
			end_reading(oldest);
	} while (oldest);
}

static void begin_reading(struct port *port, uint8_t addr, uint8_t much)
{
	struct reading *g = readings;
	size_t size = 1 + (size_t)much * much * 2, piece;
	unsigned n = addr & 0x80 ? ARRAY_SIZE(g->iov) : 1 + (addr >> 5 & 1);
	int e;

	while (g < readings + N_OPS && g->port)
		g++;
	if (g == readings + N_OPS || !port || port->give)
		return;
	g->buf = malloc(size);
	fuzz_must(g->buf != NULL);
	piece = size / n;
	for (unsigned i = 0; i < n; i++)
		g->iov[i] = (struct iovec){ g->buf + i * piece, piece };
	g->iov[n - 1].iov_len = size - (n - 1) * piece;
	g->port = port;
	port_request_init(&g->r, g->iov, n, size);
	g->r.from = port->kind == PORT_S ? 0
		    : (addr >> 3 & 3)	 ? FIRST_THEIRS - 1 + (addr >> 3 & 3)
					 : 0;
	g->r.once = addr & 1;
	g->r.peek = addr & 4;
	e = port_take(port, &g->r);
	if (e == -EAGAIN && !g->r.peek) {
		port_post(port, &g->r);
		return;
	}
	g->r.error = e;
	end_reading(g);
}

/* The short way: from the source that was heard last. */
static void read_at_once(struct port *port, uint8_t much)
{
	struct port_in *in = port ? port->in_last : NULL;
	struct flow *flow;
	ssize_t n;

	if (!in || port->give || in->from < FIRST_THEIRS || !in->peer->link)
		return;
	flow = &flows[port->number - 1][in->from - FIRST_THEIRS];
	n = port_take_at_once(in, bytes, 1 + (size_t)(much >> 1) * 512, much & 1);
	fuzz_must(n >= 0 || n == -EAGAIN);
	if (n < 0)
		return;
	fuzz_check_counting(bytes, (size_t)n);
	fuzz_must(n > 0 || port->kind == PORT_D);
	if (port->kind == PORT_D) /* of what was cut off nothing is said */
		flow->loose = true;
	if (flow->loose)
		return;
	fuzz_must((size_t)n <= flow->sent - flow->got && bytes[0] == (uint8_t)flow->got);
	flow->got += (uint32_t)n;
}

/* ---- writing --------------------------------------------------------------------------------- */

static struct port_out *destination(struct port *port, unsigned theirs)
{
	struct port_out *out = port_out_find(port, 0, FIRST_THEIRS + theirs);

	if (out && out->error && !out->n_inside) {
		port_out_free(out);
		out = NULL;
	}
	if (!out)
		out = port_out_new(port, FIRST_THEIRS + theirs, kinds[theirs],
				   owner_of(theirs)->peer);
	fuzz_must(out != NULL);
	return out;
}

static void check_writings(void)
{
	for (unsigned i = 0; i < N_OPS; i++)
		if (writings[i].out && writings[i].s.complete)
			writings[i].out = NULL;
}

static void begin_writing(struct port *port, uint8_t addr, uint8_t much)
{
	struct writing *w = writings;
	int e;

	while (w < writings + N_OPS && w->out)
		w++;
	if (w == writings + N_OPS || !port || port->give)
		return;
	w->iov = (struct iovec){ bytes, 1 + (size_t)much * 512 };
	w->s = (struct port_sending){ .iov = &w->iov, .n = 1, .size = w->iov.iov_len };
	w->out = destination(port, (addr >> 3 & 3) % N_THEIRS);
	e = port_push(w->out, &w->s);
	if (e == -EAGAIN) {
		port_send_queue(w->out, &w->s);
		return;
	}
	if (port_is_end(e) && !w->out->n_inside)
		port_out_free(w->out);
	w->out = NULL;
}

/* A stream's, or a datagram that has not begun. */
static void cancel_writing(uint8_t much)
{
	struct writing *w = &writings[much % N_OPS];

	if (!w->out || (w->s.begun && w->out->kind == PORT_D))
		return;
	w->s.complete = true;
	port_send_unqueue(w->out, &w->s);
	w->out = NULL;
}

/* ---- ports that pass from one to another ----------------------------------------------------- */

static bool is_in_use(const struct port *port)
{
	for (unsigned i = 0; i < N_OPS; i++)
		if (readings[i].port == port || (writings[i].out && writings[i].out->port == port))
			return true;
	return false;
}

static void give(unsigned i, uint8_t much)
{
	struct port *port = ports[i];

	if (!port->give) {
		if (is_in_use(port) || !links[0].peer->link)
			return;
		fuzz_must(port_give_begin(port, links[0].peer, MOVE) == 0);
		any_given = true;
	}
	for (unsigned k = 0; k < N_PEERS; k++)
		if (links[k].peer->link)
			(void)port_give_ask(port, links[k].peer);
	(void)port_give_on(port);
	if (much & 1 && port_give_is_carried(port))
		(void)port_give_settle(port);
	if (much & 2) {
		port_give_off(port);
	} else if (much & 4 && port_give_is_carried(port)) {
		loosen();
		port_give_done(port);
		ports[i] = port_new(1 + i, kinds[i]);
		fuzz_must(ports[i] != NULL);
	}
}

static void read_taken(struct port *port)
{
	struct iovec iov = { bytes, SIZE_BUF };
	struct port_request r;
	int e;

	do {
		port_request_init(&r, &iov, 1, SIZE_BUF);
		e = port_take(port, &r);
	} while (e == 0);
	fuzz_must(e == -EAGAIN);
	port_free(port);
}

static void take(uint8_t much)
{
	any_taken = true;
	if (port_take_is_complete())
		read_taken(port_take_end());
	else if (port_take_is_lost() || much & 1)
		port_take_forget();
	else if (!port_find(TAKEN) && links[1].peer->link)
		fuzz_must(port_take_begin(TAKEN, kinds[much % N_PORTS], links[1].peer, MOVE) == 0);
}

/* What has passed to another process is found with its first owner again, or not at all. */
static void find_again(struct port_out *out, void *arg)
{
	struct fuzz_link *link = owner_of(out->to - FIRST_THEIRS);

	(void)arg;
	if (out->error != PORT_ELSEWHERE || !out->n_inside)
		return;
	if (link->peer->link)
		port_out_rebind(out, link->peer);
	else
		out->error = -ECONNRESET;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void serve(unsigned i)
{
	struct peer *peer = links[i].peer;

	if (!peer_serve(peer, 64))
		return;
	fuzz_must(peer->error == -EBADMSG ||
		  ((links[i].is_closed || peer->orphan) && peer->error == -ECONNRESET));
	loosen();
	peer_unref(peer);
	join(i);
}

static void change(uint8_t addr, uint8_t much)
{
	unsigned theirs = (addr >> 3 & 3) % N_THEIRS;
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
		peer_revoke(owner_of(theirs)->peer, FIRST_THEIRS + theirs);
		loosen();
		break;
	case 4:
		grant(theirs);
		break;
	case 5:
		link->peer->orphan = true;
		break;
	case 6:
		take(much >> 3);
		break;
	default:
		give((addr >> 1 & 3) % N_PORTS, much >> 3);
	}
}

static void step(struct fuzz_input *in, uint8_t what, uint8_t addr, uint8_t much)
{
	struct port *port = ports[(addr >> 1 & 3) % N_PORTS];
	struct reading *g = &readings[much % N_OPS];

	switch (what & 7) {
	case 0:
	case 1:
	case 2:
		say(in, what, addr, much);
		break;
	case 3:
		change(addr, much);
		break;
	case 4:
		begin_reading(port, addr, much);
		break;
	case 5:
		begin_writing(port, addr, much);
		break;
	case 6:
		if (addr & 1 && g->port)
			end_reading(g);
		else
			cancel_writing(much);
		break;
	default:
		read_at_once(port, much);
	}
}

/* As progress is made in libpulc. */
static void move_on(void)
{
	for (unsigned i = 0; i < N_PEERS; i++)
		serve(i);
	if (port_any_to_move())
		port_push_queued();
	if (port_any_elsewhere)
		port_each_out(find_again, NULL);
	port_any_elsewhere = false;
	protocol_tell();
	check_readings();
	check_writings();
	for (unsigned i = 0; i < N_PORTS; i++)
		check_port(ports[i], any_taken);
	for (unsigned i = 0; i < N_PEERS; i++)
		check_accounts(links[i].peer, ports, N_PORTS, any_given);
}

static void finish(void)
{
	for (unsigned i = 0; i < N_OPS; i++) {
		if (readings[i].port)
			end_reading(&readings[i]);
		if (writings[i].out)
			port_send_unqueue(writings[i].out, &writings[i].s);
		writings[i].out = NULL;
	}
	port_take_forked();
	for (unsigned i = 0; i < N_PORTS; i++)
		port_free(ports[i]);
	for (unsigned i = 0; i < N_PEERS; i++) {
		peer_break(links[i].peer, -ECONNRESET);
		peer_unref(links[i].peer);
	}
	fuzz_must(port_budget_used() == 0 && LIST_EMPTY(&port_held) && LIST_EMPTY(&port_moves) &&
		  TAILQ_EMPTY(&port_queued));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	uint8_t s[4];

	(void)protocol_register(PROTOCOL_PORT, &port_protocol);
	memset(flows, 0, sizeof(flows));
	any_taken = any_given = false;
	for (unsigned i = 0; i < N_PORTS; i++)
		fuzz_must((ports[i] = port_new(1 + i, kinds[i])) != NULL);
	for (unsigned i = 0; i < N_PEERS; i++)
		join(i);
	while (in.left >= sizeof(s)) {
		memcpy(s, in.at, sizeof(s));
		in.at += sizeof(s);
		in.left -= sizeof(s);
		step(&in, s[0], s[1], s[2]);
		if (s[3] & 1)
			move_on();
	}
	move_on();
	finish();
	return 0;
}
