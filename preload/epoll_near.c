/*
 * The order between an epoll set's kernel members and its rings.
 *
 * Over the loopback the kernel's own delivery is at once: when a send or a connect has returned,
 * its event stands in the set of whoever waits. So who sends through a connection that is on the
 * kernel and then through a ring must not see the second told first, be it that he is one process
 * or two that have talked in between. Therefore the kernel is asked once more after rings were
 * found to have something, and what it says then goes first: whatever was sent before what the
 * rings have is in that answer.
 *
 * This costs a system call an answer, and is only done for a set that has a member which is `near`:
 * through which somebody of this node may send, or by which he may connect, without a ring. These
 * are connections that are not upgraded, unless they are known to lead to another node; UDP sockets
 * without a queue; sets; and upgraded connections whose peer has not begun to send through its
 * ring. Listeners are near too, but servers have theirs for good: a process counts the connections
 * that it begins, where its peers see it, and for a listener's sake the kernel is asked only if one
 * who sends what was found has begun one since. Of what the shim has no record (pipes, eventfds,
 * Unix sockets) it does not know who is at the other end, and a set usually has one of its own
 * program's.
 *
 * That a connection leads to another node is learned by its first calls, of which nobody tells the
 * set: near members are counted anew after as many looks as the set has members.
 *
 * Connections over which nothing is sent would be near for as long as they last: programs have them
 * beside their busy ones (UCX one from each process to itself), and no call takes them further on
 * their way into rings. So whoever asks on account of a few of them takes them further himself,
 * each time the members are counted (pulc_stream_advance). Where both ends do so, or one process
 * has both, they are soon on rings both ways, and nobody asks on their account any more.
 *
 * Room: where the kernel's events leave none, those of the rings are taken back, and told by the
 * next answers. They wait for as many events as there are near members, as what became ready later
 * does in the kernel's own list; then it is their turn.
 */
#include <sys/ioctl.h>

#include "epoll_set.h"
#include "rawsys.h"

#define N_RECOUNT_MIN 64
/* So many are taken further: each of them has memory of its own then. */
#define N_QUIET 8
#define OUT ((uint32_t)EPOLLOUT | EPOLLWRNORM)

static enum pre_near is_near(const struct pre_member *m)
{
	pulc_stream *s = atomic_load_explicit(&m->file->stream, memory_order_relaxed);
	bool half;

	if (m->ring) {
		half = !m->parked && !pulc_stream_is_datagram(m->stream) &&
		       (m->sides & PULC_ON_KERNEL(POLLIN));
		return half ? PRE_NEAR_RING : PRE_NOT_NEAR;
	}
	if (m->file->set)
		return m->events & PRE_NESTED_ASKS ? PRE_NEAR_KERNEL : PRE_NOT_NEAR;
	if (!s)
		return PRE_NEAR_LISTENER;
	return pulc_stream_is_far(s) ? PRE_NOT_NEAR : PRE_NEAR_KERNEL;
}

static unsigned count_of(const struct pre_set *set, enum pre_near near)
{
	return atomic_load_explicit(&set->n_near[near], memory_order_relaxed);
}

static void set_near(struct pre_member *m, enum pre_near near)
{
	struct pre_set *set = m->set;

	if (m->near == near)
		return;
	if (m->near)
		atomic_store_explicit(&set->n_near[m->near], count_of(set, m->near) - 1,
				      memory_order_relaxed);
	if (near)
		atomic_store_explicit(&set->n_near[near], count_of(set, near) + 1,
				      memory_order_relaxed);
	m->near = near;
}

void pre_near_note(struct pre_member *m)
{
	set_near(m, is_near(m));
}

void pre_near_forget(struct pre_member *m)
{
	set_near(m, PRE_NOT_NEAR);
}

/* Its peer has begun since the last look. */
static bool has_begun(const struct pre_member *m)
{
	return m->near == PRE_NEAR_RING &&
	       !(pulc_stream_ready(m->stream, m->fd, POLLIN) & PULC_ON_KERNEL(POLLIN));
}

static void recount(struct pre_set *set)
{
	set->n_until_recount = N_RECOUNT_MIN;
	for (struct pre_member *m = set->members; m; m = m->next_of_set) {
		pre_near_note(m);
		if (has_begun(m))
			pre_ready_list(m);
		set->n_until_recount++;
	}
}

bool pre_near_repeats(const struct pre_set *set)
{
	return count_of(set, PRE_NEAR_KERNEL) > 0;
}

static unsigned count_all(const struct pre_set *set)
{
	return count_of(set, PRE_NEAR_LISTENER) + count_of(set, PRE_NEAR_RING) +
	       count_of(set, PRE_NEAR_KERNEL);
}

bool pre_near_any(const struct pre_set *set)
{
	return count_all(set) > 0;
}

/* Has one who sends what is held begun a connection since? */
static bool has_connected(struct pre_set *set, const struct pre_answer *held)
{
	struct pre_member *m;
	uint64_t n_connects;
	bool has = false;

	for (int i = 0; i < held->n; i++) {
		m = pre_member_named(set, held->names[i]);
		n_connects = m ? pulc_stream_peer_connects(m->stream) : 0;
		if (!m || m->n_connects == n_connects)
			continue;
		m->n_connects = n_connects;
		has = true;
	}
	return has;
}

bool pre_near_asks(struct pre_set *set, const struct pre_answer *held)
{
	return count_of(set, PRE_NEAR_KERNEL) || count_of(set, PRE_NEAR_RING) ||
	       has_connected(set, held);
}

