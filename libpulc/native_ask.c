/*
 * What the native interface asks of psid, and psid's answers.
 *
 * There is one request at a time, and a place of its own for its answer: whoever looks at the
 * channel, perhaps a thread inside the shim, puts it there, and the one that asked takes it. So it
 * waits for no more than a moment at once: another thread may have taken the answer off the
 * channel. An answer that nobody awaits any more gives back what came with it.
 *
 * Source: pulc-1998, 4.3 and 4.6.2.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/single_threaded.h>

#include <pulc/fds.h>

#include "clock.h"
#include "environment.h"
#include "lines.h"
#include "macros.h"
#include "native.h"
#include "peers.h"
#include "private.h"
#include "rawsys.h"
#include "shm.h"
#include "tcp_link.h"
#include "unsent.h"

#define NSEC_ANSWER (5 * NSEC_PER_SEC)
/* psid itself waits no longer than ten seconds for another node. */
#define NSEC_ANSWER_FAR (15 * NSEC_PER_SEC)
#define NSEC_ANSWER_TAKEN (2 * NSEC_PER_MSEC)
/* Before psid is called again that does not accept. */
#define NSEC_BUSY (20 * NSEC_PER_MSEC)

/* All under the client lock. */
static struct native_reply reply;
static uint32_t awaited,
	replied;	  /* the request that somebody waits with (0: none); that `reply` answers */
static int reply_fd = -1; /* what came with it, and nobody has taken */
static uint32_t last_request;

/* In the number of a request whose answer brings a port. */
#define BRINGS_PORT (1u << 31)

/* Nobody takes what came with an answer. */
static void give_back(uint32_t request, uint64_t holder, Pulc__Wire__PortError error, uint32_t port)
{
	if (holder)
		unsent_say(PULC__WIRE__FROM_CLIENT__BODY_SEM_CLOSE, holder);
	if ((request & BRINGS_PORT) && error == PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE)
		unsent_say(PULC__WIRE__FROM_CLIENT__BODY_PORT_CLOSE, port);
}

void native_keep_reply(const Pulc__Wire__PortReply *m, struct received *r)
{
	/* Too late, or one that nobody ever waits for. */
	if (m->request != awaited) {
		give_back(m->request, m->holder, m->error, m->port);
		return;
	}
	pulc_fd_release(&reply_fd);
	if (r->socket >= 0 && pulc_fd_adopt(&r->socket) == 0)
		pulc_fd_rehome(&r->socket, &reply_fd);
	reply = (struct native_reply){
		.error = m->error,
		.kind = (enum port_kind)m->kind,
		.port = m->port,
		.client = m->client,
		.node = m->node,
		.holder = m->holder,
		.count = m->count,
		.made = m->made,
		.all = m->all,
		.generation = client_generation(),
	};
	replied = m->request;
}

uint32_t native_request(void)
{
	last_request = (last_request + 1) & ~BRINGS_PORT;
	if (last_request == 0)
		last_request = 1;
	return last_request;
}

uint32_t native_request_of_port(void)
{
	return native_request() | BRINGS_PORT;
}

/* Looks at the channel, waiting for something to be there, or for room, until the deadline. 0;
 * -ENOTCONN; -ETIMEDOUT; -EDEADLK. */
static int look(short events, uint64_t deadline)
{
	struct pollfd p = { .fd = client_channel(), .events = events };
	uint64_t now = nsec_now();
	struct timespec ts;

	if (now >= deadline)
		return -ETIMEDOUT;
	/* Another thread that sleeps on the channel may take the answer off it. */
	if (!__libc_single_threaded)
		deadline = MIN(deadline, now + NSEC_ANSWER_TAKEN);
	ts = timespec_from_nsec(deadline - now);
	(void)raw_ppoll(&p, 1, &ts);
	if (!client_lock())
		return -EDEADLK;
	client_look();
	client_unlock();
	return client_channel() < 0 ? -ENOTCONN : 0;
}

static bool take_credit(uint64_t size)
{
	if (LIKELY(client_credit_take(size) == TCP_CREDIT_GRANTED))
		return true;
	client_credit_ask();
	return false;
}

static int begin(void)
{
	int e;

	if (!client_lock())
		return -EDEADLK;
	e = client_attach();
	client_unlock();
	return e;
}

static int rest_until(uint64_t deadline)
{
	const struct timespec pause = timespec_from_nsec(NSEC_BUSY);

	if (nsec_now() >= deadline)
		return -ETIMEDOUT;
	(void)raw_syscall(SYS_nanosleep, &pause, NULL, 0, 0, 0, 0);
	return 0;
}

static void give_hooks(void)
{
	hal_shm_take_credit = take_credit;
	hal_shm_return_credit = client_credit_return;
	hal_shm_wake = peers_tell;
	hal_shm_find_line = lines_find;
	hal_shm_return_line = lines_return;
	hal_tcp_keep_fd = pulc_fd_copy;
	hal_tcp_release_fd = pulc_fd_release;
	tag_area_bytes = native_area_bytes;
	tag_area_unref = native_area_unref;
}

