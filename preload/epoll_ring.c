/*
 * The private half of an epoll set: what its ring members need besides the kernel's set.
 *
 * A member whose stream is upgraded leaves the program's set in the kernel. Its socket is
 * registered, edge-triggered, in `inner`, an epoll descriptor of our own, for what only the kernel
 * knows: the peer's death, errors, bytes from before the switch. `inner` also holds the bell of the
 * set's wait set and is itself a member of the program's set, edge-triggered, under a random tag:
 * so one sleep in the program's set sees everything, and so does whoever sleeps on the set from
 * outside.
 *
 * In a forked child the kernel's set, and `inner` in it, belong to the parent too. Before the child
 * uses the set it makes an `inner` of its own and waits for it beside the set (epoll_wait.c). Until
 * then, and so in a child that only closes what it was given, there is nothing that it may take
 * back: the parent goes on with it.
 *
 * Of the parent's it needs the descriptor, to put back what it took of the parent's events: so a
 * set that may come to have ring members has `inner` before a fork.
 *
 * psid's end is heard of in `inner` too.
 *
 * Where a bell can't be had (no psid) members are `unsure`: a sleeper looks after them itself,
 * often, instead of trusting the bell. Where `inner` can't be had or not hold everything (no
 * descriptor, sets nested too deep, no watch left for this user) the set is `deaf`: a sleeper looks
 * after all its ring members, by memory and kernel, every PRE_NSEC_UNSURE, and their sockets stay
 * in the program's set under the tag, so that threads that sleep there already are woken. Nor does
 * anybody hear who waits for such a set itself (`mute`): he looks after it as often.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <pulc/fds.h>

#include "epoll_set.h"
#include "rawsys.h"

#define BELL UINT64_MAX
#define PSID (UINT64_MAX - 1)
#define N_DRAIN 32
#define SIZE_RINGS_FIRST 512u /* one page of pointers */

static int raw_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };

	return (int)raw_syscall(SYS_epoll_ctl, epfd, op, fd, &event);
}

/* ---- what a set has -------------------------------------------------------------------------- */

static void forget_ancestors(struct pre_set *set)
{
	if (set->prepared == set->made)
		pulc_fd_rehome(&set->inner, &set->inner_of_ancestor);
	else
		pulc_fd_release(&set->inner);
	set->waitset = pulc_waitset_free(set->waitset);
}

/* False: it is not to be had. */
static bool open_inner(struct pre_set *set)
{
	set->inner = (int)raw_syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
	if (set->inner < 0 || pulc_fd_adopt(&set->inner) < 0) {
		set->inner = -1;
		return false;
	}
	if (!pre_set_inherited(set) &&
	    raw_ctl(set->epfd, EPOLL_CTL_ADD, set->inner, EPOLLIN | EPOLLET, set->tag) < 0)
		pulc_fd_release(&set->inner);
	return set->inner >= 0;
}

static void register_in_inner(struct pre_set *set, int fd, uint32_t events, uint64_t data)
{
	if (set->inner < 0 || raw_ctl(set->inner, EPOLL_CTL_ADD, fd, events, data) < 0)
		set->deaf = true;
}

#define WHAT_THE_KERNEL_KNOWS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET)

uint64_t pre_member_name(const struct pre_member *m)
{
	return (uint64_t)m->serial << 32 | m->index;
}

struct pre_member *pre_member_named(const struct pre_set *set, uint64_t name)
{
	uint32_t index = (uint32_t)name;
	struct pre_member *m = index < set->size_rings ? set->rings[index] : NULL;

	return m && m->serial == name >> 32 ? m : NULL;
}

/* An edge tells all that is so: who has something unread, and never asked for room, is not to be
 * told of it because there is room. Who has asked once is heard of it from then on. */
static uint32_t heard_of(struct pre_member *m)
{
	m->hears_room |= (m->events & (EPOLLOUT | EPOLLWRNORM)) != 0;
	return m->hears_room ? WHAT_THE_KERNEL_KNOWS : WHAT_THE_KERNEL_KNOWS & ~EPOLLOUT;
}

