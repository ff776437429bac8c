/*
 * The first words under TLS: the side that connected says who it is and whom it wants (Hello), the
 * other answers with who it is (Welcome) or why not (Refuse). Whoever has the cluster's key is
 * believed to be the node that he says he is; with certificates the name must be the certificate's.
 *
 * Two psids may connect to each other at the same time. The one with the smaller id keeps its
 * connection: it refuses the other's, which then waits for this one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "inside.h"
#include "log.h"
#include "macros.h"

int psid_link_say(struct psid_link *link, const Pulc__Peer__Message *msg)
{
	int r = psid_queue_add(&link->out, msg);

	if (r == 0)
		psid_link_flush(link);
	return r;
}

int psid_hello_say(struct psid_link *link, uint64_t to)
{
	const struct psid_node *self = link->cluster->self;
	Pulc__Peer__Hello hello = PULC__PEER__HELLO__INIT;
	PSID_PEER_MESSAGE(msg, HELLO, hello) = &hello;

	hello.version_min = PSID_PEER_VERSION_MIN;
	hello.version_max = PSID_PEER_VERSION_MAX;
	hello.node = self->id;
	hello.life = self->life;
	hello.name = self->name;
	hello.port = self->address.port;
	hello.to = to;
	return psid_link_say(link, &msg);
}

static int welcome(struct psid_link *link, struct psid_peer *peer, const Pulc__Peer__Hello *hello)
{
	const struct psid_node *self = link->cluster->self;
	Pulc__Peer__Welcome answer = PULC__PEER__WELCOME__INIT;
	PSID_PEER_MESSAGE(msg, WELCOME, welcome) = &answer;

	answer.version = PSID_PEER_VERSION_MAX;
	answer.node = self->id;
	answer.life = self->life;
	answer.name = self->name;
	if (psid_queue_add(&link->out, &msg) < 0)
		return -ENOMEM;
	psid_peer_take_link(peer, link, hello->life);
	return 0;
}

static int refuse(struct psid_link *link, Pulc__Peer__No reason, const char *text)
{
	Pulc__Peer__Refuse answer = PULC__PEER__REFUSE__INIT;
	PSID_PEER_MESSAGE(msg, REFUSE, refuse) = &answer;

	answer.reason = reason;
	answer.text = (char *)text;
	(void)psid_link_say(link, &msg);
	psid_link_end(link, reason == PULC__PEER__NO__NO_CROSSING ? NULL : text);
	return 0;
}

/* What speaks against it? Returns NO_REASON: nothing. */
static Pulc__Peer__No objection(const struct psid_link *link, const Pulc__Peer__Hello *hello,
				char *text, size_t size)
{
	const struct psid_node *self = link->cluster->self;
	const struct psid_node *node = psid_node_find(link->cluster, hello->node);
	char name[PSID_SIZE_NAME];

	psid_tls_peer_name(link->ssl, name);
	if (psid_version_of_both(PSID_PEER_VERSION_MIN, PSID_PEER_VERSION_MAX, hello->version_min,
				 hello->version_max) != PSID_PEER_VERSION_MAX) {
		(void)snprintf(text, size,
			       "%s speaks versions %u to %u of the protocol between psids, %s %u "
			       "to %u",
			       hello->name, hello->version_min, hello->version_max, self->name,
			       PSID_PEER_VERSION_MIN, PSID_PEER_VERSION_MAX);
		return PULC__PEER__NO__NO_VERSION;
	}
	if (hello->to && hello->to != self->id) {
		(void)snprintf(text, size, "%s looks for another node here than %s", hello->name,
			       self->name);
		return PULC__PEER__NO__NO_OTHER_NODE;
	}
	if (link->cluster->peers.tls.by_certificate && strcmp(name, hello->name) != 0) {
		(void)snprintf(text, size, "%s has the certificate of \"%s\"", hello->name, name);
		return PULC__PEER__NO__NO_CERTIFICATE;
	}
	if (!node && link->cluster->config->n_nodes > 0) {
		(void)snprintf(text, size, "%s is not one of the nodes that ClusterNodes lists",
			       hello->name);
		return PULC__PEER__NO__NO_MEMBER;
	}
	if (hello->node == self->id) {
		(void)snprintf(text, size, "%s talks to itself, or two nodes have that name",
			       hello->name);
		return PULC__PEER__NO__NO_OTHER_NODE;
	}
	if (node && hello->life < node->life) {
		(void)snprintf(text, size, "%s has begun a new life since", hello->name);
		return PULC__PEER__NO__NO_OLD_LIFE;
	}
	return PULC__PEER__NO__NO_REASON;
}

static bool is_crossing(const struct psid_peer *peer)
{
	return peer->link && !peer->link->has_welcome && !peer->link->is_server &&
	       peer->cluster->self->id < peer->id;
}

static int take_hello(struct psid_link *link, const Pulc__Peer__Hello *hello)
{
	struct psid_peer *peer;
	Pulc__Peer__No reason;
	char text[192];

	if (!link->is_server || !psid_node_name_ok(hello->name, strlen(hello->name)) ||
	    hello->node != psid_node_id(hello->name))
		return -EBADMSG;
	reason = objection(link, hello, text, sizeof(text));
	if (reason != PULC__PEER__NO__NO_REASON)
		return refuse(link, reason, text);
	peer = psid_peer_get(link->cluster, hello->node);
	if (!peer)
		return -ENOMEM;
	if (is_crossing(peer))
		return refuse(link, PULC__PEER__NO__NO_CROSSING, "we are connecting to you");
	return welcome(link, peer, hello);
}

static int take_welcome(struct psid_link *link, const Pulc__Peer__Welcome *answer)
{
	struct psid_peer *peer = link->peer;
	char name[PSID_SIZE_NAME];

	if (link->is_server || !peer || answer->node != peer->id)
		return -EBADMSG;
	psid_tls_peer_name(link->ssl, name);
	if (link->cluster->peers.tls.by_certificate && strcmp(name, answer->name) != 0)
		return -EBADMSG;
	psid_peer_take_link(peer, link, answer->life);
	return 0;
}

static int take_refuse(struct psid_link *link, const Pulc__Peer__Refuse *answer)
{
	struct psid_peer *peer = link->peer;
	char why[192];

	if (link->is_server || !peer)
		return -EBADMSG;
	if (answer->reason == PULC__PEER__NO__NO_CROSSING) {
		psid_peer_yield(peer);
		psid_link_end(link, NULL);
		return 0;
	}
	(void)snprintf(why, sizeof(why), "they refuse: %.150s", answer->text);
	psid_peers_link_broken(link);
	psid_link_end(link, why);
	return 0;
}

int psid_hello_take(struct psid_link *link, const Pulc__Peer__Message *msg)
{
	switch (msg->body_case) {
	case PULC__PEER__MESSAGE__BODY_HELLO:
		return take_hello(link, msg->hello);
	case PULC__PEER__MESSAGE__BODY_WELCOME:
		return take_welcome(link, msg->welcome);
	case PULC__PEER__MESSAGE__BODY_REFUSE:
		return take_refuse(link, msg->refuse);
	default:
		return -EBADMSG;
	}
}
