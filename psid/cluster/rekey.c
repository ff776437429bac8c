/*
 * Changing the cluster's key while it runs, in three steps, each of them done on all nodes before
 * the next: the new key is added and accepted, it is used, the old one is dropped. At any time each
 * node then has the key that any other uses, so that nobody is lost.
 *
 * Each node says which keys it has with everything else that it says of itself (news.c). So a step
 * that comes too early for somebody is seen here, and not taken: keys that would cut a living node
 * off are refused. Whoever wants just that restarts psid, which asks nobody.
 */
#include "rekey.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fingerprint.h"
#include "inside.h"
#include "log.h"

/* ---- is it too early? ------------------------------------------------------------------------ */

static bool node_has(const struct psid_node *node, uint32_t number)
{
	for (size_t i = 0; i < node->n_keys; i++)
		if (node->keys[i] == number)
			return true;
	return false;
}

/* We would not understand it. */
static bool is_lost_to_us(const struct psid_node *node, const struct psid_keyring *ring)
{
	return !psid_keyring_has_number(ring, node->keys[0]);
}

/* It would not understand us. */
static bool are_we_lost_to(const struct psid_node *node, const struct psid_keyring *ring)
{
	return !node_has(node, wire_key_number(ring->keys[0].fingerprint));
}

/* The first of the living others for whom that holds, or NULL, and how many there are. */
static const struct psid_node *find_any(const struct psid_cluster *cluster,
					const struct psid_keyring *ring,
					bool (*holds)(const struct psid_node *node,
						      const struct psid_keyring *ring),
					unsigned *ret_n)
{
	const struct psid_node *node = NULL, *first = NULL;

	*ret_n = 0;
	while ((node = psid_node_next(cluster, node ? node->id : 0))) {
		if (node == cluster->self || !psid_node_is_up(node) || node->n_keys == 0 ||
		    !holds(node, ring))
			continue;
		first = first ? first : node;
		++*ret_n;
	}
	return first;
}

static const char *and_others(unsigned n, char *buf, size_t size)
{
	buf[0] = '\0';
	if (n > 1)
		(void)snprintf(buf, size, " and %u more", n - 1);
	return buf;
}

int psid_rekey_check(const struct psid_cluster *cluster, const struct psid_keyring *ring, char *why,
		     size_t size)
{
	const struct psid_node *node;
	char others[24];
	unsigned n;

	node = find_any(cluster, ring, are_we_lost_to, &n);
	if (node) {
		(void)snprintf(why, size,
			       "the key %08x can't be used yet, for there are nodes that don't "
			       "have it: %s%s",
			       wire_key_number(ring->keys[0].fingerprint), node->name,
			       and_others(n, others, sizeof(others)));
		return -EBUSY;
	}
	node = find_any(cluster, ring, is_lost_to_us, &n);
	if (node) {
		(void)snprintf(why, size,
			       "the key %08x can't be dropped yet, for there are nodes that use "
			       "it: %s%s",
			       node->keys[0], node->name, and_others(n, others, sizeof(others)));
		return -EBUSY;
	}
	return 0;
}

/* ---- taking them ----------------------------------------------------------------------------- */

static void say_of_self(struct psid_cluster *cluster)
{
	struct psid_node *self = cluster->self;

	self->n_keys = (uint8_t)cluster->ring.n;
	for (size_t i = 0; i < cluster->ring.n; i++)
		self->keys[i] = wire_key_number(cluster->ring.keys[i].fingerprint);
}

int psid_rekey_first(struct psid_cluster *cluster)
{
	const struct psid_cluster_config *config = cluster->config;
	char why[192];
	int r = psid_keyring_read(config->key_file, config->name, &cluster->ring, why, sizeof(why));

	if (r < 0)
		psid_log(PSID_ERROR, "ClusterKeyFile: %s", why);
	else
		say_of_self(cluster);
	return r;
}

static int change(struct psid_cluster *cluster, const struct psid_keyring *ring)
{
	struct psid_keyring before = cluster->ring;
	int r;

	cluster->ring = *ring;
	r = psid_seal_rekey(&cluster->gossip.seal);
	if (r < 0)
		cluster->ring = before;
	explicit_bzero(&before, sizeof(before));
	return r;
}

int psid_rekey(struct psid_cluster *cluster, const struct psid_keyring *ring)
{
	char text[PSID_SIZE_KEYRING_TEXT];
	int r;

	if (psid_keyring_equal(&cluster->ring, ring))
		return 0;
	r = change(cluster, ring);
	if (r < 0)
		return r;
	psid_greeting_make(cluster->config, &cluster->ring, &cluster->peers.greeting);
	say_of_self(cluster);
	psid_swim_touch(&cluster->gossip.swim, psid_usec_now());
	psid_gossip_kick(cluster);
	psid_log_of(PSID_LOG_KEYS, PSID_INFO, NULL, "keys of the cluster from now on: %s",
		    psid_keyring_text(&cluster->ring, text));
	return 0;
}

void psid_recertify(struct psid_cluster *cluster, struct psid_tls *next)
{
	psid_tls_renew(&cluster->peers.tls, next);
}
