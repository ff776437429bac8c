/*
 * Flows of datagrams: from the first ones that go through the kernel until psid has made both ends'
 * memory, and their end.
 *
 *   met often enough --> HINTED --Prove--> HINTED --Upgrade--> ATTACHED --> OVER
 *                          ^                 |
 *                          +------Deny-------+
 *
 * A socket notices whom it exchanges datagrams with through the kernel. Both directions are hinted
 * by both ends, each for itself: a sender knows where to, a receiver from whom. A hint says nothing
 * that psid does not check with the kernel, but for two things that only this side knows: that no
 * other process has the socket, and that no other socket may take its port.
 *
 * Nothing here keeps a datagram from the kernel: until it is attached, and again when it is over, a
 * flow does not exist for the data calls. They use flows without a lock, between enter and leave; a
 * flow that is over is out of all tables first and freed when nobody is inside.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "datagram.h"
#include "datagram_hint.h"
#include "log.h"
#include "macros.h"
#include "pool.h"
#include "rawsys.h"
#include "unsent.h"
#include "upgrade.h"

#define NSEC_LOOK (50 * NSEC_PER_USEC)
#define NSEC_RENEW NSEC_PER_SEC
#define N_DENIED_MAX 6u
#define N_HINTED_MAX 64u
/* Somebody of another node may become one of ours, but hardly. */
#define NSEC_REMOTE (60 * NSEC_PER_SEC)
static struct pool flows = POOL_INIT(sizeof(struct flow));

/* ---- a socket's flows ------------------------------------------------------------------------ */

static struct flow *find_flow(const struct datagram *d, bool sends,
			      const struct datagram_address *peer)
{
	struct flow *f = d->flows;

	while (f && (f->sends != sends || !datagram_same(&f->peer, peer) ||
		     atomic_load(&f->state) == FLOW_OVER))
		f = f->next;
	return f;
}

static struct flow *flow_new(pulc_stream *s, bool sends, const struct datagram_address *peer)
{
	struct flow *f = pool_get(&flows);

	if (!f)
		return NULL;
	memset(f, 0, sizeof(*f));
	f->stream = s;
	f->sends = sends;
	f->peer = *peer;
	f->next = s->datagram->flows;
	s->datagram->flows = f;
	flow_register(f);
	return f;
}

/* Is psid's answer awaited? */
static void set_waiting(struct flow *f, bool waiting)
{
	f->stream->datagram->n_waiting += (uint32_t)waiting - (uint32_t)f->waiting;
	f->waiting = waiting;
}

static void drop_hint(struct flow *f)
{
	if (f->told)
		unsent_say(PULC__WIRE__FROM_CLIENT__BODY_DROP, f->token);
	f->told = false;
}

/* Out of its socket's list, and gone. Nobody can be using it. */
static void flow_free(struct flow *f)
{
	struct datagram *d = f->stream->datagram;
	struct flow **p = &d->flows, *last = f;

	/* Whoever was sending by it when it ended may have noted it afterwards. */
	(void)atomic_compare_exchange_strong(&d->last_sent, &last, NULL);
	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	if (f->own_slab) {
		if (f->pid == raw_getpid())
			client_credit_return(f->queue.size_credit);
		if (!f->left)
			upgrade_closed(f->conn);
		slabs_unref(f->own_slab);
		slabs_unref(f->peer_slab);
	}
	set_waiting(f, false);
	drop_hint(f);
	flow_unregister(f);
	pool_put(&flows, f);
}

/* The oldest flow that psid has not upgraded makes room for another one. */
static void forget_oldest(struct datagram *d)
{
	struct flow *oldest = NULL;
	uint32_t n = 0;

	for (struct flow *f = d->flows; f; f = f->next) {
		if (atomic_load(&f->state) != FLOW_HINTED)
			continue;
		oldest = f;
		n++;
	}
	if (n >= N_HINTED_MAX)
		flow_free(oldest);
}

/* ---- where a datagram goes ------------------------------------------------------------------- */

struct flow *datagram_flow_to(struct datagram *d, const struct datagram_address *peer)
{
	unsigned at = datagram_hash(peer);
	struct flow *f;

	for (unsigned i = 0; i < N_DESTINATIONS; i++) {
		f = atomic_load_explicit(&d->to[(at + i) % N_DESTINATIONS], memory_order_acquire);
		if (!f)
			return NULL;
		if (datagram_same(&f->peer, peer))
			return f;
	}
	return NULL;
}

