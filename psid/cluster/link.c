/*
 * A connection between two psids, in steps: TCP connects, both sides greet in clear (greeting.c),
 * TLS shakes hands, then frames flow both ways. Each step begins when the one before is done, and
 * all of it must be done within some seconds.
 *
 * Frames: four bytes of length, then a message. A frame is taken from a buffer that grows with it,
 * up to the largest message, and is given back when it is empty. What is to be sent waits in `out`,
 * whose end the peer's table bounds.
 *
 * Links end in themselves: psid_link_end only marks, and the memory is freed when libuv has let go
 * of the poll handle; nobody returns into a freed link.
 */
#include "link.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "inside.h"
#include "log.h"
#include "macros.h"
#include "peer.h"

#define SIZE_ROOM 16384u     /* one record of TLS, so that none is left inside of OpenSSL */
#define SIZE_TURN (1u << 20) /* read in one turn of the loop */
#define MSEC_TIMEOUT 10000   /* for data that is not acknowledged */

static void on_ready(uv_poll_t *poll, int status, int events);

/* ---- ends ------------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle)
{
	struct psid_link *link = CONTAINER_OF((uv_poll_t *)handle, struct psid_link, poll);

	SSL_free(link->ssl);
	link->fd = close_own(link->fd);
	psid_queue_deinit(&link->out);
	free(link->in);
	free(link);
}

void psid_link_end(struct psid_link *link, const char *why)
{
	char text[PSID_SIZE_ADDRESS_TEXT];

	if (link->state == PSID_LINK_ENDED)
		return;
	if (why)
		psid_misfit_link(link->cluster, &link->address, link->is_server, why);
	if (why &&
	    psid_may_complain(&link->cluster->complaints, &link->address, psid_complaint_kind(why)))
		psid_log(PSID_WARNING, "connection %s %s: %s", link->is_server ? "from" : "to",
			 psid_address_text(&link->address, text), why);
	if (link->state == PSID_LINK_OPEN)
		(void)SSL_shutdown(link->ssl); /* as far as it goes without waiting */
	ERR_clear_error();
	link->state = PSID_LINK_ENDED;
	link->peer = NULL;
	psid_deadline_clear(&link->cluster->peers.handshakes, &link->deadline);
	LIST_REMOVE(link, link);
	link->cluster->peers.n_links--;
	uv_close((uv_handle_t *)&link->poll, on_closed);
}

static void break_link(struct psid_link *link, const char *why)
{
	psid_peers_link_broken(link);
	psid_link_end(link, why);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void set_events(struct psid_link *link)
{
	int events = UV_READABLE;

	if (link->state == PSID_LINK_ENDED)
		return;
	if (link->state == PSID_LINK_CONNECTING)
		events = UV_WRITABLE;
	if ((link->state == PSID_LINK_GREETING && link->n_greeting_out < PSID_SIZE_GREETING) ||
	    link->wants_write ||
	    (link->state == PSID_LINK_OPEN && !psid_queue_is_empty(&link->out)))
		events |= UV_WRITABLE;
	(void)uv_poll_start(&link->poll, events, on_ready);
}

/* What an operation of TLS that did not succeed means. Returns 0: wait; -EPIPE: it is over. */
static int ssl_result(struct psid_link *link, int n)
{
	switch (SSL_get_error(link->ssl, n)) {
	case SSL_ERROR_WANT_READ:
		return 0;
	case SSL_ERROR_WANT_WRITE:
		link->wants_write = true;
		return 0;
	default:
		return -EPIPE;
	}
}

/* ---- steps before frames flow ---------------------------------------------------------------- */

static int connected(struct psid_link *link)
{
	int e = 0;
	socklen_t len = sizeof(e);

	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0 || e != 0) {
		break_link(link, strerror(e ? e : errno));
		return -EPIPE;
	}
	link->state = PSID_LINK_GREETING;
	return 1;
}

static int take_greeting(struct psid_link *link)
{
	const struct psid_greeting *ours = &link->cluster->peers.greeting;
	struct psid_greeting theirs;
	char why[192];

	if (psid_greeting_unpack(link->greeting_in, &theirs) < 0) {
		link->cluster->peers.n_garbage++;
		break_link(link, "they don't speak our protocol");
		return -EPROTO;
	}
	if (psid_greeting_compare(ours, &link->cluster->ring, &theirs, why, sizeof(why)) < 0) {
		break_link(link, why);
		return -EPROTO;
	}
	link->ssl = psid_tls_new(&link->cluster->peers.tls, link->fd, link->is_server);
	if (!link->ssl) {
		break_link(link, "no memory");
		return -ENOMEM;
	}
	link->state = PSID_LINK_HANDSHAKE;
	return 1;
}

