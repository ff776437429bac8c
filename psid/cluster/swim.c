/*
 * The membership as a whole: from start to end, its datagrams, and its random numbers.
 *
 * 	probe.c      who is asked whether it lives, when, and through whom
 * 	suspicion.c  from "does not answer" to "dead", unless contradicted
 * 	news.c       which of two things said about a node is the newer
 * 	spread.c     what is passed on, how often and how soon
 * 	join.c       how we get in, and find again whom we lost
 * 	sync.c       how two nodes that know different things find out and make up for it
 *
 * Every datagram begins with its kind and ends with news (codec.c). Who sent it, and in which life,
 * is known already: it was sealed by him (seal.c). What a node says in a life that is over counts
 * for nothing: it is a copy, or the node's clock went back, and then it has to hear that it lived
 * later. Only its wish to be let in is heard, and its answer tells it the same.
 *
 * Each node sends one probe a period and answers what it is asked, whatever the number of nodes; a
 * change costs every node a fixed number of datagrams, and those at most every twelfth of a
 * period; all else runs at fixed intervals. So the cost of a node and second does not grow with the
 * cluster.
 */
#include "swim.h"

#include <errno.h>
#include <stdlib.h>

#include "macros.h"
#include "swim_inside.h"

/* So far may clocks be apart, with 1970 and 2200 in one cluster; a 32nd of what a life can be. */
#define MSEC_AHEAD (1ull << 43)

/* ---- random numbers: splitmix64, the same course of events from the same seed ---------------- */

