/*
 * Which ring members of an epoll set are ready.
 *
 * A ring member is in one of these states:
 *   listed    in the ready list: to be examined at the next collect. A level-triggered member
 *             stays there as long as it is ready; each collect takes the list in turn, so nobody
 *             starves.
 *   hot       one of the few most recently active: its ring is looked at directly, nobody marks the
 *             board.
 *   idle      watched: its peer marks the set's board. It costs nothing until then.
 *   disarmed  one-shot and reported: waits for EPOLL_CTL_MOD.
 * Nothing ever scans the idle ones.
 *
 * Order: the list is the kernel's, as far as that can be known. Members that were told by level
 * stand in it from then on. Behind them come those that became ready later, in the order in which
 * what they have was sent (pulc_stream_when): each collect puts those in order that were listed
 * since the last one, and the hot ones. Those of which no time is known come first.
 *
 * Edges: new data is a change of libpulc's mark, as in the kernel also if somebody has taken it
 * meanwhile: then the edge tells what else is ready; room is news only after a send was cut short
 * (n_full in file.h), like the kernel's SOCK_NOSPACE; everything else that the kernel reports for
 * the socket, and every EPOLL_CTL_ADD or MOD, is an edge too.
 */
#include <string.h>

#include "epoll_set.h"

/* Answers that a hot member may miss. */
#define N_ANSWERS_HOT (4 * PRE_N_HOT)
#define IN (EPOLLIN | EPOLLRDNORM)
#define OUT (EPOLLOUT | EPOLLWRNORM)
#define ALWAYS (EPOLLERR | EPOLLHUP)
#define SIDES PULC_ON_KERNEL(POLLIN | POLLOUT)

static void list_behind(struct pre_member *m, struct pre_member *before, bool in_order)
{
	struct pre_set *set = m->set;

	m->listed = true;
	m->in_order = in_order;
	set->n_unordered += !in_order;
	m->prev_ready = before;
	m->next_ready = before ? before->next_ready : set->ready;
	if (m->next_ready)
		m->next_ready->prev_ready = m;
	else
		set->ready_last = m;
	if (before)
		before->next_ready = m;
	else
		set->ready = m;
}

static void list_last(struct pre_member *m, bool in_order)
{
	if (!m->listed && !m->disarmed)
		list_behind(m, m->set->ready_last, in_order);
}

void pre_ready_list(struct pre_member *m)
{
	list_last(m, false);
}

void pre_ready_unlist(struct pre_member *m)
{
	struct pre_set *set = m->set;

	if (!m->listed)
		return;
	m->listed = false;
	set->n_unordered -= !m->in_order;
	if (m->prev_ready)
		m->prev_ready->next_ready = m->next_ready;
	else
		set->ready = m->next_ready;
	if (m->next_ready)
		m->next_ready->prev_ready = m->prev_ready;
	else
		set->ready_last = m->prev_ready;
}

void pre_ready_cool(struct pre_member *m)
{
	struct pre_set *set = m->set;
	struct pre_member *last;

	if (!m->hot)
		return;
	last = set->hot[--set->n_hot];
	set->hot[m->hot_index] = last;
	last->hot_index = m->hot_index;
	m->hot = false;
}

void pre_ready_disarm(struct pre_member *m)
{
	m->disarmed = true;
	pre_ready_unlist(m);
	pre_ready_cool(m);
}

/* m is idle from now on: its peer has to mark the board. */
static void cool_down(struct pre_member *m)
{
	pre_ready_cool(m);
	if (!m->listed)
		pre_member_watch(m);
}

static uint32_t age(const struct pre_member *m)
{
	return atomic_load_explicit(&m->set->n_answers, memory_order_relaxed) - m->heated;
}

static struct pre_member *oldest(const struct pre_set *set)
{
	struct pre_member *found = set->hot[0];

	for (unsigned i = 1; i < set->n_hot; i++) {
		if (age(set->hot[i]) > age(found))
			found = set->hot[i];
	}
	return found;
}

