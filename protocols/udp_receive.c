/*
 * The receiving half of the udp protocol: which datagram comes next.
 *
 * The kernel gives datagrams in the order of their arrival, whoever sent them. Here they wait in
 * several places: one queue for each flow, and the kernel's own. The oldest goes first. Of a record
 * it is known when it was sent (date), the kernel notes when a datagram arrives (SIOCGSTAMP makes
 * it do so and tells), both in CLOCK_REALTIME.
 *
 * The kernel is not asked for every datagram: a system call costs more than the transfer. It is
 * asked
 *  - when no queue holds anything, unless that was just done; who waits looks at the queues for the
 *    first moment,
 *  - when a record says that its sender's process has used the kernel meanwhile, or this process
 *    has,
 *  - 20 us after the last look, and after 256 records; ten times as seldom where all that the
 *    kernel could have is its sender's,
 *  - always, where another process may empty the kernel's queue (after a fork).
 * So a datagram that came through the kernel can be overtaken by one in a queue only if it comes
 * from an unrelated process and less than 20 us before.
 *
 * Asking is a peek without a buffer. After it the queues are looked at once more: what was sent
 * through a queue before something was sent through the kernel is seen then, and compared.
 *
 * A sender may lie about its times. A time in the past would always win; but what lies one turn of
 * the rings further on than a record that we took was written after that moment, so no record
 * counts as older than that: a liar gets ahead of others by two turns, as one who fills a socket
 * buffer does. A time in the future harms itself.
 *
 * Nearly always there is one flow, and nothing in the kernel: that case has a way of its own
 * (udp_pull_plain).
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "macros.h"
#include "rawsys.h"
#include "short.h"
#include "udp.h"

#define NSEC_LOOK (20 * NSEC_PER_USEC)
#define N_LOOK 256u
/* The same where nobody but the sender of the queue can send to the socket, and says so before his
 * next record (UDP_AFTER_KERNEL): what is left are errors. */
#define NSEC_LOOK_LONE (10 * NSEC_LOOK)
#define N_LOOK_LONE (10 * N_LOOK)
/* Who waits does so when nine tenths of that are over, rather than have the next datagram wait for
 * it. */
#define NEAR(nsec) ((nsec) / 10 * 9)
/* Arrived before the kernel noted arrivals: older than everything that has a time. */
#define STAMP_OLDEST 1u

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

static uint64_t stamp_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* ---- the queues ------------------------------------------------------------------------------ */

static inline struct udp_flow *flow_at(struct udp *u, uint32_t i)
{
	return atomic_load_explicit(&u->flows[i], memory_order_acquire);
}

static inline bool is_left(const struct udp_flow *f)
{
	return shm_own_notice(&f->ring) & SHM_LEFT;
}

static inline bool has_record(struct udp_flow *f)
{
	return shm_rx_maybe(&f->ring) && LIKELY(!LOAD(f->broken)) && LIKELY(!is_left(f));
}

/* The next record of one flow, with a time that it may claim. */
static inline bool next_of(struct udp_flow *f, struct shm_datagram *d)
{
	int e;

	if (!has_record(f))
		return false;
	e = shm_queue_next(&f->ring, d);
	if (UNLIKELY(e > 0 && d->ring && f->ring.rx_size[d->ring] > UDP_RING_MAX))
		e = -EBADMSG;
	if (UNLIKELY(e < 0)) {
		STORE(f->broken, true);
		udp_stop(f);
	}
	if (e <= 0)
		return false;
	return true;
}

/*
 * When a record was sent whose time stands elsewhere. A sender that has not said it yet is about
 * to: what is found in other places may have been sent before that. A record behind it that does
 * not tell of it is a lie (udp_send.c).
 */
static uint64_t date_behind(struct udp_flow *f, const struct shm_datagram *d)
{
	struct shm_record next;
	uint64_t date;

	if (shm_queue_date_of(&f->ring, d->at + shm_queue_size(d->len), &date))
		return date;
	if (!shm_queue_next_header(&f->ring, d, &next))
		return UDP_UNKNOWN;
	return LIKELY(next.flags & UDP_DATED_BEHIND) ? next.stamp : d->stamp;
}

