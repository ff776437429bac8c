/*
 * Shared ports: the frames, and what guests and owners have in common.
 *
 * A port has one owner, to whom all links of it lead, and whose private memory has its queue. A
 * process that was forked from whoever opened the port may use it as a guest: it asks the owner to
 * send or to receive, and the owner does so as if a thread of its own had called. So nothing of the
 * data's way changes for anybody else, a message goes to exactly one of all who want it, and what
 * all of them send is in order behind the port's one credit.
 *
 * A guest shows the port's key, which was in the opener's memory before the fork, with everything
 * that it asks for; nothing is agreed on beforehand, so an owner that is new to the port knows as
 * much as the old one did, if it has the key.
 *
 * One process may be guest at one port and owner of another one, towards the same peer.
 *
 * Source: pulc-1998, 4.6.3 (fork: parent and child share the port).
 */
#include "guest.h"

unsigned guest_n_open;

static int arrived(struct peer *peer, const struct hal_frame *f)
{
	/* Nobody is a guest of its own. */
	if (!peer->conn)
		return 0;
	if (f->kind == GUEST_ANSWER || f->kind == GUEST_ANSWER_MORE)
		return guest_answered(peer, f);
	return guest_asked(peer, f);
}

static void gone(struct peer *peer, unsigned number)
{
	(void)number;
	guest_calls_gone(peer);
	guest_requests_gone(peer);
}

/* All that was asked there: an owner that has it again makes calls, and so answers. */
static void closed(struct peer *peer, const struct port_end *end)
{
	if (!end->is_anew)
		guest_calls_closed(peer, end->port);
}

const struct protocol guest_protocol = {
	.name = "guest",
	.arrived = arrived,
	.gone = gone,
	.closed = closed,
};

void guest_move_on(void)
{
	guest_requests_move_on();
	guest_calls_move_on();
}

void guest_forked(void)
{
	guest_requests_forked();
	guest_calls_forked();
	guest_n_open = 0;
}
