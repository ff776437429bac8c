/*
 * The simulated network: a heap of what happens when. An event is the arrival of a datagram, or
 * that a node wants to be run. Events at the same time happen in the order they were made.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"

struct sim_letter {
	struct sim_letter *next;
	unsigned from, to;
	uint64_t life; /* of the sender */
	size_t len;
	uint8_t body[];
};

struct sim_event {
	uint64_t usec, number;
	struct sim_letter *letter; /* NULL: run the node */
	unsigned node;
};

static uint64_t draw(struct sim *sim)
{
	uint64_t z = sim->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint64_t draw_below(struct sim *sim, uint64_t n)
{
	return (uint64_t)((unsigned __int128)draw(sim) * n >> 64);
}

/* ---- the heap -------------------------------------------------------------------------------- */

static bool is_sooner(const struct sim_event *a, const struct sim_event *b)
{
	return a->usec != b->usec ? a->usec < b->usec : a->number < b->number;
}

static void push(struct sim *sim, uint64_t usec, unsigned node, struct sim_letter *letter)
{
	static uint64_t number;
	struct sim_event event = { usec, number++, letter, node };
	size_t i = sim->n_heap++;

	if (sim->n_heap > sim->n_room) {
		sim->n_room = MAX(2 * sim->n_room, (size_t)1024);
		sim->heap = reallocarray(sim->heap, sim->n_room, sizeof(event));
		if (!sim->heap)
			abort();
	}
	for (; i > 0 && is_sooner(&event, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim->heap[i] = sim->heap[(i - 1) / 2];
	sim->heap[i] = event;
}

static struct sim_event pop(struct sim *sim)
{
	struct sim_event first = sim->heap[0], last = sim->heap[--sim->n_heap];
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < sim->n_heap; i = child) {
		if (child + 1 < sim->n_heap && is_sooner(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!is_sooner(&sim->heap[child], &last))
			break;
		sim->heap[i] = sim->heap[child];
	}
	sim->heap[i] = last;
	return first;
}

/* ---- what the memberships call --------------------------------------------------------------- */

static struct psid_address address_of(unsigned i)
{
	return (struct psid_address){
		.ip = { [10] = 0xff, 0xff, 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i },
		.port = PSID_PORT,
	};
}

static unsigned index_of(const struct psid_address *address)
{
	return (unsigned)address->ip[13] << 16 | (unsigned)address->ip[14] << 8 | address->ip[15];
}

static void on_send(void *data, const struct psid_address *to, const uint8_t *body, size_t len)
{
	struct sim_node *node = data;
	struct sim *sim = node->sim;
	unsigned i = index_of(to);
	struct sim_letter *letter;

	node->n_sent++;
	node->size_sent += len + SIM_SIZE_OVERHEAD;
	if (i >= sim->n || draw_below(sim, 1000) < sim->permille_loss)
		return;
	letter = malloc(sizeof(*letter) + len);
	if (!letter)
		abort();
	*letter = (struct sim_letter){
		.from = node->index, .to = i, .life = node->swim.self->life, .len = len
	};
	memcpy(letter->body, body, len);
	push(sim,
	     sim->usec_now + sim->usec_delay_min +
		     draw_below(sim, sim->usec_delay_max - sim->usec_delay_min + 1),
	     i, letter);
}

static void on_changed(void *data, struct psid_node *about, enum psid_node_state before,
		       bool is_new)
{
	struct sim_node *node = data;
	const struct sim_node *subject = &node->sim->nodes[index_of(&about->address)];
	bool lives = subject->up && !subject->stopped && subject->side == node->side &&
		     subject->swim.self->life == about->life;

	(void)before;
	(void)is_new;
	node->sim->n_suspected_falsely += lives && about->state == PSID_NODE_SUSPECT;
	node->sim->n_buried_falsely += lives && about->state == PSID_NODE_DEAD;
}

static void on_given_up(void *data)
{
	((struct sim_node *)data)->n_given_up++;
}

static void on_remark(void *data, enum psid_swim_remark remark, const struct psid_address *from)
{
	struct sim_node *node = data;

	(void)from;
	node->last_remark = remark;
	node->n_remarks++;
}

static const struct psid_swim_ops ops = {
	.send = on_send,
	.changed = on_changed,
	.given_up = on_given_up,
	.remark = on_remark,
};

/* ---- from start to end ----------------------------------------------------------------------- */

void sim_init(struct sim *sim, unsigned n, uint64_t seed)
{
	*sim = (struct sim){ .n = n,
			     .usec_now = SIM_SEC,
			     .random = seed,
			     .usec_delay_min = 100,
			     .usec_delay_max = 1000,
			     .nodes = calloc(n, sizeof(struct sim_node)) };
	if (!sim->nodes)
		abort();
	for (unsigned i = 0; i < n; i++) {
		sim->nodes[i].sim = sim;
		sim->nodes[i].index = i;
		sim->nodes[i].waiting_end = &sim->nodes[i].waiting;
	}
}

static void drop_waiting(struct sim_node *node)
{
	struct sim_letter *letter;

	while ((letter = node->waiting)) {
		node->waiting = letter->next;
		free(letter);
	}
	node->waiting_end = &node->waiting;
}

void sim_deinit(struct sim *sim)
{
	while (sim->n_heap > 0)
		free(sim->heap[--sim->n_heap].letter);
	for (unsigned i = 0; i < sim->n; i++)
		if (sim->nodes[i].up)
			sim_kill(sim, i);
	free(sim->heap);
	free(sim->nodes);
}

static void make_node(struct sim *sim, unsigned i, const char *name)
{
	struct sim_node *node = &sim->nodes[i];
	struct psid_address address = address_of(i);
	struct psid_swim_params params = { .usec_period = 250 * SIM_MSEC,
					   .n_nodes_max = 4096,
					   .random = draw(sim) };

	if (psid_swim_init(&node->swim, &params, &ops, node) < 0 ||
	    psid_swim_be(&node->swim, name, &address, sim->usec_now / 1000) < 0)
		abort();
	node->swim.self->n_cores = 4;
	node->swim.self->load.number = 1;
	node->up = true;
	node->stopped = false;
}

static void schedule(struct sim *sim, unsigned i, uint64_t usec)
{
	if (usec >= sim->nodes[i].usec_due || usec == UINT64_MAX)
		return;
	sim->nodes[i].usec_due = usec;
	push(sim, usec, i, NULL);
}

static void begin(struct sim *sim, unsigned i)
{
	psid_swim_start(&sim->nodes[i].swim, sim->usec_now);
	sim->nodes[i].usec_due = UINT64_MAX;
	schedule(sim, i, sim->usec_now);
}

static const char *name_of(unsigned i)
{
	static char name[16];

	(void)snprintf(name, sizeof(name), "n%u", i);
	return name;
}

void sim_start(struct sim *sim, unsigned i, const unsigned *seeds, size_t n_seeds)
{
	sim_start_as(sim, i, name_of(i), seeds, n_seeds);
}

void sim_start_as(struct sim *sim, unsigned i, const char *name, const unsigned *seeds,
		  size_t n_seeds)
{
	make_node(sim, i, name);
	for (size_t j = 0; j < n_seeds; j++) {
		struct psid_address address = address_of(seeds[j]);

		(void)psid_swim_seed(&sim->nodes[i].swim, &address);
	}
	begin(sim, i);
}

static int compare_selves(const void *a, const void *b)
{
	const struct psid_node *x = (*(struct sim_node *const *)a)->swim.self;
	const struct psid_node *y = (*(struct sim_node *const *)b)->swim.self;

	return (x->id > y->id) - (x->id < y->id);
}

/* As if everybody had heard of everybody long ago. */
static void acquaint(struct sim_node *node, struct sim_node *const *sorted)
{
	struct sim *sim = node->sim;

	node->swim.is_newcomer = true; /* nothing of this is news */
	for (unsigned j = 0; j < sim->n; j++) {
		const struct psid_node *other = sorted[j]->swim.self;
		struct psid_news news = { .kind = PSID_NEWS_NODE,
					  .life = other->life,
					  .id = other->id,
					  .state = PSID_NODE_ALIVE,
					  .address = other->address,
					  .n_cores = 4 };
		struct psid_reader r;
		struct psid_writer w;
		const struct psid_origin from = { other->id, other->life, other->address };
		uint8_t body[PSID_SIZE_NEWS_MAX + 7];

		if (other == node->swim.self)
			continue;
		(void)snprintf(news.name, sizeof(news.name), "%s", other->name);
		w = (struct psid_writer){ .at = body, .end = body + sizeof(body) };
		psid_put(&w, 9 /* a page */, 1);
		psid_put(&w, 0, 6);
		psid_put_news(&w, &news);
		r = (struct psid_reader){ .at = body, .end = w.at };
		psid_swim_receive(&node->swim, sim->usec_now, &from, r.at, (size_t)(r.end - r.at));
		node->swim.is_newcomer = true;
	}
	node->swim.is_newcomer = false;
	node->swim.joined = true;
}

void sim_start_acquainted(struct sim *sim)
{
	struct sim_node **sorted = calloc(sim->n, sizeof(*sorted));

	if (!sorted)
		abort();
	for (unsigned i = 0; i < sim->n; i++) {
		make_node(sim, i, name_of(i));
		sorted[i] = &sim->nodes[i];
	}
	qsort(sorted, sim->n, sizeof(*sorted), compare_selves);
	for (unsigned i = 0; i < sim->n; i++) {
		begin(sim, i);
		acquaint(&sim->nodes[i], sorted);
	}
	free(sorted);
}

void sim_kill(struct sim *sim, unsigned i)
{
	struct sim_node *node = &sim->nodes[i];

	drop_waiting(node);
	psid_swim_deinit(&node->swim);
	node->up = false;
	node->usec_due = UINT64_MAX;
}

void sim_leave(struct sim *sim, unsigned i)
{
	psid_swim_leave(&sim->nodes[i].swim, sim->usec_now);
	sim_kill(sim, i);
}

void sim_stop(struct sim *sim, unsigned i)
{
	sim->nodes[i].stopped = true;
}

void sim_continue(struct sim *sim, unsigned i)
{
	struct sim_node *node = &sim->nodes[i];
	struct sim_letter *letter = node->waiting;

	node->stopped = false;
	node->waiting = NULL;
	node->waiting_end = &node->waiting;
	while (letter) {
		struct sim_letter *next = letter->next;

		push(sim, sim->usec_now, i, letter);
		letter = next;
	}
	node->usec_due = UINT64_MAX;
	schedule(sim, i, sim->usec_now);
}

void sim_divide(struct sim *sim, unsigned k)
{
	for (unsigned i = 0; i < sim->n; i++)
		sim->nodes[i].side = i < k;
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_node(struct sim *sim, struct sim_node *node)
{
	uint64_t usec_next = psid_swim_run(&node->swim, sim->usec_now);

	node->swim.self->load.number =
		(uint16_t)(sim->usec_now / SIM_SEC); /* sampled once a second */
	node->usec_due = UINT64_MAX;
	schedule(sim, node->index, usec_next);
}

static void deliver(struct sim *sim, struct sim_letter *letter)
{
	struct sim_node *node = &sim->nodes[letter->to];
	const struct psid_origin from = { sim_id(sim, letter->from), letter->life,
					  address_of(letter->from) };

	letter->next = NULL;
	if (node->up && node->stopped && node->side == sim->nodes[letter->from].side) {
		*node->waiting_end = letter;
		node->waiting_end = &letter->next;
		return;
	}
	if (node->up && node->side == sim->nodes[letter->from].side) {
		psid_swim_receive(&node->swim, sim->usec_now, &from, letter->body, letter->len);
		run_node(sim, node);
	}
	free(letter);
}

void sim_run(struct sim *sim, uint64_t usec)
{
	uint64_t usec_end = sim->usec_now + usec;

	while (sim->n_heap > 0 && sim->heap[0].usec <= usec_end) {
		struct sim_event event = pop(sim);
		struct sim_node *node = &sim->nodes[event.node];

		sim->usec_now = event.usec;
		if (event.letter)
			deliver(sim, event.letter);
		else if (node->up && !node->stopped && event.usec == node->usec_due)
			run_node(sim, node);
	}
	sim->usec_now = usec_end;
}

/* ---- what they think ------------------------------------------------------------------------- */

uint64_t sim_id(const struct sim *sim, unsigned i)
{
	return sim->nodes[i].up ? sim->nodes[i].swim.self->id : psid_node_id(name_of(i));
}

enum psid_node_state sim_opinion(const struct sim *sim, unsigned i, unsigned j)
{
	const struct psid_node *node = psid_members_find(&sim->nodes[i].swim.members,
							 sim_id(sim, j));

	return node ? node->state : PSID_NODE_UNKNOWN;
}

unsigned sim_count(const struct sim *sim, unsigned j, enum psid_node_state state)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sim->n; i++)
		n += sim->nodes[i].up && i != j && sim_opinion(sim, i, j) == state;
	return n;
}

static unsigned n_running(const struct sim *sim)
{
	unsigned n = 0;

	for (unsigned i = 0; i < sim->n; i++)
		n += sim->nodes[i].up;
	return n;
}

bool sim_agreed(const struct sim *sim)
{
	unsigned n = n_running(sim);

	for (unsigned i = 0; i < sim->n; i++)
		if (sim->nodes[i].up && sim->nodes[i].swim.members.n_up != n)
			return false;
	for (unsigned j = 0; j < sim->n; j++)
		if (sim->nodes[j].up && sim_count(sim, j, PSID_NODE_ALIVE) != n - 1)
			return false;
	return true;
}

uint64_t sim_run_until_agreed(struct sim *sim, uint64_t usec_max)
{
	uint64_t usec_begin = sim->usec_now;

	while (sim->usec_now < usec_begin + usec_max) {
		if (sim_agreed(sim))
			return sim->usec_now - usec_begin;
		sim_run(sim, 10 * SIM_MSEC);
	}
	return UINT64_MAX;
}

uint64_t sim_run_until_all(struct sim *sim, unsigned j, enum psid_node_state state,
			   uint64_t usec_max)
{
	uint64_t usec_begin = sim->usec_now;
	unsigned n = n_running(sim) - sim->nodes[j].up;

	while (sim->usec_now < usec_begin + usec_max) {
		if (sim_count(sim, j, state) == n)
			return sim->usec_now - usec_begin;
		sim_run(sim, 10 * SIM_MSEC);
	}
	return UINT64_MAX;
}