static void heat(struct pre_member *m)
{
	struct pre_set *set = m->set;

	m->heated = atomic_load_explicit(&set->n_answers, memory_order_relaxed);
	if (m->hot)
		return;
	if (set->n_hot == PRE_N_HOT)
		cool_down(oldest(set));
	m->hot = true;
	m->hot_index = set->n_hot;
	set->hot[set->n_hot++] = m;
}

/* Looks at one hot member in each call: one that stood in no answer for long only slows the others
 * down. */
static void let_cool(struct pre_set *set)
{
	struct pre_member *m;

	if (set->n_hot < 2)
		return;
	m = set->hot[set->next_hot++ % set->n_hot];
	if (age(m) > N_ANSWERS_HOT)
		cool_down(m);
}

/* Events as libpulc knows them, from the kernel's synonyms, and back. */
static unsigned wanted(uint32_t events)
{
	return (events & (EPOLLPRI | EPOLLRDHUP)) | (events & IN ? POLLIN : 0) |
	       (events & OUT ? POLLOUT : 0);
}

static uint32_t answer(unsigned ready, uint32_t events)
{
	if (ready & POLLIN)
		ready |= IN;
	if (ready & POLLOUT)
		ready |= OUT;
	return ready & (events | ALWAYS);
}

/* Memory knows of room, and not what the kernel has for a socket of datagrams: that may have come
 * before anything else that is told. */
static bool is_partial(const struct pre_member *m, unsigned ready)
{
	return ready && !(ready & IN) && (m->events & IN) && pulc_stream_is_datagram(m->stream);
}

/* Memory and kernel. A poll may itself find that the kernel's part is over and the ring's begins:
 * then once more, for what *seen says of the sides must be as old as the answer. */
static unsigned look_exactly(struct pre_member *m, unsigned want, unsigned *seen)
{
	unsigned exact = pulc_stream_poll(m->stream, m->fd, want);
	unsigned now = pulc_stream_ready(m->stream, m->fd, want);

	if (((now ^ *seen) & SIDES) == 0)
		return exact;
	*seen = now;
	return pulc_stream_poll(m->stream, m->fd, want);
}

/*
 * What m is ready for; asks the kernel where memory is not enough. So it is when a direction has
 * changed sides since the last look: a ring that could not grow gives it back to the kernel, where
 * there may have been room all the time, and no edge tells of that.
 */
static uint32_t look(struct pre_member *m)
{
	unsigned want = wanted(m->events), seen, ready, exact, kernels = POLLOUT;
	bool is_due = m->edge && (m->events & (EPOLLET | EPOLLONESHOT)) == EPOLLET, by_kernel;

	/* An edge is due: what the kernel has said by now belongs to it, as an end that m's user is
	 * told of like of anything else. Who is told once has to ask for the next edge anyway. */
	if (is_due)
		pre_set_drain(m->set);
	seen = pulc_stream_ready(m->stream, m->fd, want);
	ready = seen & ~SIDES;
	/* Bytes from before the switch may have come while nobody wanted to know. */
	if (seen & PULC_ON_KERNEL(POLLIN))
		kernels |= POLLIN;
	if (m->ask_kernel || m->sides != (seen & SIDES) || (m->told && !ready) ||
	    is_partial(m, ready) || (m->asked && (want & ~ready & kernels))) {
		if (!is_due)
			pre_set_drain(m->set); /* what the answer includes is no event of its own */
		exact = look_exactly(m, want, &seen);
		ready = seen & ~SIDES;
		/* What memory and kernel both say may be of the ring alone next time: between two
		 * looks one receive may take the kernel's last bytes, a whole ring, and leave what
		 * came behind that, whose edge has been told. */
		by_kernel = exact & POLLIN && (seen & PULC_ON_KERNEL(POLLIN));
		m->ask_kernel = exact != ready || by_kernel;
		/* The set itself has no news of it, which is no sign that the kernel is calm. */
		if (by_kernel)
			pre_look_had(&m->set->looked);
		if (m->set->deaf && (exact & ~ready))
			m->edge = true;
		ready = exact;
	}
	m->told = m->asked = false;
	if (m->sides != (seen & SIDES)) {
		m->sides = seen & SIDES;
		pre_near_note(m);
	}
	return answer(ready, m->events);
}

