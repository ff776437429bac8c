/*
 * Who is asked whether it lives. Each period one node, the next of a shuffled order, so that each
 * is asked at least once in n periods and by whom is random (SWIM, section 4.3). If it has not
 * answered after a third of the period it is asked again, and so are three others, to ask it for
 * us; a while later all that once more. If nothing has come when most of the period is over it is
 * suspected. Two rounds, because a suspicion costs everybody something: where a tenth of all
 * datagrams is lost one probe in a hundred thousand fails, with one round it were one in seven
 * hundred. A helper that gets no answer either says so (Lifeguard's nack): then it is not our own
 * network that is ill.
 *
 * Lifeguard's local health (section 4.1): whoever fails in ways that speak against himself, misses
 * excuses, is suspected by others, is woken too late, takes more time for everything, up to
 * nine times as much, so that the slow do not accuse the quick.
 *
 * Each datagram of a probe carries the sender's own load and the digest of its table.
 */
#include <errno.h>
#include <stdlib.h>

#include "macros.h"
#include "swim_inside.h"

#define N_HELPERS 3u
#define POOR_HEALTH_MAX 8
/* Thousandths of a period. */
#define MILLI_RELAY 200u /* what a helper takes */
static const unsigned milli_rounds[] = { 300, 550, 800 /* the end */ };
#define N_ROUNDS (ARRAY_SIZE(milli_rounds) - 1)

void psid_health(struct psid_swim *swim, int change)
{
	int health = MAX((int)swim->poor_health + change, 0);

	swim->poor_health = (unsigned)MIN(health, POOR_HEALTH_MAX);
}

static uint64_t usec_of(const struct psid_swim *swim, unsigned milli)
{
	return swim->params.usec_period * milli / 1000 * (1 + swim->poor_health);
}

/* ---- the order ------------------------------------------------------------------------------- */

int psid_probe_enlist(struct psid_swim *swim, struct psid_node *node)
{
	size_t at;

	if (swim->n_order == swim->n_order_room) {
		size_t n_room = swim->n_order ? 2 * swim->n_order : 8;
		uint64_t *order = reallocarray(swim->order, n_room, sizeof(*order));

		if (!order)
			return -ENOMEM;
		swim->order = order;
		swim->n_order_room = n_room;
	}
	at = psid_swim_random_below(swim, swim->n_order + 1);
	swim->order[swim->n_order] = swim->order[at == swim->n_order ? 0 : at];
	swim->order[at] = node->id;
	swim->n_order++;
	node->is_enlisted = true;
	return 0;
}

static void shuffle(struct psid_swim *swim)
{
	for (size_t i = swim->n_order; i > 1; i--) {
		size_t at = psid_swim_random_below(swim, i);
		uint64_t id = swim->order[at];

		swim->order[at] = swim->order[i - 1];
		swim->order[i - 1] = id;
	}
	swim->at_order = 0;
}

