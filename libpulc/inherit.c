/*
 * Taking up a connection that this process holds by its socket alone.
 *
 * The socket proves that we hold it; psid reads its cookie, finds the side and gives us its memory,
 * by the same message that upgrades a connection. Everything else of a side lies in that memory:
 * positions, modes, locks. Which end we are the kernel's counters tell, where anything was sent.
 *
 * The caller is in a data call that can't go on without the answer, so this is the one dialogue
 * with psid that is waited for. A psid that lives, as its channel or its full queue says, answers
 * when it gets a processor, however late that is. One that was restarted may be on its way, or not
 * have heard yet of the connection; so may the other side. For these there are limits; what counts
 * is how long we were there to see them come, not for how long we got no processor ourselves. If it
 * comes to nothing the bytes are lost to us. Then the connection is reset: a program must not read
 * the kernel's part as if it were all. Of a connection that has ended psid may know that the rings
 * had nothing more: then the kernel's part is all.
 */
#include <errno.h>
#include <string.h>

#include <pulc/process.h>

#include "clock.h"
#include "label.h"
#include "log.h"
#include "macros.h"
#include "notice.h"
#include "private.h"
#include "rawsys.h"
#include "return.h"
#include "tcp_count.h"
#include "upgrade.h"

/* There is no psid: one may be under way. */
#define NSEC_PATIENCE (5 * NSEC_PER_SEC)
/* It does not know a connection that has ended for the kernel. */
#define NSEC_PATIENCE_OVER (2 * NSEC_PER_SEC)
/* Those who gave the connection to us, or its other side, have not come back to a new psid: they
 * will, when they next look. */
#define NSEC_PATIENCE_OTHERS (30 * NSEC_PER_SEC)
/* Between attempts. */
#define NSEC_AGAIN (5 * 1000 * NSEC_PER_USEC)
/* psid's answers, before exec. */
#define NSEC_MOMENT (NSEC_PER_SEC)

/* One was waited for in vain. */
static bool no_psid;

/* There is no psid, but there was one when the socket was given to us. */
static int seek(void)
{
	notice_seek();
	return -EAGAIN;
}

/* How long nothing may come of it. */
static uint64_t patience(const struct pulc_stream *s, int fd, bool psid_lives)
{
	if (atomic_load(&s->state) == STREAM_GIVEN)
		return UINT64_MAX;
	if (s->denied == PULC__WIRE__REASON__REASON_STALE)
		return tcp_count_is_closed(fd) ? NSEC_PATIENCE_OVER : NSEC_PATIENCE_OTHERS;
	if (s->denied == PULC__WIRE__REASON__REASON_WAITING_PEER)
		return NSEC_PATIENCE_OTHERS;
	return psid_lives ? UINT64_MAX : NSEC_PATIENCE;
}

/* Says what has to be said now. -EAGAIN: it could not be; *ret_lives: by a psid that is there. A
 * channel may turn out to have ended long ago. */
static int ask(struct pulc_stream *s, bool *ret_lives)
{
	int e = client_attach();

	s->denied = 0;
	no_psid &= e != 0;
	if (e == 0)
		e = upgrade_ask_again(s);
	*ret_lives = e == 0 || e == -EAGAIN;
	return (e == -ENOENT || e == -ENOTCONN) && !no_psid ? seek() : e;
}

/* One step of the dialogue. 0: attached; -EAGAIN: not yet; else it has failed. */
static int step(struct pulc_stream *s, int *ret_channel, bool *ret_lives)
{
	int e = 0;

	if (!client_lock())
		return -EBUSY;
	if (atomic_load(&s->state) == STREAM_FRESH && nsec_now() >= s->nsec_renew)
		e = ask(s, ret_lives);
	client_look();
	*ret_channel = client_channel();
	if (pulc_stream_attached(s))
		e = 0;
	else if (atomic_load(&s->state) == STREAM_NEVER)
		e = -ESTALE;
	else if (e == 0)
		e = -EAGAIN;
	client_unlock();
	return e;
}

static int wait_for_answer(struct pulc_stream *s, int fd)
{
	uint64_t waited = 0, begun, limit;
	struct timespec most = timespec_from_nsec(NSEC_AGAIN);
	struct pollfd p = { .events = POLLIN };
	bool lives = false;
	int e;

	while ((e = step(s, &p.fd, &lives)) == -EAGAIN) {
		limit = patience(s, fd, lives);
		if (waited >= limit) {
			no_psid |= p.fd < 0;
			return -ETIMEDOUT;
		}
		begun = nsec_now();
		(void)raw_ppoll(&p, 1, &most);
		if (limit != UINT64_MAX)
			waited += MIN(nsec_now() - begun, (uint64_t)NSEC_AGAIN);
	}
	return e;
}

/* psid says so, and the kernel knows of the end. */
static bool is_over(const struct pulc_stream *s, int fd)
{
	return s->denied == PULC__WIRE__REASON__REASON_OVER && tcp_count_is_closed(fd);
}

PULC_EXPORT int pulc_stream_inherit(int fd, pulc_stream **ret_stream)
{
	socklen_t len = sizeof(uint64_t);
	enum pulc_role role = tcp_count_role(fd);
	struct pulc_stream *s;
	int e;

	e = pulc_stream_new(fd, role, &s);
	if (e < 0)
		return e;
	(void)raw_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &s->cookie, &len);
	s->inherited = true;
	s->tcp.no_switch = role == 0;
	e = wait_for_answer(s, fd);
	pulc_log("connection %d is inherited: %d", fd, e);
	if (e < 0) {
		if (!is_over(s, fd))
			tcp_reset(fd);
		/* Nothing is to be had of it any more, and the socket may be connected anew. */
		label_clear(fd);
		atomic_store(&s->state, STREAM_NEVER);
		(void)pulc_stream_unref(s);
		return e;
	}
	*ret_stream = s;
	return 0;
}

/* ---- which stream is it? --------------------------------------------------------------------- */

static struct {
	uint64_t cookie;
	struct pulc_stream *stream;
} search;

static void compare(struct pulc_stream *s)
{
	if (pulc_stream_attached(s) && s->cookie == search.cookie)
		search.stream = s;
}

PULC_EXPORT pulc_stream *pulc_stream_of(int fd)
{
	socklen_t len = sizeof(uint64_t);
	struct pulc_stream *found = NULL;
	uint64_t cookie;

	if (raw_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0 || !client_lock())
		return NULL;
	search.cookie = cookie;
	search.stream = NULL;
	stream_list_each(compare);
	if (search.stream)
		found = pulc_stream_ref(search.stream);
	client_unlock();
	return found;
}

/* Does psid know all that the new program could ask it for, and may that program have as much
 * memory? */
static enum return_state look_before_exec(int *ret_channel)
{
	enum return_state state = RETURN_NEVER;

	if (!client_lock())
		return state;
	client_look();
	if (client_attach() == 0 && client_is_itself() && slabs_have_room())
		state = client_id() ? return_state() : RETURN_WAITING;
	*ret_channel = client_channel();
	client_unlock();
	return state;
}

PULC_EXPORT bool pulc_can_be_inherited(void)
{
	uint64_t deadline = nsec_now() + NSEC_MOMENT;
	struct timespec most = timespec_from_nsec(NSEC_AGAIN);
	struct pollfd p = { .events = POLLIN };
	enum return_state state;

	while ((state = look_before_exec(&p.fd)) == RETURN_WAITING && nsec_now() < deadline)
		(void)raw_ppoll(&p, 1, &most);
	return state == RETURN_DONE;
}