/* Only edge-triggered users need them. To be read before looking: what comes later is another
 * edge. */
static struct pre_marks marks_of(const struct pre_member *m)
{
	struct pre_marks marks = { 0 };

	if (!(m->events & EPOLLET))
		return marks;
	marks.in = pulc_stream_mark(m->stream);
	marks.n_full = atomic_load_explicit(&m->file->n_full, memory_order_relaxed);
	return marks;
}

/* What has come was told of, or somebody has taken it. Else it is too little (SO_RCVLOWAT), and an
 * arrival when there is enough; or bytes before it are under way through the kernel, whose own edge
 * will tell of all. */
static bool is_arrival(const struct pre_member *m, uint32_t ready)
{
	int size;

	if (ready & IN)
		return true;
	return !(m->sides & PULC_ON_KERNEL(POLLIN)) &&
	       (pulc_stream_inq(m->stream, m->fd, &size) < 0 || size == 0);
}

/* What of `ready` is to be reported: to an edge-triggered user only news. */
static uint32_t news(const struct pre_member *m, uint32_t ready, const struct pre_marks *marks)
{
	if (!(m->events & EPOLLET) || m->edge || !ready ||
	    ((ready & OUT) && marks->n_full != m->marks.n_full) ||
	    ((m->events & IN) && marks->in != m->marks.in && is_arrival(m, ready)))
		return ready;
	return 0;
}

/* By memory alone. *ret_part: that is not all, look() must tell: a direction has changed sides, or
 * the kernel knew more when it was asked last, as of room where we do not send through the ring
 * yet; or may know more. */
static uint32_t news_by_memory(const struct pre_member *m, struct pre_marks *ret_marks,
			       bool *ret_part)
{
	unsigned seen;
	uint32_t found;

	*ret_marks = marks_of(m);
	seen = pulc_stream_ready(m->stream, m->fd, wanted(m->events));
	found = news(m, answer(seen, m->events), ret_marks);
	*ret_part = (seen & SIDES) != m->sides ||
		    (found && (m->ask_kernel || is_partial(m, found)));
	return found;
}

static uint32_t exact_news(struct pre_member *m, struct pre_marks *ret_marks)
{
	*ret_marks = marks_of(m);
	return news(m, look(m), ret_marks);
}

bool pre_member_awake(struct pre_member *m)
{
	struct pre_marks marks;
	bool part;

	return news_by_memory(m, &marks, &part) != 0 || part;
}

/* m is reported: its next state. */
static void report(struct pre_member *m, uint32_t ready, const struct pre_marks *marks,
		   struct pre_answer *to)
{
	if (to->names)
		to->names[to->n] = pre_member_name(m);
	to->events[to->n++] = (struct epoll_event){ .events = ready, .data = m->data };
	/* What was not ready is still to be told when it is. */
	if (marks->in != m->marks.in && is_arrival(m, ready))
		m->marks.in = marks->in;
	if (ready & OUT)
		m->marks.n_full = marks->n_full;
	m->edge = false;
	m->answer = to->number;
	m->said = ready;
	m->armed = 0;
	if (m->events & EPOLLONESHOT) {
		m->told_since = true;
		pre_ready_disarm(m);
		return;
	}
	heat(m);
	if (!(m->events & EPOLLET))
		list_last(m, true);
}

/* Steps back at most: beyond that an order is no longer worth its price. */
#define N_STEPS_BACK PRE_N_HOT

/* Of what bears no time most is the kernel's, an end or bytes from before the ring: it comes
 * first. */
