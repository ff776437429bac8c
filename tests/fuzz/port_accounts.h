/* What a way may have unread, and what the two accounts of a peer (port_credit.c) must be: the sums
 * of those of all its ways. */
#ifndef PULC_FUZZ_PORT_ACCOUNTS_H
#define PULC_FUZZ_PORT_ACCOUNTS_H

#include "fuzz_link.h"
#include "port.h"

#define COST_MAX ((uint64_t)PORT_WINDOW + PORT_MESSAGE_MAX + 2 * PORT_OVERHEAD)
/* Memory that messages take at most for what they cost, behind the first ones of a source. */
#define PART_MEMORY 2u
#define SIZE_FIRST (68u << 10)

static void check_source(const struct port_in *in, bool any_taken)
{
	uint64_t kept = in->begun - in->taken;

	fuzz_must(kept <= COST_MAX && in->told <= in->taken);
	fuzz_must(any_taken || in->size_unread <= SIZE_FIRST + PART_MEMORY * kept);
}

/* any_taken: messages came with a port that was taken, and cost their source nothing here. */
static void check_port(const struct port *port, bool any_taken)
{
	const struct port_out *out;
	const struct port_in *in;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++) {
		LIST_FOREACH(in, &port->ins[i], link)
			check_source(in, any_taken);
		LIST_FOREACH(out, &port->outs[i], link)
			fuzz_must(out->sent - out->freed <= COST_MAX);
	}
}

static uint64_t sum_here(const struct peer *peer, const struct port *port)
{
	const struct port_in *in;
	uint64_t sum = 0;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		LIST_FOREACH(in, &port->ins[i], link)
			if (in->peer == peer && !in->ended)
				sum += in->begun - in->told;
	return sum;
}

static uint64_t sum_there(const struct peer *peer, const struct port *port)
{
	const struct port_out *out;
	uint64_t sum = 0;

	for (unsigned i = 0; i < PORT_N_BUCKETS; i++)
		LIST_FOREACH(out, &port->outs[i], link)
			if (out->peer == peer)
				sum += out->sent - out->freed;
	return sum;
}

/* may_exceed: only the windows of ways were judged for a while. */
static void check_accounts(const struct peer *peer, struct port *const *ports, unsigned n_ports,
			   bool may_exceed)
{
	uint64_t here = 0, there = 0;

	for (unsigned i = 0; i < n_ports; i++) {
		here += sum_here(peer, ports[i]);
		there += sum_there(peer, ports[i]);
	}
	fuzz_must(peer->size_here == here && peer->size_there == there);
	/* The last one that began without leave, and those that had it. */
	fuzz_must(may_exceed ||
		  here <= PORT_PEER_LONG + PORT_OVERHEAD +
				  (1 + peer->n_long_here) * (PORT_MESSAGE_MAX + PORT_OVERHEAD));
	fuzz_must(!peer->long_under_way || peer->long_under_way->peer == peer);
}

#endif
