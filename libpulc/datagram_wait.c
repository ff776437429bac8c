/*
 * Waiting for datagrams, which may come by several flows and by the kernel.
 *
 * A watch is placed in every flow's area; where nothing is received by flows it is kept here. A
 * flow that is made while somebody sleeps has none, and one that ends takes it along: whoever makes
 * it, or ends it, rouses all sleepers of the socket by the watches that they have placed, and they
 * place them anew. One that is being placed meanwhile is placed once more (n_changes). Without a
 * flow a sleeper does not trust that for long (patience). The flow to the peer of a connected
 * socket, or to whom the last datagram was sent, is watched as well: its receiver's death is to be
 * heard, for then there is an error to tell, and datagrams that it gives back; and while the peer
 * leaves something unread it is looked after.
 */
#include <errno.h>
#include <poll.h>

#include "board.h"
#include "clock.h"
#include "datagram.h"
#include "macros.h"
#include "rawsys.h"

#define N_TURNS_BRIEF 48
#define NSEC_PATIENCE_MAX NSEC_PER_SEC

/* Whom a sleeper tells where it is to be woken: i from 0 on until NULL. Between enter and leave. */
static struct udp_flow *watched_flow(struct datagram *d, uint32_t *i)
{
	uint32_t n = atomic_load(&d->rx.n_flows);
	struct udp_flow *queue;
	struct flow *awaited;

	for (; *i < n; ++*i) {
		queue = atomic_load(&d->rx.flows[*i]);
		if (queue)
			return queue;
	}
	awaited = *i == n ? datagram_awaited(d) : NULL;
	return awaited ? &awaited->queue : NULL;
}

#define EACH_WATCHED(d, queue)                                                                     \
	for (uint32_t i_ = 0; ((queue) = watched_flow((d), &i_)) != NULL; i_++)

static uint64_t watch_of(const pulc_waitset *set, unsigned bit)
{
	return SHM_WATCH(set->client, set->index, bit % SHM_BOARD_BITS);
}

/* For want of room in `watches` nothing is lost: patience is finite without a flow. */
static void keep_watch(struct datagram *d, uint64_t watch)
{
	uint64_t nobody;

	for (unsigned i = 0; i < SHM_N_WATCHES; i++)
		if (atomic_load(&d->watches[i]) == watch)
			return;
	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		nobody = 0;
		if (atomic_compare_exchange_strong(&d->watches[i], &nobody, watch))
			return;
	}
}

static void place_watch(struct datagram *d, uint64_t watch)
{
	struct udp_flow *queue;

	if (atomic_load(&d->rx.n_flows) == 0)
		keep_watch(d, watch);
	EACH_WATCHED(d, queue) {
		/* More waiters than there is room for: the kernel wakes them all. */
		if (shm_watch_rx(&queue->ring, watch) < 0)
			udp_stop(queue);
	}
}

int datagram_watch(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events)
{
	struct datagram *d = s->datagram;
	uint32_t n_changes;

	(void)events;
	datagram_enter(d);
	do {
		n_changes = atomic_load(&d->n_changes);
		place_watch(d, watch_of(set, bit));
	} while (UNLIKELY(atomic_load(&d->n_changes) != n_changes));
	datagram_leave(d);
	return 0;
}

void datagram_unwatch(pulc_stream *s, pulc_waitset *set, unsigned bit)
{
	struct datagram *d = s->datagram;
	uint64_t watch = watch_of(set, bit), kept;
	struct udp_flow *queue;

	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		kept = watch;
		if (atomic_load_explicit(&d->watches[i], memory_order_relaxed) == watch)
			(void)atomic_compare_exchange_strong(&d->watches[i], &kept, 0);
	}
	datagram_enter(d);
	EACH_WATCHED(d, queue)
		shm_unwatch(&queue->ring, watch);
	datagram_leave(d);
}

uint64_t datagram_patience(pulc_stream *s, pulc_waitset *set)
{
	struct datagram *d = s->datagram;
	uint64_t patience = set->nsec_patience, check;
	struct udp_flow *queue;
	bool known = false;

	datagram_enter(d);
	check = datagram_check_peer(s);
	EACH_WATCHED(d, queue) {
		known = shm_slab_is_acquainted(&flow_of(queue)->peer_slab->map, set->client,
					       set->index);
		if (!known)
			break;
	}
	datagram_leave(d);
	if (known)
		return check;
	set->nsec_patience = MIN(patience * 2, (uint64_t)NSEC_PATIENCE_MAX);
	return MIN(patience, check);
}

static void rouse_by(const struct udp_flow *queue)
{
	uint64_t watches[SHM_N_WATCHES];
	size_t n = shm_watches(&queue->ring, watches);

	for (size_t i = 0; i < n; i++)
		waitset_tell(watches[i]);
}

void datagram_rouse(pulc_stream *s)
{
	struct datagram *d = s->datagram;
	struct udp_flow *queue;
	uint64_t watch;

	EACH_WATCHED(d, queue)
		rouse_by(queue);
	for (unsigned i = 0; i < SHM_N_WATCHES; i++) {
		watch = atomic_exchange(&d->watches[i], 0);
		if (watch)
			waitset_tell(watch);
	}
}

void datagram_flows_changed(pulc_stream *s, const struct udp_flow *ended)
{
	(void)atomic_fetch_add(&s->datagram->n_changes, 1);
	if (ended)
		rouse_by(ended);
	datagram_rouse(s);
}