/* The whole table is made anew: places behind one that became free would not be found. */
static void list_destinations(struct datagram *d)
{
	struct flow *now[N_DESTINATIONS] = { NULL }, *to_peer = NULL;
	unsigned n = 0, at;

	for (struct flow *f = d->flows; f && n < N_DESTINATIONS - 1; f = f->next) {
		if (!f->sends || atomic_load(&f->state) != FLOW_ATTACHED)
			continue;
		for (at = datagram_hash(&f->peer) % N_DESTINATIONS; now[at];)
			at = (at + 1) % N_DESTINATIONS;
		now[at] = f;
		n++;
		if (d->connected && datagram_same(&f->peer, &d->peer))
			to_peer = f;
	}
	for (unsigned i = 0; i < N_DESTINATIONS; i++)
		atomic_store(&d->to[i], now[i]);
	atomic_store(&d->to_peer, to_peer);
	atomic_store(&d->last_sent, NULL);
	atomic_store(&d->has_destinations, n > 0);
}

/* ---- hints ----------------------------------------------------------------------------------- */

static Pulc__Wire__Reason hint(struct flow *f, int fd)
{
	struct datagram_address local = { .port = 0 };
	Pulc__Wire__Reason reason = PULC__WIRE__REASON__REASON_REMOTE;
	struct timespec ts;

	f->nsec_renew = nsec_now() + (NSEC_RENEW << f->n_denied);
	if (client_attach() < 0)
		return PULC__WIRE__REASON__REASON_NONE;
	f->stream->cookie = flow_cookie(fd, SO_COOKIE);
	if (flow_local(f, fd, &local))
		reason = flow_obstacle(f, fd, &local);
	if (reason == PULC__WIRE__REASON__REASON_NONE && !f->sends)
		(void)raw_ioctl(fd, SIOCGSTAMPNS, &ts); /* arrivals are noted from now on */
	waitsets_announce();
	f->told = local.port && flow_hint(f, fd, &local, reason) == 0;
	set_waiting(f, f->told && reason == PULC__WIRE__REASON__REASON_NONE);
	if (reason != PULC__WIRE__REASON__REASON_NONE)
		f->n_denied = MIN(f->n_denied + 1, N_DENIED_MAX);
	return reason;
}

/* For people, once: why the socket makes no flows. */
static void tell_reason(pulc_stream *s, int fd, bool sends, const struct datagram_address *peer)
{
	struct flow *f;

	if (s->datagram->reason_told)
		return;
	s->datagram->reason_told = true;
	f = flow_new(s, sends, peer);
	if (f)
		(void)hint(f, fd);
}

/* Returns when it is worth trying again, ns from now. */
static uint64_t hint_to(pulc_stream *s, int fd, bool sends, const struct datagram_address *peer)
{
	struct datagram *d = s->datagram;
	Pulc__Wire__Reason reason;
	struct flow *f;

	stream_set_fd(s, fd);
	if (d->over_for_good) {
		tell_reason(s, fd, sends, peer);
		return NSEC_REMOTE;
	}
	f = find_flow(d, sends, peer);
	if (!f) {
		forget_oldest(d);
		f = flow_new(s, sends, peer);
	}
	if (!f || atomic_load(&f->state) != FLOW_HINTED || nsec_now() < f->nsec_renew)
		return NSEC_RENEW;
	reason = hint(f, fd);
	if (reason != PULC__WIRE__REASON__REASON_REMOTE)
		return NSEC_RENEW;
	/* A server's many clients elsewhere are no news to anybody. */
	if (!d->connected)
		flow_free(f);
	return NSEC_REMOTE;
}

void datagram_step(pulc_stream *s, int fd)
{
	struct datagram *d = s->datagram;
	uint64_t now;

	if (LIKELY(!d->n_waiting && !atomic_load_explicit(&d->n_unopened, memory_order_relaxed)))
		return;
	now = nsec_now();
	if (now < d->nsec_look)
		return;
	d->nsec_look = now + NSEC_LOOK;
	if (!client_lock())
		return;
	stream_set_fd(s, fd);
	client_look();
	datagram_open(s);
	client_unlock();
}

void datagram_met(pulc_stream *s, int fd, bool sends, const struct datagram_address *peer)
{
	struct datagram *d = s->datagram;
	struct acquaintance *a = &d->met[sends][datagram_hash(peer) % N_MET];
	bool due;

	if (atomic_exchange_explicit(&d->meeting, true, memory_order_acquire))
		return;
	if (!datagram_same(&a->peer, peer))
		*a = (struct acquaintance){ .peer = *peer };
	due = a->n++ >= client_hint_after() && nsec_now() >= a->nsec_next;
	if (due && client_lock()) {
		a->nsec_next = nsec_now() + hint_to(s, fd, sends, peer);
		client_look();
		client_unlock();
	}
	atomic_store_explicit(&d->meeting, false, memory_order_release);
	datagram_step(s, fd);
}

/* ---- psid's answers -------------------------------------------------------------------------- */

