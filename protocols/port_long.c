/*
 * Long datagrams beyond what one process may have unread at another: an ask and an answer.
 *
 * Beyond PORT_PEER_LONG (port_credit.c) a datagram of more than a frame would be more than is
 * bounded, and would wait for ever where its own port is read and the others are not. So it asks
 * (WANTS), on a way of which nothing is unread, and may begin (MAY) when somebody waits for it: a
 * receive is posted that would get it, or somebody has looked there and found nothing.
 *
 * Of two processes one such datagram is under way at a time. All ways whose reader waits may have
 * leave, and whichever uses it first takes it from the others, which ask anew. So nobody can keep
 * leave from others by not using it, and there is nothing to give back: a send that is cancelled or
 * never tried again, a port that is closed. The sender numbers its asking by the datagrams that it
 * has begun so; an answer to an older number is void. For the receiver leave is void once such a
 * datagram has begun: whoever has leave by the sender's number has it here too, since what has been
 * begun between is ahead of what asked again.
 *
 * What is kept so lies at a port where somebody has asked for it since the last one was there: it
 * is its reader's doing if it stays. A source that begins without leave ends its link (-EBADMSG).
 */
#include "macros.h"
#include "port.h"

/* ---- of ours, there -------------------------------------------------------------------------- */

static uint64_t number_of_next(const struct peer *peer)
{
	return peer->n_long_there + 1;
}

bool port_long_may(struct port_out *out)
{
	struct peer *peer = out->peer;
	const uint64_t number = number_of_next(peer), before = out->wants;
	const struct port_about about = { .life = out->life, .value = number };

	if (out->wants != number) {
		/* To oneself the answer comes before this returns. */
		out->wants = number;
		if (port_say(peer, (uint64_t)out->to << 32 | out->port->number, PORT_WANTS, about))
			out->wants = before;
	}
	return out->may == number;
}

void port_long_began(struct peer *peer)
{
	peer->n_long_there++;
	protocol_count_event();
}

int port_long_answered(struct port_out *out, uint64_t number)
{
	if (number > out->wants)
		return -EBADMSG;
	out->may = number;
	port_out_wait(out, false);
	return 0;
}

/* ---- of theirs, here ------------------------------------------------------------------------- */

static unsigned n_wanting;

static void stop_wanting(struct port_in *in)
{
	if (!in->wants)
		return;
	in->wants = 0;
	LIST_REMOVE(in, link_wanting);
	n_wanting--;
}

bool port_long_has_leave(const struct port_in *in)
{
	return in->may == in->peer->n_long_here + 1;
}

/* What there is no memory to say is said later. */
static void give_leave(struct port_in *in)
{
	in->may = in->peer->n_long_here + 1;
	if (port_say_back_surely(in, PORT_MAY, in->wants) == -ENOMEM)
		port_credit_owed = true;
	else
		stop_wanting(in);
}

/* is_sought: its reader has found nothing. */
static void answer(struct port_in *in, bool is_sought)
{
	if (!in->peer->long_under_way &&
	    (is_sought || port_long_has_leave(in) || port_is_posted_for(in)))
		give_leave(in);
}

static void answer_all(struct port *port, bool are_sought)
{
	struct port_in *in, *next;

	for (in = LIST_FIRST(&port->wanting); in; in = next) {
		next = LIST_NEXT(in, link_wanting);
		answer(in, are_sought);
	}
}

int port_long_wanted(struct port_in *in, uint64_t number)
{
	if (in->port->kind != PORT_D || !number)
		return -EBADMSG;
	if (!in->wants) {
		LIST_INSERT_HEAD(&in->port->wanting, in, link_wanting);
		n_wanting++;
	}
	in->wants = number;
	answer(in, false);
	return 0;
}

void port_long_sought(struct port *port, struct port_in *in)
{
	if (!in)
		answer_all(port, true);
	else if (in->wants)
		answer(in, true);
}

void port_long_move_on(void)
{
	struct port *port;

	for (port = port_next(NULL); port && n_wanting; port = port_next(port))
		answer_all(port, false);
}

void port_long_begun(struct port_in *in)
{
	in->peer->n_long_here++;
	in->peer->long_under_way = in;
}

void port_long_ended(struct port_in *in)
{
	if (LIKELY(in->peer->long_under_way != in))
		return;
	in->peer->long_under_way = NULL;
	port_long_move_on();
}

void port_long_forget(struct port_in *in)
{
	stop_wanting(in);
	if (in->peer->long_under_way == in)
		in->peer->long_under_way = NULL;
}
