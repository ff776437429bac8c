/*
 * Which of two things said about a node is the newer.
 *
 * A node's life says which start of its psid is meant; within a life its incarnation, which only
 * the node itself raises, to contradict what others say of it or to say something new of itself; at
 * one incarnation alive < suspect < dead < left. So any two nodes that have heard the same news
 * believe the same, in whatever order they heard it (SWIM, section 4.2).
 *
 * Two things differ from SWIM. Death can be contradicted, by the node itself with a higher
 * incarnation: after a partition both sides find each other again. And nobody takes another's word
 * for the death of a node that he has not suspected himself for a while: he suspects it, as if all
 * had confirmed it. In a normal course of events everybody suspects a node before anybody says it
 * is dead, so this costs nothing; but a node that was cut off for a while, and comes back convinced
 * that all the others have died, does no harm.
 */
#include <string.h>

#include "clock.h"
#include "macros.h"
#include "swim_inside.h"

#define USEC_FORGET (3600 * USEC_PER_SEC) /* the dead and those who left are shown for so long */
#define N_TELLERS 4u
#define USEC_LOOK (60 * USEC_PER_SEC)

/* ---- what we say ----------------------------------------------------------------------------- */

void psid_news_of_load(const struct psid_swim *swim, const struct psid_node *node,
		       struct psid_news *ret_news)
{
	ret_news->kind = PSID_NEWS_LOAD;
	ret_news->id = node->id;
	ret_news->load = node->load;
	ret_news->msec_load = 0;
	if (node != swim->self && swim->usec_now > node->usec_load)
		ret_news->msec_load = (uint32_t)MIN((swim->usec_now - node->usec_load) / 1000,
						    UINT32_MAX);
}

void psid_news_of_state(const struct psid_node *node, struct psid_news *ret_news)
{
	*ret_news = (struct psid_news){
		.kind = PSID_NEWS_STATE,
		.id = node->id,
		.life = node->life,
		.incarnation = node->incarnation,
		.state = node->state,
		.by = psid_suspicion_by(node),
	};
}

void psid_news_of(const struct psid_swim *swim, const struct psid_node *node,
		  struct psid_news *ret_news)
{
	psid_news_of_state(node, ret_news);
	psid_news_of_load(swim, node, ret_news);
	ret_news->kind = PSID_NEWS_NODE;
	ret_news->drained = node->drained;
	(void)memcpy(ret_news->name, node->name, strlen(node->name) + 1);
	ret_news->address = node->address;
	ret_news->version = node->version;
	ret_news->n_keys = node->n_keys;
	memcpy(ret_news->keys, node->keys, sizeof(ret_news->keys));
	ret_news->n_cores = node->n_cores;
	ret_news->mib_memory = node->mib_memory;
	ret_news->sec_state = (uint32_t)((swim->usec_now - node->usec_state) / USEC_PER_SEC);
}

/* ---- the table's digest: equal where two nodes believe the same ------------------------------ */

static uint32_t digest_of(const struct psid_node *node)
{
	uint64_t h = node->id * 0x9e3779b97f4a7c15ull ^ node->life;

	if (!psid_node_is_up(node))
		return 0;
	/* Of two with one name and one life different nodes may believe in different ones. */
	for (size_t i = 0; i < sizeof(node->address.ip); i++)
		h = (h ^ node->address.ip[i]) * 0x100000001b3ull;
	h = (h ^ h >> 29 ^ node->incarnation) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 32) * 0x94d049bb133111ebull;
	return (uint32_t)(h >> 32);
}

static void note_change(struct psid_swim *swim, struct psid_node *node)
{
	swim->digest -= node->digest;
	node->digest = digest_of(node);
	swim->digest += node->digest;
	swim->usec_changed = swim->usec_now;
}

void psid_node_become(struct psid_swim *swim, struct psid_node *node, enum psid_node_state state,
		      bool is_new)
{
	enum psid_node_state before = node->state;

	if (state != PSID_NODE_SUSPECT)
		psid_suspicion_stop(swim, node);
	psid_members_set_state(&swim->members, node, state);
	if (state != before)
		node->usec_state = swim->usec_now;
	note_change(swim, node);
	psid_spread_state(swim, node);
	if (node != swim->self && psid_node_is_up(node) && !node->is_enlisted)
		(void)psid_probe_enlist(swim, node);
	if (node != swim->self && (state != before || is_new))
		swim->ops->changed(swim->data, node, before, is_new);
}

/* ---- what is said of us ---------------------------------------------------------------------- */

