/*
 * The protocol of tagged messages against any peers: frames of every kind from two of them, between
 * the steps of a program that sends, receives, looks, lends and cancels. Whatever comes, a link
 * goes on or ends with -EBADMSG (-ECONNRESET, if its peer has ended it); a receive gets a message
 * that fits it, from whom it wanted it, and of its bytes a piece in a row; what is kept of a peer's
 * stays within its credit; a send is complete or not, and its bytes are asked for no further than
 * it goes; and nothing is left in the end.
 *
 * Payloads count up; those of one number go on from frame to frame, and begin with the number's own
 * byte.
 *
 * Each step takes 4 bytes: what to do, of which tag and with whom, how much, and whether progress
 * is made then; a raw value takes 8 more.
 */
#include <errno.h>

#include "at_once.h"
#include "fuzz_link.h"
#include "tag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_PEERS 2u
#define N_OPS 6u
#define N_NUMBERS 64u /* of which it is known how far they are */
#define SIZE_AREA 65536u
#define SIZE_SEND (8 * (size_t)TAG_EAGER_MAX)
#define COST_MAX ((uint64_t)TAG_WINDOW + TAG_EAGER_MAX + TAG_OVERHEAD)

struct receiving {
	struct tag_receive r;
	bool is_used;
	unsigned char *buf;
};

struct sending {
	struct tag_send s;
	bool is_used;
};

static struct fuzz_link links[N_PEERS];
static struct receiving receivings[N_OPS];
static struct sending sendings[N_OPS];
static unsigned char bytes[SIZE_SEND], area[SIZE_AREA];
static unsigned n_holders;	 /* of the area */
static uint64_t last_number;	 /* of a PUSH of ours */
static uint32_t said[N_NUMBERS]; /* bytes of DATA for such a one */

/* ---- the area of messages that nobody copies ------------------------------------------------- */

static int find_bytes(struct peer *peer, uint64_t offset, uint64_t size,
		      struct tag_bytes *ret_bytes)
{
	if (peer == links[1].peer)
		return -ENOENT;
	if (size > SIZE_AREA || offset > SIZE_AREA - size)
		return -EBADMSG;
	*ret_bytes = (struct tag_bytes){ .at = area + offset, .holder = area };
	n_holders++;
	return 0;
}

static void unref_area(void *holder)
{
	fuzz_must(holder == area && n_holders > 0);
	n_holders--;
}

/* ---- the peers ------------------------------------------------------------------------------- */

static const struct sending *find_offer(uint64_t id)
{
	for (unsigned i = 0; i < N_OPS; i++)
		if (sendings[i].is_used && sendings[i].s.id == id)
			return &sendings[i];
	return NULL;
}

/* What leaves makes sense. */
static void sent(struct fuzz_link *link, const struct hal_frame *f, const struct iovec *iov)
{
	struct tag_push push;

	(void)link;
	fuzz_must(f->protocol == PROTOCOL_TAG && f->kind <= TAG_OFFER_AWAY);
	switch (f->kind) {
	case TAG_EAGER:
		fuzz_must(f->len <= TAG_EAGER_MAX);
		break;
	case TAG_PUSH:
		fuzz_must(f->len == sizeof(push) && iov[0].iov_len == sizeof(push));
		memcpy(&push, iov[0].iov_base, sizeof(push));
		fuzz_must(push.size > 0);
		last_number = push.number;
		said[push.number % N_NUMBERS] = 0;
		break;
	case TAG_DATA:
		fuzz_must(f->len > 0 && f->len <= SIZE_SEND);
		break;
	case TAG_OFFER:
	case TAG_OFFER_AWAY:
		fuzz_must(f->len == sizeof(struct tag_offer));
		break;
	case TAG_BLOCK:
		fuzz_must(f->len == sizeof(struct tag_block));
		break;
	default:
		fuzz_must(f->len == 0);
	}
}

static void join(unsigned i)
{
	fuzz_link_open(&links[i], 1 + i, sent);
}

static struct fuzz_frame *say_kind(struct fuzz_link *link, unsigned kind, uint64_t word,
				   uint32_t len)
{
	return fuzz_say(link, word, PROTOCOL_TAG, kind, len);
}

/* The bytes for a number; mostly the last one that was asked for. */
static void say_data(struct fuzz_link *link, uint8_t addr, uint32_t len)
{
	uint64_t number = last_number - (addr >> 4 & 3) + (addr >> 7);
	struct fuzz_frame *f = say_kind(link, TAG_DATA, number, len);

	f->first = (uint8_t)(number * 7 + said[number % N_NUMBERS]);
	said[number % N_NUMBERS] += len;
}

