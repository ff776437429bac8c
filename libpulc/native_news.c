/*
 * What psid tells the native interface unasked: links to new peers, peers' ports, and peers that
 * are gone.
 *
 * psid's messages are read by whoever looks at the channel, perhaps a thread inside the shim, which
 * holds the client lock and must not wait for the native one. So they are kept, in order, until
 * somebody makes progress.
 *
 * Source: pulc-1998, 4.3 and 4.6.2.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <pulc/fds.h>

#include "lines.h"
#include "macros.h"
#include "native.h"
#include "pool.h"
#include "private.h"
#include "rawsys.h"
#include "repair.h"
#include "shm.h"
#include "tcp_link.h"
#include "upgrade.h"

#define TOKEN_LINK (1ull << 61)
#define N_PORTS_NEWS 1024u

/* One message, kept. */
struct news {
	struct news *next;
	uint32_t client;
	enum { NEWS_PORTS, NEWS_LINK, NEWS_JOINED, NEWS_GONE, NEWS_MOVE } kind;
	struct slab *own, *peer; /* a link */
	int fd;			 /* a link to another node, */
	uint32_t node;		 /* which is that */
	uint64_t conn;
	struct native_move move;
	uint32_t own_slot, peer_slot, peer_pid;
	size_t n_opened, n_closed;
	bool all;			  /* it has no other ports than those opened */
	uint32_t ports[2 * N_PORTS_NEWS]; /* opened, then closed */
};

/* A client of another node: psid's Gone of it is news. */
struct far {
	struct far *next;
	uint32_t client;
};

/* What a peer's link lies in. */
struct memory {
	struct slab *own, *peer;
};

/* All under the client lock. */
static struct pool pool = POOL_INIT(sizeof(struct news)), pool_far = POOL_INIT(sizeof(struct far));
static struct far *fars;
static struct news *_Atomic first;
static struct news **last = (struct news **)&first;

/* ---- kept ------------------------------------------------------------------------------------ */

USUAL bool native_has_news(void)
{
	return atomic_load_explicit(&first, memory_order_acquire) != NULL;
}

static struct news *keep(uint32_t client)
{
	struct news *n = pool_get(&pool);

	if (!n)
		return NULL;
	*n = (struct news){ .client = client };
	return n;
}

static void publish(struct news *n)
{
	if (!atomic_load(&first)) {
		atomic_store_explicit(&first, n, memory_order_release);
	} else {
		*last = n;
	}
	last = &n->next;
}

static void keep_link(const Pulc__Wire__Upgrade *m, struct received *r)
{
	struct slab *own, *peer;
	struct news *n = NULL;

	if (upgrade_slabs(m, r, &own, &peer))
		n = keep((uint32_t)m->token);
	if (!n) {
		upgrade_closed(m->conn);
		return;
	}
	slabs_ref(own);
	slabs_ref(peer);
	n->kind = NEWS_LINK;
	n->own = own;
	n->peer = peer;
	n->conn = m->conn;
	n->own_slot = m->own_slot;
	n->peer_slot = m->peer_slot;
	n->peer_pid = m->peer_pid;
	publish(n);
}

static void keep_joined(const Pulc__Wire__Joined *m, struct received *r)
{
	struct news *n = r->socket >= 0 ? keep(m->client) : NULL;
	struct far *far = n ? pool_get(&pool_far) : NULL;

	if (!far || pulc_fd_adopt(&r->socket) < 0) {
		if (n)
			pool_put(&pool, n);
		if (far)
			pool_put(&pool_far, far);
		upgrade_closed(m->conn);
		return;
	}
	*far = (struct far){ .next = fars, .client = m->client };
	fars = far;
	n->kind = NEWS_JOINED;
	n->node = m->node;
	n->conn = m->conn;
	pulc_fd_rehome(&r->socket, &n->fd);
	publish(n);
}

/* Of those that share memory with us their slots tell. */
static void keep_gone(const Pulc__Wire__Gone *m)
{
	struct far **far = &fars, *found;
	struct news *n;

	while (*far && (*far)->client != m->client)
		far = &(*far)->next;
	found = *far;
	if (!found)
		return;
	*far = found->next;
	pool_put(&pool_far, found);
	n = keep(m->client);
	if (!n)
		return;
	n->kind = NEWS_GONE;
	publish(n);
}