int native_attach(void)
{
	static const char *const pulls[] = { "0", "1" }, *const ways[] = { "plain", "io_uring" };
	uint64_t deadline, size_queues = 0;
	int e = 0;

	if (LIKELY(client_id() != 0))
		return 0;
	deadline = nsec_now() + NSEC_ANSWER;
	give_hooks();
	e = protocol_register(PROTOCOL_PORT, &port_protocol);
	if (e == 0)
		e = protocol_register(PROTOCOL_TAG, &tag_protocol);
	if (e == 0)
		e = protocol_register(PROTOCOL_GUEST, &guest_protocol);
	native_guest_start();
	(void)environment_number("PULC_QUEUE_MAX", UINT64_MAX, &size_queues);
	port_budget_set(size_queues);
	tag_allow_pulls((enum tag_pulls)environment_word("PULC_PULL", pulls));
	native_choose_tcp(environment_word("PULC_TCP", ways) == 1);
	if (e == -EEXIST)
		e = 0;
	if (e == 0)
		e = begin();
	/* A psid that has more to accept than it can. */
	while (e == -EAGAIN && (e = rest_until(deadline)) == 0)
		e = begin();
	while (e == 0 && client_id() == 0)
		e = look(POLLIN, deadline);
	return e == -ENOTCONN ? client_why() : e;
}

static bool has_links(void)
{
	const struct peer *peer;

	TAILQ_FOREACH(peer, native_peers(), link_all)
		if (peer->link)
			return true;
	return false;
}

int native_attach_or_linked(void)
{
	int e = native_attach();

	return UNLIKELY(e < 0) && e != -EDEADLK && has_links() ? 0 : e;
}

static bool has_reply(uint32_t request, struct native_reply *ret_reply, int *ret_fd)
{
	bool has;

	if (!client_lock())
		return false;
	client_look();
	has = replied == request;
	*ret_reply = reply;
	if (has && ret_fd && reply_fd >= 0)
		pulc_fd_rehome(&reply_fd, ret_fd);
	client_unlock();
	return has;
}

static int error_of(Pulc__Wire__PortError error)
{
	switch (error) {
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE:
		return 0;
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT:
		return -ENOENT;
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_TAKEN:
		return -EADDRINUSE;
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT:
		return -EMFILE;
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_UNREACHABLE:
		return -EHOSTUNREACH;
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_LOST:
		return -ECONNRESET;
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_MOVING:
		return -EINPROGRESS;
	case PULC__WIRE__PORT_ERROR__PORT_ERROR_PERMISSION:
		return -EPERM;
	default:
		return -ENOMEM;
	}
}

static int send_request(const Pulc__Wire__FromClient *msg, uint32_t request, int fd)
{
	int e;

	if (!client_lock())
		return -EDEADLK;
	/* What is there already is late: what it gives back comes before the request. */
	client_look();
	awaited = request;
	waitsets_announce();
	e = client_send(msg, &fd, fd >= 0);
	client_unlock();
	return e;
}

static uint64_t patience(const Pulc__Wire__FromClient *msg)
{
	bool far = (msg->body_case == PULC__WIRE__FROM_CLIENT__BODY_PORT_LINK &&
		    msg->port_link->node) ||
		   (msg->body_case == PULC__WIRE__FROM_CLIENT__BODY_PORT_FIND &&
		    msg->port_find->node[0]);

	return far ? NSEC_ANSWER_FAR : NSEC_ANSWER;
}

/* Its answer may have come after all, and has not been taken. */
static void give_up_request(uint32_t request)
{
	if (client_lock()) {
		awaited = 0;
		if (replied == request)
			give_back(request, reply.holder, reply.error, reply.port);
		client_unlock();
	}
}

int native_ask_with(const Pulc__Wire__FromClient *msg, uint32_t request, int fd,
		    struct native_reply *ret_reply, int *ret_fd)
{
	uint64_t deadline = nsec_now() + patience(msg);
	int e = native_attach();

	if (e < 0)
		return e;
	do
		e = send_request(msg, request, fd);
	while (e == -EAGAIN && (e = look(POLLIN | POLLOUT, deadline)) == 0);
	while (e == 0 && !has_reply(request, ret_reply, ret_fd))
		e = look(POLLIN, deadline);
	/* Psid may have ended just behind its answer. */
	if (e == -ENOTCONN && has_reply(request, ret_reply, ret_fd))
		e = 0;
	if (e < 0)
		give_up_request(request);
	return e < 0 ? e : error_of(ret_reply->error);
}

int native_ask(const Pulc__Wire__FromClient *msg, uint32_t request, struct native_reply *ret_reply)
{
	return native_ask_with(msg, request, -1, ret_reply, NULL);
}

void native_give_back(uint32_t port)
{
	if (!client_lock())
		return;
	unsent_say(PULC__WIRE__FROM_CLIENT__BODY_PORT_CLOSE, port);
	client_unlock();
}

void native_ask_forked(void)
{
	replied = awaited = 0;
	pulc_fd_release(&reply_fd);
}
