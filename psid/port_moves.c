/*
 * Ports that pass from one process to another of the same user and node.
 *
 * Its owner says for which process a port is (PortGive), and that process that it wants it
 * (PortTake), in either order. Then the port has a taker, and from now on psid joins nobody with
 * its owner for its sake: who asks is told to ask again. The two are joined, and all others do the
 * rest (docs/native.md): the owner stops the senders and sends on what is unread.
 *
 *   taker: MOVE_TAKE -> TAKE_READY -> owner: MOVE_GIVE -> ... -> taker: TAKE_DONE, and it is the
 *   taker's -> owner: MOVE_DONE
 *
 * Until TAKE_DONE the port is its owner's, and whatever happens to the taker or is said by either
 * (MOVE_OFF) leaves it there; with the owner it ends. So at each moment it is one's alone, and psid
 * says whose.
 *
 * The owner must know of everybody who may have been told that the port is its own. On this node it
 * does by the order of the channels. On others, meetings with it may be under way; it hears
 * MOVE_GIVE when they are over.
 */
#include <errno.h>

#include "links.h"
#include "macros.h"
#include "ports.h"
#include "psid.h"
#include "remote.h"
#include "step.h"
#include "user.h"

static void say(struct psid_client *to, const struct psid_port *port,
		const struct psid_client *other, Pulc__Wire__MoveStep step)
{
	Pulc__Wire__PortMove move = PULC__WIRE__PORT_MOVE__INIT;
	PSID_MESSAGE(msg, PORT_MOVE, port_move) = &move;

	move.move = port->move;
	move.step = step;
	move.port = port->number;
	move.kind = port->kind;
	move.client = other->id;
	if (to->fd < 0)
		return;
	psid_links_catch_up(to);
	(void)psid_client_send(to, &msg, NULL, 0);
}

static void answer(struct psid_client *client, uint32_t request, Pulc__Wire__PortError error)
{
	psid_port_reply(client, request, error, NULL);
}

/* Returns 0; -ENOMEM: it has no wish now. */
static int set_wish(struct psid_client *client, bool takes, uint32_t port)
{
	struct psid_map *wishes = &client->psid->wishes;

	if (client->takes && client->takes_port)
		psid_map_remove(wishes, &client->by_wish);
	client->takes = false;
	if (takes && port && psid_map_insert(wishes, &client->by_wish, port) < 0)
		return -ENOMEM;
	client->takes = takes;
	client->takes_port = port;
	return 0;
}

static uint64_t offer_key(const struct psid_client *client, uint32_t pid)
{
	return (uint64_t)client->user->uid << 32 | pid;
}

/* Of its owner, to a process of his user; 0: to nobody. Returns 0; -ENOMEM: nobody has it now. */
static int set_offer(struct psid_port *port, uint32_t pid)
{
	struct psid_map *offers = &port->client->psid->offers;

	if (port->given_to)
		psid_map_remove(offers, &port->by_offer);
	port->given_to = 0;
	if (pid && psid_map_insert(offers, &port->by_offer, offer_key(port->client, pid)) < 0)
		return -ENOMEM;
	port->given_to = pid;
	return 0;
}

/* There is no taker any more, and no offer. */
static void forget(struct psid_port *port)
{
	port->taker->taking = NULL;
	port->taker = NULL;
	port->ready = port->told = false;
}

static void call_off(struct psid_port *port)
{
	struct psid_client *taker = port->taker;

	say(taker, port, port->client, PULC__WIRE__MOVE_STEP__MOVE_OFF);
	say(port->client, port, taker, PULC__WIRE__MOVE_STEP__MOVE_OFF);
	forget(port);
}

/* ---- who is for whom ------------------------------------------------------------------------- */

static bool is_for(const struct psid_port *port, const struct psid_client *client)
{
	return port->given_to && client->takes && client != port->client &&
	       (uint32_t)client->pid == port->given_to &&
	       client->user->uid == port->client->user->uid &&
	       (!client->takes_port || client->takes_port == port->number);
}

