/*
 * Waiting for ports: the one implementation of libpulc/wait.c, over all peers' links at once.
 *
 * To that implementation the process's peers are a stream whose kernel socket is the channel to
 * psid: what comes there, a new peer or a port's end, ends a wait as a frame does. Whoever sleeps
 * places its watch on every link; those to other nodes tell by a descriptor (native_net.c).
 *
 * Several threads may wait. One of them takes what was meant for another and then says so: events
 * are counted, and a thread sleeps only if the count is what it was when it last looked; those
 * asleep already are woken like anybody's (native_wake_sleepers).
 *
 * Source: pulc-1998, 4.7 (spin, then block).
 */
#include <errno.h>
#include <sys/single_threaded.h>

#include "barrier.h"
#include "clock.h"
#include "macros.h"
#include "native.h"
#include "notice.h"
#include "private.h"
#include "rawsys.h"

#define N_TURNS_BRIEF 64
#define N_SLEEPERS_MAX 64u
/* A sleeper whom nobody can tell looks again after this. */
#define NSEC_BLIND (NSEC_PER_USEC * 1000)
#define NSEC_PATIENCE_MAX NSEC_PER_SEC

static LARGE hal_watch sleepers[N_SLEEPERS_MAX]; /* under the lock; 0: free */
static unsigned n_sleepers;
static __thread bool blind __attribute__((tls_model("initial-exec")));
static __thread bool lazy __attribute__((tls_model("initial-exec")));

static hal_watch watch_of(const pulc_waitset *set, unsigned bit)
{
	return SHM_WATCH(set->client, set->index, bit % SHM_BOARD_BITS) |
	       (lazy ? HAL_WATCH_LAZY : 0);
}

/* ---- what there is to see -------------------------------------------------------------------- */

static inline bool has_something(struct peer *peer)
{
	const struct hal_link *link = peer->link;

	return link && !peer->held &&
	       (native_net_pending(peer) || (UNLIKELY(peer->no_room) && link->ops->room(link)));
}

static inline bool any_peer_has(void)
{
	struct peer *peer;

	if (native_net_is_many())
		(void)native_net_look();
	TAILQ_FOREACH(peer, native_peers(), link_all)
		if (has_something(peer))
			return true;
	return false;
}

/* Another thread may be changing the list. */
static inline bool anything(uint64_t seen)
{
	bool has;

	if (protocol_events_now() != seen || protocol_is_unfinished() || native_has_news())
		return true;
	if (LIKELY(__libc_single_threaded))
		return any_peer_has();
	if (!native_lock())
		return true;
	has = any_peer_has();
	native_unlock();
	return has;
}

static bool memory(struct pulc_stream *s, const struct wait *w)
{
	(void)s;
	return anything(w->need);
}

static bool look_at_channel(void)
{
	struct pollfd p = { .fd = client_channel(), .events = POLLIN };
	struct timespec now = { 0, 0 };

	if (p.fd < 0 || raw_ppoll(&p, 1, &now) <= 0)
		return false;
	if (client_lock()) {
		client_look();
		client_unlock();
	}
	return native_has_news();
}

static bool kernel(struct pulc_stream *s, int fd, const struct wait *w)
{
	(void)s, (void)fd, (void)w;
	return look_at_channel();
}

static short kernel_events(struct pulc_stream *s, const struct wait *w)
{
	(void)s, (void)w;
	return POLLIN;
}