/* Gives it its own time, or one that it may claim: for who compares it. */
static void date(struct udp_flow *f, struct shm_datagram *d)
{
	if (d->flags & UDP_DATED_BEHIND)
		d->stamp = date_behind(f, d);
	d->flags &= ~UDP_DATED_BEHIND;
	d->stamp = MAX(d->stamp, f->floor_stamp);
}

/*
 * The flow with the oldest record. What is found in one flow may have been sent after something in
 * a flow that was empty when it was looked at: those before it are looked at again.
 */
static inline struct udp_flow *oldest(struct udp *u, struct shm_datagram *ret_d)
{
	struct udp_flow *found = NULL, *f;
	struct shm_datagram d;
	uint32_t n = LOAD(u->n_flows), found_at;

	if (LIKELY(n == 1)) {
		f = flow_at(u, 0);
		return f && next_of(f, ret_d) ? f : NULL;
	}
	for (; n > 0; n = found_at) {
		found_at = 0;
		for (uint32_t i = 0; i < n; i++) {
			f = flow_at(u, i);
			if (!f || !next_of(f, found ? &d : ret_d))
				continue;
			date(f, found ? &d : ret_d);
			if (found && d.stamp >= ret_d->stamp)
				continue;
			if (found)
				*ret_d = d;
			found = f;
			found_at = i;
		}
	}
	return found;
}

bool udp_has_datagram(struct udp *u)
{
	uint32_t n = LOAD(u->n_flows);
	struct udp_flow *f;

	for (uint32_t i = 0; i < n; i++) {
		f = flow_at(u, i);
		if (f && has_record(f))
			return true;
	}
	return false;
}

static uint64_t mark_of_place(struct udp *u, uint32_t i)
{
	struct udp_flow *f;
	uint64_t before, head;

	do {
		/* pairs with udp_add, which has put the flow there before, and udp_remove, which
		 * takes it away after */
		before = atomic_load_explicit(&u->counted[i], memory_order_acquire);
		if (!(before & UDP_COUNTS))
			return before;
		f = flow_at(u, i);
		head = f ? shm_mark(&f->ring) : 0;
	} while (UNLIKELY(LOAD(u->counted[i]) != before));
	return (before & ~UDP_COUNTS) + head;
}

uint64_t udp_mark(struct udp *u)
{
	uint32_t n = LOAD(u->n_counted);
	uint64_t mark = 0;

	for (uint32_t i = 0; i < n; i++)
		mark += mark_of_place(u, i);
	return mark;
}

/* The most that a sender can be ahead. */
static uint64_t size_of_turn(const struct udp_flow *f)
{
	uint64_t size = f->ring.rx_size[0];

	for (uint32_t r = 1; r < SHM_N_RINGS && f->ring.rx_size[r] <= UDP_RING_MAX; r++)
		size += f->ring.rx_size[r];
	return size;
}

/* A record at `at` is taken: one that lies a turn further on was written after this. */
static void raise_floor(struct udp_flow *f, uint64_t at)
{
	if (LIKELY((int64_t)(at - f->next_at) < 0))
		return;
	f->floor_stamp = f->next_stamp;
	f->next_stamp = stamp_now();
	f->next_at = at + size_of_turn(f);
}

static inline void name_source(const struct udp_flow *f, struct msghdr *msg)
{
	if (!msg->msg_name)
		return;
	memcpy(msg->msg_name, &f->name, MIN(msg->msg_namelen, f->len_name));
	msg->msg_namelen = f->len_name;
}

/* Takes d, unless somebody else has: -ESTALE. Nobody waits for the space: a sender goes to the
 * kernel instead. */
