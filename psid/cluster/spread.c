/*
 * What is passed on. Two lists, each with what was told least at its head: nodes whose state is
 * news ("hot"), and nodes whose load is ("warm"). Every datagram that goes out anyway is filled up
 * from them, states first, and of loads only one, so that a datagram of an idle cluster stays
 * small.
 *
 * A state that is new to us is not left to wait for such a datagram: it goes to a few random nodes
 * at once. In a cluster where every node does that, everybody knows within a few times the
 * network's latency (infect and die, with four contacts, reaches all but 2 %); the datagrams of the
 * next periods reach the rest (SWIM, section 4.1). Many changes at a time share datagrams, and
 * between two such bursts there is a pause, so a catastrophe costs a node no more than a bounded
 * stream.
 *
 * Whoever tells us what we are telling ourselves shows that it has got about, so it is told less
 * often (Demers et al., PODC 1987, section 1.4: feedback and counters). Where all hear all it ends
 * after a third of the tellings; where much is lost, or little is heard, it does not.
 */
#include "macros.h"
#include "swim_inside.h"

#define N_CONTACTS 4u
#define N_BURST 4u	     /* datagrams to each contact */
#define PERIOD_PARTS 12u     /* of a period, between bursts */
#define SIZE_PIGGYBACK 1000u /* of a datagram that has another purpose */
#define FACTOR_TELL 3u
#define N_HEARD 2u /* tellings that are spared by one that we hear */

static uint8_t n_tellings(const struct psid_swim *swim, unsigned factor)
{
	unsigned n_doublings = 2; /* more than there are: the table may be growing */

	for (size_t n = swim->members.n_up; n > 1; n /= 2)
		n_doublings++;
	return (uint8_t)(factor * n_doublings);
}

static void cool(struct psid_swim *swim, struct psid_node *node)
{
	if (node->n_hot > 0)
		TAILQ_REMOVE(&swim->hot, node, hot);
	swim->n_urgent -= node->urgent;
	node->urgent = false;
	node->n_hot = 0;
}

void psid_spread_state(struct psid_swim *swim, struct psid_node *node)
{
	cool(swim, node);
	if (swim->learning && node != swim->self)
		return;
	node->n_hot = (uint8_t)(N_CONTACTS + n_tellings(swim, FACTOR_TELL));
	node->urgent = true;
	swim->n_urgent++;
	TAILQ_INSERT_HEAD(&swim->hot, node, hot);
}

void psid_spread_load(struct psid_swim *swim, struct psid_node *node)
{
	if (node->n_warm > 0)
		TAILQ_REMOVE(&swim->warm, node, warm);
	node->n_warm = n_tellings(swim, 1);
	TAILQ_INSERT_HEAD(&swim->warm, node, warm);
}

void psid_spread_forget(struct psid_swim *swim, struct psid_node *node)
{
	cool(swim, node);
	if (node->n_warm > 0)
		TAILQ_REMOVE(&swim->warm, node, warm);
	node->n_warm = 0;
}

/* What the others need to hear: all about a living node, little about any other. */
static void put_state(const struct psid_swim *swim, struct psid_writer *w,
		      const struct psid_node *node)
{
	struct psid_news news;

	if (node->state == PSID_NODE_ALIVE)
		psid_news_of(swim, node, &news);
	else
		psid_news_of_state(node, &news);
	psid_put_news(w, &news);
}

/* It was told n times. */
static void told(struct psid_swim *swim, struct psid_node *node, unsigned n)
{
	TAILQ_REMOVE(&swim->hot, node, hot);
	node->n_hot -= (uint8_t)MIN(n, node->n_hot);
	if (node->n_hot > 0)
		TAILQ_INSERT_TAIL(&swim->hot, node, hot);
}

void psid_spread_heard(struct psid_swim *swim, struct psid_node *node)
{
	if (node->n_hot == 0 || node->urgent)
		return;
	node->n_hot -= (uint8_t)MIN(N_HEARD, node->n_hot);
	if (node->n_hot == 0)
		TAILQ_REMOVE(&swim->hot, node, hot);
}