static void kernel_said(struct pulc_stream *s, int fd, const struct wait *w)
{
	(void)kernel(s, fd, w);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static bool enter_sleeper(hal_watch watch)
{
	for (unsigned i = 0; i < N_SLEEPERS_MAX; i++)
		if (!sleepers[i]) {
			sleepers[i] = watch;
			n_sleepers++;
			return true;
		}
	return false;
}

static int watch_all(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events)
{
	hal_watch watch = watch_of(set, bit);
	unsigned wanted, flags = 0;
	struct peer *peer;

	(void)s, (void)events;
	if (!native_lock())
		return -EDEADLK;
	blind = !enter_sleeper(watch);
	TAILQ_FOREACH(peer, native_peers(), link_all) {
		if (!peer->link)
			continue;
		wanted = HAL_WATCH_DATA | (peer->no_room ? HAL_WATCH_SPACE : 0);
		flags |= peer->link->caps.flags;
		/* What it leaves alone, because psid's word is awaited, it is not told of again. */
		if (lazy)
			peer->attended = peer->held ? 0 : (uint8_t)wanted;
		if (peer->link->ops->watch(peer->link, watch, wanted) < 0)
			blind = true;
	}
	native_unlock();
	if ((flags & HAL_BARRIER) && !barrier_make())
		blind = true;
	return 0;
}

static void unwatch_all(pulc_stream *s, pulc_waitset *set, unsigned bit)
{
	hal_watch watch = watch_of(set, bit);
	struct peer *peer;

	(void)s;
	if (!native_lock())
		return;
	for (unsigned i = 0; i < N_SLEEPERS_MAX; i++)
		if (sleepers[i] == watch) {
			sleepers[i] = 0;
			n_sleepers--;
		}
	TAILQ_FOREACH(peer, native_peers(), link_all)
		if (peer->link)
			peer->link->ops->unwatch(peer->link, watch);
	native_unlock();
}

/* Something can perhaps go on that the progress thread does not know of: it fell asleep before. */
static bool is_left_to_resident(void)
{
	const struct peer *peer;

	if (protocol_is_unfinished() || port_any_elsewhere || port_any_to_move() ||
	    tag_any_to_move() || guest_any_to_move() || native_has_news() || native_thread_ends())
		return true;
	TAILQ_FOREACH(peer, native_peers(), link_all)
		if (peer->link &&
		    (!peer->attended || (peer->no_room && !(peer->attended & HAL_WATCH_SPACE))))
			return true;
	return false;
}

void native_wake_sleepers(void)
{
	bool left = n_sleepers && is_left_to_resident();

	if (LIKELY(!n_sleepers) || !client_lock())
		return;
	for (unsigned i = 0; i < N_SLEEPERS_MAX; i++)
		if (sleepers[i] && (left || !(sleepers[i] & HAL_WATCH_LAZY)))
			waitset_tell(sleepers[i]);
	client_unlock();
}

void native_wait_forked(void)
{
	for (unsigned i = 0; i < N_SLEEPERS_MAX; i++)
		sleepers[i] = 0;
	n_sleepers = 0;
}

/* How long nothing has to be done for that link. */
static uint64_t nsec_until_due(const struct hal_link *link)
{
	uint64_t due = link->nsec_due ? atomic_load_explicit(link->nsec_due, memory_order_relaxed)
				      : UINT64_MAX,
		 now;

	if (LIKELY(due == UINT64_MAX))
		return due;
	now = nsec_now();
	return due > now ? due - now : 0;
}

/* For ever only if every peer can ring the bell by itself. */
static uint64_t patience(pulc_stream *s, pulc_waitset *set)
{
	uint64_t nsec = set->nsec_patience, due = UINT64_MAX;
	const struct peer *peer;
	bool trusted = true;

	(void)s;
	if (blind)
		return NSEC_BLIND;
	if (!native_lock())
		return NSEC_BLIND;
	TAILQ_FOREACH(peer, native_peers(), link_all) {
		if (!peer->link)
			continue;
		if (!peer->link->ops->is_trusted(peer->link, watch_of(set, 0)))
			trusted = false;
		due = MIN(due, nsec_until_due(peer->link));
	}
	native_unlock();
	if (trusted)
		return due;
	set->nsec_patience = MIN(nsec * 2, (uint64_t)NSEC_PATIENCE_MAX);
	return MIN(nsec, due);
}

static bool is_here(const struct peer *peer, uint32_t cpu)
{
	return peer->link && peer->link->ops->peer_here(peer->link, cpu);
}

/* Says to all where this process runs. Are all of them there too? */
static bool tell_all(uint32_t cpu)
{
	struct peer *peer;
	bool all = true;

	TAILQ_FOREACH(peer, native_peers(), link_all)
		if (peer->link)
			all &= is_here(peer, cpu);
	return all;
}

static bool are_all_here(uint32_t cpu)
{
	struct peer *peer;

	TAILQ_FOREACH(peer, native_peers(), link_all)
		if (peer->link && !is_here(peer, cpu))
			return false;
	return true;
}

/* Whoever is awaited runs where this process does, and cannot run while it looks. Of several, all
 * do: the one that was heard last is asked first, for he is elsewhere, as a rule, if any of them
 * is. */
static bool is_beside_us(void)
{
	static uint32_t cpu_said;
	static uint64_t n_joined_then;
	uint32_t cpu = this_cpu();
	struct peer *peer = TAILQ_FIRST(native_peers());

	if (LIKELY(native_is_single()))
		return is_here(peer, cpu);
	if (UNLIKELY(cpu != cpu_said || native_core.n_joined != n_joined_then)) {
		cpu_said = cpu;
		n_joined_then = native_core.n_joined;
		return peer && tell_all(cpu);
	}
	if (!peer || (native_core.last && !is_here(native_core.last, cpu)))
		return false;
	return are_all_here(cpu);
}

static bool peer_here(pulc_stream *s)
{
	bool here;

	(void)s;
	if (!native_lock())
		return false;
	here = is_beside_us();
	native_unlock();
	return here;
}

uint64_t native_budget(void)
{
	return wait_budget_beside(is_beside_us());
}

static const struct handler handler = {
	.name = "links",
	.watch = watch_all,
	.unwatch = unwatch_all,
	.patience = patience,
	.peer_here = peer_here,
};
static struct pulc_stream all_links = { .handler = &handler, .fd = -1 };

/* ---- the calls ------------------------------------------------------------------------------- */

static inline bool spin_briefly(uint64_t seen)
{
	for (unsigned i = 0; i < N_TURNS_BRIEF; i++) {
		if (anything(seen))
			return true;
		cpu_relax();
	}
	return false;
}

int native_wait(const struct native_wait *n)
{
	static const struct wait_way way = { memory, kernel, kernel_events, kernel_said };
	struct wait w = wait_begin(&way, POLLIN, 0);
	uint64_t budget = n->resident ? 0 : wait_budget(&all_links);

	lazy = n->resident;
	w.need = n->seen;
	w.nsec_deadline = n->nsec_deadline;
	if (budget && spin_briefly(n->seen)) {
		wait_paid();
		return 0;
	}
	return wait_for(&all_links, native_net_fd(), &w, budget);
}

int native_look_until(int (*look)(void *arg), void *arg, uint64_t nsec_deadline)
{
	struct native_wait w = { .nsec_deadline = nsec_deadline };
	int e = 0, said;

	for (;;) {
		native_progress();
		said = look(arg);
		if (said != -EAGAIN || e == -EINTR)
			return said != -EAGAIN ? said : e;
		if (nsec_deadline != UINT64_MAX && nsec_now() >= nsec_deadline) {
			native_glance();
			return -ETIMEDOUT;
		}
		w.seen = protocol_events_now();
		native_unlock();
		e = native_wait(&w);
		while (!native_lock())
			;
	}
}

static int sleep_fds(const struct native_wait *w, pulc_waitset *set, struct pollfd *fds,
		     size_t n_fds)
{
	uint64_t now = nsec_now(), limit = set ? patience(&all_links, set) : NSEC_BLIND;
	struct timespec ts;

	limit = MIN(limit, notice_patience());
	if (w->nsec_deadline != UINT64_MAX)
		limit = MIN(limit, w->nsec_deadline > now ? w->nsec_deadline - now : 0);
	ts = timespec_from_nsec(limit);
	return raw_ppoll(fds, n_fds, &ts);
}

void native_glance(void)
{
	static uint64_t nsec_next;
	uint64_t now = nsec_now();

	if (LIKELY(now < nsec_next))
		return;
	nsec_next = now + NSEC_BLIND;
	(void)look_at_channel();
}

void native_look_at_channel(void)
{
	(void)look_at_channel();
}

void native_unwatch(pulc_waitset *set)
{
	pulc_waitset_disarm(set);
	unwatch_all(&all_links, set, 0);
}

bool native_watch(pulc_waitset *set, uint64_t seen, uint64_t *ret_nsec)
{
	uint64_t limit = NSEC_BLIND;
	unsigned bit;

	if (set) {
		pulc_waitset_quiet(set);
		while (pulc_waitset_take(set, &bit))
			;
		(void)watch_all(&all_links, set, 0, POLLIN);
		pulc_waitset_arm(set);
		limit = patience(&all_links, set);
	}
	*ret_nsec = limit == UINT64_MAX ? 0 : limit;
	return anything(seen) || (set && pulc_waitset_pending(set));
}

int native_wait_fds(const struct native_wait *w, struct pollfd *fds, size_t n_fds)
{
	pulc_waitset *set = pulc_waitset_mine();
	int n = 0;

	fds[n_fds] = (struct pollfd){ .fd = native_net_fd(), .events = POLLIN };
	fds[n_fds + 1] = (struct pollfd){ .fd = set ? set->bell : -1, .events = POLLIN };
	if (set) {
		unsigned bit;

		pulc_waitset_quiet(set);
		while (pulc_waitset_take(set, &bit))
			;
		(void)watch_all(&all_links, set, 0, POLLIN);
		pulc_waitset_arm(set);
	}
	if (!anything(w->seen) && !(set && pulc_waitset_pending(set)))
		n = sleep_fds(w, set, fds, n_fds + 2);
	if (set) {
		pulc_waitset_disarm(set);
		unwatch_all(&all_links, set, 0);
	}
	(void)look_at_channel();
	return n == -EINTR ? -EINTR : 0;
}