static inline ssize_t take(struct udp_flow *f, const struct shm_datagram *d, struct msghdr *msg,
			   int flags)
{
	_Atomic uint32_t *lock = &f->ring.own->rx_lock;
	enum shm_way way = shm_enter(lock, shm_is_alone(&f->ring));
	size_t copied;

	if (UNLIKELY(way == SHM_BUSY))
		return -EDEADLK;
	if (UNLIKELY(!shm_queue_holds(&f->ring, d)) || UNLIKELY(is_left(f))) {
		shm_leave_quietly(lock, way);
		return -ESTALE;
	}
	copied = shm_queue_copy(&f->ring, d, msg->msg_iov, msg->msg_iovlen);
	if (LIKELY(!(flags & MSG_PEEK))) {
		raise_floor(f, d->at);
		(void)shm_queue_drop(&f->ring, d);
	}
	shm_leave_quietly(lock, way);
	name_source(f, msg);
	msg->msg_controllen = 0;
	msg->msg_flags = (flags & MSG_CMSG_CLOEXEC) | (copied < d->len ? MSG_TRUNC : 0);
	return flags & MSG_TRUNC ? (ssize_t)d->len : (ssize_t)copied;
}

/* ---- the kernel's queue ---------------------------------------------------------------------- */

static ssize_t peek(int fd)
{
	return raw_recv(fd, NULL, 0, MSG_PEEK | MSG_DONTWAIT);
}

static bool has_kernel(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec now = { 0, 0 };

	return raw_ppoll(&p, 1, &now) > 0 && (p.revents & POLLIN);
}

