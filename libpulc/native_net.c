/*
 * Links to other nodes, as far as waiting is concerned: their news come from the kernel, so who sleeps does it on their descriptors too.
 *
 * They are gathered in an epoll set, together with the channel to psid, and the set is what a sleeper waits for in the place of the
 * channel. It stays as it is between two sleeps: a link is put in once, and the kernel takes it out when it is closed. A link whose
 * oldest frame waits for psid's word would wake its sleepers for nothing and is left out until then.
 *
 * A process without such links has no set.
 */
#include <sys/epoll.h>

#include <pulc/fds.h>

#include "macros.h"
#include "native.h"
#include "rawsys.h"

static int set = -1;

static int change(int epoll_fd, int op, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return (int)raw_syscall(SYS_epoll_ctl, epoll_fd, op, fd, &event, 0, 0);
}

unsigned native_net_gather(int epoll_fd, unsigned bit)
{
	struct peer *peer;
	unsigned n = 0;
	int fd;

	TAILQ_FOREACH(peer, native_peers(), link_all)
	{
		fd = peer->link ? peer->link->ops->fd(peer->link) : -1;
		if (fd < 0)
			continue;
		n++;
		if (!peer->held == !!(peer->gathered & bit))
			continue;
		(void)change(epoll_fd, peer->held ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, fd);
		peer->gathered ^= (uint8_t)bit;
	}
	return n;
}

static bool any(void)
{
	const struct peer *peer;

	TAILQ_FOREACH(peer, native_peers(), link_all)
	if (peer->node)
		return true;
	return false;
}

static int make(void)
{
	if (set >= 0)
		return set;
	set = (int)raw_syscall(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0);
	return set < 0 ? set : pulc_fd_adopt(&set);
}

int native_net_fd(void)
{
	int fd = client_channel();

	if (!native_lock())
		return fd;
	if (any() && make() >= 0) {
		(void)native_net_gather(set, NATIVE_NET_WAIT);
		/* Already there, or a new one. */
		if (fd >= 0)
			(void)change(set, EPOLL_CTL_ADD, fd);
		fd = set;
	}
	native_unlock();
	return fd;
}

void native_net_forked(void)
{
	pulc_fd_release(&set);
}
