/*
 * The protocol switch, and peers.
 *
 * A frame is taken off its link at once, whoever it is for: handlers queue what nobody waits for.
 * So a port that is not read blocks no other one; what it may hold is bounded by its protocol's
 * credits. A frame stays on the link in one case only: it names a port of the sender's that psid
 * has not told us of. The news is on its way (psid tells the receivers before it tells the owner,
 * or it comes from another node's), or the sender lies: then it has blocked its own link and
 * nothing else. When psid has nothing more to say of the peer, such a link ends.
 *
 * Frames without room wait in order behind each other. A peer that does not read makes its senders'
 * copies wait, bounded by their credit; control frames, which are answers, are bounded by number:
 * beyond it nothing more is taken from that peer.
 *
 * Source: pulc-1998, 4.4 and 4.5 (the switch looks at the protocol and hands over; protocols side
 * by side).
 */
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "macros.h"

#define N_PENDING_CONTROL 4096u
/* Of one peer. Beyond it psid's word that one is closed counts at once. */
#define N_GRANTED_MAX 4096u

struct pending {
	STAILQ_ENTRY(pending) link;
	struct hal_frame frame;
	uint32_t *left;
	unsigned char payload[];
};

_Atomic uint64_t protocol_events;
_Atomic bool protocol_unfinished;
bool protocol_enough;
struct peer *protocol_to_tell;
uint64_t protocol_era;
static const struct protocol *protocols[PROTOCOLS_MAX];

int protocol_register(unsigned number, const struct protocol *p)
{
	if (number == 0 || number >= PROTOCOLS_MAX)
		return -EINVAL;
	if (protocols[number])
		return -EEXIST;
	protocols[number] = p;
	return 0;
}

void protocol_unregister(unsigned number)
{
	protocols[number] = NULL;
}

/* ---- peers ----------------------------------------------------------------------------------- */

struct peer *peer_new(struct hal_link *link, uint32_t client)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->link = link;
	peer->client = client;
	peer->n_refs = 1;
	STAILQ_INIT(&peer->pending);
	return peer;
}

struct peer *peer_ref(struct peer *peer)
{
	peer->n_refs++;
	return peer;
}

static void drop_pending(struct peer *peer)
{
	struct pending *p;

	while ((p = STAILQ_FIRST(&peer->pending))) {
		STAILQ_REMOVE_HEAD(&peer->pending, link);
		if (p->left)
			--*p->left;
		free(p);
	}
	peer->n_pending = 0;
}

void peer_unref(struct peer *peer)
{
	struct peer **at = &protocol_to_tell;

	if (!peer || --peer->n_refs > 0)
		return;
	while (peer->did && *at && *at != peer)
		at = &(*at)->next_to_tell;
	if (peer->did && *at)
		*at = peer->next_to_tell;
	drop_pending(peer);
	free(peer->granted);
	free(peer->tags);
	free(peer);
}

static struct granted *find_granted(const struct peer *peer, uint32_t port)
{
	for (uint32_t i = 0; i < peer->n_granted; i++)
		if (peer->granted[i].port == port)
			return &peer->granted[i];
	return NULL;
}

bool peer_has(const struct peer *peer, uint32_t port)
{
	return find_granted(peer, port) != NULL;
}

uint64_t peer_era(const struct peer *peer, uint32_t port)
{
	struct granted *g = find_granted(peer, port);

	return UNLIKELY(g && g->n_closed && !g->anew) ? g->heard - 1 : protocol_era;
}

/* What this peer has sent is here: only then is a link that shows nothing a link that is empty. */
static bool is_present(const struct peer *peer)
{
	return peer->link && (peer->link->caps.flags & HAL_PRESENT);
}

static bool was_over_early(struct peer *peer, uint32_t port)
{
	for (unsigned i = 0; i < PEER_N_OVER_EARLY; i++)
		if (peer->over_early[i] == port) {
			peer->over_early[i] = 0;
			return true;
		}
	return false;
}

int peer_grant(struct peer *peer, uint32_t port)
{
	struct granted *g = find_granted(peer, port);
	uint32_t max = peer->n_granted_max;

	if (!g && peer->n_granted == max) {
		max = max ? 2 * max : 4;
		g = realloc(peer->granted, max * sizeof(*g));
		if (!g)
			return -ENOMEM;
		peer->granted = g;
		peer->n_granted_max = max;
		g = NULL;
	}
	if (!g) {
		g = &peer->granted[peer->n_granted++];
		*g = (struct granted){ .port = port };
		g->n_over = was_over_early(peer, port);
	}
	g->anew = g->n_closed > 0;
	peer->held &= (uint8_t)~PEER_HELD_NEWS;
	return 0;
}

