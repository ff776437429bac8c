/*
 * The conversation with psid: find it, introduce ourselves, ask, collect.
 *
 * A conversation is a Unix seqpacket socket on which each datagram is one message. psid never waits
 * for us, and we wait for it no longer than SEC_PATIENCE: a psid that hangs must not hang the tool
 * that is used to find out why. Whatever a reply holds is checked for its kind before it is handed
 * on; a Refuse ends the conversation wherever it comes.
 */
#include "query.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"
#include "cleanup.h"
#include "clock.h"
#include "paths.h"
#include "reply.h"

#define SEC_PATIENCE 5
#define N_RETRIES_BUSY 50
#define USEC_RETRY_BUSY 20000

/* The library takes part in connections with this version; pulcctl has no part in the layout. */
#define LAYOUT_NONE 0

static int await_readable(int fd)
{
	uint64_t end = nsec_now() + SEC_PATIENCE * NSEC_PER_SEC;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now = nsec_now();
		int n = now < end ? poll(&p, 1, (int)((end - now) / 1000000) + 1) : 0;

		if (n > 0)
			return 0;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

static int receive(int fd, Pulc__Wire__ToClient **ret)
{
	uint8_t buf[WIRE_SIZE_MAX];
	int fds[WIRE_FDS_MAX];
	size_t len, n_fds;
	Pulc__Wire__ToClient *msg;
	int r;

	do {
		r = await_readable(fd);
		if (r < 0)
			return r;
		r = wire_recv(fd, buf, &len, fds, &n_fds);
	} while (r == -EAGAIN);
	if (r < 0)
		return r;
	while (n_fds > 0) /* a tool that owns nothing is sent none */
		(void)close(fds[--n_fds]);
	msg = pulc__wire__to_client__unpack(NULL, len, buf);
	if (!msg)
		return -EBADMSG;
	*ret = msg;
	return 0;
}

/* A psid whose queue of callers is full is asked again for a second. */
static int connect_patiently(struct ctl_psid *psid)
{
	int r = -EAGAIN;

	for (int i = 0; i < N_RETRIES_BUSY && r == -EAGAIN; i++) {
		if (i > 0)
			(void)usleep(USEC_RETRY_BUSY);
		psid->fd = close_own(psid->fd);
		psid->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (psid->fd < 0)
			return -errno;
		r = wire_connect(psid->fd, psid->path, sizeof(psid->path));
	}
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

static int introduce(struct ctl_psid *psid)
{
	Pulc__Wire__Hello hello = PULC__WIRE__HELLO__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	int r;

	hello.version = WIRE_VERSION;
	hello.role = PULC__WIRE__ROLE__ROLE_CONTROL;
	hello.program = (char *)"pulcctl";
	hello.layout = LAYOUT_NONE;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_HELLO;
	msg.hello = &hello;
	r = wire_send_from_client(psid->fd, &msg, NULL, 0);
	if (r < 0 && r != -EPIPE) /* a Refuse may be there to read */
		return r;
	r = receive(psid->fd, &psid->hello);
	if (r < 0)
		return r;
	switch (psid->hello->body_case) {
	case PULC__WIRE__TO_CLIENT__BODY_WELCOME:
		return 0;
	case PULC__WIRE__TO_CLIENT__BODY_REFUSE:
		return -ECONNREFUSED;
	default:
		return -EBADMSG;
	}
}

int ctl_psid_open(struct ctl_psid *psid)
{
	int r;

	*psid = CTL_PSID_NONE;
	r = connect_patiently(psid);
	return r < 0 ? r : introduce(psid);
}

void ctl_psid_close(struct ctl_psid *psid)
{
	if (psid->hello)
		pulc__wire__to_client__free_unpacked(psid->hello, NULL);
	psid->hello = NULL;
	psid->fd = close_own(psid->fd);
}

const Pulc__Wire__Refuse *ctl_refusal(const struct ctl_psid *psid)
{
	if (!psid->hello || psid->hello->body_case != PULC__WIRE__TO_CLIENT__BODY_REFUSE)
		return NULL;
	return psid->hello->refuse;
}

/* The requests share their numbers with their replies: the schema keeps them so. */
static bool answers(const Pulc__Wire__ToClient *reply, Pulc__Wire__FromClient__BodyCase body)
{
	return (unsigned)reply->body_case == (unsigned)body;
}

static int append(struct ctl_replies *replies, Pulc__Wire__ToClient *reply)
{
	Pulc__Wire__ToClient **items;

	items = reallocarray(replies->items, replies->n + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	replies->items = items;
	items[replies->n++] = reply;
	return 0;
}

/* Takes one reply; 1: another one follows. */
static int collect(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body,
		   struct ctl_replies *replies)
{
	Pulc__Wire__ToClient *reply = NULL;
	int r;

	r = receive(psid->fd, &reply);
	if (r < 0)
		return r;
	if (answers(reply, body)) {
		bool more = ctl_reply_has_more(reply);

		r = append(replies, reply);
		if (r == 0)
			return more;
	} else if (reply->body_case == PULC__WIRE__TO_CLIENT__BODY_REFUSE) {
		pulc__wire__to_client__free_unpacked(psid->hello, NULL);
		psid->hello = reply;
		return -ECONNREFUSED;
	} else {
		r = -EBADMSG;
	}
	pulc__wire__to_client__free_unpacked(reply, NULL);
	return r;
}

static int send_question(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body,
			 const char *name, unsigned number)
{
	Pulc__Wire__StatusRequest status = PULC__WIRE__STATUS_REQUEST__INIT;
	Pulc__Wire__SocketsRequest sockets = PULC__WIRE__SOCKETS_REQUEST__INIT;
	Pulc__Wire__ClientsRequest clients = PULC__WIRE__CLIENTS_REQUEST__INIT;
	Pulc__Wire__PortsRequest ports = PULC__WIRE__PORTS_REQUEST__INIT;
	Pulc__Wire__StopRequest stop = PULC__WIRE__STOP_REQUEST__INIT;
	Pulc__Wire__JobsRequest jobs = PULC__WIRE__JOBS_REQUEST__INIT;
	Pulc__Wire__TasksRequest tasks = PULC__WIRE__TASKS_REQUEST__INIT;
	Pulc__Wire__KillRequest kill = PULC__WIRE__KILL_REQUEST__INIT;
	Pulc__Wire__NodesRequest nodes = PULC__WIRE__NODES_REQUEST__INIT;
	Pulc__Wire__DrainRequest drain = PULC__WIRE__DRAIN_REQUEST__INIT;
	Pulc__Wire__AreasRequest areas = PULC__WIRE__AREAS_REQUEST__INIT;
	Pulc__Wire__ReloadRequest reload = PULC__WIRE__RELOAD_REQUEST__INIT;
	Pulc__Wire__LogLevelRequest log_level = PULC__WIRE__LOG_LEVEL_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;

	tasks.job = kill.job = drain.node = log_level.level = (char *)(name ? name : "");
	kill.signal = number;
	drain.drained = jobs.here = tasks.here = number != 0;
	msg.body_case = body;
	switch (body) {
	case PULC__WIRE__FROM_CLIENT__BODY_STATUS:
		msg.status = &status;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_SOCKETS:
		msg.sockets = &sockets;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_CLIENTS:
		msg.clients = &clients;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_PORTS:
		msg.ports = &ports;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_STOP:
		msg.stop = &stop;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_JOBS:
		msg.jobs = &jobs;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_TASKS:
		msg.tasks = &tasks;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_KILL:
		msg.kill = &kill;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_NODES:
		msg.nodes = &nodes;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_DRAIN:
		msg.drain = &drain;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_AREAS:
		msg.areas = &areas;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_RELOAD:
		msg.reload = &reload;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_LOG_LEVEL:
		msg.log_level = &log_level;
		break;
	default:
		return -EINVAL;
	}
	return wire_send_from_client(psid->fd, &msg, NULL, 0);
}

int ctl_ask_about(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body, const char *name,
		  unsigned number, struct ctl_replies *ret)
{
	struct ctl_replies replies = { 0 };
	int r;

	r = send_question(psid, body, name, number);
	if (r == 0) {
		do
			r = collect(psid, body, &replies);
		while (r > 0);
	}
	if (r < 0) {
		ctl_replies_deinit(&replies);
		return r;
	}
	*ret = replies;
	return 0;
}

int ctl_ask(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body, struct ctl_replies *ret)
{
	return ctl_ask_about(psid, body, NULL, 0, ret);
}

void ctl_replies_deinit(struct ctl_replies *replies)
{
	for (size_t i = 0; i < replies->n; i++)
		pulc__wire__to_client__free_unpacked(replies->items[i], NULL);
	free(replies->items);
	*replies = (struct ctl_replies){ 0 };
}

int ctl_pidfd(const struct ctl_psid *psid, unsigned pid, int *ret_fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int fd;

	if (getsockopt(psid->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	/* Another number: it lives in another pid namespace, or somebody listened in its place. */
	if (peer.pid <= 0 || (unsigned)peer.pid != pid)
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int ctl_await_end(struct ctl_psid *psid, int pidfd)
{
	for (;;) {
		Pulc__Wire__ToClient *late = NULL;
		int r = receive(psid->fd, &late);

		if (late)
			pulc__wire__to_client__free_unpacked(late, NULL);
		if (r == -EPIPE)
			return pidfd < 0 ? 0 : await_readable(pidfd);
		if (r < 0 && r != -EBADMSG)
			return r;
	}
}