static void add_load(struct psid_swim *swim, struct psid_writer *w, uint64_t to)
{
	struct psid_node *node = TAILQ_FIRST(&swim->warm);
	struct psid_news news;

	while (node && node->id == to)
		node = TAILQ_NEXT(node, warm);
	if (!node)
		return;
	psid_news_of_load(swim, node, &news);
	psid_put_news(w, &news);
	if (w->full)
		return;
	TAILQ_REMOVE(&swim->warm, node, warm);
	if (--node->n_warm > 0)
		TAILQ_INSERT_TAIL(&swim->warm, node, warm);
}

void psid_spread_add(struct psid_swim *swim, struct psid_writer *w, uint64_t to)
{
	struct psid_node *node = psid_members_find(&swim->members, to);
	struct psid_node *last = TAILQ_LAST(&swim->hot, psid_node_list);
	const struct psid_node *told_last = NULL;

	/* Lifeguard's buddy system: a suspect hears of it first. */
	if (node && node->state != PSID_NODE_ALIVE && node->state != PSID_NODE_UNKNOWN)
		put_state(swim, w, node);
	w->end = MIN(w->end, w->at + SIZE_PIGGYBACK);
	while ((node = TAILQ_FIRST(&swim->hot)) && told_last != last) {
		put_state(swim, w, node);
		if (w->full)
			break;
		told_last = node;
		/* Told in passing once is not what `urgent` means: that stays until the burst. */
		told(swim, node, node->urgent && node->n_hot == 1 ? 0 : 1);
	}
	if (!w->full)
		add_load(swim, w, to);
}

void psid_spread_tell(struct psid_swim *swim, const struct psid_address *to,
		      const struct psid_node *about)
{
	struct psid_datagram d;

	psid_datagram_begin(&d, PSID_SWIM_GOSSIP);
	put_state(swim, &d.w, about);
	psid_datagram_send(&d, swim, to);
}

void psid_spread_tell_life(struct psid_swim *swim, const struct psid_address *to, uint64_t id,
			   uint64_t life)
{
	const struct psid_news news = {
		.kind = PSID_NEWS_STATE, .id = id, .life = life, .state = PSID_NODE_LEFT
	};
	struct psid_datagram d;

	psid_datagram_begin(&d, PSID_SWIM_GOSSIP);
	psid_put_news(&d.w, &news);
	psid_datagram_send(&d, swim, to);
}

/* One datagram of urgent news to each contact. Returns false if nothing was left to say. */
static bool burst(struct psid_swim *swim, struct psid_node *const *contacts, size_t n)
{
	struct psid_datagram d;
	struct psid_node *node, *next;
	bool any = false;

	psid_datagram_begin(&d, PSID_SWIM_GOSSIP);
	for (node = TAILQ_FIRST(&swim->hot); node && swim->n_urgent > 0; node = next) {
		next = TAILQ_NEXT(node, hot);
		if (!node->urgent)
			continue;
		put_state(swim, &d.w, node);
		if (d.w.full)
			break;
		any = true;
		node->urgent = false;
		swim->n_urgent--;
		told(swim, node, (unsigned)n);
	}
	for (size_t i = 0; any && i < n; i++)
		psid_datagram_send(&d, swim, &contacts[i]->address);
	return any;
}

static size_t choose_contacts(struct psid_swim *swim, struct psid_node *contacts[N_CONTACTS])
{
	size_t n = 0;

	for (size_t i = 0; i < 2 * N_CONTACTS && n < N_CONTACTS; i++) {
		struct psid_node *node = psid_swim_random_node(swim, 0);
		bool is_double = !node;

		for (size_t j = 0; j < n; j++)
			is_double |= contacts[j] == node;
		if (!is_double)
			contacts[n++] = node;
	}
	return n;
}

uint64_t psid_spread_run(struct psid_swim *swim)
{
	struct psid_node *contacts[N_CONTACTS];
	size_t n;

	if (swim->n_urgent == 0)
		return UINT64_MAX;
	if (swim->usec_now < swim->usec_flush)
		return swim->usec_flush;
	n = choose_contacts(swim, contacts);
	for (size_t i = 0; i < N_BURST && burst(swim, contacts, n); i++)
		;
	swim->usec_flush = swim->usec_now + swim->params.usec_period / PERIOD_PARTS;
	return swim->n_urgent > 0 ? swim->usec_flush : UINT64_MAX;
}
