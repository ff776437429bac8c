/*
 * Roll-call: what the front psid knows of its cluster, asked until all nodes of the allocation have
 * come. A job that was asked for before would get only those that are there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "cleanup.h"
#include "clock.h"
#include "lodging.h"
#include "talk.h"

#define N_TRIES 250
#define SEC_ANSWER 10
#define SEC_NODES 60
#define USEC_BETWEEN 10000
#define N_NAMED 8

typedef void visitor(void *data, const Pulc__Wire__NodeEntry *node);

static int call(int *ret_fd)
{
	CLEANUP_FD int fd = -EBADF;
	Pulc__Wire__ToClient *msg = NULL;
	int r = wire_talk_call(N_TRIES, NULL, 0, &fd);

	if (r == 0)
		r = wire_talk_hello(fd, PULC__WIRE__ROLE__ROLE_CONTROL, "pulcrun");
	if (r == 0)
		r = wire_talk_receive(fd, nsec_now() + SEC_ANSWER * NSEC_PER_SEC, &msg);
	if (r != 0)
		return r;
	if (msg->body_case != PULC__WIRE__TO_CLIENT__BODY_WELCOME)
		r = -ECONNREFUSED;
	pulc__wire__to_client__free_unpacked(msg, NULL);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

/* One message of the answer. Returns 0; 1: another one follows. */
static int take(int fd, visitor *visit, void *data)
{
	Pulc__Wire__ToClient *msg = NULL;
	int r = wire_talk_receive(fd, nsec_now() + SEC_ANSWER * NSEC_PER_SEC, &msg);

	if (r < 0)
		return r;
	if (msg->body_case == PULC__WIRE__TO_CLIENT__BODY_NODES) {
		for (size_t i = 0; i < msg->nodes->n_nodes; i++)
			visit(data, msg->nodes->nodes[i]);
		r = msg->nodes->more;
	} else {
		r = -EBADMSG;
	}
	pulc__wire__to_client__free_unpacked(msg, NULL);
	return r;
}

static int each_node(int fd, visitor *visit, void *data)
{
	Pulc__Wire__NodesRequest nodes = PULC__WIRE__NODES_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	int r;

	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_NODES;
	msg.nodes = &nodes;
	r = wire_send_from_client(fd, &msg, NULL, 0);
	if (r == 0)
		do
			r = take(fd, visit, data);
		while (r > 0);
	return r;
}

/* ---- the front ------------------------------------------------------------------------------- */

struct place {
	char *buf;
	size_t size;
};

static void note_place(void *data, const Pulc__Wire__NodeEntry *node)
{
	struct place *place = data;
	bool is_four = node->addr.len == 4;
	char ip[INET6_ADDRSTRLEN];

	if (!node->self || (!is_four && node->addr.len != 16) ||
	    !inet_ntop(is_four ? AF_INET : AF_INET6, node->addr.data, ip, sizeof(ip)))
		return;
	(void)snprintf(place->buf, place->size, is_four ? "%s:%u" : "[%s]:%u", ip, node->port);
}

static int drain(int fd)
{
	Pulc__Wire__DrainRequest drain = PULC__WIRE__DRAIN_REQUEST__INIT;
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__ToClient *reply = NULL;
	int r;

	drain.drained = true;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_DRAIN;
	msg.drain = &drain;
	r = wire_send_from_client(fd, &msg, NULL, 0);
	if (r == 0)
		r = wire_talk_receive(fd, nsec_now() + SEC_ANSWER * NSEC_PER_SEC, &reply);
	if (r != 0)
		return r;
	if (reply->body_case != PULC__WIRE__TO_CLIENT__BODY_DRAIN || reply->drain->error[0])
		r = -EBADMSG;
	pulc__wire__to_client__free_unpacked(reply, NULL);
	return r;
}

int muster_front(char *buf, size_t size)
{
	CLEANUP_FD int fd = -EBADF;
	struct place place = { buf, size };
	int r = call(&fd);

	buf[0] = '\0';
	if (r == 0)
		r = drain(fd);
	if (r == 0)
		r = each_node(fd, note_place, &place);
	return r < 0 ? r : buf[0] ? 0 : -EBADMSG;
}

/* ---- the nodes ------------------------------------------------------------------------------- */

struct roll {
	const struct hosts *nodes;
	bool *here;
	size_t n_here;
};

static void note_node(void *data, const Pulc__Wire__NodeEntry *node)
{
	struct roll *roll = data;

	if (strcmp(node->state, "alive") != 0)
		return;
	for (size_t i = 0; i < roll->nodes->n; i++)
		if (!roll->here[i] && strcmp(roll->nodes->items[i].name, node->name) == 0) {
			roll->here[i] = true;
			roll->n_here++;
			return;
		}
}

static void name_missing(const struct roll *roll)
{
	unsigned n = 0;

	fputs("pulcrun: no psid has come from these nodes of the allocation:", stderr);
	for (size_t i = 0; i < roll->nodes->n && n <= N_NAMED; i++)
		if (!roll->here[i])
			fprintf(stderr, " %s", n++ < N_NAMED ? roll->nodes->items[i].name : "...");
	fputc('\n', stderr);
}

static int call_roll(int fd, struct roll *roll, struct helper *helper)
{
	uint64_t end = nsec_now() + SEC_NODES * NSEC_PER_SEC;
	int r;

	for (;;) {
		r = each_node(fd, note_node, roll);
		if (r < 0 || roll->n_here == roll->nodes->n)
			return r;
		if (!helper_ignore(helper))
			return -EPIPE;
		if (nsec_now() > end) {
			name_missing(roll);
			return -ETIMEDOUT;
		}
		(void)usleep(USEC_BETWEEN);
	}
}

int muster_nodes(const struct hosts *nodes, struct helper *helper)
{
	CLEANUP_FD int fd = -EBADF;
	CLEANUP_FREE bool *here = calloc(nodes->n, sizeof(*here));
	struct roll roll = { .nodes = nodes, .here = here };
	int r = here ? call(&fd) : -ENOMEM;

	return r < 0 ? r : call_roll(fd, &roll, helper);
}