static void say_offer(struct fuzz_link *link, struct fuzz_input *in, unsigned kind, uint8_t addr,
		      uint8_t much)
{
	struct tag_block b = { .offer = { .id = 1 + (addr >> 4), .size = (uint64_t)much * much },
			       .offset = (uint64_t)much * 64 };
	struct fuzz_frame *f;

	if (much == 255)
		b.offer.size = fuzz_value(in);
	if (much == 254)
		b.offset = fuzz_value(in);
	if (much == 253)
		b.offer.id = 0;
	f = say_kind(link, kind, addr >> 1 & 3, kind == TAG_BLOCK ? sizeof(b) : sizeof(b.offer));
	f->f.len -= much == 252;
	f->n_head = sizeof(b);
	memcpy(f->head, &b, sizeof(b));
}

/* Which one of ours it is about. */
static uint64_t id_of(uint8_t addr)
{
	return sendings[(addr >> 1) % N_OPS].s.id;
}

static void say_push(struct fuzz_link *link, struct fuzz_input *in, uint8_t addr, uint8_t much)
{
	uint64_t id = id_of(addr);
	const struct sending *o = find_offer(id);
	struct tag_push push = { .number = addr, .size = o ? o->s.size : much };
	struct fuzz_frame *f = say_kind(link, TAG_PUSH, id, sizeof(push));

	if (much >= 128)
		push.size = much == 255 ? fuzz_value(in) : much;
	f->n_head = sizeof(push);
	memcpy(f->head, &push, sizeof(push));
}

static void say_control(struct fuzz_link *link, struct fuzz_input *in, unsigned kind, uint8_t addr,
			uint8_t much)
{
	const struct tag_peer *tp = link->peer->tags;
	uint64_t word = kind == TAG_CREDIT     ? (tp ? tp->freed + much * 64u : 0)
			: kind == TAG_WITHDRAW ? 1u + (addr >> 4)
					       : id_of(addr);

	if (much == 255)
		word = fuzz_value(in);
	(void)say_kind(link, kind, word, much == 254);
}