static void register_member(struct pre_member *m)
{
	register_in_inner(m->set, m->fd, heard_of(m), pre_member_name(m));
}

static void hear_more(struct pre_member *m)
{
	bool heard = m->hears_room;
	uint32_t events = heard_of(m);

	if (m->hears_room != heard && m->set->inner >= 0 && !pre_set_is_ancestors(m->set))
		(void)raw_ctl(m->set->inner, EPOLL_CTL_MOD, m->fd, events, pre_member_name(m));
}

/* m is not in the program's set, and `inner` may not have it. */
static void register_if_deaf(struct pre_member *m)
{
	struct pre_set *set = m->set;

	if (set->deaf && !m->tagged && !pre_set_inherited(set))
		m->tagged = raw_ctl(set->epfd, EPOLL_CTL_ADD, m->fd, WHAT_THE_KERNEL_KNOWS,
				    set->tag) == 0;
}

/* psid's end, which is another descriptor with each psid. Not essential: a set without it is not
 * deaf. */
static void register_psid(struct pre_set *set)
{
	unsigned mark = pulc_notice_mark();
	short events;
	int fd;

	if (set->psid_mark == mark || set->inner < 0)
		return;
	set->psid_mark = mark;
	fd = pulc_notice_fd(&events);
	if (fd >= 0)
		(void)raw_ctl(set->inner, EPOLL_CTL_ADD, fd, (uint32_t)events | EPOLLET, PSID);
}

void pre_set_notice(struct pre_set *set)
{
	pulc_notice(atomic_load_explicit(&set->psid_said, memory_order_relaxed) &&
		    atomic_exchange(&set->psid_said, false));
}

static unsigned bit_of(const struct pre_member *m)
{
	return m->index % pulc_waitset_n_bits(m->set->waitset);
}

static void unwatch(struct pre_member *m)
{
	if (m->placed && m->set->waitset && !pre_set_is_ancestors(m->set))
		pulc_stream_unwatch(m->stream, m->set->waitset, bit_of(m));
	m->placed = m->watched = false;
}

/* The wait set is void, and with it what was asked for in its name. */
static void drop_waitset(struct pre_set *set)
{
	for (uint32_t i = 0; i < set->size_rings; i++)
		if (set->rings[i])
			unwatch(set->rings[i]);
	set->waitset = pulc_waitset_free(set->waitset);
}

/* All that members knew of the old wait set is void; let everybody be examined. */
static void start_over(struct pre_set *set, bool new_inner)
{
	struct pre_member *m;

	set->unsure = NULL;
	for (uint32_t i = 0; i < set->size_rings; i++) {
		m = set->rings[i];
		if (!m)
			continue;
		m->placed = m->watched = m->unsure = false;
		m->told = true;
		if (new_inner)
			register_member(m);
		pre_ready_list(m);
	}
}

void pre_set_prepare(struct pre_set *set)
{
	bool forked = pre_set_is_ancestors(set);
	bool lost = forked || (set->waitset && !pulc_waitset_alive(set->waitset));
	bool new_inner = false, new_bell = false;

	if (!forked)
		register_psid(set);
	if (!lost && set->inner >= 0 && set->waitset)
		return;
	if (forked)
		forget_ancestors(set);
	else if (lost)
		drop_waitset(set);
	set->prepared = pre_process_generation;
	if (set->inner < 0) {
		new_inner = open_inner(set);
		set->deaf = !new_inner;
		set->psid_mark = 0;
		register_psid(set);
	}
	if (!set->waitset)
		new_bell = pulc_waitset_new(&set->waitset) == 0;
	if (set->waitset && (new_inner || new_bell))
		register_in_inner(set, pulc_waitset_fd(set->waitset), EPOLLIN | EPOLLET, BELL);
	if (lost || new_inner)
		start_over(set, new_inner);
}

void pre_set_forks(struct pre_set *set)
{
	bool has_it = set->closed || set->prepared || pre_set_inherited(set);

	if (!has_it && set->members && open_inner(set))
		set->prepared = pre_process_generation;
}

