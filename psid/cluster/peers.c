/*
 * The peers. A peer is there as long as something is to be said to it, or it is held, or there is a
 * link (link.c). Messages wait in the peer's queue until a link is there and has been welcomed
 * (hello.c), then in the link's.
 *
 * A link that nobody holds and nobody used for a while is closed, and nothing is lost by that: the
 * side that has had enough says Bye and says nothing more on this link; the other says what it
 * still has to say, and Bye. What is sent after the Bye waits for the next link.
 *
 * A link that breaks may have lost messages either way; so may a node that dies or restarts.
 * Watchers are told `lost` then, in order with what else happened. A link that can't be made is
 * tried again, some times; then what waits for it is lost too.
 */
#include "peers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "inside.h"
#include "log.h"
#include "macros.h"

#define MSEC_HANDSHAKE 5000
#define MSEC_IDLE 30000
#define MSEC_BEAT 5000
#define MSEC_RETRY 500
#define N_FAILURES_MAX 4u

/* ---- peers ----------------------------------------------------------------------------------- */

static struct psid_peer *find(const struct psid_cluster *cluster, uint64_t id)
{
	struct psid_map_node *node = psid_map_find(&cluster->peers.table, id);

	return node ? CONTAINER_OF(node, struct psid_peer, by_id) : NULL;
}

struct psid_peer *psid_peer_get(struct psid_cluster *cluster, uint64_t id)
{
	struct psid_peer *peer = find(cluster, id);

	if (peer)
		return peer;
	peer = calloc(1, sizeof(*peer));
	if (!peer || psid_map_insert(&cluster->peers.table, &peer->by_id, id) < 0) {
		free(peer);
		return NULL;
	}
	peer->cluster = cluster;
	peer->id = id;
	psid_queue_init(&peer->queue);
	return peer;
}

static void peer_free(struct psid_peer *peer)
{
	struct psid_peers *peers = &peer->cluster->peers;

	psid_deadline_clear(&peers->idles, &peer->idle);
	psid_deadline_clear(&peers->beats, &peer->beat);
	psid_deadline_clear(&peers->retries, &peer->retry);
	if (peer->is_dirty)
		TAILQ_REMOVE(&peers->dirty, peer, dirty);
	psid_queue_deinit(&peer->queue);
	psid_map_remove(&peers->table, &peer->by_id);
	free(peer);
}

static bool is_wanted(const struct psid_peer *peer)
{
	return peer->n_holds > 0 || !psid_queue_is_empty(&peer->queue);
}

/* The last thing to be done with a peer that may be of no use any more. */
static void put(struct psid_peer *peer)
{
	if (!peer->link && !is_wanted(peer))
		peer_free(peer);
}

static bool is_open(const struct psid_peer *peer)
{
	return peer->link && peer->link->has_welcome && !peer->link->has_said_bye;
}

static size_t size_waiting(const struct psid_peer *peer)
{
	return peer->queue.size + (peer->link ? peer->link->out.size : 0);
}

static void lose(struct psid_peer *peer)
{
	psid_queue_deinit(&peer->queue);
	psid_event(peer->cluster, PSID_EVENT_LOST, peer->id);
	peer->was_full = false;
}

/* ---- links of peers -------------------------------------------------------------------------- */

static void connect_peer(struct psid_peer *peer)
{
	struct psid_cluster *cluster = peer->cluster;
	const struct psid_node *node = psid_node_find(cluster, peer->id);

	if (peer->link || !node || !psid_node_is_up(node))
		return;
	peer->link = psid_link_connect(cluster, &node->address);
	if (peer->link)
		peer->link->peer = peer;
	else
		psid_deadline_set(&cluster->peers.retries, &peer->retry);
}

static void on_retry(struct psid_deadline *deadline)
{
	struct psid_peer *peer = CONTAINER_OF(deadline, struct psid_peer, retry);

	if (is_wanted(peer))
		connect_peer(peer);
	put(peer);
}