static void begin_life_after(struct psid_swim *swim, uint64_t life)
{
	swim->self->life = life + 1;
	if (!swim->joined) /* nobody would have let us in */
		swim->usec_join = swim->usec_now;
	swim->self->incarnation = 0;
	swim->n_given_up = 0;
	psid_node_become(swim, swim->self, PSID_NODE_ALIVE, false);
}

void psid_self_contradict(struct psid_swim *swim, uint32_t incarnation)
{
	if (incarnation == UINT32_MAX) { /* there is none that is greater */
		begin_life_after(swim, swim->self->life);
		return;
	}
	swim->self->incarnation = incarnation + 1;
	psid_node_become(swim, swim->self, PSID_NODE_ALIVE, false);
}

/* Of two that have one name and one life: the one that takes a newer life, at which the other gives
 * up. */
static bool is_to_stay(const struct psid_node *self, const struct psid_address *other)
{
	return memcmp(self->address.ip, other->ip, sizeof(other->ip)) > 0;
}

static void take_about_self(struct psid_swim *swim, const struct psid_news *news,
			    const struct psid_address *from)
{
	const struct psid_node *self = swim->self;
	bool says_up = news->state == PSID_NODE_ALIVE || news->state == PSID_NODE_SUSPECT;
	bool is_elsewhere = news->kind == PSID_NEWS_NODE &&
			    !psid_address_equal(&news->address, &self->address);

	if (news->life < self->life) { /* of our life before: he has not heard of this one */
		if (from && says_up)
			psid_spread_tell(swim, from, self);
	} else if (news->life == self->life && news->incarnation == self->incarnation &&
		   news->state == self->state && !is_elsewhere) {
		psid_spread_heard(swim, swim->self);
	} else if (news->life > self->life && says_up && is_elsewhere) {
		swim->out = true;
		psid_swim_remark(swim, PSID_SWIM_NAME_TAKEN, &news->address);
	} else if (news->life > self->life || news->state == PSID_NODE_LEFT ||
		   (says_up && is_elsewhere && is_to_stay(self, &news->address))) {
		/* Our clock went back between two starts, or somebody lies, or this is a twin. */
		begin_life_after(swim, news->life);
	} else if (news->incarnation > self->incarnation ||
		   (news->incarnation == self->incarnation && news->state != PSID_NODE_ALIVE)) {
		psid_health(swim, 1);
		psid_self_contradict(swim, news->incarnation);
	}
	if (news->life == self->life && news->state == PSID_NODE_DEAD &&
	    news->incarnation >= swim->n_given_up) {
		swim->n_given_up = news->incarnation + 1ull;
		if (swim->ops->given_up)
			swim->ops->given_up(swim->data);
	}
}

/* ---- what is said of others ------------------------------------------------------------------ */

static bool is_newer(const struct psid_news *news, const struct psid_node *node)
{
	if (news->life != node->life)
		return news->life > node->life;
	if (node->state == PSID_NODE_LEFT)
		return false;
	if (news->incarnation != node->incarnation)
		return news->incarnation > node->incarnation;
	return news->state > node->state;
}

/* A node that we have not heard of. NULL: it is not let in, or there is no memory. */
static struct psid_node *admit(struct psid_swim *swim, const struct psid_news *news)
{
	struct psid_node *node;

	if (news->kind != PSID_NEWS_NODE || swim->params.closed ||
	    news->sec_state > USEC_FORGET / USEC_PER_SEC)
		return NULL;
	if (swim->members.n >= swim->params.n_nodes_max) {
		psid_swim_remark(swim, PSID_SWIM_FULL, &news->address);
		return NULL;
	}
	return psid_members_add(&swim->members, news->name, &node) < 0 ? NULL : node;
}

static bool is_newer_load(const struct psid_swim *swim, const struct psid_node *node,
			  const struct psid_load *load, uint32_t msec_old)
{
	uint64_t usec_made = swim->usec_now - MIN(swim->usec_now, msec_old * 1000ull);

	if (load->number == 0)
		return false;
	if (node->load.number == 0 || usec_made > node->usec_load + USEC_LOOK)
		return true;
	return (int16_t)(load->number - node->load.number) > 0;
}

void psid_news_take_load(struct psid_swim *swim, struct psid_node *node,
			 const struct psid_load *load, uint32_t msec_old)
{
	uint32_t n_before = node->load.n_cpus;

	if (node == swim->self || !is_newer_load(swim, node, load, msec_old))
		return;
	node->load = *load;
	node->usec_load = swim->usec_now - MIN(swim->usec_now, msec_old * 1000ull);
	psid_spread_load(swim, node);
	if (swim->ops->loaded)
		swim->ops->loaded(swim->data, node,
				  load->n_cpus > n_before ? load->n_cpus - n_before : 0);
}