static void say(struct fuzz_input *in, uint8_t what, uint8_t addr, uint8_t much)
{
	struct fuzz_link *link = &links[addr & 1];
	unsigned kind = (what >> 3) % (TAG_OFFER_AWAY + 2u);
	uint32_t len = much < 128 ? much : (much - 127u) * 129;

	if (link->n == FUZZ_N_FRAMES)
		return;
	if (kind == TAG_EAGER)
		say_kind(link, kind, addr >> 1 & 3, len)->first = addr;
	else if (kind == TAG_DATA)
		say_data(link, addr, len);
	else if (kind == TAG_PUSH)
		say_push(link, in, addr, much);
	else if (kind == TAG_OFFER || kind == TAG_OFFER_AWAY || kind == TAG_BLOCK)
		say_offer(link, in, kind, addr, much);
	else
		say_control(link, in, kind, addr, much);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void check_received(const struct receiving *g)
{
	const struct tag_receive *r = &g->r;

	fuzz_must(((r->got_tag ^ r->tag) & r->mask) == 0);
	fuzz_must(r->peer == TAG_ANY_PEER || r->peer == r->got_peer);
	fuzz_must(r->done == MIN((uint64_t)r->size, r->got_size));
	if (r->lends)
		fuzz_must(r->lent != NULL);
	fuzz_check_counting(r->lends ? r->lent : g->buf, r->done);
	if (r->lends)
		fuzz_must(tag_give_back(r->lent) == 0 && tag_give_back(area + SIZE_AREA) < 0);
}

static void end_receiving(struct receiving *g)
{
	if (!g->r.complete)
		tag_unpost(&g->r);
	else if (g->r.error == 0)
		check_received(g);
	fuzz_must(g->r.error <= 0 && !g->r.list && !g->r.message && !g->r.room);
	free(g->buf);
	g->buf = NULL;
	g->is_used = false;
}

static struct receiving *receiving_new(uint8_t addr, uint8_t much)
{
	struct receiving *g = receivings;

	while (g < receivings + N_OPS && g->is_used)
		g++;
	if (g == receivings + N_OPS)
		return NULL;
	tag_receive_init(&g->r, addr >> 1 & 3, addr & 0x80 ? 1 : UINT64_MAX,
			 addr & 0x40 ? 1u + (addr >> 5 & 1) : TAG_ANY_PEER);
	g->r.size = (size_t)much * much;
	g->r.lends = addr & 1;
	g->buf = malloc(g->r.size + 1);
	fuzz_must(g->buf != NULL);
	g->r.buf = g->r.lends ? NULL : g->buf;
	g->is_used = true;
	return g;
}

static void receive(uint8_t what, uint8_t addr, uint8_t much)
{
	struct receiving *g = receiving_new(addr, much);

	if (!g)
		return;
	(void)tag_look(&g->r);
	if (what & 8 && tag_take_at_once(&g->r, links[what >> 4 & 1].peer, what & 32))
		end_receiving(g);
	else if (tag_take(&g->r) == -EAGAIN)
		tag_post(&g->r);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void send_one(uint8_t what, uint8_t addr, uint8_t much)
{
	struct sending *o = sendings;
	struct peer *peer = links[addr & 1].peer;
	size_t size = (size_t)much * 400;

	if (what & 8) {
		(void)tag_send_at_once(peer, addr >> 1, bytes, size / 8);
		return;
	}
	while (o < sendings + N_OPS && o->is_used)
		o++;
	if (o == sendings + N_OPS)
		return;
	tag_send_init(&o->s, addr >> 1 & 3, bytes, size);
	o->s.peer = peer;
	o->s.in_block = addr & 0x80;
	o->is_used = tag_send_begin(&o->s) == 0;
}

static void cancel(uint8_t addr, uint8_t much)
{
	struct sending *o = &sendings[much % N_OPS];
	struct receiving *g = &receivings[much % N_OPS];

	if (addr & 1 && o->is_used && !o->s.complete)
		(void)tag_send_cancel(&o->s);
	else if (!(addr & 1) && g->is_used)
		end_receiving(g);
}

static void check_sending(struct sending *o)
{
	fuzz_must(o->s.error <= 0 && o->s.at <= o->s.size_wanted && o->s.size_wanted <= o->s.size);
	if (!o->s.complete)
		return;
	fuzz_must(!o->s.list);
	o->is_used = false;
	o->s.id = 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void serve(unsigned i)
{
	struct peer *peer = links[i].peer;

	if (!peer_serve(peer, 64))
		return;
	fuzz_must(peer->error == -EBADMSG || (links[i].is_closed && peer->error == -ECONNRESET));
	for (unsigned k = 0; k < N_OPS; k++)
		fuzz_must(!sendings[k].is_used || sendings[k].s.peer != peer ||
			  sendings[k].s.complete);
	peer_unref(peer);
	join(i);
}

static void move_on(void)
{
	for (unsigned i = 0; i < N_PEERS; i++)
		serve(i);
	if (tag_any_to_move())
		tag_move_on();
	protocol_tell();
	for (unsigned i = 0; i < N_OPS; i++) {
		if (receivings[i].is_used && receivings[i].r.complete)
			end_receiving(&receivings[i]);
		if (sendings[i].is_used)
			check_sending(&sendings[i]);
	}
	for (unsigned i = 0; i < N_PEERS; i++) {
		const struct tag_peer *tp = links[i].peer->tags;

		fuzz_must(!tp || (tp->got - tp->taken <= COST_MAX && tp->told <= tp->taken &&
				  tp->sent - tp->freed <= COST_MAX));
	}
}

static void step(struct fuzz_input *in, uint8_t what, uint8_t addr, uint8_t much)
{
	struct fuzz_link *link = &links[addr & 1];

	switch (what & 7) {
	case 4:
		receive(what, addr, much);
		break;
	case 5:
		send_one(what, addr, much);
		break;
	case 6:
		cancel(addr, much);
		break;
	case 7:
		link->is_full = much & 1;
		link->is_closed |= much == 2;
		tag_send_away(much == 3);
		break;
	default:
		say(in, what, addr, much);
	}
}

/* What is here is still to be received when its sender is gone. */
static void receive_all(void)
{
	struct receiving *g;
	bool any;

	do {
		g = receiving_new(0x81, 255);
		g->r.mask = 0;
		any = tag_take(&g->r) == 0;
		fuzz_must(!any || g->r.complete);
		end_receiving(g);
	} while (any);
}

static void finish(void)
{
	for (unsigned i = 0; i < N_OPS; i++)
		if (receivings[i].is_used)
			end_receiving(&receivings[i]);
	for (unsigned i = 0; i < N_PEERS; i++) {
		peer_break(links[i].peer, -ECONNRESET);
		peer_unref(links[i].peer);
	}
	for (unsigned i = 0; i < N_OPS; i++) {
		fuzz_must(!sendings[i].is_used || sendings[i].s.complete);
		sendings[i].is_used = false;
	}
	receive_all();
	fuzz_must(n_holders == 0 && !tag_any_set() && !tag_any_to_move());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	uint8_t s[4];

	(void)protocol_register(PROTOCOL_TAG, &tag_protocol);
	tag_area_bytes = find_bytes;
	tag_area_unref = unref_area;
	for (unsigned i = 0; area[SIZE_AREA - 1] == 0 && i < SIZE_AREA; i++)
		area[i] = (unsigned char)i;
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