/* The usual receiver has one flow; NULL: he has others. */
static inline struct udp_flow *lone_flow(struct udp *u)
{
	return LIKELY(atomic_load_explicit(&u->n_flows, memory_order_relaxed) == 1)
		       ? atomic_load_explicit(&u->flows[0], memory_order_acquire)
		       : NULL;
}

/* This thread's processor is told to whoever answers; true if the only sender last ran on it. */
bool datagram_peer_here(pulc_stream *s)
{
	struct datagram *d = s->datagram;
	struct udp_flow *lone = lone_flow(&d->rx), *queue;
	struct flow *awaited;
	uint32_t cpu = this_cpu(), n = 0;
	bool here = false;

	datagram_enter(d);
	if (LIKELY(lone != NULL)) {
		awaited = datagram_awaited(d);
		if (LIKELY(awaited != NULL))
			shm_ran_on(&awaited->queue.ring, cpu);
		shm_ran_on(&lone->ring, cpu);
		here = shm_peer_ran_on(&lone->ring, cpu);
		n = 1;
	} else {
		EACH_WATCHED(d, queue) {
			shm_ran_on(&queue->ring, cpu);
			here = shm_peer_ran_on(&queue->ring, cpu);
			n += !flow_of(queue)->sends;
		}
	}
	datagram_leave(d);
	return here && n == 1;
}

/* ---- one call -------------------------------------------------------------------------------- */

static inline bool has_datagram(pulc_stream *s)
{
	bool has;

	datagram_enter(s->datagram);
	has = udp_has_datagram(&s->datagram->rx);
	datagram_leave(s->datagram);
	return has;
}

static bool memory(pulc_stream *s, const struct wait *w)
{
	(void)w;
	return has_datagram(s) || datagram_has_loss(s);
}

static short kernel_events(pulc_stream *s, const struct wait *w)
{
	(void)s;
	return (short)(w->events | POLLRDHUP | POLLERR | POLLHUP);
}

static bool kernel(pulc_stream *s, int fd, const struct wait *w)
{
	struct pollfd p = { .fd = fd, .events = kernel_events(s, w) };
	struct timespec now = { 0, 0 };

	if (raw_ppoll(&p, 1, &now) <= 0)
		return false;
	/* By another process, perhaps; and no receive that does not wait hears of it. */
	if (UNLIKELY(p.revents & POLLRDHUP))
		atomic_store(&s->datagram->shut_rd, true);
	return true;
}

/* Trying again will tell. */
static void kernel_said(pulc_stream *s, int fd, const struct wait *w)
{
	atomic_store(&s->datagram->rx.first_in_kernel, UDP_UNKNOWN);
	(void)kernel(s, fd, w);
}

struct wait datagram_wait_begin(uint64_t usec_timeout)
{
	static const struct wait_way way = { memory, kernel, kernel_events, kernel_said };

	return wait_begin(&way, POLLIN, usec_timeout);
}

/* False: something has come, though perhaps not to be taken. */
static inline bool lone_flow_stays_empty(pulc_stream *s, const struct udp_flow *queue,
					 bool has_looked)
{
	uint64_t taken = shm_taken(&queue->ring);

	for (unsigned i = 0; i < N_TURNS_BRIEF; i++) {
		if (shm_mark(&queue->ring) != taken) {
			if (has_looked && i > 0)
				turn_looks(&s->turn, false, false);
			return false;
		}
		cpu_relax();
	}
	return true;
}

static inline bool flows_stay_empty(struct udp *u)
{
	for (unsigned i = 0; i < N_TURNS_BRIEF; i++) {
		if (udp_has_datagram(u))
			return false;
		cpu_relax();
	}
	return true;
}

/* What the wait before this one was good for is counted now: once its datagram had come there was
 * no time for it. */
bool datagram_wait_turn(pulc_stream *s, uint64_t ticks)
{
	struct udp_flow *queue = lone_flow(&s->datagram->rx);
	struct flow *answers;
	struct shm_stream *to;
	struct shm_ahead ahead;

	if (turn_count(&s->turn))
		wait_paid();
	if (wait_budget(s) == 0 || !queue)
		return false;
	answers = datagram_awaited(s->datagram);
	to = answers ? &answers->queue.ring : NULL;
	ahead = shm_ahead(&queue->ring, to);
	turn_looks(&s->turn, turn_wait(&s->turn, to, ticks), true);
	shm_ahead_ask(&ahead);
	return true;
}

/* The first turns, without a look at the clock: the partner of a ping-pong answers within them. */
bool datagram_wait_briefly(pulc_stream *s, bool has_looked)
{
	struct udp *rx = &s->datagram->rx;
	struct udp_flow *queue = lone_flow(rx);

	if (!has_looked && wait_budget(s) == 0)
		return false;
	if (LIKELY(queue != NULL) ? lone_flow_stays_empty(s, queue, has_looked)
				  : flows_stay_empty(rx)) {
		turn_looked_in_vain(&s->turn);
		return false;
	}
	if (!has_looked)
		wait_paid();
	return true;
}

int datagram_wait(pulc_stream *s, int fd, struct wait *w)
{
	return wait_for(s, fd, w, wait_budget(s));
}

void datagram_tell(struct udp_flow *queue)
{
	struct shm_stream *ring = &queue->ring;

	if (shm_due_rx(ring, shm_peer_notice(ring)))
		wait_tell(ring, shm_collect_rx);
}