static bool is_before(uint32_t when, uint32_t other)
{
	return other && (!when || (int32_t)(when - other) < 0);
}

/* Since when m is ready, if it is. Who had unread bytes when it was armed is ready since then. */
static uint32_t since(const struct pre_member *m)
{
	uint32_t when = pulc_stream_when(m->stream);

	return is_before(when, m->armed) ? m->armed : when;
}

/* Lists m for this answer: before those that were listed for it and are ready since later. */
static void list_in_order(struct pre_member *m, uint32_t answer)
{
	struct pre_member *before = m->set->ready_last;

	if (m->listed || m->disarmed)
		return;
	m->when = since(m);
	m->listed_for = answer;
	for (unsigned n = 0; before && before->listed_for == answer && n < N_STEPS_BACK &&
			     is_before(m->when, before->when);
	     n++)
		before = before->prev_ready;
	list_behind(m, before, true);
}

static void take_bits(struct pre_set *set, uint32_t answer)
{
	unsigned bit, n_bits = pulc_waitset_n_bits(set->waitset);
	struct pre_member *m;

	while (pulc_waitset_take(set->waitset, &bit)) {
		for (uint32_t i = bit; i < set->size_rings; i += n_bits) {
			m = set->rings[i];
			if (!m)
				continue;
			m->watched = false;
			m->told = true;
			list_in_order(m, answer);
		}
	}
}

static uint32_t current(const struct pre_set *set)
{
	return atomic_load_explicit(&set->n_answers, memory_order_relaxed);
}

bool pre_ready_settle(struct pre_set *set)
{
	struct pre_marks marks;
	struct pre_member *m;

	if (set->waitset && pulc_waitset_pending(set->waitset))
		take_bits(set, current(set));
	while ((m = set->ready) != NULL) {
		if (exact_news(m, &marks))
			return true;
		pre_ready_unlist(m);
		heat(m);
	}
	return false;
}

unsigned pre_member_watched_events(const struct pre_member *m)
{
	unsigned events = m->events & (IN | EPOLLRDHUP) ? POLLIN : 0;

	if ((m->events & OUT) &&
	    (!(m->events & EPOLLET) || atomic_load(&m->file->n_full) != m->marks.n_full))
		events |= POLLOUT;
	return events;
}

bool pre_ready_maybe(struct pre_set *set)
{
	if (set->ready || (set->waitset && pulc_waitset_pending(set->waitset)))
		return true;
	for (unsigned i = 0; i < set->n_hot; i++) {
		if (pre_member_awake(set->hot[i]))
			return true;
	}
	return false;
}

/* Takes the ready list once round; heard: examines only those of which the kernel has said
 * something. */
static void collect_listed(struct pre_set *set, struct pre_answer *to, bool heard)
{
	struct pre_member *m, *last = set->ready_last;
	struct pre_marks marks;
	uint32_t ready;
	bool passed, in_order;

	while (to->n < to->max && (m = set->ready) != NULL) {
		passed = m->answer == to->number || (heard && !(m->told && m->ask_kernel));
		ready = passed ? 0 : exact_news(m, &marks);
		in_order = m->in_order;
		pre_ready_unlist(m);
		if (passed) {
			list_last(m, in_order);
		} else if (ready) {
			report(m, ready, &marks, to);
		} else {
			heat(m);
		}
		if (m == last)
			break;
	}
}

struct found {
	struct pre_member *m;
	uint32_t ready;
	struct pre_marks marks;
};

/* Behind those before it that were not sent to later. */
static void insert_in_order(struct found *all, unsigned n, const struct found *f)
{
	for (; n && is_before(f->m->when, all[n - 1].m->when); n--)
		all[n] = all[n - 1];
	all[n] = *f;
}

/*
 * The hot members that are ready, in order; found from the latest to the first. Is over when each
 * was looked at after the last one that was found: somebody may have sent through two rings while
 * the first one had been looked at, and the second one not yet.
 */