/* Has all been handed over that was sent before it was closed? The link shows nothing. */
static bool is_read(const struct peer *peer, const struct granted *g)
{
	return is_present(peer) || g->n_over >= g->n_closed;
}

static void revoke(struct peer *peer, struct granted *g)
{
	if (g->n_closed && !g->anew)
		return;
	g->n_closed++;
	g->anew = false;
	peer->any_closing = true;
	g->heard = ++protocol_era;
	if (!is_present(peer) && peer->n_granted <= N_GRANTED_MAX)
		return;
	g->n_over = g->n_closed;
	g->over = g->heard;
}

void peer_over(struct peer *peer, uint32_t port)
{
	struct granted *g = find_granted(peer, port);

	if (is_present(peer))
		return;
	if (!g) {
		peer->over_early[peer->n_over_early++ % PEER_N_OVER_EARLY] = port;
		return;
	}
	g->n_over++;
	g->over = ++protocol_era;
	peer->any_closing |= g->n_closed > 0;
}

void peer_revoke(struct peer *peer, uint32_t port)
{
	struct granted *g = find_granted(peer, port);

	if (g)
		revoke(peer, g);
}

void peer_revoke_others(struct peer *peer, const uint32_t *ports, size_t n)
{
	for (uint32_t i = 0; i < peer->n_granted; i++) {
		size_t k = 0;

		while (k < n && ports[k] != peer->granted[i].port)
			k++;
		if (k == n)
			revoke(peer, &peer->granted[i]);
	}
}

/* It has one of that number again, and may have said that this is over, too. */
static struct granted again(const struct peer *peer, const struct granted *g)
{
	return (struct granted){ .port = g->port,
				 .n_over = is_present(peer) ? 0 : g->n_over - g->n_closed,
				 .over = g->over };
}

static void tell_closed(struct peer *peer, const struct granted *g)
{
	const struct port_end end = {
		.port = g->port, .is_anew = g->anew, .heard = g->heard, .over = g->over
	};

	for (unsigned i = 0; i < PROTOCOLS_MAX; i++)
		if (protocols[i])
			protocols[i]->closed(peer, &end);
	protocol_count_event();
}

static void forget_closed(struct peer *peer)
{
	uint32_t n = 0;

	peer->any_closing = false;
	for (uint32_t i = 0; i < peer->n_granted; i++) {
		const struct granted g = peer->granted[i];

		if (!g.n_closed || !is_read(peer, &g)) {
			peer->granted[n++] = g;
			continue;
		}
		if (g.anew)
			peer->granted[n++] = again(peer, &g);
		tell_closed(peer, &g);
	}
	peer->n_granted = n;
}

