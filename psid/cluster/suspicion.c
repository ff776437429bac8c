/*
 * From "does not answer" to "dead". A suspected node has some time to contradict: it is told at
 * once, by whoever suspects it, and everybody else is told too. The time is long at first, and
 * becomes shorter with each other node that finds the same independently (Lifeguard's dynamic
 * suspicion, section 4.2): one observer may be the one who is ill, four are not.
 *
 * So that confirmation does not have to wait for other nodes' turns to probe, a few of those that
 * hear of a suspicion, four on average however many there are, look for themselves at once.
 *
 * Who has heard the suspect with his own ears since then does not declare it dead: he tells it
 * again what is said, and waits.
 */
#include <stdlib.h>

#include "macros.h"
#include "swim_inside.h"

#define N_CONFIRMATIONS 3u
#define N_CHECKERS 4u
/* In thousandths of a period. */
#define MILLI_MIN 1600u		/* with all confirmations, in a cluster of at most 40 */
#define MILLI_PER_DOUBLING 300u /* for each doubling beyond, log10(2) */
#define FACTOR_MAX 3u		/* without any */

struct psid_suspicion {
	LIST_ENTRY(psid_suspicion) link;
	struct psid_node *node;
	uint64_t by[N_CONFIRMATIONS + 1];
	unsigned n_by;
	uint64_t usec_start, usec_due;
	uint64_t usec_check; /* our next look, if we suspect it ourselves */
};

static uint64_t usec_min(const struct psid_swim *swim)
{
	uint64_t milli = MILLI_MIN;

	for (size_t n = swim->members.n_up; n > 40; n /= 2)
		milli += MILLI_PER_DOUBLING;
	return swim->params.usec_period * milli / 1000;
}

/*
 * min + (max - min) * (1 - log(c + 1) / log(k + 1)), c confirmations of k that would be enough. In
 * a small cluster there are not so many others.
 */
static uint64_t usec_of(const struct psid_swim *swim, unsigned n_confirmations)
{
	/* Thousandths of log(c + 1) / log(k + 1). */
	static const unsigned share[N_CONFIRMATIONS + 1][N_CONFIRMATIONS + 1] = {
		{ 1000, 1000, 1000, 1000 },
		{ 0, 1000, 1000, 1000 },
		{ 0, 631, 1000, 1000 },
		{ 0, 500, 792, 1000 },
	};
	size_t n_others = swim->members.n_up > 2 ? swim->members.n_up - 2 : 0;
	size_t k = MIN(n_others, (size_t)N_CONFIRMATIONS);
	uint64_t min = usec_min(swim);

	return min + min * (FACTOR_MAX - 1) * (1000 - share[k][n_confirmations]) / 1000;
}

/* Returns false if that was known. */
static bool add(struct psid_suspicion *s, uint64_t by)
{
	if (s->n_by > N_CONFIRMATIONS)
		return false;
	for (unsigned i = 0; i < s->n_by; i++)
		if (s->by[i] == by)
			return false;
	s->by[s->n_by++] = by;
	return true;
}

static void set_due(struct psid_swim *swim, struct psid_suspicion *s)
{
	s->usec_due = s->usec_start + usec_of(swim, s->n_by - 1);
}

void psid_suspicion_start(struct psid_swim *swim, struct psid_node *node, uint64_t by)
{
	struct psid_suspicion *s;
	bool is_ours = by == swim->self->id;

	if (node->suspicion) {
		(void)psid_suspicion_confirm(swim, node, by);
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return; /* somebody else will */
	s->node = node;
	s->usec_start = swim->usec_now;
	s->usec_check = is_ours ? swim->usec_now + swim->params.usec_period : UINT64_MAX;
	(void)add(s, by);
	set_due(swim, s);
	LIST_INSERT_HEAD(&swim->suspicions, s, link);
	node->suspicion = s;
	psid_node_become(swim, node, PSID_NODE_SUSPECT, false);
	if (is_ours)
		psid_spread_tell(swim, &node->address, node);
	else if (psid_swim_random_below(swim, swim->members.n_up) < N_CHECKERS)
		psid_probe_now(swim, node);
}

bool psid_suspicion_confirm(struct psid_swim *swim, struct psid_node *node, uint64_t by)
{
	struct psid_suspicion *s = node->suspicion;

	if (!s || by == 0 || !add(s, by))
		return false;
	set_due(swim, s);
	psid_spread_state(swim, node);
	return true;
}

void psid_suspicion_confirm_all(struct psid_swim *swim, struct psid_node *node)
{
	if (!node->suspicion)
		return;
	node->suspicion->n_by = N_CONFIRMATIONS + 1;
	set_due(swim, node->suspicion);
}

bool psid_suspicion_is_old(const struct psid_swim *swim, const struct psid_node *node)
{
	return node->suspicion &&
	       swim->usec_now >= node->suspicion->usec_start + usec_min(swim) / 2;
}

void psid_suspicion_stop(struct psid_swim *swim, struct psid_node *node)
{
	struct psid_suspicion *s = node->suspicion;

	(void)swim;
	if (!s)
		return;
	LIST_REMOVE(s, link);
	node->suspicion = NULL;
	free(s);
}

uint64_t psid_suspicion_by(const struct psid_node *node)
{
	const struct psid_suspicion *s = node->suspicion;

	return s ? s->by[MIN(s->n_by - 1, N_CONFIRMATIONS)] : 0;
}

static void give_another_chance(struct psid_swim *swim, struct psid_suspicion *s)
{
	s->usec_start = swim->usec_now;
	s->usec_due = swim->usec_now + usec_min(swim);
	psid_spread_tell(swim, &s->node->address, s->node);
}

static void conclude(struct psid_swim *swim, struct psid_suspicion *s)
{
	if (s->node->usec_heard > s->usec_start)
		give_another_chance(swim, s);
	else
		psid_node_become(swim, s->node, PSID_NODE_DEAD, false);
}

uint64_t psid_suspicions_run(struct psid_swim *swim)
{
	struct psid_suspicion *s = LIST_FIRST(&swim->suspicions), *next;
	uint64_t usec_next = UINT64_MAX;

	for (; s; s = next) {
		next = LIST_NEXT(s, link);
		if (swim->usec_now >= s->usec_due) {
			conclude(swim, s);
			continue;
		}
		if (swim->usec_now >= s->usec_check) {
			psid_probe_now(swim, s->node);
			s->usec_check = swim->usec_now + swim->params.usec_period;
		}
		usec_next = MIN(usec_next, s->usec_due);
		usec_next = MIN(usec_next, s->usec_check);
	}
	/* Those that got another chance. */
	LIST_FOREACH(s, &swim->suspicions, link)
		usec_next = MIN(usec_next, s->usec_due);
	return usec_next;
}

void psid_suspicions_postpone(struct psid_swim *swim, uint64_t usec)
{
	struct psid_suspicion *s;

	LIST_FOREACH(s, &swim->suspicions, link) {
		s->usec_start += usec;
		s->usec_due += usec;
	}
}
