/*
 * The peers' listening socket. Strangers may knock as often as they like: connections that have not
 * proved that they have the key are few at a time and don't stay long. When there are too many the
 * oldest goes: it has had its time, and a node of the cluster needs a few milliseconds only. Where
 * descriptors or memory are wanting nobody is let in for a while, as in listener.c, which complains
 * of that sooner.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "descriptors.h"
#include "inside.h"
#include "log.h"
#include "macros.h"

#define N_BACKLOG 256
#define N_ACCEPT_TURN 32
#define N_STRANGERS_MAX 128u
#define MSEC_PAUSE 200

/* Returns how many there are, and the one that has been there for longest. */
static unsigned count_strangers(const struct psid_cluster *cluster, struct psid_link **ret_oldest)
{
	struct psid_link *link;
	unsigned n = 0;

	LIST_FOREACH(link, &cluster->peers.links, link)
		if (link->is_server && !link->has_welcome) {
			n++;
			*ret_oldest = link; /* new ones are put before it */
		}
	return n;
}

static void admit(struct psid_cluster *cluster, int fd, const struct psid_address *from)
{
	char text[PSID_SIZE_ADDRESS_TEXT];
	struct psid_link *oldest = NULL;

	if (count_strangers(cluster, &oldest) >= N_STRANGERS_MAX) {
		if (psid_may_complain(&cluster->complaints, from, PSID_COMPLAIN_CROWD))
			psid_log(PSID_WARNING,
				 "too many unknown connections at a time; one more from %s",
				 psid_address_text(from, text));
		psid_link_end(oldest, NULL);
	}
	(void)psid_link_accept(cluster, fd, from);
}

static void on_knock(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
	struct psid_peers *peers = CONTAINER_OF(timer, struct psid_peers, pause);

	(void)uv_poll_start(&peers->poll, UV_READABLE, on_knock);
}

static void pause_listening(struct psid_peers *peers)
{
	(void)uv_poll_stop(&peers->poll);
	(void)uv_timer_start(&peers->pause, on_pause_over, MSEC_PAUSE, 0);
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
	struct psid_cluster *cluster = CONTAINER_OF(poll, struct psid_cluster, peers.poll);

	(void)status;
	(void)events;
	for (unsigned i = 0; i < N_ACCEPT_TURN; i++) {
		struct sockaddr_storage sa;
		socklen_t size = sizeof(sa);
		struct psid_address from;
		int fd = accept4(cluster->peers.fd, (struct sockaddr *)&sa, &size,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && psid_is_shortage(errno))
			pause_listening(&cluster->peers);
		if (fd < 0)
			return;
		if (psid_address_from_socket((struct sockaddr *)&sa, &from) < 0)
			(void)close_own(fd);
		else
			admit(cluster, fd, &from);
	}
}

int psid_door_open(struct psid_cluster *cluster, const struct psid_address *address)
{
	struct psid_peers *peers = &cluster->peers;
	char text[PSID_SIZE_ADDRESS_TEXT];
	int r = psid_address_open(address, cluster->gossip.family, SOCK_STREAM, &peers->fd);

	if (r == 0 && listen(peers->fd, N_BACKLOG) < 0)
		r = -errno;
	if (r < 0)
		psid_log(PSID_ERROR, "ClusterAddress %s, TCP: %s", psid_address_text(address, text),
			 strerror(-r));
	return r;
}

int psid_door_attach(struct psid_cluster *cluster)
{
	struct psid_peers *peers = &cluster->peers;
	int r = uv_timer_init(cluster->loop, &peers->pause);

	if (r == 0)
		r = uv_poll_init(cluster->loop, &peers->poll, peers->fd);
	return r < 0 ? r : uv_poll_start(&peers->poll, UV_READABLE, on_knock);
}

void psid_door_close(struct psid_cluster *cluster)
{
	uv_close((uv_handle_t *)&cluster->peers.pause, NULL);
	uv_close((uv_handle_t *)&cluster->peers.poll, NULL);
}