static unsigned find_hot(struct pre_set *set, uint32_t answer, struct found ret_all[PRE_N_HOT])
{
	unsigned i = set->n_hot, n_passed = 0, n = 0;
	uint64_t found = 0;
	struct found f;
	bool part;

	while (n_passed < set->n_hot) {
		i = (i ? i : set->n_hot) - 1;
		f.m = set->hot[i];
		n_passed++;
		if (f.m->answer == answer || (found >> i & 1))
			continue;
		f.ready = news_by_memory(f.m, &f.marks, &part);
		if (part)
			f.ready = exact_news(f.m, &f.marks);
		if (!f.ready)
			continue;
		found |= 1ull << i;
		f.m->when = since(f.m);
		insert_in_order(ret_all, n++, &f);
		n_passed = 1;
	}
	return n;
}

/* A look at another one may have heard of it since: a report of less would take that edge away. */
static void look_again_if_told(struct found *f)
{
	if (__builtin_expect(f->m->told && f->m->ask_kernel, 0))
		f->ready = exact_news(f->m, &f->marks);
}

/* Reports hot members at once; those for whom there is no room are listed. */
static void collect_hot(struct pre_set *set, struct pre_answer *to)
{
	struct found all[PRE_N_HOT];
	unsigned n = find_hot(set, to->number, all);

	for (unsigned i = 0; i < n; i++) {
		if (to->n < to->max)
			look_again_if_told(&all[i]);
		if (to->n == to->max)
			pre_ready_list(all[i].m);
		else if (all[i].ready)
			report(all[i].m, all[i].ready, &all[i].marks, to);
	}
	if (n)
		let_cool(set);
}

/* Puts those in order that were listed to be looked at, some time since the last answer: near the
 * end of the list. */
static void order_listed(struct pre_set *set, uint32_t answer)
{
	struct pre_member *m, *next, *last;
	unsigned n;

	if (set->n_unordered == 0)
		return;
	/* Of what came through the kernel it alone knows the order. */
	if (atomic_load_explicit(&set->n_near[PRE_NEAR_RING], memory_order_relaxed))
		pre_set_drain(set);
	m = last = set->ready_last;
	n = set->n_unordered;
	while (m->in_order || --n)
		m = m->prev_ready;
	for (; m; m = m == last ? NULL : next) {
		next = m->next_ready;
		if (m->in_order)
			continue;
		pre_ready_unlist(m);
		list_in_order(m, answer);
	}
}

static bool take_pending(struct pre_set *set, uint32_t answer)
{
	if (!set->waitset || !pulc_waitset_pending(set->waitset))
		return false;
	take_bits(set, answer);
	return true;
}

void pre_ready_collect(struct pre_set *set, struct pre_answer *to)
{
	int n = to->n;

	order_listed(set, to->number);
	(void)take_pending(set, to->number);
	if (set->ready) {
		for (unsigned i = set->n_hot; i-- > 0;) {
			if (!set->hot[i]->listed && pre_member_awake(set->hot[i]))
				list_in_order(set->hot[i], to->number);
		}
		collect_listed(set, to, false);
		if (to->n == n)
			return;
	}
	if (to->n < to->max)
		collect_hot(set, to);
	/* What came before something of this answer, where others than the hot ones are looked
	 * for. */
	while (to->n > n && to->n < to->max && take_pending(set, to->number)) {
		n = to->n;
		collect_listed(set, to, false);
		if (to->n < to->max)
			collect_hot(set, to);
	}
}

void pre_ready_collect_heard(struct pre_set *set, struct pre_answer *to)
{
	collect_listed(set, to, true);
}

void pre_ready_take_back(struct pre_member *m)
{
	if (m->parked)
		return;
	m->edge = true;
	m->disarmed = false;
	m->said = 0;
	pre_ready_unlist(m);
	list_behind(m, NULL, true);
}
