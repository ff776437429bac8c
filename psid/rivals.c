/*
 * Somebody may claim the other end of a foreign connection. He has no socket to show, and who asks
 * him for it has lost the time of a hand-over. So of several hints for one end that one comes first
 * whose user has made the socket, which the kernel tells for the address alone, and among those the
 * one whose client broke the fewest promises. A client's promises are forgotten when it goes; whose
 * socket it is does not change by coming back.
 *
 * A socket may have been made by one user and given to another, as servers do that give up root.
 * Then nobody comes first by this, and the promises decide.
 *
 * The kernel is asked only if there is a choice between users, and once.
 */
#include "rivals.h"

#include <string.h>

#include "diag.h"
#include "flow.h"
#include "hint.h"
#include "psid.h"
#include "user.h"

/* Who would receive what the hinted end sends; it sends from some address of this node. */
static int find_flow_end(const struct psid_hint *hint, struct psid_diag_socket *ret_socket)
{
	struct psid_tuple way = hint->tuple;

	if (psid_tuple_is_wildcard(&way))
		memcpy(way.local, way.remote, sizeof(way.local));
	return psid_diag_find_receiver(hint->client->psid->diag_fd, &way, PSID_ANY_COOKIE,
				       ret_socket);
}

static int find_other_end(const struct psid_hint *hint, struct psid_diag_socket *ret_socket)
{
	struct psid_tuple mirror = psid_tuple_mirror(&hint->tuple);

	if (psid_flow_is(hint))
		return find_flow_end(hint, ret_socket);
	return psid_diag_find(hint->client->psid->diag_fd, &mirror, PSID_ANY_COOKIE, ret_socket);
}

static bool has_made(struct psid_rivals *rivals, const struct psid_hint *other)
{
	struct psid_diag_socket s;

	if (!rivals->asked) {
		rivals->asked = true;
		rivals->known = find_other_end(rivals->hint, &s) == 0;
		if (rivals->known)
			rivals->maker = s.uid;
	}
	return rivals->known && other->client->user->uid == rivals->maker;
}

static bool is_better(struct psid_rivals *rivals, const struct psid_hint *other)
{
	const struct psid_hint *best = rivals->best;

	if (other->client->user != best->client->user &&
	    has_made(rivals, other) != has_made(rivals, best))
		return has_made(rivals, other);
	return other->client->n_failures < best->client->n_failures;
}

void psid_rivals_add(struct psid_rivals *rivals, struct psid_hint *other)
{
	if (!rivals->best || is_better(rivals, other))
		rivals->best = other;
}