static void keep_ports(const Pulc__Wire__PortNews *m)
{
	struct news *n;

	if (m->n_opened > N_PORTS_NEWS || m->n_closed > N_PORTS_NEWS)
		return;
	n = keep(m->client);
	if (!n)
		return;
	n->n_opened = m->n_opened;
	n->n_closed = m->n_closed;
	n->all = m->all;
	for (size_t i = 0; i < m->n_opened; i++)
		n->ports[i] = m->opened[i];
	for (size_t i = 0; i < m->n_closed; i++)
		n->ports[m->n_opened + i] = m->closed[i];
	publish(n);
}

static void keep_move(const Pulc__Wire__PortMove *m)
{
	struct news *n = keep(m->client);

	if (!n)
		return;
	n->kind = NEWS_MOVE;
	n->move = (struct native_move){
		.id = m->move,
		.step = m->step,
		.port = m->port,
		.kind = (enum port_kind)m->kind,
		.client = m->client,
	};
	publish(n);
}

bool native_dispatch(const Pulc__Wire__ToClient *msg, struct received *r)
{
	switch (msg->body_case) {
	case PULC__WIRE__TO_CLIENT__BODY_PORT_REPLY:
		native_keep_reply(msg->port_reply, r);
		return true;
	case PULC__WIRE__TO_CLIENT__BODY_PORT_NEWS:
		keep_ports(msg->port_news);
		return true;
	case PULC__WIRE__TO_CLIENT__BODY_PORT_MOVE:
		keep_move(msg->port_move);
		return true;
	case PULC__WIRE__TO_CLIENT__BODY_UPGRADE:
		if (!(msg->upgrade->token & TOKEN_LINK))
			return false;
		keep_link(msg->upgrade, r);
		return true;
	case PULC__WIRE__TO_CLIENT__BODY_JOINED:
		keep_joined(msg->joined, r);
		return true;
	case PULC__WIRE__TO_CLIENT__BODY_MESSAGE_AREA:
		native_area_came(msg->message_area->client, msg->message_area->own, &r->area);
		return true;
	case PULC__WIRE__TO_CLIENT__BODY_GONE:
		native_area_gone(msg->gone->client);
		keep_gone(msg->gone);
		return false;
	default:
		return false;
	}
}

/* ---- taken ----------------------------------------------------------------------------------- */

/* What psid says of a client's ports before there is a link to it. */
static struct peer *stranger;

static struct peer *peer_for(uint32_t client)
{
	struct peer *peer = native_peer(client);

	if (peer)
		return peer;
	if (stranger && stranger->client == client)
		return stranger;
	peer_unref(stranger);
	stranger = peer_new(NULL, client);
	return stranger;
}

static void take_ports(const struct news *n)
{
	struct peer *peer = peer_for(n->client);

	if (peer && n->all)
		peer_revoke_others(peer, n->ports, n->n_opened);
	for (size_t i = 0; peer && i < n->n_opened; i++)
		(void)peer_grant(peer, n->ports[i]);
	for (size_t i = 0; peer && i < n->n_closed; i++)
		peer_revoke(peer, n->ports[n->n_opened + i]);
}

/* Its process number is said to those of the same user: others map no boards of ours, nor we
 * theirs, and so have no use for a line. */
static bool is_of_our_user(const struct news *n)
{
	return n->peer_pid != 0;
}

static int open_link(const struct news *n, struct hal_link **ret_link)
{
	struct hal_shm_line line;
	int e = hal_shm_open(&n->own->map, n->own_slot, &n->peer->map, n->peer_slot, ret_link);

	if (e < 0)
		return e;
	if (is_of_our_user(n)) {
		line = lines_for(n->client);
		hal_shm_share(*ret_link, &line);
	}
	return 0;
}

/* What its HAL lacks and protocols rely on is added here, for all of them. On failure the link is
 * closed. */
static int complete(struct hal_link **link)
{
	struct hal_link *below = *link;
	int e;

	if (!hal_repair_is_needed(&below->caps))
		return 0;
	e = hal_repair_open(below, NULL, link);
	if (e < 0)
		below->ops->close(below);
	return e;
}

