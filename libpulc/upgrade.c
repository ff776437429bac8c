/*
 * Off the kernel: the client's half of the dialogue with psid.
 *
 *   FRESH --n data calls, peer on this node--> HINTED --Want--> GIVEN --Upgrade--> ATTACHED
 *                                                ^                |
 *                                                +-----Deny-------+        any --> NEVER
 *
 * A hint is a guess that costs one datagram; it carries no descriptor and nobody waits for an
 * answer. Only when psid has two that mirror each other does it ask for the sockets. A passed
 * socket keeps the connection alive while it is under way, so it is sent only on request, and a
 * program that closes meanwhile shuts the connection down first (upgrade_closing).
 *
 * Nothing here blocks a data call in the kernel or keeps it from the kernel: until ATTACHED the
 * program's own calls go there unchanged. A thread asleep in such a call delays the upgrade of that
 * direction until it returns, which it does with the peer's next byte.
 *
 * Source: pulc-1998, 4.3 and 4.6.3 (destinations outside PULC are left to the operating system).
 */
#include "upgrade.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "datagram.h"
#include "deliver.h"
#include "hint.h"
#include "label.h"
#include "log.h"
#include "macros.h"
#include "native.h"
#include "peers.h"
#include "rawsys.h"
#include "return.h"
#include "token.h"
#include "unsent.h"

/* How often a stream under way looks at the channel; a look is one system call. */
#define NSEC_LOOK (50 * NSEC_PER_USEC)
/* A hint that came to nothing is repeated, in case psid dropped it or the other end came late. */
#define NSEC_RENEW (NSEC_PER_SEC)
/* The other side may be on its way to a new psid. */
#define NSEC_REATTACH (5 * 1000 * NSEC_PER_USEC)

static_assert((int)PULC_REASON_SHARED == (int)PULC__WIRE__REASON__REASON_SHARED &&
		      (int)PULC_REASON_STDIO == (int)PULC__WIRE__REASON__REASON_STDIO &&
		      (int)PULC_REASON_UNSUPPORTED == (int)PULC__WIRE__REASON__REASON_UNSUPPORTED,
	      "the public reasons are the schema's");

/* ---- states ---------------------------------------------------------------------------------- */

/* Any thread may have said NEVER without the lock, and ATTACHED is for good: both stay. */
static void settle(struct pulc_stream *s, int to)
{
	int state = atomic_load(&s->state);

	while (state < STREAM_ATTACHED && !atomic_compare_exchange_weak(&s->state, &state, to))
		;
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* Under the client lock. */
static void hint(struct pulc_stream *s, int fd)
{
	Pulc__Wire__Reason reason;
	struct hint_ends ends;

	s->nsec_renew = nsec_now() + NSEC_RENEW;
	if (!hint_ends(fd, &ends) || client_attach() < 0)
		return;
	reason = hint_obstacle(s, fd, &ends);
	waitsets_announce();
	token_register(s);
	if (hint_send(s, fd, &ends, reason) < 0)
		return;
	s->told = true;
	if (reason == PULC__WIRE__REASON__REASON_REMOTE)
		atomic_store_explicit(&s->far, true, memory_order_relaxed);
	if (reason == PULC__WIRE__REASON__REASON_REMOTE || reason == PULC__WIRE__REASON__REASON_ULP)
		settle(s, STREAM_NEVER);
	else if (reason == PULC__WIRE__REASON__REASON_NONE)
		settle(s, STREAM_HINTED);
}

/* Is it time to look or to say something? Rate-limited, so that a connection whose peer is not
 * under PULC pays next to nothing. */
static bool due(struct pulc_stream *s)
{
	uint64_t now = nsec_now();

	if (now < s->nsec_look)
		return false;
	s->nsec_look = now + NSEC_LOOK;
	return true;
}

USUAL void upgrade_step(struct pulc_stream *s, int fd)
{
	int state = atomic_load_explicit(&s->state, memory_order_acquire);

	if (state == STREAM_NEVER || state == STREAM_ATTACHED)
		return;
	stream_set_fd(s, fd);
	if (state == STREAM_FRESH && s->n_calls++ < client_hint_after())
		return;
	if (state == STREAM_FRESH ? nsec_now() < s->nsec_renew : !due(s))
		return;
	if (!client_lock())
		return;
	/* Another thread may have taken the stream further while this one waited for the lock. */
	state = atomic_load(&s->state);
	if ((state == STREAM_FRESH || state == STREAM_HINTED) && nsec_now() >= s->nsec_renew)
		hint(s, fd);
	client_look();
	client_unlock();
}

/* ---- psid's answers -------------------------------------------------------------------------- */

/* Another process holds the socket too, by now. Said, so that the other end does not wait for
 * us. */
static void refuse_to_give(struct pulc_stream *s)
{
	struct hint_ends ends;

	s->nsec_renew = nsec_now() + NSEC_RENEW;
	settle(s, STREAM_FRESH);
	if (hint_ends(s->fd, &ends))
		(void)hint_send(s, s->fd, &ends, PULC__WIRE__REASON__REASON_SHARED);
}

static void give_socket(struct pulc_stream *s)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Socket sock = PULC__WIRE__SOCKET__INIT;

	int fd = s->fd; /* another thread may come with another one */

	if (atomic_load(&s->state) != STREAM_HINTED)
		return;
	if (!stream_owns(s, fd)) {
		settle(s, STREAM_FRESH); /* the next call brings another one */
		return;
	}
	if (!nursery_alone(s->nursery)) {
		refuse_to_give(s);
		return;
	}
	sock.token = s->token;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_SOCKET;
	msg.socket = &sock;
	if (client_send(&msg, &fd, 1) == 0)
		settle(s, STREAM_GIVEN);
}