uint64_t psid_swim_random(struct psid_swim *swim)
{
	uint64_t z = swim->params.random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

size_t psid_swim_random_below(struct psid_swim *swim, size_t n)
{
	return (size_t)((unsigned __int128)psid_swim_random(swim) * n >> 64);
}

struct psid_node *psid_swim_random_node(struct psid_swim *swim, uint64_t but)
{
	const struct psid_members *members = &swim->members;
	size_t first = psid_swim_random_below(swim, members->n);

	if (members->n_up < 1 + (size_t)psid_node_is_up(swim->self))
		return NULL;
	for (size_t i = 0; i < members->n + 8; i++) {
		/* Some tries at random; where most are dead, the next one that is not. */
		size_t at = i < 8 ? psid_swim_random_below(swim, members->n) : first + i;
		struct psid_node *node = members->nodes[at % members->n];

		if (psid_node_is_up(node) && node != swim->self && node->id != but)
			return node;
	}
	return NULL;
}

/* ---- datagrams ------------------------------------------------------------------------------- */

void psid_datagram_begin(struct psid_datagram *d, enum psid_swim_kind kind)
{
	d->w = (struct psid_writer){ .at = d->body, .end = d->body + sizeof(d->body) };
	psid_put(&d->w, kind, 1);
}

void psid_datagram_send(struct psid_datagram *d, struct psid_swim *swim,
			const struct psid_address *to)
{
	swim->ops->send(swim->data, to, d->body, (size_t)(d->w.at - d->body));
}

void psid_swim_remark(struct psid_swim *swim, enum psid_swim_remark remark,
		      const struct psid_address *from)
{
	if (swim->ops->remark)
		swim->ops->remark(swim->data, remark, from);
}

/* The part of a datagram before the news. sender: NULL if it is not known in this life. */
static void take_head(struct psid_swim *swim, enum psid_swim_kind kind, uint64_t id,
		      struct psid_node *sender, const struct psid_address *from,
		      struct psid_reader *r)
{
	switch (kind) {
	case PSID_SWIM_PING:
		psid_probe_ping(swim, sender, from, r);
		break;
	case PSID_SWIM_ACK:
		psid_probe_ack(swim, sender, from, r);
		break;
	case PSID_SWIM_PING_FOR:
		psid_probe_ping_for(swim, sender, from, r);
		break;
	case PSID_SWIM_ACK_FOR:
		psid_probe_ack_for(swim, r);
		break;
	case PSID_SWIM_EXCUSE:
		psid_probe_excuse(swim, r);
		break;
	case PSID_SWIM_GOSSIP:
		break;
	case PSID_SWIM_JOIN:
		psid_join_request(swim, id, from, r);
		break;
	case PSID_SWIM_PULL:
		psid_sync_pull(swim, from, r);
		break;
	case PSID_SWIM_PAGE:
		psid_sync_page(swim, from, r);
		break;
	case PSID_SWIM_NO:
		psid_join_no(swim, from, r);
		break;
	default:
		r->bad = true;
	}
}

void psid_swim_receive(struct psid_swim *swim, uint64_t usec_now, const struct psid_origin *from,
		       const uint8_t *body, size_t len)
{
	struct psid_reader r = { .at = body, .end = body + len };
	enum psid_swim_kind kind = (enum psid_swim_kind)psid_get(&r, 1);
	struct psid_node *sender = psid_members_find(&swim->members, from->id);
	struct psid_news news;

	swim->usec_now = usec_now;
	if (swim->out || !swim->started || sender == swim->self)
		return;
	if (from->life > psid_swim_life_max(swim, usec_now)) {
		psid_swim_remark(swim, PSID_SWIM_GARBAGE, &from->address);
		return;
	}
	if (swim->is_refused && kind != PSID_SWIM_PAGE && kind != PSID_SWIM_NO)
		return; /* we are nobody */
	if (sender && from->life < sender->life && kind != PSID_SWIM_JOIN) {
		psid_spread_tell(swim, &from->address, sender);
		return;
	}
	if (sender && from->life != sender->life)
		sender = NULL;
	if (sender)
		sender->usec_heard = usec_now;
	take_head(swim, kind, from->id, sender, &from->address, &r);
	while (psid_get_news(&r, &news))
		psid_news_take(swim, &news, &from->address);
	if (r.bad)
		psid_swim_remark(swim, PSID_SWIM_GARBAGE, &from->address);
}

/*
 * Of one that lives we tell what we know, which is no news to itself: the origin of a copy may be
 * forged. Who has not been let in yet does not know who lives.
 */
void psid_swim_outdated(struct psid_swim *swim, uint64_t usec_now, const struct psid_origin *from)
{
	const struct psid_node *node = psid_members_find(&swim->members, from->id);

	swim->usec_now = usec_now;
	if (swim->out || !swim->joined || node == swim->self)
		return;
	if (node && psid_node_is_up(node))
		psid_spread_tell(swim, &from->address, node);
	else
		psid_spread_tell_life(swim, &from->address, from->id, from->life);
}

/* ---- from start to end ----------------------------------------------------------------------- */

int psid_swim_init(struct psid_swim *swim, const struct psid_swim_params *params,
		   const struct psid_swim_ops *ops, void *data)
{
	*swim = (struct psid_swim){ .params = *params, .ops = ops, .data = data };
	TAILQ_INIT(&swim->hot);
	TAILQ_INIT(&swim->warm);
	LIST_INIT(&swim->suspicions);
	return 0;
}

int psid_swim_be(struct psid_swim *swim, const char *name, const struct psid_address *address,
		 uint64_t life)
{
	struct psid_node *self;
	int r = psid_members_add(&swim->members, name, &self);

	if (r < 0)
		return r;
	self->life = life;
	self->address = *address;
	psid_members_set_state(&swim->members, self, PSID_NODE_ALIVE);
	swim->self = self;
	return 0;
}

void psid_swim_deinit(struct psid_swim *swim)
{
	for (size_t i = 0; i < swim->members.n; i++)
		psid_suspicion_stop(swim, swim->members.nodes[i]);
	psid_members_deinit(&swim->members);
	free(swim->order);
}

int psid_swim_expect(struct psid_swim *swim, const char *name, const struct psid_address *address)
{
	struct psid_node *node;
	int r = psid_members_add(&swim->members, name, &node);

	if (r < 0)
		return r;
	node->address = *address;
	return psid_swim_seed(swim, address);
}

int psid_swim_seed(struct psid_swim *swim, const struct psid_address *address)
{
	for (size_t i = 0; i < swim->n_seeds; i++)
		if (psid_address_equal(&swim->seeds[i], address))
			return 0;
	if (swim->n_seeds == PSID_SWIM_N_SEEDS)
		return -ENOSPC;
	swim->seeds[swim->n_seeds++] = *address;
	return 0;
}

uint64_t psid_swim_life_max(const struct psid_swim *swim, uint64_t usec_now)
{
	return swim->msec_since + usec_now / 1000 + MSEC_AHEAD;
}

void psid_swim_start(struct psid_swim *swim, uint64_t usec_now)
{
	swim->usec_now = usec_now;
	swim->msec_since = swim->self->life - usec_now / 1000;
	swim->started = true;
	swim->self->usec_state = usec_now;
	psid_node_become(swim, swim->self, PSID_NODE_ALIVE, false);
	/* Nodes that start together do not probe together. */
	swim->usec_probe = usec_now +
			   psid_swim_random_below(swim, (size_t)swim->params.usec_period);
	swim->usec_join = usec_now;
	swim->usec_due = usec_now;
}

/*
 * Called much too late: this process has been stopped or starved. What did not come in meanwhile
 * says something about us and nothing about the others.
 */
static void allow_for_sleep(struct psid_swim *swim)
{
	uint64_t usec_late = swim->usec_now - MIN(swim->usec_due, swim->usec_now);

	if (usec_late < swim->params.usec_period / 2)
		return;
	psid_health(swim, 1);
	psid_suspicions_postpone(swim, usec_late);
	for (size_t i = 0; i < PSID_SWIM_N_PROBES; i++) {
		swim->probes[i].usec_next += usec_late;
		swim->probes[i].usec_start += usec_late;
	}
}

uint64_t psid_swim_run(struct psid_swim *swim, uint64_t usec_now)
{
	static uint64_t (*const parts[])(struct psid_swim * swim) = {
		psid_join_run, psid_probe_run, psid_suspicions_run,
		psid_sync_run, psid_news_run,  psid_spread_run,
	};
	uint64_t usec_next = UINT64_MAX;

	swim->usec_now = usec_now;
	if (swim->out || !swim->started)
		return usec_next;
	allow_for_sleep(swim);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		uint64_t usec_part = parts[i](swim);

		usec_next = MIN(usec_next, usec_part);
	}
	swim->usec_due = usec_next;
	return usec_next;
}

void psid_swim_touch(struct psid_swim *swim, uint64_t usec_now)
{
	swim->usec_now = usec_now;
	swim->usec_due = usec_now;
	psid_self_contradict(swim, swim->self->incarnation);
}

void psid_swim_leave(struct psid_swim *swim, uint64_t usec_now)
{
	enum { N_TOLD = 16 };
	struct psid_datagram d;
	struct psid_news news;
	struct psid_node *node;

	if (swim->out || !swim->started)
		return;
	swim->usec_now = usec_now;
	psid_members_set_state(&swim->members, swim->self, PSID_NODE_LEFT);
	psid_news_of_state(swim->self, &news);
	psid_datagram_begin(&d, PSID_SWIM_GOSSIP);
	psid_put_news(&d.w, &news);
	for (size_t i = 0; i < MIN((size_t)N_TOLD, 2 * swim->members.n_up); i++)
		if ((node = psid_swim_random_node(swim, 0)))
			psid_datagram_send(&d, swim, &node->address);
	swim->out = true;
}
