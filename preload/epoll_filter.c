/*
 * What of the kernel's events reaches the program.
 *
 * Not those under the set's tag, which are of `inner` (epoll_ring.c), nor those of sets in the set
 * that prove false (epoll_nested.c).
 *
 * And a one-shot member is told once. When its socket comes to rings the kernel's listing of the
 * set says whether it is armed, and a moment later it is deleted from the set: in between the
 * kernel may give its event to a thread that waits. To whom that happens is seen by his call, which
 * began before the member had moved, and by the program's data. The member was taken for an armed
 * one: either it is disarmed now, or another thread was told of it meanwhile, by its ring, and then
 * this event is none. Data that another member of the kernel's set has too says nothing: such an
 * event is told.
 *
 * The set counts moves, twice each: an odd number says that one is under way. Whoever finds the
 * number that he began with, and that even, has no such event.
 */
#include <stdio.h>

#include "epoll_set.h"

void pre_once_moves(struct pre_member *m)
{
	(void)atomic_fetch_add(&m->set->n_moves, 1);
}

void pre_once_moved(struct pre_member *m)
{
	uint64_t n = atomic_fetch_add(&m->set->n_moves, 1) + 1;

	m->moved = m->disarmed ? 0 : n;
	m->told_since = false;
}

static struct pre_member *find_moved(const struct pre_set *set, uint64_t data, uint64_t n_moves)
{
	struct pre_member *m;

	for (uint32_t i = 0; i < set->size_rings; i++) {
		m = set->rings[i];
		if (m && m->moved > n_moves && m->data.u64 == data)
			return m;
	}
	return NULL;
}

static bool is_others_too(const struct pre_set *set, uint64_t data)
{
	struct pre_listed last;
	char wanted[32];

	(void)snprintf(wanted, sizeof(wanted), "data: %16llx ", (unsigned long long)data);
	return pre_set_listed(set, wanted, -1, &last) != 0;
}

/* Under the lock. */
static bool is_told_already(struct pre_set *set, uint64_t data, uint64_t n_moves)
{
	struct pre_member *m = find_moved(set, data, n_moves);

	if (!m || is_others_too(set, data))
		return false;
	if (m->told_since)
		return true;
	pre_ready_disarm(m);
	m->moved = 0;
	return false;
}

static int take_told(struct pre_set *set, struct epoll_event *events, int n, uint64_t n_moves)
{
	int kept = 0;

	pre_lock(&set->lock);
	for (int i = 0; i < n; i++) {
		if (!is_told_already(set, events[i].data.u64, n_moves))
			events[kept++] = events[i];
	}
	pre_set_unlock(set);
	return kept;
}

int pre_filter(struct pre_set *set, struct epoll_event *events, int n, uint64_t n_moves,
	       bool *tagged)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 == set->tag)
			*tagged = true;
		else
			events[kept++] = events[i];
	}
	if (__builtin_expect((n_moves & 1) || atomic_load(&set->n_moves) != n_moves, 0))
		kept = take_told(set, events, kept, n_moves);
	if (__builtin_expect(atomic_load(&set->has_nested), 0))
		kept = pre_nested_filter(set, events, kept);
	return kept;
}
