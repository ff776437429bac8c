/*
 * Accounts. Every area and every byte that psid gives out is on the account of the user whose
 * client owns it, and on the node's; both have limits, and what a limit refuses stays on the
 * kernel.
 *
 * So is every descriptor that psid keeps for a user: channels and processes of clients, areas,
 * bells, sockets in a hand-over, what a client has not read yet, keepers and waiting jobs. Those
 * that wait to be closed have a limit of their own (descriptors.c).
 *
 * Bytes: an area counts with the pages that psid allocates in it, a client with the credit it got
 * for growing rings, whether it uses it or not.
 */
#include "user.h"

#include <stdlib.h>

#include "client.h"
#include "descriptors.h"
#include "macros.h"
#include "psid.h"

struct psid_user *psid_user_get(struct psid *psid, uid_t uid)
{
	struct psid_map_node *node = psid_map_find(&psid->users, uid);
	struct psid_user *user;

	if (node)
		return psid_user_ref(CONTAINER_OF(node, struct psid_user, node));
	user = calloc(1, sizeof(*user));
	if (!user || psid_map_insert(&psid->users, &user->node, uid) < 0) {
		free(user);
		return NULL;
	}
	user->psid = psid;
	user->uid = uid;
	user->n_refs = 1;
	TAILQ_INIT(&user->closings);
	TAILQ_INIT(&user->unheard);
	return user;
}

struct psid_user *psid_user_ref(struct psid_user *user)
{
	user->n_refs++;
	return user;
}

struct psid_user *psid_user_unref(struct psid_user *user)
{
	if (!user || --user->n_refs > 0)
		return NULL;
	psid_map_remove(&user->psid->users, &user->node);
	free(user);
	return NULL;
}

bool psid_user_has_descriptors(const struct psid_user *user, uint32_t n)
{
	uint32_t max = user->psid->config->max_descriptors_user;

	return n <= max && user->n_descriptors <= max - n;
}

int psid_user_take_descriptors(struct psid_user *user, uint32_t n)
{
	if (!psid_user_has_descriptors(user, n))
		return PULC__WIRE__REASON__REASON_DESCRIPTORS;
	user->n_descriptors += n;
	return 0;
}

void psid_user_give_descriptors(struct psid_user *user, uint32_t n)
{
	user->n_descriptors -= n;
}

int psid_user_take_area(struct psid_user *user)
{
	int r;

	if (user->n_areas >= user->psid->config->max_areas_user)
		return PULC__WIRE__REASON__REASON_LIMIT_AREAS;
	r = psid_user_take_descriptors(user, 1);
	if (r != 0)
		return r;
	if (psid_closer_promise(&user->psid->closer) < 0) {
		psid_user_give_descriptors(user, 1);
		return PULC__WIRE__REASON__REASON_NO_MEMORY;
	}
	user->n_areas++;
	user->psid->n_areas++;
	return 0;
}

void psid_user_give_area(struct psid_user *user, int fd)
{
	if (fd >= 0)
		psid_close_promised(user->psid, user, fd, NULL, NULL);
	else
		psid_closer_unpromise(&user->psid->closer);
	psid_user_give_descriptors(user, 1);
	user->n_areas--;
	user->psid->n_areas--;
}

static uint64_t left(const struct psid_user *user)
{
	const struct psid_config *config = user->psid->config;
	uint64_t of_user = config->max_bytes_user - MIN(user->size_bytes, config->max_bytes_user);
	uint64_t of_node = config->max_bytes - MIN(user->psid->size_bytes, config->max_bytes);

	return MIN(of_user, of_node);
}

int psid_user_take_bytes(struct psid_user *user, uint64_t size)
{
	if (size > left(user))
		return PULC__WIRE__REASON__REASON_LIMIT_BYTES;
	user->size_bytes += size;
	user->psid->size_bytes += size;
	return 0;
}

void psid_user_give_bytes(struct psid_user *user, uint64_t size)
{
	user->size_bytes -= size;
	user->psid->size_bytes -= size;
}

uint64_t psid_user_take_credit(struct psid_user *user, uint64_t wanted)
{
	uint64_t size = MIN(wanted, left(user) / 2) & ~(uint64_t)(SHM_PAGE - 1);

	return psid_user_take_bytes(user, size) == 0 ? size : 0;
}

bool psid_user_is_jammed(const struct psid_user *user)
{
	return user->n_closings > 0 && user->n_closings >= psid_descriptors_foreign();
}

void psid_user_closed(struct psid_user *user)
{
	struct psid *psid = user->psid;
	struct psid_map_node *node = NULL;

	if (!user->jammed || user->n_closings > psid_descriptors_foreign() / 2)
		return;
	user->jammed = false;
	while ((node = psid_map_next(&psid->clients, node)))
		psid_client_resume(CONTAINER_OF(node, struct psid_client, node), user);
}