static void begin(struct psid_port *port, struct psid_client *taker)
{
	struct psid_client *owner = port->client;
	int r = 0;

	port->move = ++owner->psid->last_move;
	port->taker = taker;
	port->ready = port->told = false;
	taker->taking = port;
	(void)set_offer(port, 0);
	(void)set_wish(taker, false, 0);
	if (!psid_links_joined(owner, taker))
		r = psid_links_join(owner, taker);
	STEP(MOVES_JOINED);
	say(taker, port, owner, PULC__WIRE__MOVE_STEP__MOVE_TAKE);
	STEP(MOVES_BEGUN);
	if (r != 0)
		call_off(port);
}

/* Somebody who wants it. *ret_is_others: the process is a client, of another user. */
static struct psid_client *find_taker(const struct psid_port *port, bool *ret_is_others)
{
	const struct psid_map *processes = &port->client->psid->processes;
	struct psid_map_node *node = psid_map_find(processes, port->given_to);

	*ret_is_others = false;
	for (; node; node = psid_map_find_next(node)) {
		struct psid_client *client = CONTAINER_OF(node, struct psid_client, by_process);

		if (client->fd < 0 || client->state != PSID_CLIENT_ATTACHED)
			continue;
		if (is_for(port, client))
			return client;
		if (client->user->uid != port->client->user->uid)
			*ret_is_others = true;
	}
	return NULL;
}

