/*
 * What drives the membership in psid: a UDP socket, a timer, and the seal. In each turn the time is
 * taken first, then everything is read that has come, and only then is judged what has not come by
 * that time. So an answer that came while psid had no processor still counts, wherever in a turn,
 * or between two, it lost it; libuv by itself would run the timer before it looks at the socket.
 *
 * Load is sampled here as well, about once a second: in a turn that takes place anyway, if one does
 * soon, so that it costs an idle node no wake-up of its own.
 *
 * The socket never blocks. What the kernel does not take is lost, as it may be on the way; the
 * membership expects no better.
 */
#include "gossip.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "inside.h"
#include "log.h"
#include "macros.h"

#define N_TURN 4096u /* datagrams, more than the socket holds; then the others get a turn */
#define SIZE_HEADERS 28u
#define SIZE_BUFFER (1 << 20)
#define USEC_SAMPLE USEC_PER_SEC /* from one sample of the load to the next, at least */
#define USEC_SLACK (USEC_PER_SEC / 4)

/* ---- sending --------------------------------------------------------------------------------- */

void psid_gossip_send(void *data, const struct psid_address *to, const uint8_t *body, size_t len)
{
	struct psid_cluster *cluster = data;
	struct psid_gossip *gossip = &cluster->gossip;
	uint8_t datagram[PSID_SWIM_SIZE_MAX + PSID_SEAL_SIZE];
	struct sockaddr_storage sa;
	size_t n = psid_seal_close(&gossip->seal, body, len, datagram);
	socklen_t size = psid_address_to_socket(to, gossip->family, &sa);

	if (n == 0 || size == 0)
		return;
	if (sendto(gossip->fd, datagram, n, MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&sa, size) < 0)
		return;
	gossip->traffic.n_sent++;
	gossip->traffic.size_sent += n + SIZE_HEADERS;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void refuse(struct psid_cluster *cluster, const struct psid_address *from, int r)
{
	char text[PSID_SIZE_ADDRESS_TEXT], keys[PSID_SIZE_KEYRING_TEXT];

	cluster->gossip.traffic.n_refused++;
	if (r == -EPROTO &&
	    psid_may_complain(&cluster->complaints, from, PSID_COMPLAIN_DATAGRAM_VERSION)) {
		psid_misfit_datagram(cluster, from, "its datagrams are of another version");
		psid_log(PSID_WARNING,
			 "%s sends datagrams of another version of the cluster's protocol than "
			 "ours, %u, or none at all",
			 psid_address_text(from, text), PSID_GOSSIP_VERSION);
	}
	if (r == -EBADMSG &&
	    psid_may_complain(&cluster->complaints, from, PSID_COMPLAIN_DATAGRAM_KEY)) {
		psid_misfit_datagram(cluster, from,
				     "its datagrams can't be read: another key, or "
				     "another ClusterName");
		psid_log(PSID_WARNING,
			 "%s sends datagrams that can't be read: its key is none of ours, %s "
			 "(ClusterKeyFile), or its ClusterName is another one than \"%s\"",
			 psid_address_text(from, text), psid_keyring_text(&cluster->ring, keys),
			 cluster->config->name);
	}
}

static void take(struct psid_cluster *cluster, uint64_t usec_now, const struct sockaddr *sa,
		 const uint8_t *datagram, size_t len)
{
	struct psid_gossip *gossip = &cluster->gossip;
	uint8_t body[PSID_SWIM_SIZE_MAX + PSID_SEAL_SIZE];
	struct psid_origin from;
	int n;

	if (psid_address_from_socket(sa, &from.address) < 0)
		return;
	gossip->traffic.n_received++;
	gossip->traffic.size_received += len + SIZE_HEADERS;
	if (gossip->is_running)
		gossip->seal.life_max = psid_swim_life_max(&gossip->swim, usec_now);
	n = psid_seal_open(&gossip->seal, datagram, len, body, &from);
	if (n < 0)
		refuse(cluster, &from.address, n);
	if (n == -ESTALE && gossip->is_running)
		psid_swim_outdated(&gossip->swim, usec_now, &from);
	else if (n >= 0 && gossip->is_running)
		psid_swim_receive(&gossip->swim, usec_now, &from, body, (size_t)n);
}

/* Returns false when nothing more is there. */
static bool receive(struct psid_cluster *cluster, uint64_t usec_now)
{
	uint8_t datagram[PSID_SWIM_SIZE_MAX + PSID_SEAL_SIZE];
	struct sockaddr_storage sa;
	socklen_t size = sizeof(sa);
	ssize_t n = recvfrom(cluster->gossip.fd, datagram, sizeof(datagram),
			     MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&sa, &size);

	if (n < 0)
		return errno != EAGAIN; /* ICMP errors of earlier datagrams are read, too */
	if ((size_t)n <= sizeof(datagram))
		take(cluster, usec_now, (const struct sockaddr *)&sa, datagram, (size_t)n);
	return true;
}

static void on_timer(uv_timer_t *timer);

/* Returns when the next sample has to be made at the latest. */
static uint64_t sample(struct psid_cluster *cluster, uint64_t usec_now)
{
	if (usec_now >= cluster->self->usec_load + USEC_SAMPLE)
		psid_cluster_sample(cluster);
	return cluster->self->usec_load + USEC_SAMPLE + USEC_SLACK;
}

static void turn(struct psid_cluster *cluster)
{
	struct psid_gossip *gossip = &cluster->gossip;
	uint64_t usec_now = psid_usec_now(), usec_sample, usec_next, msec;

	for (unsigned i = 0; i < N_TURN && receive(cluster, usec_now); i++)
		;
	if (!gossip->is_running)
		return;
	usec_next = psid_swim_run(&gossip->swim, usec_now);
	usec_sample = sample(cluster, usec_now);
	usec_next = MIN(usec_next, usec_sample);
	msec = usec_next > usec_now ? (usec_next - usec_now + 999) / 1000 : 0;
	uv_update_time(cluster->loop);
	(void)uv_timer_start(&gossip->timer, on_timer, msec, 0);
}

static void on_timer(uv_timer_t *timer)
{
	turn(CONTAINER_OF(timer, struct psid_cluster, gossip.timer));
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	turn(CONTAINER_OF(poll, struct psid_cluster, gossip.poll));
}

/* ---- from start to end ----------------------------------------------------------------------- */

/* A cluster that changes speaks in bursts. More than the limit is granted to root only. */
static void enlarge(int fd)
{
	int buffer = SIZE_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
}

int psid_gossip_open(struct psid_cluster *cluster, const struct psid_address *address)
{
	struct psid_gossip *gossip = &cluster->gossip;
	char text[PSID_SIZE_ADDRESS_TEXT];
	int r;

	gossip->family = AF_INET6;
	r = psid_address_open(address, AF_INET6, SOCK_DGRAM, &gossip->fd);
	if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) { /* a kernel without IPv6 */
		gossip->family = AF_INET;
		r = psid_address_open(address, AF_INET, SOCK_DGRAM, &gossip->fd);
	}
	if (r == 0) {
		enlarge(gossip->fd);
		return psid_seal_init(&gossip->seal, &cluster->ring, &gossip->swim.members,
				      cluster->self);
	}
	psid_log(PSID_ERROR, "ClusterAddress %s, UDP: %s", psid_address_text(address, text),
		 strerror(-r));
	return r;
}