static void copy_node(struct psid_swim *swim, struct psid_node *node, const struct psid_news *news)
{
	node->drained = news->drained;
	node->address = news->address;
	node->version = news->version;
	node->n_keys = news->n_keys;
	memcpy(node->keys, news->keys, sizeof(node->keys));
	node->n_cores = news->n_cores;
	node->mib_memory = news->mib_memory;
	psid_news_take_load(swim, node, &news->load, news->msec_load);
}

static void believe(struct psid_swim *swim, struct psid_node *node, const struct psid_news *news,
		    bool is_new)
{
	enum psid_node_state state = news->state;

	if (state == PSID_NODE_DEAD && !is_new && psid_node_is_up(node) &&
	    !psid_suspicion_is_old(swim, node))
		state = PSID_NODE_SUSPECT;
	/* It contradicts, and may not know what: that we had given it up. A few tell it. */
	if (node->state == PSID_NODE_DEAD && !is_new &&
	    psid_swim_random_below(swim, swim->members.n_up) < N_TELLERS)
		psid_spread_tell(swim, &node->address, node);
	if (news->life != node->life || news->incarnation != node->incarnation)
		psid_suspicion_stop(swim, node);
	if (news->life != node->life) {
		node->load.number = 0;
		node->usec_heard = 0;
	}
	node->life = news->life;
	node->incarnation = news->incarnation;
	if (news->kind == PSID_NEWS_NODE)
		copy_node(swim, node, news);
	if (state != PSID_NODE_SUSPECT) {
		psid_node_become(swim, node, state, is_new);
		return;
	}
	if (is_new)
		psid_node_become(swim, node, PSID_NODE_ALIVE, true);
	psid_suspicion_start(swim, node, news->by);
	if (news->state == PSID_NODE_DEAD)
		psid_suspicion_confirm_all(swim, node);
}

/* What we hear is older than what we know, or the same. */
static void answer_old(struct psid_swim *swim, const struct psid_news *news, struct psid_node *node)
{
	bool same = news->life == node->life && news->incarnation == node->incarnation;
	bool is_new = same && news->state == PSID_NODE_SUSPECT &&
		      node->state == PSID_NODE_SUSPECT &&
		      psid_suspicion_confirm(swim, node, news->by);

	if (same && news->state == node->state && !is_new)
		psid_spread_heard(swim, node);
	/* Somebody believes in a node that we do not: let that node contradict us. */
	if (same && news->kind == PSID_NEWS_NODE && news->state == PSID_NODE_ALIVE &&
	    node->state == PSID_NODE_DEAD)
		psid_spread_tell(swim, &node->address, node);
}

void psid_news_take(struct psid_swim *swim, const struct psid_news *news,
		    const struct psid_address *from)
{
	struct psid_node *node = psid_members_find(&swim->members, news->id);
	bool is_new = false;

	if (swim->out)
		return;
	if (news->kind == PSID_NEWS_LOAD) {
		if (node)
			psid_news_take_load(swim, node, &news->load, news->msec_load);
		return;
	}
	if (news->life > psid_swim_life_max(swim, swim->usec_now)) {
		psid_swim_remark(swim, PSID_SWIM_GARBAGE, from);
		return;
	}
	if (node == swim->self) {
		take_about_self(swim, news, from);
		return;
	}
	if (!node && !(node = admit(swim, news)))
		return;
	if (!is_newer(news, node)) {
		answer_old(swim, news, node);
		return;
	}
	is_new = news->life != node->life;
	believe(swim, node, news, is_new);
	if (is_new && !psid_node_is_up(node)) /* it is dead for longer than we know of it */
		node->usec_state -= MIN(node->usec_state, news->sec_state * USEC_PER_SEC);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static bool is_to_be_forgotten(const struct psid_swim *swim, const struct psid_node *node)
{
	return !swim->params.closed &&
	       (node->state == PSID_NODE_DEAD || node->state == PSID_NODE_LEFT) &&
	       swim->usec_now > node->usec_state + USEC_FORGET;
}

uint64_t psid_news_run(struct psid_swim *swim)
{
	if (swim->usec_now < swim->usec_forget)
		return swim->usec_forget;
	for (size_t i = swim->members.n; i-- > 0;) {
		struct psid_node *node = swim->members.nodes[i];

		if (!is_to_be_forgotten(swim, node))
			continue;
		psid_spread_forget(swim, node);
		psid_members_remove(&swim->members, node);
	}
	swim->usec_forget = swim->usec_now + USEC_LOOK;
	return swim->usec_forget;
}
