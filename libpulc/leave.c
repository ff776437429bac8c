/*
 * Who holds a side: counted by those who pass it on or leave.
 *
 * The count is raised before another process can hold the side, and lowered by closing. Two ways of
 * leaving close nothing that we could see: exec, for descriptors that are close-on-exec, and the
 * end of a process. A count that stays too high does no harm but that of a shared side: locks are
 * taken in full, and a sleeping peer looks now and then. A count that reaches 0 means closed, which
 * only closing says: the last holder leaves it at 1.
 *
 * Flows of datagrams are not taken along by anybody but a forked child: a socket that another
 * program gets as well has none until that one has ended.
 *
 * A process that ends also pays what its peers are owed: bytes in its rings that they left behind.
 * So does one that executes a program, of what it keeps as well: nobody may look at that again. And
 * a program outside PULC that has the socket from us is not left alone with a part of the
 * bytes, nor one at the other end with an end that is a reset. A forked child leaves that to its
 * parent, while that one lives and holds the side, where it has sent nothing itself: it has
 * thousands of its parent's connections perhaps, and would look at memory of each that it has not
 * touched before.
 */
#include <pulc/process.h>

#include "clock.h"
#include "datagram.h"
#include "macros.h"
#include "rawsys.h"
#include "upgrade.h"

static bool is_shared_tcp(const struct pulc_stream *s)
{
	return s->handler == &stream_handler && pulc_stream_attached(s);
}

PULC_EXPORT void pulc_stream_passes(pulc_stream *s)
{
	if (is_shared_tcp(s))
		shm_add_holder(&s->tcp.ring);
	else if (s->datagram)
		datagram_stop_all(s, true);
}

PULC_EXPORT void pulc_stream_shared_with(pulc_stream *s, int pid)
{
	nursery_share(s->nursery, pid);
}

static int new_holder;

static void share(struct pulc_stream *s)
{
	if (!pulc_stream_attached(s))
		nursery_share(s->nursery, new_holder);
}

PULC_EXPORT void pulc_streams_shared_with(int pid)
{
	if (!client_lock())
		return;
	new_holder = pid;
	stream_list_each(share);
	client_unlock();
}

PULC_EXPORT void pulc_spawn_begins(void)
{
	nursery_spawn_begins();
}

PULC_EXPORT void pulc_spawn_done(void)
{
	nursery_spawn_done();
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* The sockets that nobody else has are closed at once. */
static OFTEN bool process_ends;

/* Of a forked child. */
static OFTEN struct {
	int parent; /* its process id; 0: this one was not forked */
	uint32_t joined;
	bool parent_lives; /* when this process ends */
} born = { .joined = 1 };

USUAL void leave_forked(int parent)
{
	born.parent = parent;
	born.joined = atomic_load(&shm_joined);
}

USUAL void leave_warn(const struct pulc_stream *s)
{
	if (atomic_load(&shm_joined) != born.joined)
		(void)atomic_fetch_or(&s->own_slab->map.slab->let_go[s->own_slot], SHM_LET_GO);
}

USUAL static void has_left(struct pulc_stream *s)
{
	s->left = true;
	slabs_let_go(s->own_slab, s->own_slot);
	upgrade_left(s);
}

/* Before exec, or with the process; in the latter case finish() does it for what is shared. Under
 * the client lock. */
USUAL static void leave(struct pulc_stream *s)
{
	if (s->left || s->ended)
		return;
	if (s->datagram)
		datagram_leave_flows(s, process_ends);
	if (s->datagram || !pulc_stream_attached(s)) {
		if (process_ends)
			nursery_leave(s->nursery);
		else
			nursery_leave_for_now(s->nursery);
		s->left = true;
	} else {
		leave_warn(s);
		upgrade_leaving(s);
		if (shm_drop_holder_for_now(&s->tcp.ring, exec_guard(s->own_slab)))
			has_left(s);
		else
			upgrade_stays(s);
	}
}

PULC_EXPORT void pulc_stream_goes_outside(pulc_stream *s, int fd, bool replaces)
{
	bool last;

	if (!is_shared_tcp(s) || !tcp_goes_outside(&s->tcp) || !replaces || !client_lock())
		return;
	leave(s);
	last = !s->left;
	client_unlock();
	if (last)
		tcp_reset(fd);
}

static void linger(int fd, const struct linger *how)
{
	(void)raw_syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER, how, sizeof(*how));
}

PULC_EXPORT void pulc_stream_stays(pulc_stream *s)
{
	if (!client_lock())
		return;
	if (s->resets)
		linger(s->fd, &s->linger);
	s->resets = false;
	if (s->left && !s->ended && is_shared_tcp(s)) {
		shm_return_holder(&s->tcp.ring);
		slabs_hold(s->own_slab, s->own_slot);
		upgrade_adopt();
	} else if (s->left) {
		nursery_return(s->nursery);
		if (s->datagram)
			datagram_stay_flows(s);
	}
	s->left = false;
	client_unlock();
}

/* The parent has all that is owed, and can pay. The number of holders says nothing of it: others
 * who were killed may be among them. */
static bool is_parents_to_pay(const struct pulc_stream *s)
{
	return born.parent_lives && shm_unsent_since(&s->tcp.ring, born.joined) &&
	       !shm_has_one_holder(&s->tcp.ring) &&
	       !(atomic_load(&s->own_slab->map.slab->let_go[s->own_slot]) & SHM_LET_GO);
}

/* How often receivers that are owed are looked at. */
#define NSEC_PAUSE (1000 * NSEC_PER_USEC)

static uint64_t unpaid; /* to all that are waited for */
static bool some_owe;