/* All that is unread lies in the ring: its peer has begun with that, and left nothing in the
 * kernel. */
static bool is_in_ring(const struct pre_member *m)
{
	int size = 0, size_all = 0;

	return raw_ioctl(m->fd, FIONREAD, &size) == 0 && size == 0 &&
	       pulc_stream_inq(m->stream, m->fd, &size_all) == 0 && size_all > 0;
}

/* What the kernel has of them, bytes or an end, comes first, in either half in their order. Room is
 * nothing that it has: who asks for that has his place since then. */
static bool is_half(const struct pre_set *set, const struct pre_answer *held, int i)
{
	const struct pre_member *m = pre_member_named(set, held->names[i]);

	return (held->events[i].events & ~OUT) && m && m->near == PRE_NEAR_RING && !is_in_ring(m);
}

static void take_back(struct pre_set *set, uint64_t name)
{
	struct pre_member *m = pre_member_named(set, name);

	if (m)
		pre_ready_take_back(m);
}

/* Fills order[] with the places of what is held, as it is to be told. */
static void put_in_order(const struct pre_set *set, const struct pre_answer *held, int order[])
{
	int n = 0, n_others = 0, others[PRE_N_HELD];

	for (int i = 0; i < held->n; i++) {
		if (is_half(set, held, i))
			order[n++] = i;
		else
			others[n_others++] = i;
	}
	for (int i = 0; i < n_others; i++)
		order[n++] = others[i];
}

void pre_near_append(struct pre_set *set, struct pre_answer *to, const struct pre_answer *held)
{
	int order[PRE_N_HELD], n_kernels = to->n;
	int n_room = to->max > to->n ? to->max - to->n : 0;

	put_in_order(set, held, order);
	for (int i = 0; i < held->n && i < n_room; i++)
		to->events[to->n++] = held->events[order[i]];
	for (int i = held->n - 1; i >= n_room; i--)
		take_back(set, held->names[order[i]]);
	set->n_ahead = held->n > n_room ? set->n_ahead + (unsigned)n_kernels : 0;
}

int pre_near_unite(struct epoll_event *events, int n_first, int from, int n)
{
	struct epoll_event *same;
	int kept = from, at = 0, i;

	for (int k = from; k < n; k++) {
		same = NULL;
		for (i = 0; i < n_first && !same; i++, at = (at + 1) % n_first)
			if (events[at].data.u64 == events[k].data.u64)
				same = &events[at];
		if (same)
			same->events |= events[k].events;
		else
			events[kept++] = events[k];
	}
	return kept;
}

void pre_near_keep(struct pre_set *set, struct pre_answer *held)
{
	struct pre_member *m;

	for (int i = 0; i < held->n; i++) {
		m = pre_member_named(set, held->names[i]);
		if (!m)
			continue;
		/* Armed anew, and told by another answer: that is all that it was armed for. */
		if (m->disarmed && m->answer != held->number)
			held->names[i] = PRE_NOBODY;
		m->answer = held->number;
	}
}

bool pre_near_recount(struct pre_set *set)
{
	unsigned n;

	if (set->n_until_recount-- > 0)
		return false;
	recount(set);
	n = count_of(set, PRE_NEAR_RING) + count_of(set, PRE_NEAR_KERNEL);
	return n > 0 && n <= N_QUIET;
}

/* It is not near, but has not begun itself: its other end may be, in this set or elsewhere. */
static bool is_behind(const struct pre_member *m)
{
	return m->ring && !m->near && !m->parked &&
	       (pulc_stream_ready(m->stream, m->fd, POLLOUT) & PULC_ON_KERNEL(POLLOUT));
}

static int list_quiet(struct pre_set *set, int fds[N_QUIET])
{
	struct pre_member *m;
	int n = 0;

	pre_lock(&set->lock);
	for (m = set->members; m && n < N_QUIET; m = m->next_of_set)
		if (m->near == PRE_NEAR_RING || m->near == PRE_NEAR_KERNEL)
			fds[n++] = m->fd;
	for (m = set->members; m && n < N_QUIET; m = m->next_of_set)
		if (is_behind(m))
			fds[n++] = m->fd;
	pre_set_unlock(set);
	return n;
}

/* The program's other threads may close it, and give the number away, while this one counts what
 * went through it: a member's last number is not closed before whoever closes it has had the file's
 * lock (pre_members_moved). The first steps are for psid, who compares sockets, and call us
 * back. */
static void advance(const struct pre_use *use, int fd)
{
	struct pre_file *f = use->file;

	if (!pulc_stream_attached(use->stream)) {
		pulc_stream_advance(use->stream, fd);
		return;
	}
	pre_lock(&f->lock);
	if (f->members && pre_file_at(fd) == f && !atomic_load(&f->lingers))
		pulc_stream_advance(use->stream, fd);
	pre_file_unlock(f);
}

void pre_near_advance(struct pre_set *set)
{
	int fds[N_QUIET], n = list_quiet(set, fds);
	struct pre_use use;

	for (int i = 0; i < n; i++) {
		if (!pre_use_file(&use, fds[i]))
			continue;
		if (use.stream)
			advance(&use, fds[i]);
		pre_use_end(&use);
	}
}

bool pre_near_waited(const struct pre_set *set)
{
	return set->n_ahead > 0 && set->n_ahead >= count_all(set);
}
