/*
 * pulc/pulc.h: where ports are, and who this process is.
 *
 * All of it is for psid to say: it grants numbers and names, knows whose a port is on this node,
 * and asks the psids of other nodes. The first time that a port's process is asked for it joins
 * that process with this one.
 *
 * Source: pulc-1998, 4.6.2 (the port interface).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "macros.h"
#include "native.h"

/* A number that psid has given. */
static int tell(uint32_t (*number)(void), uint32_t *ret_number)
{
	int e;

	if (!native_lock())
		return -EDEADLK;
	e = native_attach();
	if (e == 0)
		*ret_number = number();
	native_unlock();
	return e;
}

/* Attached is who has a number. */
PULC_EXPORT int pulc_attach(void)
{
	return pulc_process(&(uint32_t){ 0 });
}

PULC_EXPORT int pulc_node(uint32_t *ret_node)
{
	return tell(client_node, ret_node);
}

PULC_EXPORT int pulc_process(uint32_t *ret_process)
{
	return tell(client_id, ret_process);
}

static int open_locked(enum pulc_kind kind, uint32_t number, const char *name,
		       struct port **ret_port)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__PortOpen open = PULC__WIRE__PORT_OPEN__INIT;
	struct native_reply reply;
	int e;

	open.request = native_request_of_port();
	open.kind = (Pulc__Wire__PortKind)kind;
	open.number = number;
	open.name = (char *)(name ? name : "");
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_PORT_OPEN;
	msg.port_open = &open;
	e = native_ask(&msg, open.request, &reply);
	if (e < 0)
		return e;
	*ret_port = port_new(reply.port, (enum port_kind)kind);
	if (*ret_port)
		return 0;
	native_give_back(reply.port);
	return -ENOMEM;
}

PULC_EXPORT int pulc_port_open(enum pulc_kind kind, uint32_t number, const char *name,
			       pulc_port **ret_port)
{
	struct pulc_port *p;
	int e;

	if (kind < PULC_S || kind > PULC_D || number > PULC_PORT_WELL_KNOWN ||
	    (name && (!name[0] || strlen(name) > PULC_NAME_MAX || strchr(name, '@'))))
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	if (!native_lock()) {
		free(p);
		return -EDEADLK;
	}
	e = open_locked(kind, number, name, &p->port);
	if (e == 0) {
		p->number = p->port->number;
		p->key = p->port->key = native_guest_key();
		native_port_list(p);
	}
	native_unlock();
	if (e < 0) {
		free(p);
		return e;
	}
	*ret_port = p;
	return 0;
}

PULC_EXPORT struct pulc_address pulc_port_address(const pulc_port *p)
{
	return (struct pulc_address){ .port = p->number };
}

/* Cuts "name" or "name@node" into its parts. 0; -EINVAL. */
static int split(const char *text, char name[PULC_NAME_MAX + 1], const char **ret_node)
{
	const char *at = strchrnul(text, '@');
	size_t len = (size_t)(at - text);

	if (len == 0 || len > PULC_NAME_MAX || (*at && (!at[1] || strlen(at) > PULC_NAME_MAX)))
		return -EINVAL;
	memcpy(name, text, len);
	name[len] = '\0';
	*ret_node = *at ? at + 1 : at;
	return 0;
}

PULC_EXPORT int pulc_find(const char *text, struct pulc_address *ret_address)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__PortFind find = PULC__WIRE__PORT_FIND__INIT;
	char name[PULC_NAME_MAX + 1];
	struct native_reply reply;
	const char *node;
	int e = split(text, name, &node);

	if (e < 0)
		return e;
	if (!native_lock())
		return -EDEADLK;
	find.request = native_request();
	find.name = name;
	find.node = (char *)node;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_PORT_FIND;
	msg.port_find = &find;
	e = native_ask(&msg, find.request, &reply);
	native_unlock();
	if (e == 0)
		*ret_address = (struct pulc_address){ .node = reply.node, .port = reply.port };
	return e;
}

int native_find_peer_now(uint32_t node, uint32_t number, struct peer **ret_peer,
			 enum port_kind *ret_kind)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__PortLink link = PULC__WIRE__PORT_LINK__INIT;
	struct native_reply reply;
	int e;

	if (node == 0 && port_find(number)) {
		*ret_kind = port_find(number)->kind;
		*ret_peer = native_self();
		return *ret_peer ? 0 : -ENOMEM;
	}
	/* That there is no psid is another answer than psid's that there is no such port. */
	e = native_attach();
	if (e < 0)
		return e;
	link.request = native_request();
	link.port = number;
	link.node = node;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_PORT_LINK;
	msg.port_link = &link;
	e = native_ask(&msg, link.request, &reply);
	if (e < 0)
		return e == -ENOENT ? -ECONNREFUSED : e;
	native_take_news();
	*ret_peer = native_peer(reply.client);
	*ret_kind = reply.kind;
	/* Its link was broken meanwhile, or psid does not say what it should. */
	return *ret_peer ? 0 : -ECONNRESET;
}

/* psid is asked again after this; the hand-over of a port takes a few of its answers. */
#define NSEC_MOVING NSEC_PER_MSEC

int native_find_peer(uint32_t node, uint32_t number, struct peer **ret_peer,
		     enum port_kind *ret_kind)
{
	struct native_wait w;
	int e, waited = 0;

	for (;;) {
		e = native_find_peer_now(node, number, ret_peer, ret_kind);
		if (LIKELY(e != -EINPROGRESS) || waited == -EINTR)
			return e == -EINPROGRESS ? waited : e;
		w = (struct native_wait){ .seen = protocol_events_now(),
					  .nsec_deadline = nsec_now() + NSEC_MOVING };
		native_unlock();
		waited = native_wait(&w);
		while (!native_lock())
			;
		native_progress();
	}
}
