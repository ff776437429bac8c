/*
 * What psid did not take at once, and what nobody would say again: that a connection is closed, a
 * hint void, a port given back. Whoever says so does not wait; a psid that is busy (or stopped)
 * leaves the channel full, and then the words are kept here. They go before anything that is said
 * later, so that psid hears all in order, and whenever somebody looks at the channel.
 *
 * There is no limit but memory, for there are no more of them than psid has let us have
 * connections, hints and ports.
 */
#include "unsent.h"

#include <errno.h>
#include <stdatomic.h>

#include "client.h"
#include "pool.h"

struct unsent {
	struct unsent *next;
	Pulc__Wire__FromClient__BodyCase kind;
	uint64_t number;
};

static struct pool pool = POOL_INIT(sizeof(struct unsent));
static struct unsent *_Atomic first;
static struct unsent *last;

union body {
	Pulc__Wire__Closed closed;
	Pulc__Wire__Drop drop;
	Pulc__Wire__PortClose port_close;
	Pulc__Wire__SemClose sem_close;
};

static Pulc__Wire__FromClient message(Pulc__Wire__FromClient__BodyCase kind, uint64_t number,
				      union body *body)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;

	msg.body_case = kind;
	switch (kind) {
	case PULC__WIRE__FROM_CLIENT__BODY_CLOSED:
		pulc__wire__closed__init(&body->closed);
		body->closed.conn = number;
		msg.closed = &body->closed;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_DROP:
		pulc__wire__drop__init(&body->drop);
		body->drop.token = number;
		msg.drop = &body->drop;
		break;
	case PULC__WIRE__FROM_CLIENT__BODY_SEM_CLOSE:
		pulc__wire__sem_close__init(&body->sem_close);
		body->sem_close.holder = (uint32_t)number;
		msg.sem_close = &body->sem_close;
		break;
	default:
		pulc__wire__port_close__init(&body->port_close);
		body->port_close.port = (uint32_t)number;
		msg.port_close = &body->port_close;
		break;
	}
	return msg;
}

static void keep(Pulc__Wire__FromClient__BodyCase kind, uint64_t number)
{
	struct unsent *u = pool_get(&pool);

	if (!u)
		return;
	*u = (struct unsent){ .kind = kind, .number = number };
	if (atomic_load(&first))
		last->next = u;
	else
		atomic_store(&first, u);
	last = u;
}

void unsent_say(Pulc__Wire__FromClient__BodyCase kind, uint64_t number)
{
	union body body;
	Pulc__Wire__FromClient msg = message(kind, number, &body);
	int e = client_send(&msg, NULL, 0);

	if (e < 0 && e != -ENOTCONN)
		keep(kind, number);
}

bool unsent_any(void)
{
	return atomic_load_explicit(&first, memory_order_relaxed) != NULL;
}

int unsent_send(int channel)
{
	Pulc__Wire__FromClient msg;
	union body body;
	struct unsent *u;
	int e;

	while ((u = atomic_load(&first)) != NULL) {
		msg = message(u->kind, u->number, &body);
		e = wire_send_from_client(channel, &msg, NULL, 0);
		if (e < 0)
			return e;
		atomic_store(&first, u->next);
		pool_put(&pool, u);
	}
	return 0;
}

USUAL void unsent_forget(void)
{
	struct unsent *u;

	while ((u = atomic_load(&first)) != NULL) {
		atomic_store(&first, u->next);
		pool_put(&pool, u);
	}
}
