/*
 * Sockets of connections that have ended, which somebody may still have.
 *
 * A socket that was reset, or shut down in both directions, is unknown to sock_diag, though a
 * program may have got it by exec and not used it yet: of such a side nothing is kept, unless there
 * is something left to receive (doubt.c). When that program asks for it, it is to be told that it
 * misses nothing. So a number for each is kept for a while: the cookie, which the kernel gives to
 * no other socket.
 *
 * Memory is bounded: the latest of each user stay, or of a few who share a set. Which ones do is
 * chosen by a secret, so that nobody can have a certain other user's forgotten. Whose is forgotten
 * is told that the connection is not known, as of one that never was.
 */
#include "ended.h"

#include "map.h"

static uint32_t set_of(uid_t uid)
{
	return (uint32_t)(psid_map_hash(uid) % PSID_N_ENDED_SETS);
}

void psid_ended_note(struct psid_ended *ended, uid_t uid, uint64_t cookie)
{
	struct psid_ended_set *set = &ended->sets[set_of(uid)];

	set->cookies[set->n++ % PSID_N_ENDED] = cookie;
}

bool psid_ended_is(const struct psid_ended *ended, uid_t uid, uint64_t cookie)
{
	const struct psid_ended_set *set = &ended->sets[set_of(uid)];

	for (uint32_t i = 0; i < PSID_N_ENDED; i++)
		if (set->cookies[i] == cookie)
			return cookie != 0;
	return false;
}