static void again(struct psid_peer *peer)
{
	if (is_wanted(peer))
		psid_deadline_set(&peer->cluster->peers.retries, &peer->retry);
}

void psid_peer_yield(struct psid_peer *peer)
{
	peer->link = NULL;
	again(peer); /* should theirs not come */
}

void psid_peer_take_link(struct psid_peer *peer, struct psid_link *link, uint64_t life)
{
	struct psid_peers *peers = &peer->cluster->peers;
	bool was_open = peer->link && peer->link != link && peer->link->has_welcome;

	if (peer->link && peer->link != link) {
		psid_link_end(peer->link, NULL);
		peer->link = NULL;
	}
	if (was_open || (peer->life && peer->life != life))
		lose(peer);
	peer->life = life;
	peer->link = link;
	peer->n_failures = 0;
	psid_misfit_over(peer->cluster, peer->id);
	link->peer = peer;
	link->has_welcome = true;
	psid_deadline_clear(&peers->handshakes, &link->deadline);
	psid_queue_append(&link->out, &peer->queue);
	psid_deadline_set(&peers->idles, &peer->idle);
	if (peer->n_holds > 0)
		psid_deadline_set(&peers->beats, &peer->beat);
	psid_link_flush(link);
}

void psid_peers_link_open(struct psid_link *link)
{
	char text[PSID_SIZE_ADDRESS_TEXT];

	if (link->is_inquiry) {
		psid_log(PSID_WARNING,
			 "%s understands us by TCP, and does not answer by UDP: is there a "
			 "firewall?",
			 psid_address_text(&link->address, text));
		psid_link_end(link, NULL);
	} else if (!link->is_server && psid_hello_say(link, link->peer->id) < 0) {
		psid_peers_link_broken(link);
		psid_link_end(link, "no memory");
	}
}

void psid_peers_link_broken(struct psid_link *link)
{
	struct psid_peer *peer = link->peer;

	if (!peer || peer->link != link)
		return;
	peer->link = NULL;
	link->peer = NULL;
	if (link->has_welcome || ++peer->n_failures >= N_FAILURES_MAX) {
		peer->n_failures = 0;
		lose(peer);
	}
	again(peer);
	put(peer);
}

static void say_bye(struct psid_link *link)
{
	Pulc__Peer__Bye bye = PULC__PEER__BYE__INIT;
	PSID_PEER_MESSAGE(msg, BYE, bye) = &bye;

	link->has_said_bye = true;
	(void)psid_link_say(link, &msg);
}