static void denied(struct flow *f, Pulc__Wire__Reason reason)
{
	f->told = false;
	set_waiting(f, false);
	if (atomic_load(&f->state) != FLOW_HINTED)
		return;
	pulc_log("flow of socket %d stays on the kernel: reason %d", f->stream->fd, (int)reason);
	f->n_denied = MIN(f->n_denied + 1, N_DENIED_MAX);
	f->nsec_renew = nsec_now() + (NSEC_RENEW << f->n_denied);
}

/* The other end's address as the program is told it. */
static void set_name(struct flow *f)
{
	if (f->stream->datagram->family == AF_INET) {
		f->queue.name.in4 = (struct sockaddr_in){ .sin_family = AF_INET,
							  .sin_port = htons(f->peer.port) };
		memcpy(&f->queue.name.in4.sin_addr, f->peer.bytes + 12, 4);
		f->queue.len_name = sizeof(f->queue.name.in4);
		return;
	}
	f->queue.name.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						   .sin6_port = htons(f->peer.port) };
	memcpy(&f->queue.name.in6.sin6_addr, f->peer.bytes, 16);
	f->queue.len_name = sizeof(f->queue.name.in6);
}

/* The first flow that the socket receives from, or sends to its peer: it is a stream with a life in
 * memory now. */
static void attach(pulc_stream *s)
{
	if (pulc_stream_attached(s))
		return;
	atomic_store(&s->state, STREAM_ATTACHED);
	stream_note_attached(s);
}

void datagram_open(pulc_stream *s)
{
	struct datagram *d = s->datagram;

	if (atomic_load(&d->n_native_receives) || !datagram_kernel_notes())
		return;
	for (struct flow *f = d->flows; f; f = f->next) {
		if (f->sends || f->opened || atomic_load(&f->state) != FLOW_ATTACHED)
			continue;
		f->opened = true;
		(void)atomic_fetch_sub(&d->n_unopened, 1);
		shm_notice_set(&f->queue.ring, SHM_RX_READY);
	}
}

static void begin_sending(struct flow *f)
{
	/* What the kernel would tell of datagrams that nobody takes is told by us. */
	if (f->stream->datagram->connected)
		attach(f->stream);
	f->queue.port = f->peer.port;
	f->queue.entry = &f->stream->datagram->entry;
	f->queue.size_max = datagram_kernel_size_max(f);
	f->queue.kernel_seen = udp_kernel_sends(f->peer.port) - 1; /* something may be under way */
	/* Says to psid that this side has begun to work. */
	shm_notice_set(&f->queue.ring, SHM_RX_READY);
	list_destinations(f->stream->datagram);
}

static void begin_receiving(struct flow *f)
{
	struct datagram *d = f->stream->datagram;

	attach(f->stream);
	(void)atomic_fetch_add(&d->n_unopened, 1);
	datagram_flows_changed(f->stream, NULL);
	datagram_open(f->stream);
}

/* Bound to its memory? Whatever is not, is closed. */
static bool bind_flow(struct flow *f, const Pulc__Wire__Upgrade *m, struct slab *own,
		      struct slab *peer)
{
	struct datagram *d = f->stream->datagram;

	if (atomic_load(&f->state) != FLOW_HINTED || !own || !peer || d->over_for_good ||
	    !nursery_alone(f->stream->nursery) ||
	    shm_stream_bind(&f->queue.ring, &own->map, m->own_slot, &peer->map, m->peer_slot) < 0)
		return false;
	set_name(f);
	return f->sends || udp_add(&d->rx, f->stream->fd, &f->queue);
}

static void upgraded(struct flow *f, const Pulc__Wire__Upgrade *m, struct received *r)
{
	struct slab *own, *peer;

	if (!upgrade_slabs(m, r, &own, &peer) || !f || !bind_flow(f, m, own, peer)) {
		upgrade_closed(m->conn);
		if (f)
			denied(f, PULC__WIRE__REASON__REASON_STALE);
		return;
	}
	slabs_ref(own);
	slabs_ref(peer);
	f->own_slab = own;
	f->own_slot = m->own_slot;
	f->peer_slab = peer;
	f->conn = m->conn;
	f->pid = raw_getpid();
	f->told = false;
	set_waiting(f, false);
	atomic_store(&f->state, FLOW_ATTACHED);
	pulc_log("flow of socket %d is upgraded: %llu", f->stream->fd, (unsigned long long)f->conn);
	if (f->sends)
		begin_sending(f);
	else
		begin_receiving(f);
}