static void add_link(struct peer *peer, struct hal_link *link, uint64_t conn)
{
	if (peer == stranger)
		stranger = NULL;
	peer->link = link;
	peer->conn = conn;
	native_peer_join(peer);
	protocol_count_event();
}

/* Returns 0; anything else: no such peer. */
static int take_link(const struct news *n)
{
	struct memory *memory = malloc(sizeof(*memory));
	struct peer *peer = peer_for(n->client);
	struct hal_link *link;
	int e = memory && peer ? open_link(n, &link) : -ENOMEM;

	if (e == 0)
		e = complete(&link);
	if (e < 0) {
		free(memory);
		return e;
	}
	*memory = (struct memory){ .own = n->own, .peer = n->peer };
	peer->pid = n->peer_pid;
	peer->owner = memory;
	add_link(peer, link, n->conn);
	return 0;
}

static enum hal_tcp_way tcp_way; /* under the lock */

/* Plain calls were never slower (docs/native.md, "HAL tcp"), and may be made everywhere. */
void native_choose_tcp(bool io_uring)
{
	tcp_way = io_uring ? HAL_TCP_BEST : HAL_TCP_PLAIN;
}

static int take_joined(struct news *n)
{
	struct peer *peer = peer_for(n->client);
	struct hal_link *link;
	int fd = raw_fcntl(n->fd, F_DUPFD_CLOEXEC, n->fd), e;

	pulc_fd_release(&n->fd);
	e = fd < 0 ? fd : !peer ? -ENOMEM : hal_tcp_open(fd, tcp_way, &link);
	if (e < 0) {
		if (fd >= 0)
			(void)raw_close(fd);
		return e;
	}
	hal_tcp_show(link, n->client);
	e = complete(&link);
	if (e < 0)
		return e;
	peer->node = n->node;
	add_link(peer, link, n->conn);
	return 0;
}

static void take_gone(const struct news *n)
{
	struct peer *peer = native_peer(n->client);

	if (!peer)
		return;
	peer->orphan = true;
	protocol_count_event();
}

/* own, peer: NULL if there are none. */
static void give_up(uint64_t conn, struct slab *own, struct slab *peer)
{
	if (!client_lock())
		return;
	upgrade_closed(conn);
	if (own)
		slabs_unref(own);
	if (peer)
		slabs_unref(peer);
	client_unlock();
}

static void forget_far(uint32_t client)
{
	struct far **far = &fars, *found;

	if (!client_lock())
		return;
	while (*far && (*far)->client != client)
		far = &(*far)->next;
	found = *far;
	if (found) {
		*far = found->next;
		pool_put(&pool_far, found);
	}
	client_unlock();
}

void native_link_closed(struct peer *peer)
{
	struct memory *memory = peer->owner;

	peer->owner = NULL;
	native_area_closed(peer->client);
	if (peer->node) {
		forget_far(peer->client);
		give_up(peer->conn, NULL, NULL);
	}
	if (!memory)
		return;
	give_up(peer->conn, memory->own, memory->peer);
	free(memory);
}

static void take(struct news *n)
{
	switch (n->kind) {
	case NEWS_PORTS:
		take_ports(n);
		break;
	case NEWS_LINK:
		if (take_link(n) < 0)
			give_up(n->conn, n->own, n->peer);
		break;
	case NEWS_JOINED:
		if (take_joined(n) < 0) {
			forget_far(n->client);
			give_up(n->conn, NULL, NULL);
		}
		break;
	case NEWS_GONE:
		take_gone(n);
		break;
	case NEWS_MOVE:
		native_move_said(&n->move);
		break;
	}
}

void native_take_news(void)
{
	struct news *n, *next;

	if (!client_lock())
		return;
	n = atomic_exchange(&first, NULL);
	client_unlock();
	for (; n; n = next) {
		next = n->next;
		take(n);
		if (client_lock()) {
			pool_put(&pool, n);
			client_unlock();
		}
	}
}

void native_news_forked(void)
{
	for (struct news *n = atomic_load(&first); n; n = n->next)
		if (n->kind == NEWS_JOINED)
			pulc_fd_release(&n->fd);
	atomic_store(&first, NULL);
	fars = NULL;
	stranger = NULL;
}
