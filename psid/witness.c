/*
 * A UDP socket that was passed to psid would keep its port for as long as it is under way, and a
 * program that closes it and binds again would be refused. So it is not passed. Its owner shows
 * instead what only an owner can do: a datagram from the socket's own address, with a number that
 * only this client was told, comes in at psid's ear on the loopback address. Nobody else can send
 * from there, and the program's own traffic is not touched.
 *
 * What the proof is worth is decided by flow.c: the kernel is asked whose address that is.
 */
#include "witness.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "handover.h"
#include "log.h"
#include "macros.h"
#include "psid.h"

#define N_HEAR_TURN 64
#define SIZE_NONCE 16u

enum { IPV4, IPV6 };

static struct psid_ear *ear_of(const struct psid_hint *hint)
{
	return &hint->client->psid->ears[psid_tuple_is_remote_ipv4(&hint->tuple) ? IPV4 : IPV6];
}

/* ---- hearing --------------------------------------------------------------------------------- */

static void normalise(const struct sockaddr_in6 *from, uint8_t address[16], uint16_t *ret_port)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)from;

	*ret_port = ntohs(from->sin6_port);
	memcpy(address, &from->sin6_addr, 16);
	if (from->sin6_family != AF_INET)
		return;
	memset(address, 0, 10);
	memset(address + 10, 0xff, 2);
	memcpy(address + 12, &in4->sin_addr, 4);
}

static struct psid_witness *find(const struct psid *psid, const uint64_t nonce[2])
{
	struct psid_map_node *node = psid_map_find(&psid->witnesses, nonce[0]);

	for (; node; node = psid_map_find_next(node)) {
		struct psid_witness *witness = CONTAINER_OF(node, struct psid_witness, node);

		if (witness->nonce[1] == nonce[1])
			return witness;
	}
	return NULL;
}

/* One datagram; false: none was there. */
static bool hear(struct psid *psid, const struct psid_ear *ear)
{
	struct sockaddr_in6 from = { 0 };
	socklen_t len = sizeof(from);
	struct psid_witness *witness;
	uint64_t nonce[3];
	uint8_t address[16];
	uint16_t port;
	ssize_t n;

	n = recvfrom(ear->fd, nonce, sizeof(nonce), MSG_DONTWAIT, (struct sockaddr *)&from, &len);
	if (n < 0)
		return false;
	witness = n == SIZE_NONCE ? find(psid, nonce) : NULL;
	if (!witness)
		return true;
	normalise(&from, address, &port);
	psid_handover_witness(witness, psid, address, port);
	return true;
}

static void on_sound(uv_poll_t *poll, int status, int events)
{
	const struct psid_ear *ear = CONTAINER_OF(poll, struct psid_ear, poll);
	struct psid *psid = poll->data;

	(void)status;
	(void)events;
	for (unsigned i = 0; i < N_HEAR_TURN; i++)
		if (!hear(psid, ear))
			return;
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool psid_witness_can(const struct psid_hint *hint)
{
	return ear_of(hint)->fd >= 0;
}

int psid_witness_ask(struct psid_witness *witness, const struct psid_hint *hint)
{
	struct psid *psid = hint->client->psid;
	Pulc__Wire__Prove prove = PULC__WIRE__PROVE__INIT;
	PSID_MESSAGE(msg, PROVE, prove) = &prove;
	int r;

	if (getrandom(witness->nonce, SIZE_NONCE, 0) != SIZE_NONCE)
		return -errno;
	r = psid_map_insert(&psid->witnesses, &witness->node, witness->nonce[0]);
	if (r < 0)
		return r;
	witness->asked = true;
	prove.token = hint->token;
	prove.nonce.data = (uint8_t *)witness->nonce;
	prove.nonce.len = SIZE_NONCE;
	prove.port = ear_of(hint)->port;
	(void)psid_client_send(hint->client, &msg, NULL, 0);
	return 0;
}

void psid_witness_drop(struct psid_witness *witness, struct psid *psid)
{
	if (witness->asked)
		psid_map_remove(&psid->witnesses, &witness->node);
	witness->asked = false;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_ear(struct psid_ear *ear, const struct sockaddr_in6 *at, socklen_t len)
{
	CLEANUP_FD int fd = socket(at->sin6_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in6 name;

	if (fd < 0 || bind(fd, (const struct sockaddr *)at, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		return -errno;
	ear->port = ntohs(name.sin6_port);
	ear->fd = TAKE_FD(fd);
	return 0;
}

static void listen_with(struct psid *psid, struct psid_ear *ear, const struct sockaddr_in6 *at,
			socklen_t len)
{
	int r;

	ear->fd = -EBADF;
	r = open_ear(ear, at, len);
	if (r == 0)
		r = uv_poll_init(&psid->loop, &ear->poll, ear->fd);
	if (r < 0) {
		ear->fd = close_own(ear->fd);
		psid_log(PSID_INFO, "datagrams over %s stay with the kernel: %s",
			 at->sin6_family == AF_INET ? "IPv4" : "IPv6", strerror(-r));
		return;
	}
	ear->poll.data = psid;
	(void)uv_poll_start(&ear->poll, UV_READABLE, on_sound);
}

void psid_witness_start(struct psid *psid)
{
	union {
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} at = { .in4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };

	listen_with(psid, &psid->ears[IPV4], &at.in6, sizeof(at.in4));
	at.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	listen_with(psid, &psid->ears[IPV6], &at.in6, sizeof(at.in6));
}

void psid_witness_stop(struct psid *psid)
{
	for (unsigned i = 0; i < ARRAY_SIZE(psid->ears); i++) {
		if (psid->ears[i].fd < 0)
			continue;
		uv_close((uv_handle_t *)&psid->ears[i].poll, NULL);
		psid->ears[i].fd = close_own(psid->ears[i].fd);
	}
	psid_map_deinit(&psid->witnesses);
}