/* Both directions of the greeting. Returns 1: done; 0: wait; negative: it is over. */
static int greet(struct psid_link *link)
{
	ssize_t n;

	while (link->n_greeting_out < PSID_SIZE_GREETING) {
		n = send(link->fd, link->greeting_out + link->n_greeting_out,
			 PSID_SIZE_GREETING - link->n_greeting_out, MSG_NOSIGNAL);
		if (n < 0)
			break;
		link->n_greeting_out += (size_t)n;
	}
	while (link->n_greeting_in < PSID_SIZE_GREETING) {
		n = recv(link->fd, link->greeting_in + link->n_greeting_in,
			 PSID_SIZE_GREETING - link->n_greeting_in, 0);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0) {
			break_link(link, n == 0 ? "they have closed it" : strerror(errno));
			return -EPIPE;
		}
		link->n_greeting_in += (size_t)n;
	}
	return link->n_greeting_out < PSID_SIZE_GREETING ? 0 : take_greeting(link);
}

static int shake_hands(struct psid_link *link)
{
	int n, r;

	ERR_clear_error();
	n = SSL_do_handshake(link->ssl);
	if (n == 1) {
		link->state = PSID_LINK_OPEN;
		psid_peers_link_open(link);
		return 1;
	}
	r = ssl_result(link, n);
	if (r < 0) {
		char why[192];

		(void)snprintf(why, sizeof(why), "TLS: %s", psid_tls_why());
		break_link(link, why);
	}
	return r;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Takes the frames that are complete. Returns how many bytes they were; -EPIPE: the link has
 * ended. */
static ssize_t take_frames(struct psid_link *link)
{
	size_t at = 0;

	while (link->n_in - at >= PSID_SIZE_FRAME_HEAD) {
		size_t len = psid_frame_size(link->in + at);

		if (len > PSID_PEER_SIZE_MAX) {
			link->cluster->peers.n_garbage++;
			break_link(link, "a message is larger than messages may be");
			return -EPIPE;
		}
		if (link->n_in - at < PSID_SIZE_FRAME_HEAD + len)
			break;
		if (psid_peers_link_frame(link, link->in + at + PSID_SIZE_FRAME_HEAD, len) < 0) {
			link->cluster->peers.n_garbage++;
			break_link(link, "a message makes no sense");
			return -EPIPE;
		}
		if (link->state == PSID_LINK_ENDED)
			return -EPIPE;
		at += PSID_SIZE_FRAME_HEAD + len;
	}
	return (ssize_t)at;
}

/* Room for a record of TLS, and for all of the frame that has begun. Returns 0, -ENOMEM. */
static int make_room(struct psid_link *link)
{
	size_t n_room = link->n_in + SIZE_ROOM;
	uint8_t *in;

	if (link->n_in >= PSID_SIZE_FRAME_HEAD)
		n_room = MAX(n_room, PSID_SIZE_FRAME_HEAD + psid_frame_size(link->in));
	if (link->n_in_room >= n_room)
		return 0;
	in = realloc(link->in, n_room);
	if (!in)
		return -ENOMEM;
	link->in = in;
	link->n_in_room = n_room;
	return 0;
}

static void keep_rest(struct psid_link *link, size_t n_done)
{
	link->n_in -= n_done;
	if (n_done > 0 && link->n_in > 0)
		memmove(link->in, link->in + n_done, link->n_in);
	if (link->n_in > 0)
		return;
	free(TAKE_PTR(link->in));
	link->n_in_room = 0;
}

/* Returns 0: nothing more is there now; -EPIPE: the link has ended. */
static int read_frames(struct psid_link *link)
{
	for (size_t size = 0; size < SIZE_TURN;) {
		ssize_t n_done;
		int n;

		if (make_room(link) < 0) {
			break_link(link, "no memory");
			return -EPIPE;
		}
		ERR_clear_error();
		n = SSL_read(link->ssl, link->in + link->n_in, (int)(link->n_in_room - link->n_in));
		if (n <= 0) {
			keep_rest(link, 0);
			if (ssl_result(link, n) == 0)
				return 0;
			break_link(link, link->has_heard_bye ? NULL : psid_tls_why());
			return -EPIPE;
		}
		size += (size_t)n;
		link->n_in += (size_t)n;
		n_done = take_frames(link);
		if (n_done < 0)
			return -EPIPE;
		keep_rest(link, (size_t)n_done);
	}
	return 0;
}

static int write_frames(struct psid_link *link)
{
	const uint8_t *bytes;
	size_t len;

	while ((bytes = psid_queue_front(&link->out, &len))) {
		int n;

		ERR_clear_error();
		n = SSL_write(link->ssl, bytes, (int)len);
		if (n > 0) {
			psid_queue_drop(&link->out, (size_t)n);
			continue;
		}
		if (ssl_result(link, n) == 0)
			return 0;
		break_link(link, psid_tls_why());
		return -EPIPE;
	}
	psid_peers_link_flushed(link);
	return 0;
}

void psid_link_flush(struct psid_link *link)
{
	if (link->state == PSID_LINK_OPEN && write_frames(link) == 0)
		set_events(link);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct psid_link *link = CONTAINER_OF(poll, struct psid_link, poll);
	int r = 1;

	(void)events;
	link->wants_write = false;
	if (status < 0) {
		break_link(link, uv_strerror(status));
		return;
	}
	if (link->state == PSID_LINK_CONNECTING)
		r = connected(link);
	if (r > 0 && link->state == PSID_LINK_GREETING)
		r = greet(link);
	if (r > 0 && link->state == PSID_LINK_HANDSHAKE)
		r = shake_hands(link);
	if (r > 0 && link->state == PSID_LINK_OPEN)
		r = read_frames(link);
	if (r >= 0 && link->state == PSID_LINK_OPEN)
		(void)write_frames(link);
	set_events(link);
}

/* ---- beginnings ------------------------------------------------------------------------------ */

static void set_options(int fd)
{
	int on = 1, msec = MSEC_TIMEOUT;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &msec, sizeof(msec));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* Takes fd. */
static struct psid_link *link_new(struct psid_cluster *cluster, int fd,
				  const struct psid_address *address, enum psid_link_state state)
{
	struct psid_link *link = calloc(1, sizeof(*link));

	if (!link || uv_poll_init(cluster->loop, &link->poll, fd) < 0) {
		free(link);
		(void)close_own(fd);
		return NULL;
	}
	set_options(fd);
	link->cluster = cluster;
	link->fd = fd;
	link->address = *address;
	link->state = state;
	psid_queue_init(&link->out);
	psid_greeting_pack(&cluster->peers.greeting, link->greeting_out);
	LIST_INSERT_HEAD(&cluster->peers.links, link, link);
	cluster->peers.n_links++;
	psid_deadline_set(&cluster->peers.handshakes, &link->deadline);
	set_events(link);
	return link;
}

/* From the address that the others know us by, if it was configured: for their firewalls and
 * logs. */
static void bind_to_self(const struct psid_cluster *cluster, int fd, int family)
{
	struct psid_address address = cluster->config->address;
	struct sockaddr_storage sa;
	socklen_t size;

	address.port = 0;
	size = psid_address_to_socket(&address, family, &sa);
	if (size > 0 && !psid_address_is_any(&address))
		(void)!bind(fd, (const struct sockaddr *)&sa, size);
}

struct psid_link *psid_link_connect(struct psid_cluster *cluster,
				    const struct psid_address *address)
{
	int family = cluster->gossip.family;
	struct sockaddr_storage sa;
	socklen_t size = psid_address_to_socket(address, family, &sa);
	int fd;

	if (size == 0)
		return NULL;
	fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return NULL;
	bind_to_self(cluster, fd, family);
	/* What is wrong shows when it is looked at: the same for all that can be. */
	(void)!connect(fd, (const struct sockaddr *)&sa, size);
	return link_new(cluster, fd, address, PSID_LINK_CONNECTING);
}

struct psid_link *psid_link_accept(struct psid_cluster *cluster, int fd,
				   const struct psid_address *address)
{
	struct psid_link *link = link_new(cluster, fd, address, PSID_LINK_GREETING);

	if (link)
		link->is_server = true;
	return link;
}