static unsigned sleepers(struct pre_set *set)
{
	return set->n_asleep + atomic_load(&set->n_native);
}

void pre_set_wake(struct pre_set *set)
{
	if ((sleepers(set) || set->exposed) && set->waitset)
		pulc_waitset_ring(set->waitset);
}

/* Without a bell. The kernel socket of a member has room at nearly any time, and says so when it is
 * asked anew: that of one that is ready speaks for the set. From `inner` its word is taken away
 * when it is heard, but what is in the program's set must not be asked any more. */
static void speak(struct pre_set *set)
{
	struct pre_member *m = pre_member_named(set, set->spoke);

	if (m && m->tagged)
		(void)raw_ctl(set->epfd, EPOLL_CTL_MOD, m->fd, WHAT_THE_KERNEL_KNOWS & ~EPOLLOUT,
			      set->tag);
	for (unsigned i = 0; i < set->n_hot; i++)
		pre_member_watch(set->hot[i]);
	pre_set_check(set, false);
	if (!pre_ready_settle(set))
		return;
	m = set->ready;
	set->spoke = pre_member_name(m);
	if (m->tagged)
		(void)raw_ctl(set->epfd, EPOLL_CTL_MOD, m->fd, WHAT_THE_KERNEL_KNOWS, set->tag);
	else if (set->inner >= 0)
		(void)raw_ctl(set->inner, EPOLL_CTL_MOD, m->fd, WHAT_THE_KERNEL_KNOWS,
			      pre_member_name(m));
}

void pre_set_note_mute(struct pre_set *set)
{
	bool mute = pre_set_is_mute(set);

	if (mute != set->counted_mute)
		(void)atomic_fetch_add(&pre_n_mute, mute ? 1 : UINT32_MAX);
	set->counted_mute = mute;
}

void pre_set_hand_over(struct pre_set *set)
{
	if (__builtin_expect(pre_set_is_mute(set) || set->counted_mute, 0))
		pre_set_note_mute(set);
	if (__builtin_expect(set->counted_mute, 0))
		speak(set);
	if ((!set->exposed && !sleepers(set)) || !set->waitset)
		return;
	if (set->exposed)
		(void)pre_ready_settle(set);
	for (unsigned i = 0; i < set->n_hot; i++)
		pre_member_watch(set->hot[i]);
	if (set->exposed || atomic_load(&set->n_native))
		pulc_waitset_arm(set->waitset);
	if (pre_ready_maybe(set))
		pulc_waitset_ring(set->waitset);
}

#define ENDS (EPOLLERR | EPOLLHUP | EPOLLRDHUP)

/* The last wait that began has told of m's end, by memory: the kernel's word on it is no news, but
 * for bytes that may have come with it. An end that m's user does not ask to be told of
 * (EPOLLRDHUP) was not: to him it is something to read. */
static bool is_told(const struct pre_member *m, uint32_t events)
{
	uint32_t ends = events & ENDS & (m->events | EPOLLERR | EPOLLHUP);
	uint32_t others = m->sides ? events & m->events & ~ENDS : 0;

	return (m->events & EPOLLET) && !others && ends && !(ends & ~m->said) &&
	       !(events & EPOLLPRI) &&
	       m->answer == atomic_load_explicit(&m->set->n_answers, memory_order_relaxed);
}

void pre_set_drain(struct pre_set *set)
{
	struct epoll_event events[N_DRAIN];
	struct pre_member *m;
	long n;

	if (set->inner < 0)
		return;
	do {
		n = raw_syscall(SYS_epoll_pwait, set->inner, events, N_DRAIN, 0, NULL, 8);
		for (long i = 0; i < n; i++) {
			m = pre_member_named(set, events[i].data.u64);
			if (events[i].data.u64 == PSID)
				atomic_store(&set->psid_said, true);
			if (!m || is_told(m, events[i].events))
				continue;
			m->edge = m->told = m->ask_kernel = true;
			if (!m->in_order)
				pre_ready_unlist(m);
			pre_ready_list(m);
		}
	} while (n == N_DRAIN);
}