void psid_peers_link_flushed(struct psid_link *link)
{
	struct psid_peer *peer = link->peer;

	if (!peer || peer->link != link)
		return;
	if (peer->was_full && size_waiting(peer) < PSID_PEER_SIZE_FULL / 2) {
		peer->was_full = false;
		psid_event(peer->cluster, PSID_EVENT_DRAINED, peer->id);
	}
	if (!link->has_said_bye || !link->has_heard_bye)
		return;
	peer->link = NULL;
	psid_link_end(link, NULL);
	if (is_wanted(peer))
		connect_peer(peer);
	put(peer);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void on_handshake(struct psid_deadline *deadline)
{
	struct psid_link *link = CONTAINER_OF(deadline, struct psid_link, deadline);
	static const char *const whys[] = {
		[PSID_LINK_CONNECTING] = "they don't answer",
		[PSID_LINK_GREETING] = "they don't greet",
		[PSID_LINK_HANDSHAKE] = "TLS takes too long",
		[PSID_LINK_OPEN] = "they don't say who they are",
	};

	psid_peers_link_broken(link);
	psid_link_end(link, whys[link->state]);
}

static void on_idle(struct psid_deadline *deadline)
{
	struct psid_peer *peer = CONTAINER_OF(deadline, struct psid_peer, idle);

	if (peer->n_holds == 0 && is_open(peer))
		say_bye(peer->link);
}

static void on_beat(struct psid_deadline *deadline)
{
	struct psid_peer *peer = CONTAINER_OF(deadline, struct psid_peer, beat);
	Pulc__Peer__Beat beat = PULC__PEER__BEAT__INIT;
	PSID_PEER_MESSAGE(msg, BEAT, beat) = &beat;

	if (peer->n_holds == 0)
		return;
	psid_deadline_set(&peer->cluster->peers.beats, &peer->beat);
	if (is_open(peer))
		(void)psid_link_say(peer->link, &msg);
}

/* ---- messages -------------------------------------------------------------------------------- */

void psid_peer_on(struct psid_cluster *cluster, Pulc__Peer__Message__BodyCase kind,
		  psid_peer_handler *handler, void *data)
{
	assert((size_t)kind < PSID_N_PEER_KINDS);
	cluster->peers.handlers[kind].serve = handler;
	cluster->peers.handlers[kind].data = data;
}

int psid_peers_serve(struct psid_cluster *cluster, uint64_t from, uint64_t life,
		     const Pulc__Peer__Message *msg)
{
	size_t kind = (size_t)msg->body_case;

	if (kind >= PSID_N_PEER_KINDS || !cluster->peers.handlers[kind].serve)
		return -EBADMSG;
	return cluster->peers.handlers[kind].serve(cluster->peers.handlers[kind].data, from, life,
						   msg);
}

static int send_to_self(struct psid_cluster *cluster, const Pulc__Peer__Message *msg, size_t len)
{
	if (cluster->peers.to_self.size + len > PSID_PEER_SIZE_LIMIT)
		return -ENOBUFS;
	psid_cluster_later(cluster);
	return psid_queue_add(&cluster->peers.to_self, msg);
}

static void mark_dirty(struct psid_peer *peer)
{
	if (peer->is_dirty)
		return;
	peer->is_dirty = true;
	TAILQ_INSERT_TAIL(&peer->cluster->peers.dirty, peer, dirty);
	psid_cluster_later(peer->cluster);
}

int psid_peer_send(struct psid_cluster *cluster, uint64_t id, const Pulc__Peer__Message *msg)
{
	size_t len = pulc__peer__message__get_packed_size(msg);
	const struct psid_node *node = psid_node_find(cluster, id);
	struct psid_peer *peer = find(cluster, id);
	int r;

	if (len > PSID_PEER_SIZE_MAX)
		return -EMSGSIZE;
	if (id == cluster->self->id)
		return send_to_self(cluster, msg, len);
	if (cluster->stopping || ((!node || !psid_node_is_up(node)) && !(peer && is_open(peer))))
		return -EHOSTUNREACH;
	if (!peer && !(peer = psid_peer_get(cluster, id)))
		return -ENOMEM;
	if (size_waiting(peer) + len > PSID_PEER_SIZE_LIMIT)
		return -ENOBUFS;
	r = psid_queue_add(is_open(peer) ? &peer->link->out : &peer->queue, msg);
	peer->was_full |= size_waiting(peer) > PSID_PEER_SIZE_FULL;
	if (r == 0 && is_open(peer)) {
		psid_deadline_set(&cluster->peers.idles, &peer->idle);
		mark_dirty(peer);
	} else if (r == 0 && !peer->retry.set) {
		connect_peer(peer);
	}
	return r;
}

bool psid_peer_is_full(const struct psid_cluster *cluster, uint64_t id)
{
	const struct psid_peer *peer = find(cluster, id);

	if (id == cluster->self->id)
		return cluster->peers.to_self.size > PSID_PEER_SIZE_FULL;
	return peer && size_waiting(peer) > PSID_PEER_SIZE_FULL;
}

bool psid_peer_is_connected(const struct psid_cluster *cluster, uint64_t id)
{
	const struct psid_peer *peer = find(cluster, id);

	return peer && is_open(peer);
}

int psid_peer_hold(struct psid_cluster *cluster, uint64_t id)
{
	const struct psid_node *node = psid_node_find(cluster, id);
	struct psid_peer *peer;

	if (id == cluster->self->id)
		return 0;
	if (cluster->stopping || !node || !psid_node_is_up(node))
		return -EHOSTUNREACH;
	peer = psid_peer_get(cluster, id);
	if (!peer)
		return -ENOMEM;
	if (peer->n_holds++ == 0)
		psid_deadline_set(&cluster->peers.beats, &peer->beat);
	if (!peer->retry.set)
		connect_peer(peer);
	return 0;
}

void psid_peer_unhold(struct psid_cluster *cluster, uint64_t id)
{
	struct psid_peer *peer = find(cluster, id);

	if (!peer || peer->n_holds == 0 || --peer->n_holds > 0)
		return;
	psid_deadline_clear(&cluster->peers.beats, &peer->beat);
	psid_deadline_set(&cluster->peers.idles, &peer->idle);
	put(peer);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* An allocator that gives no more than a multiple of what a message has in bytes. */
struct budget {
	ProtobufCAllocator allocator;
	size_t left;
};

static void *budget_alloc(void *data, size_t size)
{
	struct budget *budget = data;

	if (size > budget->left)
		return NULL;
	budget->left -= size;
	return malloc(size);
}

static void budget_free(void *data, void *memory)
{
	(void)data;
	free(memory);
}

/* Between welcomed psids. */
static int take_message(struct psid_link *link, const Pulc__Peer__Message *msg)
{
	struct psid_cluster *cluster = link->cluster;
	struct psid_peer *peer = link->peer;

	if (link->has_heard_bye)
		return -EBADMSG;
	psid_deadline_set(&cluster->peers.idles, &peer->idle);
	switch (msg->body_case) {
	case PULC__PEER__MESSAGE__BODY_BEAT:
		return 0;
	case PULC__PEER__MESSAGE__BODY_BYE:
		link->has_heard_bye = true;
		if (!link->has_said_bye)
			say_bye(link);
		else
			psid_link_flush(link);
		return 0;
	case PULC__PEER__MESSAGE__BODY_DRAIN:
		psid_cluster_drain(cluster, msg->drain->drained);
		return 0;
	default:
		return psid_peers_serve(cluster, peer->id, peer->life, msg);
	}
}

int psid_peers_link_frame(struct psid_link *link, const uint8_t *frame, size_t len)
{
	struct budget budget = {
		.allocator = { .alloc = budget_alloc, .free = budget_free },
		.left = 16 * len + 65536,
	};
	Pulc__Peer__Message *msg;
	int r;

	budget.allocator.allocator_data = &budget;
	msg = pulc__peer__message__unpack(&budget.allocator, len, frame);
	if (!msg)
		return -EBADMSG;
	r = link->has_welcome ? take_message(link, msg) : psid_hello_take(link, msg);
	pulc__peer__message__free_unpacked(msg, &budget.allocator);
	return r;
}

/* Whole frames lie in one chunk, so each is in one piece. What handlers send now is for the next
 * turn. */
static void serve_self(struct psid_cluster *cluster)
{
	struct psid_queue due;
	const uint8_t *bytes;
	size_t len, n;

	psid_queue_init(&due);
	psid_queue_append(&due, &cluster->peers.to_self);
	while ((bytes = psid_queue_front(&due, &len))) {
		Pulc__Peer__Message *msg;

		n = psid_frame_size(bytes);
		msg = pulc__peer__message__unpack(NULL, n, bytes + PSID_SIZE_FRAME_HEAD);
		if (msg)
			(void)psid_peers_serve(cluster, cluster->self->id, cluster->self->life,
					       msg);
		pulc__peer__message__free_unpacked(msg, NULL);
		psid_queue_drop(&due, PSID_SIZE_FRAME_HEAD + n);
	}
}

void psid_peers_turn(struct psid_cluster *cluster)
{
	struct psid_peer *peer;

	serve_self(cluster);
	while ((peer = TAILQ_FIRST(&cluster->peers.dirty))) {
		TAILQ_REMOVE(&cluster->peers.dirty, peer, dirty);
		peer->is_dirty = false;
		if (peer->link)
			psid_link_flush(peer->link);
	}
}

/* ---- the whole ------------------------------------------------------------------------------- */

void psid_peers_gone(struct psid_cluster *cluster, const struct psid_node *node)
{
	struct psid_peer *peer = find(cluster, node->id);

	if (!peer || (psid_node_is_up(node) && peer->life == node->life))
		return;
	if (peer->link)
		psid_link_end(peer->link, NULL);
	peer->link = NULL;
	lose(peer);
	if (psid_node_is_up(node))
		again(peer);
	put(peer);
}

void psid_peers_inquire(struct psid_cluster *cluster)
{
	const struct psid_swim *swim = &cluster->gossip.swim;

	for (size_t i = 0; i < MIN(swim->n_seeds, (size_t)PSID_N_SEEDS_MAX); i++) {
		struct psid_link *link;

		if (psid_address_equal(&swim->seeds[i], &cluster->self->address))
			continue;
		link = psid_link_connect(cluster, &swim->seeds[i]);
		if (link)
			link->is_inquiry = true;
	}
}

void psid_peers_init(struct psid_cluster *cluster)
{
	psid_queue_init(&cluster->peers.to_self);
	TAILQ_INIT(&cluster->peers.dirty);
	LIST_INIT(&cluster->peers.links);
	cluster->peers.fd = -EBADF;
}

int psid_peers_open(struct psid_cluster *cluster, const struct psid_address *address)
{
	struct psid_peers *peers = &cluster->peers;
	struct psid_tls_error error;
	int r = psid_tls_init(&peers->tls, cluster->config, &cluster->ring, &error);

	if (r < 0) {
		psid_log(PSID_ERROR, "%s", error.text);
		return r;
	}
	psid_greeting_make(cluster->config, &cluster->ring, &peers->greeting);
	return psid_door_open(cluster, address);
}

int psid_peers_attach(struct psid_cluster *cluster)
{
	struct psid_peers *peers = &cluster->peers;

	psid_deadlines_init(&peers->handshakes, cluster->loop, MSEC_HANDSHAKE, on_handshake);
	psid_deadlines_init(&peers->idles, cluster->loop, MSEC_IDLE, on_idle);
	psid_deadlines_init(&peers->beats, cluster->loop, MSEC_BEAT, on_beat);
	psid_deadlines_init(&peers->retries, cluster->loop, MSEC_RETRY, on_retry);
	peers->is_open = true;
	return psid_door_attach(cluster);
}

void psid_peers_close(struct psid_cluster *cluster)
{
	struct psid_peers *peers = &cluster->peers;
	struct psid_map_node *node;
	struct psid_link *link;

	if (!peers->is_open)
		return;
	psid_door_close(cluster);
	while ((link = LIST_FIRST(&peers->links)))
		psid_link_end(link, NULL);
	while ((node = psid_map_next(&peers->table, NULL)))
		peer_free(CONTAINER_OF(node, struct psid_peer, by_id));
	psid_deadlines_close(&peers->handshakes);
	psid_deadlines_close(&peers->idles);
	psid_deadlines_close(&peers->beats);
	psid_deadlines_close(&peers->retries);
}

void psid_peers_deinit(struct psid_cluster *cluster)
{
	psid_queue_deinit(&cluster->peers.to_self);
	psid_map_deinit(&cluster->peers.table);
	psid_tls_deinit(&cluster->peers.tls);
	cluster->peers.fd = close_own(cluster->peers.fd);
}