void psid_gossip_deinit(struct psid_cluster *cluster)
{
	cluster->gossip.fd = close_own(cluster->gossip.fd);
	psid_seal_deinit(&cluster->gossip.seal);
}

int psid_gossip_attach(struct psid_cluster *cluster)
{
	struct psid_gossip *gossip = &cluster->gossip;
	int r = uv_poll_init(cluster->loop, &gossip->poll, gossip->fd);

	if (r == 0)
		r = uv_timer_init(cluster->loop, &gossip->timer);
	gossip->is_open = r == 0;
	return r;
}

void psid_gossip_start(struct psid_cluster *cluster)
{
	psid_swim_start(&cluster->gossip.swim, psid_usec_now());
	cluster->gossip.is_running = true;
	(void)uv_poll_start(&cluster->gossip.poll, UV_READABLE, on_readable);
	turn(cluster);
}

void psid_gossip_kick(struct psid_cluster *cluster)
{
	if (cluster->gossip.is_running)
		turn(cluster);
}

void psid_gossip_close(struct psid_cluster *cluster)
{
	struct psid_gossip *gossip = &cluster->gossip;

	if (!gossip->is_open)
		return;
	if (gossip->is_running)
		psid_swim_leave(&gossip->swim, psid_usec_now());
	gossip->is_running = false;
	uv_close((uv_handle_t *)&gossip->poll, NULL);
	uv_close((uv_handle_t *)&gossip->timer, NULL);
}
