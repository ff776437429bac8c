/*
 * Clients end here and nowhere else: whoever finds out that one must go (its socket closed, its
 * process exited, it sent nonsense, it does not read) only dooms it, so that no list changes
 * under somebody who walks it.
 *
 * A doomed client waits N_ROUNDS turns of the loop. That gives a forked child's messages
 * precedence: a child attaches and adopts its connections before it closes its copy of the
 * parent's socket, so by the time that psid sees the parent's socket end, the child's messages
 * lie in queues that the loop reads in these rounds (one to accept, one for Hello, one for
 * Adopt). No time-out is involved. While not all that its user's clients have sent could be heard
 * (talk.c) it waits for that first; up to a bound, for others may wait for its end.
 *
 * A process that lost only its socket keeps its connections until it exits: its rings work
 * without us.
 *
 * What a client has held may be much, and every end of it is told to somebody. So what dies in a
 * turn of the loop has a bounded time; the rest waits for the next ones.
 */
#include "reaper.h"

#include "clock.h"
#include "conn.h"
#include "macros.h"
#include "pair.h"
#include "psid.h"
#include "user.h"

#define N_ROUNDS 4u
#define N_WAITS_MAX 250u /* half a second of a user who does not stop talking */
#define NSEC_TURN 1000000u

/* False: not all of it. */
static bool reap(struct psid_client *client, uint64_t nsec_until)
{
	psid_client_detach(client);
	if (!client->exited && client->n_holdings > 0)
		return true;
	if (!psid_conns_forget(client, nsec_until) || !psid_pairs_forget(client, nsec_until))
		return false;
	psid_client_free(client);
	return true;
}

static void insert(struct psid_client *client, unsigned n_rounds)
{
	client->n_rounds = n_rounds;
	TAILQ_INSERT_TAIL(&client->psid->doomed, client, doomed_link);
}

/* What a child of its has sent may be among what its user has not been heard of yet. */
static bool waits(struct psid_client *client)
{
	if (TAILQ_EMPTY(&client->user->unheard) || client->n_waits >= N_WAITS_MAX)
		return false;
	client->n_waits++;
	return true;
}

static void on_idle(uv_idle_t *idle)
{
	struct psid *psid = CONTAINER_OF(idle, struct psid, reaper);
	struct psid_client *client = TAILQ_FIRST(&psid->doomed), *next;
	uint64_t nsec_until = nsec_now() + NSEC_TURN;

	for (; client; client = next) {
		next = TAILQ_NEXT(client, doomed_link);
		if (waits(client))
			continue;
		if (client->n_rounds > 1) {
			client->n_rounds--;
			continue;
		}
		if (nsec_now() >= nsec_until)
			continue;
		client->n_rounds = 0;
		TAILQ_REMOVE(&psid->doomed, client, doomed_link);
		if (!reap(client, nsec_until) && !psid_is_doomed(client))
			insert(client, 1);
	}
	if (TAILQ_EMPTY(&psid->doomed))
		(void)uv_idle_stop(idle);
}

int psid_reaper_start(struct psid *psid)
{
	TAILQ_INIT(&psid->doomed);
	return uv_idle_init(&psid->loop, &psid->reaper);
}

void psid_reaper_close(struct psid *psid)
{
	uv_close((uv_handle_t *)&psid->reaper, NULL);
}

void psid_doom(struct psid_client *client)
{
	struct psid *psid = client->psid;

	if (psid_is_doomed(client))
		return;
	client->n_waits = 0;
	insert(client, N_ROUNDS);
	if (client->fd >= 0)
		(void)uv_poll_stop(&client->poll);
	(void)uv_idle_start(&psid->reaper, on_idle);
}

bool psid_is_doomed(const struct psid_client *client)
{
	return client->n_rounds > 0;
}