/* Those who are not up any more leave the order when it is their turn. NULL: nobody is left. */
static struct psid_node *next_target(struct psid_swim *swim)
{
	while (swim->n_order > 0) {
		struct psid_node *node;

		if (swim->at_order >= swim->n_order)
			shuffle(swim);
		node = psid_members_find(&swim->members, swim->order[swim->at_order]);
		if (node && psid_node_is_up(node)) {
			swim->at_order++;
			return node;
		}
		if (node)
			node->is_enlisted = false;
		swim->order[swim->at_order] = swim->order[--swim->n_order];
	}
	return NULL;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void send_probe(struct psid_swim *swim, enum psid_swim_kind kind, uint64_t to,
		       const struct psid_address *address, uint16_t number)
{
	struct psid_datagram d;

	psid_datagram_begin(&d, kind);
	psid_put(&d.w, number, 2);
	psid_put(&d.w, swim->digest, 4);
	psid_put_load(&d.w, &swim->self->load);
	psid_spread_add(swim, &d.w, to);
	psid_datagram_send(&d, swim, address);
}

static void send_request(struct psid_swim *swim, const struct psid_node *helper,
			 const struct psid_probe *probe)
{
	struct psid_datagram d;

	psid_datagram_begin(&d, PSID_SWIM_PING_FOR);
	psid_put(&d.w, probe->number, 2);
	psid_put(&d.w, probe->target, 6);
	psid_spread_add(swim, &d.w, helper->id);
	psid_datagram_send(&d, swim, &helper->address);
}

static void send_number(struct psid_swim *swim, enum psid_swim_kind kind, uint64_t to,
			uint16_t number)
{
	const struct psid_node *node = psid_members_find(&swim->members, to);
	struct psid_datagram d;

	if (!node)
		return;
	psid_datagram_begin(&d, kind);
	psid_put(&d.w, number, 2);
	psid_datagram_send(&d, swim, &node->address);
}

static struct psid_probe *find_probe(struct psid_swim *swim, uint64_t target)
{
	for (size_t i = 0; i < PSID_SWIM_N_PROBES; i++)
		if (swim->probes[i].target == target)
			return &swim->probes[i];
	return NULL;
}

static void start_probe(struct psid_swim *swim, struct psid_node *node, bool is_scheduled)
{
	struct psid_probe *probe = find_probe(swim, node->id);

	if (probe || !(probe = find_probe(swim, 0)))
		return;
	*probe = (struct psid_probe){
		.target = node->id,
		.number = ++swim->last_number,
		.is_scheduled = is_scheduled,
		.usec_start = swim->usec_now,
		.usec_next = swim->usec_now + usec_of(swim, milli_rounds[0]),
	};
	send_probe(swim, PSID_SWIM_PING, node->id, &node->address, probe->number);
}

void psid_probe_now(struct psid_swim *swim, struct psid_node *node)
{
	start_probe(swim, node, false);
}

static void ask_others(struct psid_swim *swim, struct psid_probe *probe)
{
	const struct psid_node *node = psid_members_find(&swim->members, probe->target);
	const struct psid_node *helpers[N_HELPERS] = { NULL };
	size_t n = 0;

	probe->n_rounds++;
	probe->usec_next = probe->usec_start + usec_of(swim, milli_rounds[probe->n_rounds]);
	if (!node)
		return;
	send_probe(swim, PSID_SWIM_PING, node->id, &node->address, probe->number);
	for (size_t i = 0; i < 2 * N_HELPERS && n < N_HELPERS; i++) {
		const struct psid_node *helper = psid_swim_random_node(swim, probe->target);
		bool is_double = !helper;

		for (size_t j = 0; j < n; j++)
			is_double |= helpers[j] == helper;
		if (is_double)
			continue;
		helpers[n++] = helper;
		send_request(swim, helper, probe);
	}
	probe->n_helpers += (uint8_t)n;
}

static void give_up(struct psid_swim *swim, struct psid_probe *probe)
{
	struct psid_node *node = psid_members_find(&swim->members, probe->target);

	if (probe->is_scheduled && probe->n_helpers == 0)
		psid_health(swim, 1);
	else if (probe->is_scheduled)
		psid_health(swim, (probe->n_helpers - probe->n_excuses) / (int)N_ROUNDS);
	probe->target = 0;
	if (node && psid_node_is_up(node))
		psid_suspicion_start(swim, node, swim->self->id);
}

static void succeed(struct psid_swim *swim, struct psid_probe *probe)
{
	if (probe->is_scheduled)
		psid_health(swim, -1);
	probe->target = 0;
}

static uint64_t run_probes(struct psid_swim *swim)
{
	uint64_t usec_next = UINT64_MAX;

	for (size_t i = 0; i < PSID_SWIM_N_PROBES; i++) {
		struct psid_probe *probe = &swim->probes[i];

		if (!probe->target)
			continue;
		if (swim->usec_now >= probe->usec_next && probe->n_rounds == N_ROUNDS) {
			give_up(swim, probe);
			continue;
		}
		if (swim->usec_now >= probe->usec_next)
			ask_others(swim, probe);
		usec_next = MIN(usec_next, probe->usec_next);
	}
	return usec_next;
}

static uint64_t run_relays(struct psid_swim *swim)
{
	uint64_t usec_next = UINT64_MAX;

	for (size_t i = 0; i < PSID_SWIM_N_RELAYS; i++) {
		struct psid_relay *relay = &swim->relays[i];

		if (relay->origin && swim->usec_now >= relay->usec_end) {
			send_number(swim, PSID_SWIM_EXCUSE, relay->origin, relay->number_origin);
			relay->origin = 0;
		}
		if (relay->origin)
			usec_next = MIN(usec_next, relay->usec_end);
	}
	return usec_next;
}

uint64_t psid_probe_run(struct psid_swim *swim)
{
	uint64_t usec_probes, usec_next = run_relays(swim);

	if (swim->usec_now >= swim->usec_probe) {
		struct psid_node *node = next_target(swim);

		if (node)
			start_probe(swim, node, true);
		swim->usec_probe += usec_of(swim, 1000);
		if (swim->usec_probe <= swim->usec_now) /* periods that were slept through */
			swim->usec_probe = swim->usec_now + usec_of(swim, 1000);
	}
	usec_probes = run_probes(swim);
	usec_next = MIN(usec_next, usec_probes);
	return MIN(usec_next, swim->usec_probe);
}

/* ---- being asked, and answers ---------------------------------------------------------------- */

/* What both a question and its answer begin with. Returns false if there is something wrong with
 * it. */
static bool take_common(struct psid_swim *swim, struct psid_node *sender, struct psid_reader *r,
			uint16_t *ret_number, uint32_t *ret_digest)
{
	struct psid_load load;

	*ret_number = (uint16_t)psid_get(r, 2);
	*ret_digest = (uint32_t)psid_get(r, 4);
	psid_get_load(r, &load);
	if (sender && !r->bad)
		psid_news_take_load(swim, sender, &load, 0);
	return !r->bad;
}

static void take_news(struct psid_swim *swim, const struct psid_address *from,
		      struct psid_reader *r)
{
	struct psid_news news;