void pre_set_hear(struct pre_set *set)
{
	pre_set_drain(set);
	for (uint32_t i = 0; set->deaf && i < set->size_rings; i++) {
		if (!set->rings[i])
			continue;
		set->rings[i]->told = set->rings[i]->ask_kernel = true;
		pre_ready_list(set->rings[i]);
	}
}

/* ---- members --------------------------------------------------------------------------------- */

static bool grow(struct pre_set *set)
{
	uint32_t size = set->size_rings ? set->size_rings * 2 : SIZE_RINGS_FIRST;
	long made = raw_syscall(SYS_mmap, NULL, size * sizeof(set->rings[0]),
				PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (made < 0 && made > -4096)
		return false;
	if (set->size_rings) {
		memcpy((void *)made, set->rings, set->size_rings * sizeof(set->rings[0]));
		(void)raw_syscall(SYS_munmap, set->rings, set->size_rings * sizeof(set->rings[0]));
	}
	set->rings = (struct pre_member **)made;
	set->size_rings = size;
	return true;
}

void pre_rings_free(struct pre_set *set)
{
	uint32_t size = set->size_rings;

	set->size_rings = set->n_rings = 0;
	if (size)
		(void)raw_syscall(SYS_munmap, set->rings, size * sizeof(set->rings[0]));
}

static bool take_index(struct pre_member *m)
{
	static uint32_t serial;
	struct pre_set *set = m->set;

	if (set->n_rings == set->size_rings && !grow(set))
		return false;
	for (m->index = set->n_rings; set->rings[m->index % set->size_rings]; m->index++)
		;
	m->index %= set->size_rings;
	m->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED) & 0x7fffffff;
	set->rings[m->index] = m;
	set->n_rings++;
	return true;
}

/* A one-shot member may have been reported by the kernel: only /proc tells. Other files may be in
 * the set under its number, which they have lost since. */
static bool was_disarmed(const struct pre_member *m)
{
	struct pre_listed last = { 0 };
	char wanted[32];
	struct stat st;

	if (raw_syscall(SYS_fstat, m->fd, &st) < 0)
		return false;
	(void)snprintf(wanted, sizeof(wanted), " ino:%lx ", (unsigned long)st.st_ino);
	return pre_set_listed(m->set, wanted, m->key, &last) > 0 &&
	       !(last.events & (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLERR | EPOLLHUP));
}

/* Could the kernel's set hold an event of m that nobody has taken yet? Asked after m was registered
 * in `inner`, where what comes from now on is heard. */
static bool may_have_edge(const struct pre_member *m)
{
	struct pollfd pfd = { .fd = m->set->epfd, .events = POLLIN };
	struct timespec now = { 0 };

	return raw_syscall(SYS_ppoll, &pfd, 1, &now) != 0;
}

/* Gives m what a ring member needs. False: no memory. */
static bool become_ring(struct pre_member *m)
{
	struct pre_set *set = m->set;

	pre_set_prepare(set);
	if (!take_index(m))
		return false;
	m->ring = true;
	m->stream = pulc_stream_ref(atomic_load(&m->file->stream));
	m->told = m->ask_kernel = true;
	m->n_connects = UINT64_MAX;
	atomic_store(&set->has_rings, true);
	pre_near_note(m);
	register_member(m);
	/* What is so already is no event of its own. */
	if (m->events & EPOLLET)
		pre_set_drain(set);
	return true;
}

void pre_member_to_ring(struct pre_member *m)
{
	struct pre_set *set = m->set;
	bool once = m->events & EPOLLONESHOT;

	if (m->ring || !become_ring(m))
		return;
	if (once)
		pre_once_moves(m);
	if (once && was_disarmed(m))
		pre_ready_disarm(m);
	m->edge = may_have_edge(m);
	(void)raw_ctl(set->epfd, EPOLL_CTL_DEL, m->key, 0, 0);
	if (once)
		pre_once_moved(m);
	register_if_deaf(m);
	pre_ready_list(m);
	/* Somebody may sleep in the kernel's own call, which nobody counts. */
	if (set->waitset)
		pulc_waitset_ring(set->waitset);
}

