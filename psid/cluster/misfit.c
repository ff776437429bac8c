/*
 * Why we and another psid do not understand each other, for who looks at the list of nodes: the log
 * says it too, but each kind of line once a minute, and on the node where nobody may look.
 *
 * Who cannot say who he is is known by his address: by all of it if we have connected there, or if
 * it sent a datagram; by the host's alone if he has connected, and then only if one node is there.
 * Anybody may use an address, so nothing is done because of it, and it is forgotten as soon as the
 * node is understood again.
 */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

static bool is_there(const struct psid_node *node, const struct psid_address *address, bool is_host)
{
	if (is_host)
		return memcmp(node->address.ip, address->ip, sizeof(address->ip)) == 0;
	return psid_address_equal(&node->address, address);
}

/* The only one; NULL: there is none, or there are several. */
static struct psid_node *find_at(struct psid_cluster *cluster, const struct psid_address *address,
				 bool is_host)
{
	const struct psid_members *members = psid_members_of(cluster);
	struct psid_node *found = NULL;

	for (size_t i = 0; i < members->n; i++) {
		struct psid_node *node = members->nodes[i];

		if (node == cluster->self || !is_there(node, address, is_host))
			continue;
		if (found)
			return NULL;
		found = node;
	}
	return found;
}

static void set(struct psid_node *node, const char *why)
{
	free(node->why);
	node->why = why ? strdup(why) : NULL; /* without memory nobody is told */
}

void psid_misfit_link(struct psid_cluster *cluster, const struct psid_address *address,
		      bool is_host, const char *why)
{
	struct psid_node *node = find_at(cluster, address, is_host);

	if (node)
		set(node, why);
}

void psid_misfit_datagram(struct psid_cluster *cluster, const struct psid_address *address,
			  const char *why)
{
	struct psid_node *node = find_at(cluster, address, false);

	if (node && !psid_node_is_up(node))
		set(node, why);
}

void psid_misfit_over(struct psid_cluster *cluster, uint64_t id)
{
	struct psid_node *node = psid_members_find(psid_members_of(cluster), id);

	if (node)
		set(node, NULL);
}