int upgrade_ask_again(struct pulc_stream *s)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Attach attach = PULC__WIRE__ATTACH__INIT;
	int fd = s->fd, e;

	token_register(s);
	attach.token = s->token;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_ATTACH;
	msg.attach = &attach;
	waitsets_announce();
	e = client_send(&msg, &fd, 1);
	if (e == 0)
		settle(s, STREAM_GIVEN);
	return e;
}

/* There is no kernel to stay on for one whose bytes are in rings. Those who can bring it may be on
 * their way to a new psid: its other side, or whoever gave it to us. */
static void inheritance_denied(struct pulc_stream *s, Pulc__Wire__Reason reason)
{
	bool later = reason == PULC__WIRE__REASON__REASON_WAITING_PEER ||
		     reason == PULC__WIRE__REASON__REASON_STALE;

	s->denied = (int)reason;
	pulc_log("connection %d is not to be had: reason %d", s->fd, (int)reason);
	s->nsec_renew = nsec_now() + NSEC_REATTACH;
	settle(s, later ? STREAM_FRESH : STREAM_NEVER);
}

static void denied(struct pulc_stream *s, Pulc__Wire__Reason reason)
{
	if (s->inherited) {
		inheritance_denied(s, reason);
		return;
	}
	pulc_log("connection %d stays on the kernel: reason %d", s->fd, (int)reason);
	switch (reason) {
	case PULC__WIRE__REASON__REASON_NETNS:
	case PULC__WIRE__REASON__REASON_DEVICE:
	case PULC__WIRE__REASON__REASON_ULP:
		settle(s, STREAM_NEVER);
		break;
	default:
		settle(s, STREAM_HINTED);
		s->nsec_renew = nsec_now() + NSEC_RENEW;
	}
}

/* The slab that a message names: the one that came with it, or one that we have. */
static struct slab *slab_for(const Pulc__Wire__Slab *named, bool own, uint32_t peer,
			     struct shm_slab_map *map, int *fd)
{
	struct slab *known = slabs_find(named->id, own);
	struct shm_slab_map taken;

	if (known || !map->slab)
		return known;
	taken = TAKE_SLAB(*map);
	known = slabs_add(named->id, own, peer, &taken);
	if (known && own && *fd >= 0)
		slabs_keep(known, fd);
	return known;
}

bool upgrade_slabs(const Pulc__Wire__Upgrade *m, struct received *r, struct slab **ret_own,
		   struct slab **ret_peer)
{
	if (!m->own || !m->peer)
		return false;
	*ret_own = slab_for(m->own, true, m->peer_client, &r->own, &r->own_fd);
	*ret_peer = slab_for(m->peer, false, m->peer_client, &r->peer, NULL);
	return *ret_own && *ret_peer;
}

/* It may have been reset since, or dissolved and connected elsewhere, by a holder who has gone. */
static bool is_same_connection(const struct pulc_stream *s)
{
	struct hint_ends now;

	return hint_ends(s->fd, &now) && memcmp(&now, &s->ends, sizeof(now)) == 0;
}

/* Not if it was forked since the socket was given: the other holder would go on with the kernel
 * alone. Nor if the number that we know it by has become somebody else's. */
static bool may_attach(struct pulc_stream *s)
{
	return stream_owns(s, s->fd) &&
	       (s->inherited ||
		(nursery_alone(s->nursery) && is_same_connection(s) && label_set(s->fd) == 0));
}