bool datagram_dispatch(const Pulc__Wire__ToClient *msg, struct received *r)
{
	struct flow *f;

	switch (msg->body_case) {
	case PULC__WIRE__TO_CLIENT__BODY_PROVE:
		f = flow_find(msg->prove->token);
		if (f)
			flow_prove(f, msg->prove);
		return true;
	case PULC__WIRE__TO_CLIENT__BODY_DENY:
		f = flow_find(msg->deny->token);
		if (f)
			denied(f, msg->deny->reason);
		return msg->deny->token & TOKEN_FLOW;
	case PULC__WIRE__TO_CLIENT__BODY_UPGRADE:
		if (!(msg->upgrade->token & TOKEN_FLOW))
			return false;
		upgraded(flow_find(msg->upgrade->token), msg->upgrade, r);
		return true;
	default:
		return false;
	}
}

/* ---- the end --------------------------------------------------------------------------------- */

bool datagram_is_only_holder(const struct flow *f)
{
	return shm_n_holders(&f->queue.ring) > 1 && nursery_alone(f->stream->nursery);
}

void datagram_close_queue(struct flow *f)
{
	if (!f->left)
		udp_close(&f->queue, datagram_is_only_holder(f));
	if (f->sends)
		datagram_send_unread(f, f->stream->fd);
	datagram_tell(&f->queue);
}

/* Under the client lock. */
static void end_flow(struct flow *f)
{
	struct datagram *d = f->stream->datagram;

	if (atomic_load(&f->state) != FLOW_ATTACHED)
		return;
	if (!f->sends && !f->opened)
		(void)atomic_fetch_sub(&d->n_unopened, 1);
	atomic_store(&f->state, FLOW_OVER);
	atomic_store(&d->has_over, true);
	if (f->sends) {
		list_destinations(d);
	} else {
		udp_remove(&d->rx, &f->queue);
		datagram_flows_changed(f->stream, &f->queue);
	}
	datagram_close_queue(f);
}

void datagram_flow_over(pulc_stream *s, struct flow *f)
{
	if (!client_lock())
		return;
	end_flow(f);
	client_unlock();
	(void)s;
}

static bool is_done(struct flow *f)
{
	return !f->sends && atomic_load(&f->state) == FLOW_ATTACHED && udp_is_drained(&f->queue);
}

/* Under the client lock. */
static void free_over(struct datagram *d)
{
	struct flow *f, *next;

	if (atomic_load(&d->n_inside))
		return;
	atomic_store(&d->has_over, false);
	for (f = d->flows; f; f = next) {
		next = f->next;
		if (atomic_load(&f->state) == FLOW_OVER)
			flow_free(f);
	}
}

/* Anything to do for reap? */
static bool has_done(struct datagram *d)
{
	uint32_t n = atomic_load(&d->rx.n_flows);
	struct udp_flow *queue;
	bool done = atomic_load(&d->has_over);

	datagram_enter(d);
	for (uint32_t i = 0; i < n && !done; i++) {
		queue = atomic_load(&d->rx.flows[i]);
		done = queue && udp_is_drained(queue);
	}
	datagram_leave(d);
	return done;
}

void datagram_reap(pulc_stream *s)
{
	struct datagram *d = s->datagram;

	if (LIKELY(!has_done(d)) || !client_lock())
		return;
	for (struct flow *f = d->flows; f; f = f->next)
		if (is_done(f))
			end_flow(f);
	free_over(d);
	client_unlock();
}

static void stop_receiving(struct flow *f, bool give_back)
{
	if (!give_back) {
		udp_stop(&f->queue);
		return;
	}
	udp_leave(&f->queue);
	datagram_tell(&f->queue);
}

void datagram_stop_all(pulc_stream *s, bool give_back)
{
	struct datagram *d = s->datagram;
	struct flow *f, *next;

	if (!client_lock())
		return;
	for (f = d->flows; f; f = next) {
		next = f->next;
		if (atomic_load(&f->state) == FLOW_HINTED)
			flow_free(f);
		else if (f->sends)
			end_flow(f);
		else if (atomic_load(&f->state) == FLOW_ATTACHED)
			stop_receiving(f, give_back);
	}
	memset(d->met, 0, sizeof(d->met));
	free_over(d);
	client_unlock();
}

void datagram_flows_closing(pulc_stream *s)
{
	struct flow *f, *next;

	if (!client_lock())
		return;
	for (f = s->datagram->flows; f; f = next) {
		next = f->next;
		if (atomic_load(&f->state) == FLOW_HINTED) {
			flow_free(f);
		} else if (atomic_load(&f->state) == FLOW_ATTACHED) {
			datagram_close_queue(f);
		}
	}
	s->datagram->over_for_good = true;
	client_unlock();
}

void datagram_flows_release(pulc_stream *s)
{
	while (s->datagram->flows)
		flow_free(s->datagram->flows);
}

void datagram_flows_begin_anew(pulc_stream *s)
{
	struct flow *f, *next;

	for (f = s->datagram->flows; f; f = next) {
		next = f->next;
		f->told = false;
		if (atomic_load(&f->state) == FLOW_HINTED)
			flow_free(f);
	}
}
