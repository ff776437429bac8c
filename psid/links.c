/*
 * Links. To the rest of psid a link is a connection whose sides have no socket: it is held, marked
 * when a holder dies, woken through and freed as any other. One of two clients asks for it, by a
 * port of the other's; the other gets its side unasked. Two clients need one link, whoever asks and
 * how often.
 *
 * Who opens and closes ports without end must not fill the outbox of those who are joined with it
 * and don't read just now. One that is that far behind misses such news, and is told all the ports
 * there are when it has read what was kept, or before anything else that names a port.
 *
 * The order on either side's channel: news of the other's ports, the memory, the other's wait sets
 * as far as there are any, the answer to who asked.
 */
#include "links.h"

#include <errno.h>

#include "bells.h"
#include "conn.h"
#include "pair.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"

#define N_NEWS_MAX 1024u
/* Kept for a client, of whatever kind: it is behind. */
#define SIZE_BEHIND 65536u
/* Of two clients: who links and leaves again and again takes memory of the other's user, too. */
#define N_LEFT_MAX 8u
/* Sides are found by the cookie of their socket; these have none, and each needs one of its own. */
#define COOKIE_LINK (1ull << 63)

bool psid_is_link(const struct psid_conn *conn)
{
	return conn->sides[0].transport == PULC__WIRE__TRANSPORT__TRANSPORT_LINK ||
	       conn->sides[1].transport == PULC__WIRE__TRANSPORT__TRANSPORT_LINK;
}

/* They stand before what else the client holds, which may be much (holder.c). */
struct psid_holder *psid_link_next(const struct psid_client *client,
				   const struct psid_holder *after)
{
	struct psid_holder *next = after ? TAILQ_NEXT(after, by_client)
					 : TAILQ_FIRST(&client->holdings);

	return next && next->side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_LINK ? next : NULL;
}

/* That of the other end of a link, or NULL. */
static struct psid_holder *holder_joined(const struct psid_holder *holder)
{
	return LIST_FIRST(&psid_side_other(holder->side)->holders);
}

/* Whom this holding joins its client with, or NULL. */
static struct psid_client *joined_by(const struct psid_holder *holder)
{
	const struct psid_holder *other = holder_joined(holder);

	return other ? other->client : NULL;
}

bool psid_links_joined(const struct psid_client *a, const struct psid_client *b)
{
	const struct psid_pair *pair = psid_pair_find(a, b);
	const struct psid_holder *holder = NULL;

	if (!pair || pair->n_shared == 0)
		return false;
	while ((holder = psid_link_next(a, holder)))
		if (joined_by(holder) == b)
			return true;
	return false;
}

/* ---- news ------------------------------------------------------------------------------------ */

static void tell_port(struct psid_client *to, const struct psid_client *of, uint32_t port,
		      bool opened)
{
	Pulc__Wire__PortNews news = PULC__WIRE__PORT_NEWS__INIT;
	PSID_MESSAGE(msg, PORT_NEWS, port_news) = &news;

	news.client = of->id;
	if (opened) {
		news.opened = &port;
		news.n_opened = 1;
	} else {
		news.closed = &port;
		news.n_closed = 1;
	}
	(void)psid_client_send(to, &msg, NULL, 0);
}

static void tell_ports(struct psid_client *to, const struct psid_client *of, bool anew)
{
	Pulc__Wire__PortNews news = PULC__WIRE__PORT_NEWS__INIT;
	PSID_MESSAGE(msg, PORT_NEWS, port_news) = &news;
	uint32_t ports[N_NEWS_MAX];
	const struct psid_port *port;

	news.client = of->id;
	news.opened = ports;
	news.all = anew;
	LIST_FOREACH(port, &of->ports, by_client)
		if (news.n_opened < N_NEWS_MAX)
			ports[news.n_opened++] = port->number;
	(void)psid_client_send(to, &msg, NULL, 0);
}

bool psid_links_is_behind(const struct psid_client *client)
{
	return client->outbox.size >= SIZE_BEHIND;
}

void psid_links_tell(struct psid_client *client, uint32_t port, bool opened)
{
	const struct psid_holder *holder = NULL;
	struct psid_holder *other;

	while ((holder = psid_link_next(client, holder))) {
		other = holder_joined(holder);
		if (!other)
			continue;
		if (other->misses_news || psid_links_is_behind(other->client))
			other->misses_news = other->client->misses_news = true;
		else
			tell_port(other->client, client, port, opened);
	}
}

void psid_links_catch_up(struct psid_client *client)
{
	struct psid_holder *holder = NULL;
	const struct psid_client *of;

	if (!client->misses_news)
		return;
	client->misses_news = false;
	while ((holder = psid_link_next(client, holder))) {
		of = holder->misses_news ? joined_by(holder) : NULL;
		holder->misses_news = false;
		if (of)
			tell_ports(client, of, true);
	}
	psid_remote_catch_up(client);
}

void psid_links_acquaint(struct psid_client *a, struct psid_client *b)
{
	tell_ports(a, b, false);
	tell_ports(b, a, false);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* How many links with that one the client holds yet that the other has left: it has not read that
 * they are over. */
static unsigned n_left(const struct psid_client *client, const struct psid_client *other)
{
	const struct psid_holder *holder = NULL;
	unsigned n = 0;

	while ((holder = psid_link_next(client, holder))) {
		const struct psid_side *side = holder->side;
		const struct psid_pair *pair = side->slab->pair;

		n += psid_side_other(side)->n_holders == 0 && pair && pair->peer == other;
	}
	return n;
}

int psid_links_join(struct psid_client *a, struct psid_client *b)
{
	struct psid_hint ends[2] = {
		{ .client = a, .token = PSID_TOKEN_LINK | b->id },
		{ .client = b, .token = PSID_TOKEN_LINK | a->id },
	};
	int r;

	for (unsigned i = 0; i < 2; i++) {
		ends[i].transport = PULC__WIRE__TRANSPORT__TRANSPORT_LINK;
		ends[i].cookie = COOKIE_LINK | (a->psid->last_conn + 1) << 1 | i;
	}
	if (n_left(a, b) >= N_LEFT_MAX || n_left(b, a) >= N_LEFT_MAX)
		return -EMFILE;
	r = psid_conn_new(&ends[0], &ends[1]);
	if (r == 0)
		psid_bell_acquaint(a, b);
	return r;
}

Pulc__Wire__PortError psid_links_error(int r)
{
	if (r == 0)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE;
	return r == -ENOMEM ? PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY
			    : PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT;
}

int psid_link(struct psid_client *client, const Pulc__Wire__PortLink *msg)
{
	const struct psid_port *port = psid_port_get(client->psid, msg->port);
	struct psid_client *other;
	int r = 0;

	if (psid_remote_is_number(client->psid, msg->node))
		return psid_remote_link(client, msg);
	if (!port || port->client->fd < 0) {
		psid_port_reply(client, msg->request, PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT,
				NULL);
		return 0;
	}
	if (port->taker) {
		psid_port_reply(client, msg->request, PULC__WIRE__PORT_ERROR__PORT_ERROR_MOVING,
				NULL);
		return 0;
	}
	other = port->client;
	if (other != client && !psid_links_joined(client, other))
		r = psid_links_join(client, other);
	psid_port_reply(client, msg->request, psid_links_error(r), port);
	return 0;
}
