/*
 * Back to psid: what a process tells the next one of the connections that one before has made.
 *
 * Rings need no psid, but much else does: handing a connection to a program that is executed,
 * waking across users, pulcctl. So a process that has found a psid again brings each slab that it
 * owns, by the slab's descriptor, and names the slots in use and which slots of whose slab they are
 * joined with. psid believes the descriptor, not us (docs/wire.md). Its answer is the connections'
 * new numbers. A psid that has not said Welcome may be starting still, and its queue full: then the
 * rest waits for Welcome.
 *
 * A number is worth something at the psid that gave it. When the channel ends all become void; a
 * forked child finds out by Welcome whether it has come to its parent's psid, and if so the numbers
 * that it has inherited, and Adopt, will do.
 *
 * Nobody waits for the answer, but who is about to execute a program. What the channel does not
 * take at once is sent when somebody looks at the channel the next time. Semaphores are brought in
 * the same way (native_sem.c). A slab whose descriptor could not be kept is not brought: its
 * connections go on unknown. Flows of datagrams are not brought either; they have no socket by
 * which a side could be asked for again.
 */
#include "return.h"

#include <stdatomic.h>

#include "hint.h"
#include "macros.h"
#include "native.h"
#include "private.h"
#include "rawsys.h"
#include "token.h"
#include "upgrade.h"

/* Sides in one message. */
#define N_SIDES 64

static _Atomic bool due; /* read without the lock */

static bool is_kept(const struct pulc_stream *s)
{
	return s->handler == &stream_handler && pulc_stream_attached(s) && !s->left && s->own_slab;
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* Written only where it changes something: to write to a stream copies its page in a forked
 * child. */
static void forget(struct pulc_stream *s)
{
	if (is_kept(s) && s->known != STREAM_UNKNOWN) {
		s->known = STREAM_UNKNOWN;
		s->conn = 0;
	}
}

static void forget_unanswered(struct pulc_stream *s)
{
	if (s->known != STREAM_KNOWN)
		forget(s);
}

void return_forget(bool all)
{
	due = false;
	stream_list_each(all ? forget : forget_unanswered);
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Puts s on its slab's list. */
static void enlist(struct pulc_stream *s)
{
	if (!is_kept(s) || s->known != STREAM_UNKNOWN || s->own_slab->fd < 0)
		return;
	token_register(s);
	s->returning_next = s->own_slab->returning;
	s->own_slab->returning = s;
}

static void name_side(struct pulc_stream *s, Pulc__Wire__Kept *kept, Pulc__Wire__Tuple *tuple)
{
	pulc__wire__kept__init(kept);
	hint_tuple(&s->ends, tuple);
	kept->token = s->token;
	kept->slot = s->own_slot;
	kept->peer_inode = s->peer_slab->map.ino;
	kept->peer_slot = s->peer_slot;
	kept->cookie = s->cookie;
	kept->tuple = tuple;
}

/* One message, with as many of the slab's streams as it holds. */
static int tell_some(struct slab *slab)
{
	static LARGE Pulc__Wire__Tuple tuples[N_SIDES];
	static LARGE Pulc__Wire__Kept kept[N_SIDES];
	static LARGE Pulc__Wire__Kept *sides[N_SIDES];
	Pulc__Wire__FromClient msg = PULC__WIRE__FROM_CLIENT__INIT;
	Pulc__Wire__Return body = PULC__WIRE__RETURN__INIT;
	struct pulc_stream *s = slab->returning;
	int e;

	for (; s && body.n_sides < N_SIDES; s = s->returning_next) {
		name_side(s, &kept[body.n_sides], &tuples[body.n_sides]);
		sides[body.n_sides] = &kept[body.n_sides];
		body.n_sides++;
	}
	body.sides = sides;
	msg.body_case = PULC__WIRE__FROM_CLIENT__BODY_COME_BACK;
	msg.come_back = &body;
	e = client_send(&msg, &slab->fd, 1);
	if (e < 0)
		return e;
	for (; slab->returning != s; slab->returning = slab->returning->returning_next)
		slab->returning->known = STREAM_RETURNED;
	return 0;
}

static void tell(struct slab *slab)
{
	while (slab->returning && !due)
		due = tell_some(slab) < 0;
	slab->returning = NULL;
}

void return_all(void)
{
	if (client_channel() < 0)
		return;
	due = false;
	stream_list_each(enlist);
	slabs_each(tell);
	if (!due)
		due = native_sem_return() < 0;
}

bool return_is_due(void)
{
	return due && client_id() != 0;
}

/* ---- psid's answer --------------------------------------------------------------------------- */

void return_answered(const Pulc__Wire__Returned *m)
{
	for (size_t i = 0; i < MIN(m->n_tokens, m->n_conns); i++) {
		struct pulc_stream *s = token_find(m->tokens[i]);

		if (s && is_kept(s) && s->known == STREAM_RETURNED) {
			s->conn = m->conns[i];
			s->known = s->conn ? STREAM_KNOWN : STREAM_REFUSED;
		} else {
			upgrade_closed(m->conns[i]); /* closed meanwhile */
		}
	}
}

static enum return_state worst;

static void judge(struct pulc_stream *s)
{
	if (!is_kept(s) || s->known == STREAM_KNOWN)
		return;
	if (s->known == STREAM_REFUSED || s->own_slab->fd < 0)
		worst = RETURN_NEVER;
	else if (worst == RETURN_DONE)
		worst = RETURN_WAITING;
}

enum return_state return_state(void)
{
	worst = RETURN_DONE;
	stream_list_each(judge);
	return worst;
}

/* ---- credit ---------------------------------------------------------------------------------- */

static uint64_t size_used;
static int our_pid;

static void add_up(struct pulc_stream *s)
{
	if (is_kept(s) && s->pid == our_pid)
		size_used += s->tcp.size_credit;
}

uint64_t return_credit(void)
{
	size_used = 0;
	our_pid = raw_getpid();
	stream_list_each(add_up);
	return size_used;
}