	while (psid_get_news(r, &news))
		psid_news_take(swim, &news, from);
}

void psid_probe_ping(struct psid_swim *swim, struct psid_node *sender,
		     const struct psid_address *from, struct psid_reader *r)
{
	uint64_t id = sender ? sender->id : 0;
	uint32_t digest;
	uint16_t number;

	if (!take_common(swim, sender, r, &number, &digest))
		return;
	take_news(swim, from, r); /* first: the answer may contradict it */
	if (swim->out)
		return;
	send_probe(swim, PSID_SWIM_ACK, id, from, number);
	if (sender)
		psid_sync_compare(swim, from, digest);
	else
		psid_join_spoken_to(swim, from);
}

static void answer_relays(struct psid_swim *swim, uint64_t target, uint16_t number)
{
	for (size_t i = 0; i < PSID_SWIM_N_RELAYS; i++) {
		struct psid_relay *relay = &swim->relays[i];

		if (!relay->origin || relay->target != target || relay->number != number)
			continue;
		send_number(swim, PSID_SWIM_ACK_FOR, relay->origin, relay->number_origin);
		relay->origin = 0;
	}
}

void psid_probe_ack(struct psid_swim *swim, struct psid_node *sender,
		    const struct psid_address *from, struct psid_reader *r)
{
	struct psid_probe *probe = sender ? find_probe(swim, sender->id) : NULL;
	uint32_t digest;
	uint16_t number;

	if (!take_common(swim, sender, r, &number, &digest) || !sender)
		return;
	if (probe && probe->number == number)
		succeed(swim, probe);
	answer_relays(swim, sender->id, number);
	psid_sync_compare(swim, from, digest);
}

void psid_probe_ping_for(struct psid_swim *swim, struct psid_node *sender,
			 const struct psid_address *from, struct psid_reader *r)
{
	uint16_t number = (uint16_t)psid_get(r, 2);
	uint64_t target = psid_get(r, 6);
	const struct psid_node *node = psid_members_find(&swim->members, target);
	size_t i = 0;

	(void)from;
	if (r->bad || !sender)
		return;
	while (i < PSID_SWIM_N_RELAYS && swim->relays[i].origin)
		i++;
	if (!node || i == PSID_SWIM_N_RELAYS) {
		send_number(swim, PSID_SWIM_EXCUSE, sender->id, number);
		return;
	}
	swim->relays[i] = (struct psid_relay){
		.origin = sender->id,
		.target = target,
		.number = ++swim->last_number,
		.number_origin = number,
		.usec_end = swim->usec_now + swim->params.usec_period * MILLI_RELAY / 1000,
	};
	send_probe(swim, PSID_SWIM_PING, target, &node->address, swim->relays[i].number);
}

/* The probe that was given this number, if others were asked to help with it. */
static struct psid_probe *probe_of(struct psid_swim *swim, uint16_t number)
{
	for (size_t i = 0; i < PSID_SWIM_N_PROBES; i++)
		if (swim->probes[i].target && swim->probes[i].n_rounds > 0 &&
		    swim->probes[i].number == number)
			return &swim->probes[i];
	return NULL;
}

void psid_probe_ack_for(struct psid_swim *swim, struct psid_reader *r)
{
	struct psid_probe *probe = probe_of(swim, (uint16_t)psid_get(r, 2));

	if (probe && !r->bad)
		succeed(swim, probe);
}

void psid_probe_excuse(struct psid_swim *swim, struct psid_reader *r)
{
	struct psid_probe *probe = probe_of(swim, (uint16_t)psid_get(r, 2));

	if (probe && !r->bad && probe->n_excuses < probe->n_helpers)
		probe->n_excuses++;
}