static void upgraded(const Pulc__Wire__Upgrade *m, struct received *r)
{
	struct pulc_stream *s = token_find(m->token);
	struct slab *own, *peer;
	bool mapped = upgrade_slabs(m, r, &own, &peer);

	if (!s || atomic_load(&s->state) != STREAM_GIVEN || !mapped ||
	    shm_stream_bind(&s->tcp.ring, &own->map, m->own_slot, &peer->map, m->peer_slot) < 0 ||
	    !may_attach(s)) {
		/* The other end is attached: there will be no second time. */
		if (s && atomic_load(&s->state) == STREAM_GIVEN)
			settle(s, STREAM_NEVER);
		upgrade_closed(m->conn);
		return;
	}
	slabs_ref(own);
	slabs_ref(peer);
	s->own_slab = own;
	s->peer_slab = peer;
	s->own_slot = m->own_slot;
	s->peer_slot = m->peer_slot;
	if (s->inherited)
		(void)hint_ends(s->fd, &s->ends);
	s->conn = m->conn;
	s->known = STREAM_KNOWN;
	s->pid = raw_getpid();
	tcp_pass_on = deliver_rest;
	tcp_attach(&s->tcp, s->fd);
	/* Before anybody can say RX_READY: a peer takes an end without a word for a death. No
	 * shutdown comes in between, for it needs the lock as well. */
	tcp_note_shut(&s->tcp, s->fd);
	slabs_hold(own, m->own_slot);
	settle(s, STREAM_ATTACHED);
	if (!pulc_stream_attached(s)) {
		slabs_let_go(own, m->own_slot);
		label_clear(s->fd);
		return;
	}
	/* Whoever changed an option meanwhile saw no area to note it in. */
	tcp_attach(&s->tcp, s->fd);
	nursery_leave(s->nursery);
	s->nursery = 0;
	(void)tcp_watch(&s->tcp);
	pulc_log("connection %d is upgraded: %llu", s->fd, (unsigned long long)s->conn);
	stream_note_attached(s);
}

static void introduced(const Pulc__Wire__Introduce *m, struct received *r)
{
	int bell = r->bell;

	r->bell = -1;
	if (bell >= 0)
		peers_introduce(m->client, m->board, TAKE_BOARDS(r), bell);
}

void upgrade_dispatch(const Pulc__Wire__ToClient *msg, struct received *r)
{
	struct pulc_stream *s;

	if (datagram_dispatch(msg, r) || native_dispatch(msg, r))
		return;
	switch (msg->body_case) {
	case PULC__WIRE__TO_CLIENT__BODY_WANT:
		s = token_find(msg->want->token);
		if (s)
			give_socket(s);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_DENY:
		s = token_find(msg->deny->token);
		if (s && atomic_load(&s->state) < STREAM_ATTACHED)
			denied(s, msg->deny->reason);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_UPGRADE:
		upgraded(msg->upgrade, r);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_RETURNED:
		return_answered(msg->returned);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_DEAD:
		upgrade_dead(msg->dead->conn);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_INTRODUCE:
		introduced(msg->introduce, r);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_GONE:
		peers_gone(msg->gone->client);
		break;
	case PULC__WIRE__TO_CLIENT__BODY_SLAB_GONE:
		slabs_gone(msg->slab_gone->id);
		break;
	default:
		break;
	}
}

void upgrade_begin_anew(struct pulc_stream *s)
{
	int state = atomic_load(&s->state);

	if (state == STREAM_HINTED || state == STREAM_GIVEN)
		settle(s, STREAM_FRESH);
	s->told = false;
}

static void psid_lost(struct pulc_stream *s)
{
	s->handler->psid_lost(s);
}

void upgrade_psid_lost(void)
{
	stream_list_each(psid_lost);
	return_forget(true);
	slabs_lost();
}

/* ---- the end --------------------------------------------------------------------------------- */

void upgrade_closed(uint64_t conn)
{
	if (conn)
		unsent_say(PULC__WIRE__FROM_CLIENT__BODY_CLOSED, conn);
}

static _Atomic uint8_t *let_go(const struct slab *own, uint32_t slot)
{
	return &own->map.slab->let_go[slot];
}

/* What a parent has counted when it forks is the parent's to take back: a child counts anew. */
static bool is_going(const struct pulc_stream *s)
{
	return s->going && s->going == client_pid();
}

/* If this process ends before psid has heard that it is counted no more, psid takes it for one that
 * was killed, and is still counted: then it is to ask the kernel who has the socket. */
void upgrade_leaving(struct pulc_stream *s)
{
	if (!is_going(s))
		(void)atomic_fetch_add(let_go(s->own_slab, s->own_slot), SHM_LET_GO_GOING);
	s->going = client_pid();
}