static uint64_t read_stamp(int fd)
{
	struct timespec ts;

	if (raw_ioctl(fd, SIOCGSTAMPNS, &ts) < 0)
		return STAMP_OLDEST;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline bool is_error(ssize_t n)
{
	return n < 0 && n != -EAGAIN && n != -EINTR;
}

/* When the datagram that was just peeked at arrived; `before` is a time before the peek. Returns 0,
 * or the error that the socket has pending. */
static int arrival(int fd, uint64_t before, uint64_t *ret_stamp)
{
	uint64_t stamp = read_stamp(fd);
	ssize_t n;

	if (stamp < before) {
		*ret_stamp = MAX(stamp, (uint64_t)STAMP_OLDEST);
		return 0;
	}
	/* It came just now, or was never noted: then the kernel's answer is the present time,
	 * another one each time. */
	n = peek(fd);
	if (is_error(n))
		return (int)n;
	*ret_stamp = n >= 0 && read_stamp(fd) == stamp ? stamp : STAMP_OLDEST;
	return 0;
}

/* Asks the kernel for its first datagram's time. Returns 0, or the error that the socket has
 * pending. */
static int look(struct udp *u, int fd)
{
	uint64_t sends = udp_kernel_sends(u->port), now = stamp_now(), first = UDP_NONE;
	uint64_t about_now = pulse_about_now();
	ssize_t n = peek(fd);

	if (n >= 0)
		n = arrival(fd, now, &first);
	if (is_error(n))
		return (int)n;
	/* The program's peeks are further on, and so are ours. */
	if (n == -EAGAIN && UNLIKELY(LOAD(u->peeks_on)) && has_kernel(fd))
		first = STAMP_OLDEST;
	STORE(u->first_in_kernel, first);
	STORE(u->looked, about_now);
	STORE(u->n_since, 0);
	STORE(u->sends_seen, sends);
	return 0;
}

/* A flow that is open to a connected socket is its peer's, and the peer is one process. */
static inline bool is_from_all(struct udp *u, const struct udp_flow *f)
{
	return LOAD(u->connected) && LIKELY(!(shm_own_notice(&f->ring) & SHM_WANT_KERNEL)) &&
	       LIKELY(!shm_peer_is_shared(&f->ring));
}

/* Could there be something in the kernel that is older than d, of f? */
static inline bool is_look_due(struct udp *u, const struct udp_flow *f,
			       const struct shm_datagram *d, uint64_t now)
{
	bool is_lone = is_from_all(u, f);
	uint32_t n = LOAD(u->n_since) + 1;

	STORE(u->n_since, n);
	return (d->flags & UDP_AFTER_KERNEL) || n >= (is_lone ? N_LOOK_LONE : N_LOOK) ||
	       (int64_t)(now - LOAD(u->looked)) > (int64_t)(is_lone ? NSEC_LOOK_LONE : NSEC_LOOK) ||
	       udp_kernel_sends(u->port) != LOAD(u->sends_seen) || LOAD(u->shared);
}

/* Is the kernel's first datagram older than d, of f? 1, 0, or the pending error. */
static inline int kernel_goes_first(struct udp *u, int fd, struct udp_flow *f,
				    struct shm_datagram *d)
{
	uint64_t first = LOAD(u->first_in_kernel);
	int e;

	if (LIKELY(first == UDP_NONE) && LIKELY(!is_look_due(u, f, d, pulse_about_now())))
		return 0;
	if (first == UDP_NONE || first == UDP_UNKNOWN || LOAD(u->shared)) {
		e = look(u, fd);
		if (e < 0)
			return e;
		first = LOAD(u->first_in_kernel);
	}
	if (LIKELY(first == UDP_NONE))
		return 0;
	date(f, d);
	return first <= d->stamp;
}

/* Was it empty when it was asked, and was nothing sent there by this process since? */
static inline bool was_kernel_empty(struct udp *u)
{
	return LOAD(u->first_in_kernel) == UDP_NONE && !LOAD(u->shared) &&
	       udp_kernel_sends(u->port) == LOAD(u->sends_seen);
}

int udp_quiet(struct udp *u, int fd, uint64_t now)
{
	struct udp_flow *f = flow_at(u, 0);
	uint64_t near;
	int e = 0;

	if (LOAD(u->n_flows) == 0 || !was_kernel_empty(u))
		return -EAGAIN;
	near = f && is_from_all(u, f) ? NEAR(NSEC_LOOK_LONE) : NEAR(NSEC_LOOK);
	if (UNLIKELY((int64_t)(now - LOAD(u->looked)) >= (int64_t)near))
		e = look(u, fd);
	if (UNLIKELY(e < 0))
		return e;
	return LIKELY(was_kernel_empty(u)) ? 0 : -EAGAIN;
}

static ssize_t take_from_kernel(struct udp *u, int fd, struct msghdr *msg, int flags,
				struct udp_got *got)
{
	socklen_t len_name = msg->msg_namelen;
	void *name = msg->msg_name;
	ssize_t n;

	if (!name) {
		msg->msg_name = &got->from;
		msg->msg_namelen = sizeof(got->from);
	}
	n = raw_recvmsg(fd, msg, flags | MSG_DONTWAIT);
	STORE(u->first_in_kernel, UDP_UNKNOWN);
	if (n >= 0) {
		got->by_kernel = true;
		got->len_from = MIN(msg->msg_namelen, (socklen_t)sizeof(got->from));
		if (name)
			memcpy(&got->from, name, MIN(got->len_from, len_name));
	}
	if (!name) {
		msg->msg_name = NULL;
		msg->msg_namelen = len_name;
	}
	return n;
}

/* ---- the next one ---------------------------------------------------------------------------- */

/* Looks where the next datagram is. Returns 1: in *ret_flow, it is *d; 0: in the kernel; -EAGAIN:
 * nowhere; the pending error. */
static int find_next(struct udp *u, int fd, uint64_t nsec_trust, struct udp_flow **ret_flow,
		     struct shm_datagram *d)
{
	int e;

	*ret_flow = oldest(u, d);
	if (!*ret_flow) {
		if (LOAD(u->n_flows) == 0)
			return 0;
		if (nsec_trust && was_kernel_empty(u) &&
		    pulse_about_now() - LOAD(u->looked) < nsec_trust)
			return -EAGAIN;
		e = look(u, fd);
		if (e < 0)
			return e;
		*ret_flow = oldest(u, d);
		if (!*ret_flow)
			return LOAD(u->first_in_kernel) == UDP_NONE ? -EAGAIN : 0;
	}
	/* A record of just now may have followed something into the kernel after the last look. */
	e = kernel_goes_first(u, fd, *ret_flow, d);
	if (LIKELY(e <= 0))
		return e < 0 ? e : 1;
	/* What was put into a queue before the kernel's first was sent is there by now. */
	*ret_flow = oldest(u, d);
	if (!*ret_flow)
		return 0;
	date(*ret_flow, d);
	return d->stamp < LOAD(u->first_in_kernel);
}

bool udp_gathers(struct udp *u)
{
	struct udp_flow *f = flow_at(u, 0);

	return LOAD(u->n_flows) == 1 && f && shm_rx_gathers(&f->ring, shm_taken(&f->ring));
}

void udp_answered(struct udp *u)
{
	struct udp_flow *f = flow_at(u, 0);

	if (LOAD(u->n_flows) == 1 && f)
		shm_rx_answered(&f->ring);
}

/*
 * The usual case of that: the only thing unread is one short datagram, which has come with the news
 * of it. Nothing is found out that is not asked in take and next_of as well, in fewer steps.
 */
static inline ssize_t pull_short(struct udp *u, struct udp_flow *f, struct msghdr *msg,
				 uint64_t now)
{
	_Atomic uint32_t *lock = &f->ring.own->rx_lock;
	struct shm_datagram d;
	enum shm_way way;
	bool has = false;

	if (msg->msg_iovlen != 1 || !shm_queue_next_short(&f->ring, &d) ||
	    d.len > msg->msg_iov->iov_len || (int64_t)(d.at - f->next_at) >= 0)
		return -EAGAIN;
	if (UNLIKELY(is_look_due(u, f, &d, now)))
		return -EAGAIN;
	way = shm_enter(lock, shm_is_alone(&f->ring));
	if (UNLIKELY(way == SHM_BUSY))
		return -EAGAIN;
	if (LIKELY(shm_queue_holds(&f->ring, &d)) && LIKELY(!is_left(f)) &&
	    LIKELY(!LOAD(f->broken))) {
		if (LIKELY(d.len)) /* else there may be no buffer */
			ring_copy(msg->msg_iov->iov_base, d.payload, d.len);
		shm_queue_take_short(&f->ring, &d);
		has = true;
	}
	shm_leave_quietly(lock, way);
	if (UNLIKELY(!has))
		return -EAGAIN;
	shm_ahead_note(&f->ring, 0);
	name_source(f, msg);
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	return (ssize_t)d.len;
}

ssize_t udp_pull_plain(struct udp *u, struct msghdr *msg, uint64_t now)
{
	struct udp_flow *f = flow_at(u, 0);
	struct shm_datagram d;
	ssize_t n;

	if (UNLIKELY(LOAD(u->n_flows) != 1) || UNLIKELY(LOAD(u->first_in_kernel) != UDP_NONE) || !f)
		return -EAGAIN;
	n = pull_short(u, f, msg, now);
	if (LIKELY(n >= 0))
		return n;
	if (!next_of(f, &d) || UNLIKELY(is_look_due(u, f, &d, now)))
		return -EAGAIN;
	n = take(f, &d, msg, 0);
	if (UNLIKELY(n < 0))
		return -EAGAIN;
	shm_ahead_note(&f->ring, d.inlined ? 0 : (uint32_t)shm_queue_size(d.len));
	return n;
}

ssize_t udp_pull(struct udp *u, int fd, struct msghdr *msg, int flags, struct udp_got *got)
{
	struct shm_datagram d;
	struct udp_flow *f;
	ssize_t n;

	for (;;) {
		n = find_next(u, fd, got->nsec_trust, &f, &d);
		if (LIKELY(n == 1))
			n = take(f, &d, msg, flags);
		else if (n == 0)
			return take_from_kernel(u, fd, msg, flags, got);
		if (LIKELY(n != -ESTALE))
			return n;
	}
}

/* As find_next for who doesn't tell an error: the kernel is looked at, which takes it, only if
 * there is something in both. */
static int find_next_quietly(struct udp *u, int fd, struct shm_datagram *d)
{
	struct udp_flow *f = oldest(u, d);
	int e;

	if (!f && has_kernel(fd))
		f = oldest(u, d);
	if (!f)
		return 0;
	if (LOAD(u->first_in_kernel) == UDP_NONE && !is_look_due(u, f, d, pulse_about_now()))
		return 1;
	if (!has_kernel(fd))
		return 1;
	e = find_next(u, fd, 0, &f, d);
	return e == -EAGAIN ? 0 : e;
}

int udp_inq(struct udp *u, int fd, uint32_t *ret_size)
{
	struct shm_datagram d;
	int e = find_next_quietly(u, fd, &d), size = 0;

	if (e == 0)
		e = raw_ioctl(fd, FIONREAD, &size);
	if (e >= 0)
		*ret_size = e == 1 ? d.len : (uint32_t)size;
	return MIN(e, 0);
}