int psid_port_give(struct psid_client *client, const Pulc__Wire__PortGive *msg)
{
	struct psid_port *port = psid_port_get(client->psid, msg->port);
	struct psid_client *taker;
	bool is_others;

	if (!port || port->client != client) {
		answer(client, msg->request, PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT);
		return 0;
	}
	if (port->taker)
		call_off(port);
	if (set_offer(port, msg->pid) < 0) {
		answer(client, msg->request, PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY);
		return 0;
	}
	taker = msg->pid ? find_taker(port, &is_others) : NULL;
	if (msg->pid && !taker && is_others) {
		(void)set_offer(port, 0);
		answer(client, msg->request, PULC__WIRE__PORT_ERROR__PORT_ERROR_PERMISSION);
		return 0;
	}
	answer(client, msg->request, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
	STEP(MOVES_GIVEN);
	if (taker)
		begin(port, taker);
	return 0;
}

static struct psid_port *find_given(const struct psid_client *client)
{
	uint64_t key = offer_key(client, (uint32_t)client->pid);
	struct psid_map_node *node;
	struct psid_port *port;

	if (client->takes_port) {
		port = psid_port_get(client->psid, client->takes_port);
		return port && is_for(port, client) ? port : NULL;
	}
	node = psid_map_find(&client->psid->offers, key);
	for (; node; node = psid_map_find_next(node)) {
		port = CONTAINER_OF(node, struct psid_port, by_offer);
		if (is_for(port, client))
			return port;
	}
	return NULL;
}

static Pulc__Wire__PortError may_want(const struct psid_client *client, uint32_t number)
{
	const struct psid_port *port = number ? psid_port_get(client->psid, number) : NULL;

	if (number && !port)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT;
	if (port && port->client->user->uid != client->user->uid)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_PERMISSION;
	if (port && port->client == client)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_TAKEN;
	if (client->n_ports >= PSID_N_PORTS_CLIENT)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT;
	return PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE;
}

static void want(struct psid_client *client, uint32_t request, uint32_t number)
{
	Pulc__Wire__PortError error = may_want(client, number);
	struct psid_port *port;

	if (client->taking)
		call_off(client->taking);
	if (set_wish(client, error == PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE, number) < 0)
		error = PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY;
	answer(client, request, error);
	STEP(MOVES_WANTED);
	port = client->takes ? find_given(client) : NULL;
	if (port)
		begin(port, client);
}

/* ---- on the way ------------------------------------------------------------------------------ */

static void go_on(struct psid_port *port)
{
	if (!port->ready || port->told || psid_remote_is_meeting(port->client))
		return;
	port->told = true;
	say(port->client, port, port->taker, PULC__WIRE__MOVE_STEP__MOVE_GIVE);
	STEP(MOVES_STARTED);
}

void psid_port_moves_go_on(struct psid_client *client)
{
	struct psid_port *port;

	LIST_FOREACH(port, &client->ports, by_client)
		if (port->taker)
			go_on(port);
}

static void ready(struct psid_client *taker, uint32_t request, bool is_it)
{
	answer(taker, request,
	       is_it ? PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE
		     : PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT);
	if (!is_it)
		return;
	taker->taking->ready = true;
	STEP(MOVES_READY);
	go_on(taker->taking);
}

/* Whoever did not get the answer asks again. */
static void done_before(struct psid_client *taker, const Pulc__Wire__PortTake *msg)
{
	const struct psid_port *port = psid_port_get(taker->psid, msg->port);
	bool has = port && port->client == taker && port->move == msg->move && msg->move;

	psid_port_reply(taker, msg->request,
			has ? PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE
			    : PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT,
			has ? port : NULL);
}

static void done(struct psid_client *taker, uint32_t request)
{
	struct psid_port *port = taker->taking;
	struct psid_client *owner = port->client;

	if (taker->n_ports >= PSID_N_PORTS_CLIENT) {
		call_off(port);
		answer(taker, request, PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT);
		return;
	}
	forget(port);
	LIST_REMOVE(port, by_client);
	owner->n_ports--;
	port->client = taker;
	LIST_INSERT_HEAD(&taker->ports, port, by_client);
	taker->n_ports++;
	STEP(MOVES_OWNED);
	/* If we end in between, what was said so far must do no harm: it is the taker's from the
	 * answer to it on. */
	psid_port_tell(taker, port->number, true);
	STEP(MOVES_TOLD);
	psid_port_reply(taker, request, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE, port);
	STEP(MOVES_ANSWERED);
	say(owner, port, taker, PULC__WIRE__MOVE_STEP__MOVE_DONE);
	STEP(MOVES_DONE);
	psid_port_tell(owner, port->number, false);
	STEP(MOVES_ENDED);
}

int psid_port_take(struct psid_client *client, const Pulc__Wire__PortTake *msg)
{
	struct psid_port *port = client->taking;
	bool is_it = port && port->move == msg->move;

	switch (msg->step) {
	case PULC__WIRE__TAKE_STEP__TAKE_WANT:
		want(client, msg->request, msg->port);
		return 0;
	case PULC__WIRE__TAKE_STEP__TAKE_OFF:
		(void)set_wish(client, false, 0);
		if (port)
			call_off(port);
		answer(client, msg->request, PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE);
		return 0;
	case PULC__WIRE__TAKE_STEP__TAKE_READY:
		ready(client, msg->request, is_it);
		return 0;
	case PULC__WIRE__TAKE_STEP__TAKE_DONE:
		if (is_it && port->told)
			done(client, msg->request);
		else
			done_before(client, msg);
		return 0;
	default:
		return -EBADMSG;
	}
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Who waits for this very one waits in vain. */
static void disappoint(struct psid_port *port)
{
	const struct psid_map *wishes = &port->client->psid->wishes;
	struct psid_map_node *node;

	while ((node = psid_map_find(wishes, port->number))) {
		struct psid_client *client = CONTAINER_OF(node, struct psid_client, by_wish);

		(void)set_wish(client, false, 0);
		say(client, port, port->client, PULC__WIRE__MOVE_STEP__MOVE_OFF);
	}
}

void psid_port_move_end(struct psid_port *port)
{
	if (port->taker)
		call_off(port);
	(void)set_offer(port, 0);
	disappoint(port);
}

void psid_port_moves_forget(struct psid_client *client)
{
	(void)set_wish(client, false, 0);
	if (client->taking)
		call_off(client->taking);
}
