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
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"
#include "cleanup.h"
#include "clock.h"
#include "reply.h"
#include "talk.h"

#define SEC_PATIENCE 5
#define N_TRIES 50
#define USEC_AGAIN 20000

static uint64_t patience(void)
{
	return nsec_now() + SEC_PATIENCE * NSEC_PER_SEC;
}

static int introduce(struct ctl_psid *psid)
{
	int r;

	r = wire_talk_hello(psid->fd, PULC__WIRE__ROLE__ROLE_CONTROL, "pulcctl");
	if (r == 0)
		r = wire_talk_receive(psid->fd, patience(), &psid->hello);
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

/* One that is killed before it has greeted us was asked nothing yet: the next one is, which may be
 * there already, at a socket that the service manager keeps. */
int ctl_psid_open(struct ctl_psid *psid)
{
	uint64_t nsec_end = patience();
	int r;

	*psid = CTL_PSID_NONE;
	do {
		psid->fd = close_own(psid->fd);
		r = wire_talk_call(N_TRIES, psid->path, sizeof(psid->path), &psid->fd);
		if (r == 0)
			r = introduce(psid);
	} while (r == -EPIPE && nsec_now() < nsec_end && usleep(USEC_AGAIN) == 0);
	return r;
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

	r = wire_talk_receive(psid->fd, patience(), &reply);
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

/* Questions that consist of nothing but their kind. */
static bool is_plain(Pulc__Wire__FromClient *msg)
{
	static Pulc__Wire__StatusRequest status = PULC__WIRE__STATUS_REQUEST__INIT;
	static Pulc__Wire__SocketsRequest sockets = PULC__WIRE__SOCKETS_REQUEST__INIT;
	static Pulc__Wire__ClientsRequest clients = PULC__WIRE__CLIENTS_REQUEST__INIT;
	static Pulc__Wire__PortsRequest ports = PULC__WIRE__PORTS_REQUEST__INIT;
	static Pulc__Wire__PortPeersRequest port_peers = PULC__WIRE__PORT_PEERS_REQUEST__INIT;
	static Pulc__Wire__StopRequest stop = PULC__WIRE__STOP_REQUEST__INIT;
	static Pulc__Wire__NodesRequest nodes = PULC__WIRE__NODES_REQUEST__INIT;
	static Pulc__Wire__AreasRequest areas = PULC__WIRE__AREAS_REQUEST__INIT;
	static Pulc__Wire__PartitionsRequest partitions = PULC__WIRE__PARTITIONS_REQUEST__INIT;
	static Pulc__Wire__ReloadRequest reload = PULC__WIRE__RELOAD_REQUEST__INIT;

	switch (msg->body_case) {
	case PULC__WIRE__FROM_CLIENT__BODY_STATUS:
		msg->status = &status;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_SOCKETS:
		msg->sockets = &sockets;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_CLIENTS:
		msg->clients = &clients;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_PORTS:
		msg->ports = &ports;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_PORT_PEERS:
		msg->port_peers = &port_peers;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_STOP:
		msg->stop = &stop;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_NODES:
		msg->nodes = &nodes;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_AREAS:
		msg->areas = &areas;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_PARTITIONS:
		msg->partitions = &partitions;
		return true;
	case PULC__WIRE__FROM_CLIENT__BODY_RELOAD:
		msg->reload = &reload;
		return true;
	default:
		return false;
	}
}

/* Those about somebody, or with a number: see ctl_ask_about. */
static int send_question(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body,
			 const char *name, unsigned number)
{
	Pulc__Wire__JobsRequest jobs = PULC__WIRE__JOBS_REQUEST__INIT;
	Pulc__Wire__TasksRequest tasks = PULC__WIRE__TASKS_REQUEST__INIT;
	Pulc__Wire__KillRequest kill = PULC__WIRE__KILL_REQUEST__INIT;
	Pulc__Wire__DrainRequest drain = PULC__WIRE__DRAIN_REQUEST__INIT;
	Pulc__Wire__LogLevelRequest log_level = PULC__WIRE__LOG_LEVEL_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;

	tasks.job = kill.job = drain.node = log_level.level = (char *)(name ? name : "");
	kill.signal = number;
	drain.drained = jobs.here = tasks.here = number != 0;
	msg.body_case = body;
	if (is_plain(&msg))
		return wire_send_from_client(psid->fd, &msg, NULL, 0);
	switch (body) {
	case PULC__WIRE__FROM_CLIENT__BODY_JOBS:
		msg.jobs = &jobs;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_TASKS:
		msg.tasks = &tasks;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_KILL:
		msg.kill = &kill;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_DRAIN:
		msg.drain = &drain;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_LOG_LEVEL:
		msg.log_level = &log_level;
		break;
	default:
		return -EINVAL;
	}
	return wire_send_from_client(psid->fd, &msg, NULL, 0);
}

static int collect_all(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body,
		       struct ctl_replies *ret)
{
	struct ctl_replies replies = { 0 };
	int r;

	do
		r = collect(psid, body, &replies);
	while (r > 0);
	if (r < 0)
		ctl_replies_deinit(&replies);
	else
		*ret = replies;
	return r;
}

int ctl_ask_message(struct ctl_psid *psid, const Pulc__Wire__FromClient *msg,
		    struct ctl_replies *ret)
{
	int r = wire_send_from_client(psid->fd, msg, NULL, 0);

	return r < 0 ? r : collect_all(psid, msg->body_case, ret);
}

int ctl_ask_queue(struct ctl_psid *psid, bool here, struct ctl_replies *ret)
{
	Pulc__Wire__JobsRequest jobs = PULC__WIRE__JOBS_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;

	jobs.here = here;
	jobs.queued = true;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_JOBS;
	msg.jobs = &jobs;
	return ctl_ask_message(psid, &msg, ret);
}

int ctl_ask_about(struct ctl_psid *psid, Pulc__Wire__FromClient__BodyCase body, const char *name,
		  unsigned number, struct ctl_replies *ret)
{
	int r = send_question(psid, body, name, number);

	return r < 0 ? r : collect_all(psid, body, ret);
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
		int r = wire_talk_receive(psid->fd, patience(), &late);

		if (late)
			pulc__wire__to_client__free_unpacked(late, NULL);
		if (r == -EPIPE)
			return pidfd < 0 ? 0 : wire_talk_await(pidfd, patience());
		if (r < 0 && r != -EBADMSG)
			return r;
	}
}
