/*
 * All nodes that this psid knows, in one array sorted by id: whoever asks for the list page by page
 * gets along with the last id he saw as cursor, and random choice is an index. A cluster changes
 * seldom enough for insertion by moving.
 */
#include "members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The index of the first node with an id of at least this. */
static size_t index_of(const struct psid_members *members, uint64_t id)
{
	size_t low = 0, high = members->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (members->nodes[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int make_room(struct psid_members *members)
{
	size_t n_room = members->n_room ? 2 * members->n_room : 8;
	struct psid_node **nodes;

	if (members->n < members->n_room)
		return 0;
	nodes = reallocarray(members->nodes, n_room, sizeof(struct psid_node *));
	if (!nodes)
		return -ENOMEM;
	members->nodes = nodes;
	members->n_room = n_room;
	return 0;
}

static struct psid_node *node_free(struct psid_node *node)
{
	if (node) {
		free(node->placed);
		free(node->name);
		free(node->why);
		free(node);
	}
	return NULL;
}

static struct psid_node *node_new(const char *name)
{
	struct psid_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->id = psid_node_id(name);
	node->name = strdup(name);
	return node->name ? node : node_free(node);
}

int psid_members_add(struct psid_members *members, const char *name, struct psid_node **ret_node)
{
	struct psid_node *node;
	size_t i;

	if (psid_members_find(members, psid_node_id(name)))
		return -EEXIST;
	if (make_room(members) < 0)
		return -ENOMEM;
	node = node_new(name);
	if (!node)
		return -ENOMEM;
	i = index_of(members, node->id);
	memmove(members->nodes + i + 1, members->nodes + i,
		(members->n - i) * sizeof(struct psid_node *));
	members->nodes[i] = node;
	members->n++;
	*ret_node = node;
	return 0;
}

struct psid_node *psid_members_find(const struct psid_members *members, uint64_t id)
{
	size_t i = index_of(members, id);

	return i < members->n && members->nodes[i]->id == id ? members->nodes[i] : NULL;
}

struct psid_node *psid_members_after(const struct psid_members *members, uint64_t id)
{
	size_t i = index_of(members, id + 1);

	return i < members->n ? members->nodes[i] : NULL;
}

void psid_members_remove(struct psid_members *members, struct psid_node *node)
{
	size_t i = index_of(members, node->id);

	psid_members_set_state(members, node, PSID_NODE_UNKNOWN);
	members->n--;
	memmove(members->nodes + i, members->nodes + i + 1,
		(members->n - i) * sizeof(struct psid_node *));
	(void)node_free(node);
}

void psid_members_set_state(struct psid_members *members, struct psid_node *node,
			    enum psid_node_state state)
{
	bool was_up = psid_node_is_up(node);

	node->state = state;
	members->n_up += (size_t)psid_node_is_up(node) - (size_t)was_up;
}

void psid_members_deinit(struct psid_members *members)
{
	for (size_t i = 0; i < members->n; i++)
		(void)node_free(members->nodes[i]);
	free(members->nodes);
	*members = (struct psid_members){ 0 };
}
