/* The table of nodes, sorted by id. */
#ifndef PULC_PSID_MEMBERS_H
#define PULC_PSID_MEMBERS_H

#include "node.h"

/* All zero is an empty table. */
struct psid_members {
	struct psid_node **nodes; /* by id */
	size_t n, n_room;
	size_t n_up; /* alive or suspect */
};

/* A new node of this name, UNKNOWN, in no life. Returns 0; -EEXIST: the id is taken; -ENOMEM. */
int psid_members_add(struct psid_members *members, const char *name, struct psid_node **ret_node);
struct psid_node *psid_members_find(const struct psid_members *members, uint64_t id);
/* The first node whose id is larger; NULL: there is none. */
struct psid_node *psid_members_after(const struct psid_members *members, uint64_t id);
/* Frees the node as well. */
void psid_members_remove(struct psid_members *members, struct psid_node *node);
void psid_members_set_state(struct psid_members *members, struct psid_node *node,
			    enum psid_node_state state);
void psid_members_deinit(struct psid_members *members);

#endif
