/*
 * Links to other nodes, as far as waiting is concerned: their news come from the kernel, so who
 * sleeps does it on their descriptors too.
 *
 * They are gathered in an epoll set, together with the channel to psid, and the set is what a
 * sleeper waits for in the place of the channel. It stays as it is between two sleeps: a link is
 * put in once, and the kernel takes it out when it is closed. A link whose oldest frame waits for
 * psid's word would wake its sleepers for nothing and is left out until then.
 *
 * A process without such links has no set.
 *
 * The set also answers who has something, for a process with many such links: to ask each of them
 * is a call for each, though perhaps one has anything. So it is asked once, and then those links
 * that it has told of, until they have nothing more. For that each link is watched all the time, as
 * by a sleeper. What a link has in its own memory (hal_link.inside), and whatever else is to be
 * done for a peer, is looked at as ever; and now and then so are all, for what no descriptor tells:
 * that nobody answers.
 */
#include <errno.h>
#include <sys/epoll.h>

#include <pulc/fds.h>

#include "macros.h"
#include "native.h"
#include "rawsys.h"

static int set = -1;

/* In one question. */
#define N_EVENTS 16
/* Who looks; no sleeper's. */
#define WATCH UINT64_MAX

/* client: whose events they are; 0: nobody's. */
static int change(int epoll_fd, int op, int fd, uint32_t client)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = client };

	return (int)raw_syscall(SYS_epoll_ctl, epoll_fd, op, fd, &event, 0, 0);
}

unsigned native_net_gather(int epoll_fd, unsigned bit)
{
	struct peer *peer;
	unsigned n = 0;
	int fd, e;

	TAILQ_FOREACH(peer, native_peers(), link_all) {
		fd = peer->link ? peer->link->ops->fd(peer->link) : -1;
		if (fd < 0)
			continue;
		n++;
		if (!peer->held == !!(peer->gathered & bit))
			continue;
		e = change(epoll_fd, peer->held ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, fd, peer->client);
		if (e == 0 || e == -EEXIST || e == -ENOENT)
			peer->gathered ^= (uint8_t)bit;
	}
	return n;
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
	if (native_core.n_far > 0 && make() >= 0) {
		(void)native_net_gather(set, NATIVE_NET_WAIT);
		/* Already there, or a new one. */
		if (fd >= 0)
			(void)change(set, EPOLL_CTL_ADD, fd, 0);
		fd = set;
	}
	native_unlock();
	return fd;
}

/* Those that have joined since the last time. */
static void watch_new(void)
{
	static uint64_t n_joined_then;
	struct peer *peer;

	if (LIKELY(native_core.n_joined == n_joined_then))
		return;
	n_joined_then = native_core.n_joined;
	(void)native_net_gather(set, NATIVE_NET_WAIT);
	TAILQ_FOREACH(peer, native_peers(), link_all) {
		/* A link may have been ended since, by whoever took a frame that made no sense. */
		if ((peer->gathered & (NATIVE_NET_WAIT | NATIVE_NET_LOOK)) != NATIVE_NET_WAIT ||
		    !peer->link || !peer->link->inside ||
		    peer->link->ops->watch(peer->link, WATCH, HAL_WATCH_DATA | HAL_WATCH_SPACE) < 0)
			continue;
		peer->gathered |= NATIVE_NET_LOOK;
		peer->heard = true;
	}
}

struct peer *native_net_look(void)
{
	struct epoll_event events[N_EVENTS] = { 0 };
	struct peer *peer, *first = NULL;
	int n;

	if (make() < 0)
		return NULL;
	watch_new();
	n = (int)raw_syscall(SYS_epoll_pwait, set, events, N_EVENTS, 0, NULL, 8);
	for (int i = 0; i < n; i++) {
		peer = events[i].data.u64 ? native_peer((uint32_t)events[i].data.u64) : NULL;
		if (!peer)
			continue;
		peer->heard = true;
		first = first ? first : peer;
	}
	return first;
}

void native_net_forked(void)
{
	pulc_fd_release(&set);
}