bool pre_member_open_ring(struct pre_member *m)
{
	if (!m->ring && !become_ring(m))
		return false;
	register_if_deaf(m);
	m->parked = false;
	pre_near_note(m);
	pre_member_rearm(m);
	return true;
}

void pre_member_rearm(struct pre_member *m)
{
	m->watched = false; /* for other events, perhaps */
	m->disarmed = false;
	/* What the kernel has told before that stands beside what is told now. */
	if (!m->told_since)
		m->moved = 0;
	m->edge = m->asked = true;
	hear_more(m);
	m->armed = pre_member_awake(m) ? pulc_when() : 0;
	pre_ready_list(m);
}

void pre_member_park(struct pre_member *m)
{
	pre_ready_disarm(m);
	unwatch(m);
	m->parked = true;
	pre_near_forget(m);
}

static void not_unsure(struct pre_member *m)
{
	struct pre_member **p = &m->set->unsure;

	if (!m->unsure)
		return;
	while (*p != m)
		p = &(*p)->next_unsure;
	*p = m->next_unsure;
	m->unsure = false;
}

void pre_member_from_ring(struct pre_member *m)
{
	struct pre_set *set = m->set;

	unwatch(m);
	pre_ready_unlist(m);
	pre_ready_cool(m);
	not_unsure(m);
	if (set->inner >= 0 && !pre_set_is_ancestors(set))
		(void)raw_ctl(set->inner, EPOLL_CTL_DEL, m->fd, 0, 0);
	if (m->tagged && !pre_set_inherited(set))
		(void)raw_ctl(set->epfd, EPOLL_CTL_DEL, m->fd, 0, 0);
	m->tagged = false;
	pre_near_forget(m);
	set->rings[m->index] = NULL;
	set->n_rings--;
	m->ring = false;
	m->stream = pulc_stream_unref(m->stream);
}

/* Who tells nothing until it is armed again is no reason to wake up. */
static uint64_t patience_of(const struct pre_member *m)
{
	if (m->disarmed)
		return PRE_FOREVER;
	return m->watched ? pulc_stream_patience(m->stream, m->set->waitset) : PRE_NSEC_UNSURE;
}

void pre_member_watch(struct pre_member *m)
{
	struct pre_set *set = m->set;

	if (m->disarmed)
		return;
	if (!m->watched && set->waitset) {
		m->placed = true; /* one of two, perhaps */
		m->watched = pulc_stream_watch(m->stream, set->waitset, bit_of(m),
					       pre_member_watched_events(m)) == 0;
	}
	if (!m->unsure && patience_of(m) != PRE_FOREVER) {
		m->unsure = true;
		m->next_unsure = set->unsure;
		set->unsure = m;
	}
	if (pre_member_awake(m))
		pre_ready_list(m);
}

uint64_t pre_set_patience(struct pre_set *set)
{
	struct pre_member **p = &set->unsure, *m;
	uint64_t nsec = set->deaf ? PRE_NSEC_UNSURE : PRE_FOREVER, nsec_this;

	while ((m = *p) != NULL) {
		nsec_this = patience_of(m);
		if (nsec_this == PRE_FOREVER) {
			*p = m->next_unsure;
			m->unsure = false;
			continue;
		}
		nsec = nsec_this < nsec ? nsec_this : nsec;
		p = &m->next_unsure;
	}
	return nsec;
}

void pre_set_check(struct pre_set *set, bool all)
{
	struct pre_member *m;

	for (m = set->unsure; m; m = m->next_unsure) {
		m->told = true;
		pre_ready_list(m);
	}
	for (uint32_t i = 0; all && i < set->size_rings; i++) {
		m = set->rings[i];
		if (m && !m->disarmed && pre_member_awake(m))
			pre_ready_list(m);
	}
}
