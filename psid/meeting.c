/*
 * Meetings: one listens on a port of its own, the other connects, and both shake hands with the key
 * that the psids have agreed on over their own connection. What comes out is a connected socket.
 *
 * Whoever else knocks meanwhile is told nothing and gets no second try; the real one is let in all
 * the same, for of too many candidates the oldest goes. How long it takes is the owner's to bound.
 * A connection that failed ends the meeting of who made it, and want of descriptors that of who
 * waits: there is none for the real one either.
 *
 * A candidate is a socket whose hands are not shaken yet. Its memory is libuv's until its handle is
 * closed, and the meeting's may be gone by then; so candidates refer to the meeting, and forget it
 * when they are dropped.
 *
 * Source: DESIGN 5 (psid introduces the two processes and gives each a one-time key).
 */
#include "meeting.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "cleanup.h"
#include "descriptors.h"
#include "macros.h"

#define N_BACKLOG 8
#define N_CANDIDATES_MAX 8u

/* Signs of life on an idle connection, so that a node that is gone is noticed within ten
 * seconds. */
#define SEC_IDLE 4
#define SEC_BETWEEN 2
#define N_SIGNS 3

struct candidate {
	uv_poll_t poll;
	struct psid_meeting *meeting; /* NULL: dropped */
	int fd;
	bool connects; /* and is not connected yet */
	struct handshake handshake;
	TAILQ_ENTRY(candidate) link;
};

/* The listening socket, which outlives the meeting for as long as libuv needs it. */
struct door {
	uv_poll_t poll;
	struct psid_meeting *meeting;
	int fd;
};

struct psid_meeting {
	uv_loop_t *loop;
	struct door *door; /* NULL: we are the one that connects */
	TAILQ_HEAD(, candidate) candidates;
	unsigned n_candidates;
	uint8_t key[HANDSHAKE_KEY];
	psid_meeting_ended *ended;
	void *data;
};

/* ---- candidates ------------------------------------------------------------------------------ */

static void on_candidate_closed(uv_handle_t *handle)
{
	free(CONTAINER_OF(handle, struct candidate, poll));
}

/* Returns its socket, which it has no more. */
static int candidate_drop(struct candidate *c)
{
	int fd = TAKE_FD(c->fd);

	TAILQ_REMOVE(&c->meeting->candidates, c, link);
	c->meeting->n_candidates--;
	c->meeting = NULL;
	explicit_bzero(&c->handshake, sizeof(c->handshake));
	uv_close((uv_handle_t *)&c->poll, on_candidate_closed);
	return fd;
}

static void watch_over(int fd)
{
	const int on = 1, idle = SEC_IDLE, between = SEC_BETWEEN, n = N_SIGNS;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* 0: it is connected; -EAGAIN; another negative errno: it will not be. */
static int look_at_connection(struct candidate *c)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(int), len_sa = sizeof(sa);
	int error = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -errno;
	if (error)
		return -error;
	if (getpeername(c->fd, (struct sockaddr *)&sa, &len_sa) < 0)
		return errno == ENOTCONN ? -EAGAIN : -errno;
	c->connects = false;
	return 0;
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
	struct candidate *c = CONTAINER_OF(poll, struct candidate, poll);
	struct psid_meeting *m = c->meeting;
	int r = status < 0 ? status : c->connects ? look_at_connection(c) : 0, fd;

	(void)events;
	if (r == 0)
		r = handshake_step(&c->handshake, c->fd);
	if (r == -EAGAIN) {
		(void)uv_poll_start(poll, c->connects ? UV_WRITABLE : UV_READABLE, on_socket);
		return;
	}
	fd = candidate_drop(c);
	if (r < 0)
		fd = close_own(fd);
	else
		watch_over(fd);
	if (r == 0 || !m->door)
		m->ended(m->data, r < 0 ? r : fd);
}

/* Takes fd in any case. */
static int candidate_new(struct psid_meeting *m, int socket, bool connects)
{
	CLEANUP_FD int fd = socket;
	struct candidate *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	if (c)
		r = handshake_init(&c->handshake, m->key, !m->door);
	if (r == 0)
		r = uv_poll_init(m->loop, &c->poll, fd);
	if (r < 0) {
		free(c);
		return r;
	}
	c->meeting = m;
	c->fd = TAKE_FD(fd);
	c->connects = connects;
	TAILQ_INSERT_TAIL(&m->candidates, c, link);
	m->n_candidates++;
	/* Writable at once, or when it is connected: then it begins. */
	r = uv_poll_start(&c->poll, UV_WRITABLE, on_socket);
	if (r < 0)
		(void)close_own(candidate_drop(c));
	return r;
}

