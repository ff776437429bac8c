/*
 * The job of a keeper that was started before it.
 *
 * Where other keepers find their Start there is a socket then. One packet comes, with the
 * descriptors that others are born with, and each is put where it belongs: from there on nothing is
 * different. When psid ends, or does not want us any more, the socket is at its end instead.
 */
#include "gifts.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cleanup.h"
#include "keeper_fds.h"
#include "packet.h"

/* Out of the way of the numbers that are needed. */
static int move_away(int *fd)
{
	int away = fcntl(*fd, F_DUPFD_CLOEXEC, KEEPER_FD_END);

	if (away < 0)
		return -errno;
	(void)close(*fd);
	*fd = away;
	return 0;
}

int keeper_gifts_take(void)
{
	struct keeper_gifts gifts;
	int fds[PACKET_N_FDS], at = 0;
	int r = packet_recv(KEEPER_FD_START, &gifts, sizeof(gifts), fds);

	for (size_t i = 0; r == 0 && i < PACKET_N_FDS; i++)
		if (fds[i] >= 0)
			r = move_away(&fds[i]);
	for (int i = 0; r == 0 && i < KEEPER_N_FDS; i++) {
		if (!(gifts.has & 1u << i))
			continue;
		if (dup2(fds[at], KEEPER_FD_START + i) < 0)
			return -EBADMSG;
		(void)close(fds[at++]);
	}
	return r;
}