void peer_break(struct peer *peer, int error)
{
	struct hal_link *link = peer->link;

	if (!link)
		return;
	peer->link = NULL;
	peer->error = error;
	protocol_count_event();
	drop_pending(peer);
	link->ops->close(link);
	for (unsigned i = 0; i < PROTOCOLS_MAX; i++)
		if (protocols[i])
			protocols[i]->gone(peer, i);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* There is no room. What nobody may have been told of takes it. */
static void want_room(struct peer *peer)
{
	peer->no_room = true;
	if (peer->untold)
		peer_did(peer, HAL_DID_SEND);
	peer->untold = false;
}

/* Whoever waits for room tries again. Nobody is woken for room that is not said to be wanted, so
 * those who sleep for it must hear of this. */
static void try_again(struct peer *peer)
{
	peer->no_room = false;
	protocol_count_event();
}

bool peer_is_behind(struct peer *peer, uint64_t size)
{
	bool is = peer->link && peer->link->ops->backlog(peer->link) >= size;

	if (is)
		want_room(peer);
	return is;
}

int peer_send(struct peer *peer, const struct hal_frame *f, const struct iovec *iov, unsigned n)
{
	int e;

	if (UNLIKELY(!peer->link))
		return peer->error;
	if (UNLIKELY(!STAILQ_EMPTY(&peer->pending)))
		return -EAGAIN;
	e = peer->link->ops->send(peer->link, f, iov, n);
	if (e == -EAGAIN)
		want_room(peer);
	else if (UNLIKELY(peer->no_room))
		try_again(peer);
	if (LIKELY(e == 0))
		peer_did(peer, HAL_DID_SEND);
	return e;
}

int peer_send_idly(struct peer *peer, const struct hal_frame *f)
{
	unsigned did = peer->did;
	int e = peer_send(peer, f, NULL, 0);

	if (e == -EAGAIN)
		return peer_send_later(peer, f, NULL, 0, NULL);
	if (e == 0 && !(did & HAL_DID_SEND)) {
		peer->did = did | HAL_DID_SEND_IDLY;
		peer->untold = true;
	}
	return e;
}

int peer_send_later(struct peer *peer, const struct hal_frame *f, const struct iovec *iov,
		    unsigned n, uint32_t *left)
{
	int e = peer_send(peer, f, iov, n);
	struct pending *p;
	size_t done = 0;

	if (e != -EAGAIN)
		return e;
	if (!left && peer->n_pending >= N_PENDING_CONTROL)
		return -ENOBUFS;
	p = malloc(sizeof(*p) + f->len);
	if (!p)
		return -ENOMEM;
	p->frame = *f;
	p->left = left;
	for (unsigned i = 0; i < n; i++) {
		copy_bytes(p->payload + done, iov[i].iov_base, iov[i].iov_len);
		done += iov[i].iov_len;
	}
	if (left)
		++*left;
	STAILQ_INSERT_TAIL(&peer->pending, p, link);
	peer->n_pending++;
	return 0;
}

void peer_forget_counter(struct peer *peer, const uint32_t *left)
{
	struct pending *p;

	STAILQ_FOREACH(p, &peer->pending, link)
		if (p->left == left)
			p->left = NULL;
}

/* Returns 0, also when some still wait, or the peer has ended: what it has sent before is taken
 * first, and then the end is shown. Or why the link is broken. */
static int send_pending(struct peer *peer)
{
	struct pending *p;
	int e;

	while ((p = STAILQ_FIRST(&peer->pending))) {
		struct iovec iov = { .iov_base = p->payload, .iov_len = p->frame.len };

		e = peer->link->ops->send(peer->link, &p->frame, &iov, 1);
		peer->no_room = e == -EAGAIN;
		if (e == -EPIPE)
			drop_pending(peer);
		if (e < 0)
			return e == -EAGAIN || e == -EPIPE ? 0 : e;
		peer_did(peer, HAL_DID_SEND);
		protocol_count_event();
		STAILQ_REMOVE_HEAD(&peer->pending, link);
		peer->n_pending--;
		if (p->left)
			--*p->left;
		free(p);
	}
	return 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

void protocol_tell(void)
{
	struct peer *peer;
	unsigned did;

	while ((peer = protocol_to_tell)) {
		protocol_to_tell = peer->next_to_tell;
		did = peer->did;
		peer->did = 0;
		if (peer->link)
			peer->link->ops->tell(peer->link, did);
	}
}

void protocol_tell_forget(void)
{
	struct peer *peer;

	while ((peer = protocol_to_tell)) {
		protocol_to_tell = peer->next_to_tell;
		peer->did = 0;
	}
}

/* ---- receiving ------------------------------------------------------------------------------- */

static int hand_over(struct peer *peer, const struct hal_frame *f)
{
	const struct protocol *p = f->protocol < PROTOCOLS_MAX ? protocols[f->protocol] : NULL;
	struct hal_link *link = peer->link;
	int e = p ? p->arrived(peer, f) : 0; /* what nobody here understands is dropped */

	if (UNLIKELY(e < 0))
		return e;
	link->ops->drop(link);
	peer_did(peer, HAL_DID_TAKE);
	protocol_count_event();
	return 0;
}

/* Returns 0: all is done for now; or why the link is broken. */
static int serve(struct peer *peer, unsigned n_max)
{
	struct hal_link *link = peer->link;
	struct hal_frame f;
	int e = link->ops->progress(link);

	/* If nobody waits for it, it is no news for the next who waits for something else. */
	if (UNLIKELY(peer->no_room) && link->ops->room(link))
		try_again(peer);
	if (e == 0 && UNLIKELY(!STAILQ_EMPTY(&peer->pending)))
		e = send_pending(peer);
	for (unsigned i = 0; e == 0 && i < n_max; i++) {
		if (UNLIKELY(peer->n_pending >= N_PENDING_CONTROL))
			return 0;
		e = link->ops->next(link, &f);
		if (e <= 0)
			break;
		e = hand_over(peer, &f);
		if (UNLIKELY(protocol_enough))
			break;
	}
	protocol_enough = false;
	if (UNLIKELY(link->did_send)) {
		link->did_send = false;
		peer_did(peer, HAL_DID_SEND);
	}
	if (e == 0 && UNLIKELY(peer->any_closing) &&
	    !(is_present(peer) && link->ops->pending(link)))
		forget_closed(peer);
	return e == -EAGAIN ? 0 : e;
}

bool peer_serve(struct peer *peer, unsigned n_max)
{
	int e;

	if (UNLIKELY((peer->held & PEER_HELD_NEWS) && peer->orphan))
		peer_break(peer, -ECONNRESET);
	if (UNLIKELY(!peer->link || peer->held))
		return !peer->link;
	e = serve(peer, n_max);
	if (LIKELY(e == 0))
		return false;
	peer_break(peer, e == -EPIPE ? -ECONNRESET : e);
	return true;
}