/* ---- the one who waits ----------------------------------------------------------------------- */

static void on_door_closed(uv_handle_t *handle)
{
	free(CONTAINER_OF(handle, struct door, poll));
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
	struct psid_meeting *m = CONTAINER_OF(poll, struct door, poll)->meeting;
	int fd;

	(void)status;
	(void)events;
	fd = accept4(m->door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 && psid_is_shortage(errno))
		m->ended(m->data, -errno);
	if (fd < 0)
		return;
	if (m->n_candidates >= N_CANDIDATES_MAX)
		(void)close_own(candidate_drop(TAILQ_FIRST(&m->candidates)));
	(void)candidate_new(m, fd, false);
}

/* As the address is, IPv4 or IPv6. */
static int family_of(const struct psid_address *address)
{
	struct sockaddr_storage sa;

	return psid_address_to_socket(address, AF_INET, &sa) > 0 ? AF_INET : AF_INET6;
}

static int open_door(const struct psid_address *at, int *ret_fd, uint16_t *ret_port)
{
	struct psid_address address = { 0 };
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	CLEANUP_FD int fd = -EBADF;
	int r;

	memcpy(address.ip, at->ip, sizeof(address.ip));
	r = psid_address_open(&address, family_of(at), SOCK_STREAM, &fd);
	if (r == -EADDRNOTAVAIL) {
		memset(address.ip, 0, sizeof(address.ip));
		r = psid_address_open(&address, family_of(at), SOCK_STREAM, &fd);
	}
	if (r < 0)
		return r;
	if (listen(fd, N_BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	r = psid_address_from_socket((struct sockaddr *)&sa, &address);
	if (r < 0)
		return r;
	*ret_port = address.port;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- from beginning to end ------------------------------------------------------------------- */

static struct psid_meeting *meeting_new(uv_loop_t *loop, const uint8_t key[HANDSHAKE_KEY])
{
	struct psid_meeting *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->loop = loop;
	TAILQ_INIT(&m->candidates);
	memcpy(m->key, key, HANDSHAKE_KEY);
	return m;
}

struct psid_meeting *psid_meeting_free(struct psid_meeting *m)
{
	if (!m)
		return NULL;
	while (!TAILQ_EMPTY(&m->candidates))
		(void)close_own(candidate_drop(TAILQ_FIRST(&m->candidates)));
	if (m->door) {
		uv_close((uv_handle_t *)&m->door->poll, on_door_closed);
		m->door->fd = close_own(m->door->fd);
	}
	explicit_bzero(m->key, sizeof(m->key));
	free(m);
	return NULL;
}

void psid_meeting_on_end(struct psid_meeting *m, psid_meeting_ended *ended, void *data)
{
	m->ended = ended;
	m->data = data;
}

/* Takes fd in any case. */
static int add_door(struct psid_meeting *m, int socket)
{
	CLEANUP_FD int fd = socket;
	struct door *door = calloc(1, sizeof(*door));
	int r = door ? uv_poll_init(m->loop, &door->poll, fd) : -ENOMEM;

	if (r < 0) {
		free(door);
		return r;
	}
	door->meeting = m;
	door->fd = TAKE_FD(fd);
	m->door = door;
	return uv_poll_start(&door->poll, UV_READABLE, on_knock);
}

int psid_meeting_listen(uv_loop_t *loop, const struct psid_address *at,
			const uint8_t key[HANDSHAKE_KEY], struct psid_meeting **ret_meeting,
			uint16_t *ret_port)
{
	struct psid_meeting *m;
	int fd, r = open_door(at, &fd, ret_port);

	if (r < 0)
		return r;
	m = meeting_new(loop, key);
	if (!m) {
		(void)close_own(fd);
		return -ENOMEM;
	}
	r = add_door(m, fd);
	if (r < 0)
		(void)psid_meeting_free(m);
	else
		*ret_meeting = m;
	return r;
}

int psid_meeting_connect(uv_loop_t *loop, const struct psid_address *to,
			 const uint8_t key[HANDSHAKE_KEY], struct psid_meeting **ret_meeting)
{
	int family = family_of(to), r = 0;
	CLEANUP_FD int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_storage sa;
	socklen_t len = psid_address_to_socket(to, family, &sa);
	struct psid_meeting *m;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS)
		return -errno;
	m = meeting_new(loop, key);
	if (!m)
		return -ENOMEM;
	r = candidate_new(m, TAKE_FD(fd), true);
	if (r < 0)
		(void)psid_meeting_free(m);
	else
		*ret_meeting = m;
	return r;
}