/* It was given time, and its receiver has taken nothing since. */
static bool is_stuck(const struct pulc_stream *s)
{
	return s->stuck_at && tcp_unpaid(&s->tcp, s->fd) == s->stuck_at;
}

static bool is_to_be_paid(const struct pulc_stream *s)
{
	return is_shared_tcp(s) && tcp_owes(&s->tcp) && !is_parents_to_pay(s) &&
	       stream_owns(s, s->fd) && !is_stuck(s);
}

static void pay_what_fits(struct pulc_stream *s)
{
	if (!is_to_be_paid(s) || tcp_return_leaving(&s->tcp, s->fd) != 0 || !tcp_owes(&s->tcp))
		return;
	unpaid += tcp_unpaid(&s->tcp, s->fd);
	some_owe = true;
}

static void give_up(struct pulc_stream *s)
{
	if (is_to_be_paid(s))
		s->stuck_at = tcp_unpaid(&s->tcp, s->fd);
}

/* Whoever is owed has the same time: one that takes what it is sent does not stand behind those
 * that do not, nor these one behind the other. Under the client lock. */
static void pay_all(void)
{
	struct timespec pause = timespec_from_nsec(NSEC_PAUSE);
	uint64_t deadline = 0, before = 0;

	do {
		unpaid = 0;
		some_owe = false;
		stream_list_each(pay_what_fits);
		if (some_owe && (deadline == 0 || unpaid != before))
			deadline = nsec_now() + TCP_NSEC_OWED;
		before = unpaid;
		if (some_owe)
			(void)raw_ppoll(NULL, 0, &pause);
	} while (some_owe && nsec_now() < deadline);
	stream_list_each(give_up);
}

bool leave_pay(struct pulc_stream *s)
{
	if (!tcp_owes(&s->tcp) || !client_lock())
		return true;
	if (is_to_be_paid(s))
		pay_all();
	client_unlock();
	return !tcp_owes(&s->tcp) || !is_stuck(s);
}

USUAL static void pay(struct pulc_stream *s)
{
	bool holds, last, ends, refuses;

	if (!is_shared_tcp(s) || is_parents_to_pay(s))
		return;
	holds = !s->left && !s->ended;
	last = holds && tcp_is_last_inside(&s->tcp);
	/* exec may still fail, and leave the connection to us. */
	ends = process_ends && holds && shm_has_one_holder(&s->tcp.ring);
	refuses = ends && tcp_refuses(&s->tcp);
	if (!(last || refuses || tcp_owes(&s->tcp)) || !stream_owns(s, s->fd))
		return;
	if (last)
		tcp_close_for_outside(&s->tcp, s->fd);
	if ((!ends || !tcp_pass_on_ending(&s->tcp, s->fd)) && is_to_be_paid(s))
		pay_all();
	if (refuses || (ends && tcp_owes(&s->tcp)))
		tcp_reset(s->fd);
}

static bool forker_lives(void)
{
	return born.parent && raw_syscall(SYS_getppid) == born.parent;
}

/* The kernel will close it. What we still owe then, or have unread in the ring, it knows nothing
 * of: it would be an end in order. */
static void close_by_reset(struct pulc_stream *s)
{
	static const struct linger by_reset = { .l_onoff = 1 };
	socklen_t len = sizeof(s->linger);

	if (!is_shared_tcp(s) || !shm_has_one_holder(&s->tcp.ring) || !stream_owns(s, s->fd) ||
	    !(tcp_owes(&s->tcp) || tcp_refuses(&s->tcp)) ||
	    raw_getsockopt(s->fd, SOL_SOCKET, SO_LINGER, &s->linger, &len) < 0)
		return;
	linger(s->fd, &by_reset);
	s->resets = true;
}

/* A parent that lets go between our look at its word and our leaving finds us among the holders,
 * and pays nothing: then we are the last one, who cannot leave. */
PULC_EXPORT void pulc_stream_leaves(pulc_stream *s)
{
	if (!client_lock())
		return;
	born.parent_lives = forker_lives();
	if (!s->left && !s->ended)
		pay(s);
	leave(s);
	if (!s->left && !s->ended) {
		pay(s);
		close_by_reset(s);
	}
	client_unlock();
}

PULC_EXPORT void pulc_stream_changes_hands(pulc_stream *s)
{
	if (!is_shared_tcp(s) || s->left || s->ended)
		return;
	leave_warn(s);
	born.parent_lives = forker_lives();
	if (!is_parents_to_pay(s) && stream_owns(s, s->fd))
		(void)leave_pay(s);
}

/* A parent that lets go between our look at its word and our leaving finds us among the holders,
 * and pays nothing; but then their number is another one. */
USUAL static void finish(struct pulc_stream *s)
{
	uint32_t n;

	if (!is_shared_tcp(s) || s->left || s->ended) {
		pay(s);
		leave(s);
		return;
	}
	if (!is_parents_to_pay(s))
		leave_warn(s);
	do {
		n = shm_n_holders(&s->tcp.ring);
		pay(s);
		if (n > 1)
			upgrade_leaving(s);
	} while (!shm_drop_holder_of(&s->tcp.ring, n));
	if (n > 1)
		has_left(s);
	else
		upgrade_stays(s);
}

USUAL PULC_EXPORT void pulc_process_ends(void)
{
	if (!pulc_any_stream() || client_is_confined() || raw_getpid() != client_pid() ||
	    !client_lock())
		return;
	process_ends = true;
	born.parent_lives = forker_lives();
	stream_list_each(finish);
	client_unlock();
}

static __attribute__((destructor)) void end(void)
{
	pulc_process_ends();
}