void upgrade_stays(struct pulc_stream *s)
{
	if (is_going(s))
		(void)atomic_fetch_sub(let_go(s->own_slab, s->own_slot), SHM_LET_GO_GOING);
	s->going = 0;
}

static void tell_left(const struct slab *own, uint32_t slot, uint64_t conn)
{
	upgrade_closed(conn);
	if (UNLIKELY(unsent_any()))
		(void)atomic_fetch_or(let_go(own, slot), SHM_LET_GO_UNSAID);
}

void upgrade_left(struct pulc_stream *s)
{
	tell_left(s->own_slab, s->own_slot, s->conn);
	upgrade_stays(s);
}

void upgrade_flow_leaving(const struct slab *own, uint32_t slot)
{
	(void)atomic_fetch_add(let_go(own, slot), SHM_LET_GO_GOING);
}

void upgrade_flow_stays(const struct slab *own, uint32_t slot)
{
	(void)atomic_fetch_sub(let_go(own, slot), SHM_LET_GO_GOING);
}

void upgrade_flow_left(const struct slab *own, uint32_t slot, uint64_t conn)
{
	tell_left(own, slot, conn);
	upgrade_flow_stays(own, slot);
}

/*
 * The socket may be in psid's hands, and then our close() alone ends nothing. If nobody else holds
 * it, end the connection as close() would have: with a reset if bytes are unread or the program
 * asked for it (SO_LINGER of no time), else with a FIN. Urgent data is counted with those only
 * where it is in line.
 */
static void end_connection(int fd)
{
	struct sockaddr unspecified = { .sa_family = AF_UNSPEC };
	struct linger linger = { 0, 0 };
	socklen_t len = sizeof(linger);
	int unread = 0, on = 1;

	(void)raw_getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len);
	(void)raw_syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on), 0);
	if ((raw_ioctl(fd, FIONREAD, &unread) == 0 && unread > 0) ||
	    (linger.l_onoff && linger.l_linger == 0))
		(void)raw_syscall(SYS_connect, fd, &unspecified, sizeof(unspecified), 0, 0, 0);
	else
		(void)raw_shutdown(fd, SHUT_RDWR);
}

static uint64_t dead_conn;

static void note_dead(struct pulc_stream *s)
{
	if (s->handler != &stream_handler || !pulc_stream_attached(s) || s->conn != dead_conn)
		return;
	tcp_note_dead(&s->tcp);
	stream_tell_own_locked(s);
}

void upgrade_dead(uint64_t conn)
{
	dead_conn = conn;
	stream_list_each(note_dead);
}

USUAL void upgrade_closing(struct pulc_stream *s, int fd)
{
	if (!client_lock())
		return;
	if (atomic_load(&s->state) == STREAM_GIVEN)
		client_look();
	if (atomic_load(&s->state) == STREAM_GIVEN && nursery_alone(s->nursery))
		end_connection(fd);
	/* Also what became NEVER on its way: psid, which may hold the socket, closes it at this. */
	if (s->told && !pulc_stream_attached(s))
		unsent_say(PULC__WIRE__FROM_CLIENT__BODY_DROP, s->token);
	token_unregister(s);
	client_unlock();
}

USUAL void upgrade_release(struct pulc_stream *s)
{
	if (s->own_slab) {
		/* A process does not return what its parent has spent. */
		if (s->pid == raw_getpid())
			client_credit_return(s->tcp.size_credit);
		upgrade_left(s);
		slabs_unref(s->own_slab);
		slabs_unref(s->peer_slab);
	}
	token_unregister(s);
}

void upgrade_note(struct pulc_stream *s, enum pulc_reason reason)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Note note = PULC__WIRE__NOTE__INIT;

	note.conn = s->conn;
	note.reason = (Pulc__Wire__Reason)reason;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_NOTE;
	msg.note = &note;
	if (client_lock()) {
		(void)client_send(&msg, NULL, 0);
		client_unlock();
	}
}

static LARGE uint64_t adopted[WIRE_ADOPT_MAX];
static size_t n_adopted;

static void send_adopted(void)
{
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Adopt adopt = PULC__WIRE__ADOPT__INIT;

	adopt.conns = adopted;
	adopt.n_conns = n_adopted;
	adopt.parent = client_parent();
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_ADOPT;
	msg.adopt = &adopt;
	if (n_adopted)
		(void)client_send(&msg, NULL, 0);
	n_adopted = 0;
}

static void collect(uint64_t conn)
{
	adopted[n_adopted++] = conn;
	if (n_adopted == WIRE_ADOPT_MAX)
		send_adopted();
}

static void collect_of(struct pulc_stream *s)
{
	s->handler->adopt(s, collect);
}

void upgrade_adopt(void)
{
	stream_list_each(collect_of);
	send_adopted();
}
