/*
 * Talking with a client: its datagrams in, ours out, neither ever waited for.
 *
 * A turn of the loop reads a bounded number of messages from one client, and from all clients of a
 * user what takes a bounded time; what their lists take (batch.c) is part of that. Who comes when
 * his user has had that waits in a queue, and is heard in one of the next turns before those who
 * are not in it: so each comes, and many clients get no more of the loop than one.
 * Descriptors that come with them are closed by others (closer.c), and a user with too many waiting
 * there is not read from; nor is anybody, for a moment, when they would find no place in psid. What
 * a client does not take is kept up to a bound; beyond it the client is dropped.
 */
#include <errno.h>
#include <sys/socket.h>

#include "batch.h"
#include "client.h"
#include "clock.h"
#include "dispatch.h"
#include "links.h"
#include "log.h"
#include "macros.h"
#include "psid.h"
#include "reaper.h"
#include "user.h"

/* Messages read from one client before others get their turn, and how long those of all clients of
 * its user may take. */
#define N_MESSAGES_TURN 64
#define NSEC_TURN_USER 2000000u
/* Kept for a client that does not read: as much as all its hints can cause. For all of a user. */
#define SIZE_OUTBOX_MAX (8u << 20)
#define SIZE_OUTBOXES_USER (64u << 20)

/* ---- sending --------------------------------------------------------------------------------- */

static void on_socket(uv_poll_t *poll, int status, int events);

void psid_client_listen(struct psid_client *client)
{
	int events = client->paused ? 0 : UV_READABLE;

	if (psid_is_doomed(client))
		return;
	if ((!psid_outbox_is_empty(&client->outbox) || client->listing) && !client->again.set)
		events |= UV_WRITABLE;
	if (events)
		(void)uv_poll_start(&client->poll, events, on_socket);
	else
		(void)uv_poll_stop(&client->poll);
}

void psid_client_again(struct psid_deadline *again)
{
	struct psid_client *client = CONTAINER_OF(again, struct psid_client, again);

	client->paused = client->user->jammed;
	psid_client_listen(client);
}

static struct psid_outbox_room room_of(const struct psid_client *client)
{
	const struct psid_user *user = client->user;
	uint64_t of_user = SIZE_OUTBOXES_USER - MIN(user->size_kept, SIZE_OUTBOXES_USER);
	uint64_t own = SIZE_OUTBOX_MAX - MIN(client->outbox.size, SIZE_OUTBOX_MAX);
	uint32_t max = client->psid->config->max_descriptors_user;

	return (struct psid_outbox_room){ .size = MIN(own, of_user),
					  .n_fds = max - MIN(user->n_descriptors, max) };
}

/* What is kept for the client has changed: its user's account, too. */
static void count_kept(struct psid_client *client, const struct psid_outbox *before)
{
	client->user->size_kept += client->outbox.size - before->size;
	client->user->n_descriptors += client->outbox.n_fds - before->n_fds;
}

static bool may_remark(const struct psid_client *client, enum psid_level level)
{
	return psid_may_remark(&client->psid->remarks, client->user->uid, level);
}

/* Returns r. */
static int sent(struct psid_client *client, int r)
{
	/* It hears nothing any more, but what it said before is still to be read: that ends with
	 * its end. */
	if (r == -EPIPE || r == -EMFILE)
		return r;
	if (r < 0) {
		if (r == -ENOBUFS && may_remark(client, PSID_WARNING))
			psid_log(PSID_WARNING, "client %u (%s, pid %d) does not read; dropped",
				 client->id, client->program, client->pid);
		psid_doom(client);
		return r;
	}
	if (!psid_outbox_is_empty(&client->outbox))
		psid_client_listen(client);
	return 0;
}

/* Returns its length in *ret_buf; negative errno. */
static int pack(const struct psid_client *client, const Pulc__Wire__ToClient *msg,
		const uint8_t **ret_buf)
{
	static uint8_t buf[WIRE_SIZE_MAX];
	size_t len = pulc__wire__to_client__get_packed_size(msg);

	if (client->fd < 0 || psid_is_doomed(client))
		return -EPIPE;
	if (len > sizeof(buf))
		return -EMSGSIZE;
	(void)pulc__wire__to_client__pack(msg, buf);
	*ret_buf = buf;
	return (int)len;
}

int psid_client_send(struct psid_client *client, const Pulc__Wire__ToClient *msg, const int *fds,
		     uint32_t n_fds)
{
	struct psid_outbox before = client->outbox;
	const uint8_t *buf;
	int r = pack(client, msg, &buf);

	if (r < 0)
		return r;
	r = psid_outbox_send(&client->outbox, client->fd, buf, (size_t)r, fds, n_fds,
			     room_of(client));
	count_kept(client, &before);
	return sent(client, r);
}

int psid_client_write(struct psid_client *client, const Pulc__Wire__ToClient *msg, const int *fds,
		      uint32_t n_fds, struct psid_letter **ret_letter)
{
	const uint8_t *buf;
	int r = pack(client, msg, &buf);

	if (r < 0)
		return r;
	return n_fds > room_of(client).n_fds
		       ? -EMFILE
		       : psid_letter_write(client->user, buf, (size_t)r, fds, n_fds, ret_letter);
}

int psid_client_post(struct psid_client *client, struct psid_letter *letter)
{
	struct psid_outbox before = client->outbox;
	int r;

	if (client->fd < 0 || psid_is_doomed(client)) {
		psid_letter_free(letter);
		return -EPIPE;
	}
	r = psid_outbox_post(&client->outbox, client->fd, letter, room_of(client));
	count_kept(client, &before);
	return sent(client, r);
}

void psid_client_ignore(struct psid_client *client)
{
	client->state = PSID_CLIENT_REFUSED;
	psid_deadline_clear(&client->psid->hellos, &client->deadline);
}

void psid_client_refuse(struct psid_client *client, Pulc__Wire__Reason reason, const char *text)
{
	Pulc__Wire__Refuse refuse = PULC__WIRE__REFUSE__INIT;
	PSID_MESSAGE(msg, REFUSE, refuse) = &refuse;

	refuse.reason = reason;
	refuse.text = (char *)text;
	(void)psid_client_send(client, &msg, NULL, 0);
	psid_count_reason(client->psid->counts.n_refused, reason);
	if (!client->psid->stopping && may_remark(client, PSID_INFO))
		psid_log(PSID_INFO, "uid %u, pid %d refused: %s", client->user->uid, client->pid,
			 text);
	psid_client_ignore(client);
	(void)shutdown(client->fd, SHUT_WR);
	psid_deadline_set(&client->psid->farewells, &client->deadline);
}

void psid_client_malformed(struct psid_client *client, const char *what)
{
	char uid[16];

	client->psid->counts.n_malformed++;
	(void)snprintf(uid, sizeof(uid), "%u", client->user->uid);
	if (may_remark(client, PSID_WARNING))
		psid_log_of(PSID_LOG_NONSENSE, PSID_WARNING, uid,
			    "client %u (%s, uid %u, pid %d) sent nonsense (%s); dropped",
			    client->id, client->program, client->user->uid, client->pid, what);
	psid_doom(client);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void close_foreign(struct psid_client *client, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		psid_close_foreign(client->psid, client->user, fds[i], NULL, NULL);
}

/* One message. Returns 0; -EAGAIN: there is none; -EMFILE: later; other negative errno: nothing
 * more will come. */
static int receive(struct psid_client *client)
{
	static uint8_t buf[WIRE_SIZE_MAX];
	int fds[WIRE_FDS_MAX];
	size_t len = 0, n_fds;
	int r;

	if (!psid_closer_is_ready(&client->psid->closer))
		return -EMFILE;
	r = wire_recv_hostile(client->fd, buf, &len, fds, &n_fds);
	if (r == 0 && client->state != PSID_CLIENT_REFUSED) {
		psid_dispatch(client, buf, len, fds, n_fds);
		return psid_is_doomed(client) ? -EPIPE : 0;
	}
	close_foreign(client, fds, n_fds);
	if (r == -EBADMSG && client->state != PSID_CLIENT_REFUSED)
		psid_client_malformed(client, "truncated message");
	return r;
}

static int receive_timed(struct psid_client *client)
{
	uint64_t nsec_began = nsec_now();
	int r = receive(client);

	client->user->nsec_turn += nsec_now() - nsec_began;
	return r;
}

static bool has_time(const struct psid_user *user)
{
	return user->nsec_turn < NSEC_TURN_USER;
}

/* A part of the list that it is being sent, as far as its channel takes it. */
static void go_on(struct psid_client *client)
{
	uint64_t nsec_began = nsec_now();

	if (!client->listing || !psid_outbox_is_empty(&client->outbox))
		return;
	psid_listing_go_on(client);
	client->user->nsec_turn += nsec_now() - nsec_began;
}

/* One message at least. */
static void hear(struct psid_client *client)
{
	int r = 0;

	for (int i = 0; r == 0 && !psid_user_is_jammed(client->user) &&
			(i == 0 || (i < N_MESSAGES_TURN && has_time(client->user)));
	     i++)
		r = receive_timed(client);
	if (r == -EMFILE) {
		client->paused = true;
		psid_deadline_set(&client->psid->agains, &client->again);
		psid_client_listen(client);
	} else if (r < 0 && r != -EAGAIN) {
		psid_doom(client);
	} else if (psid_user_is_jammed(client->user)) {
		client->paused = client->user->jammed = true;
		psid_client_listen(client);
	}
}

static void attend(struct psid_client *client)
{
	if (!psid_is_doomed(client))
		go_on(client);
	if (!client->paused && !psid_is_doomed(client))
		hear(client);
}

void psid_client_unqueue(struct psid_client *client)
{
	if (!client->queued)
		return;
	client->queued = false;
	TAILQ_REMOVE(&client->user->unheard, client, unheard_link);
}

/* The first time in a turn of the loop: those who wait, as far as the time lasts. */
static void begin_turn(struct psid_user *user)
{
	uint64_t msec_now = uv_now(&user->psid->loop);
	struct psid_client *client;

	if (user->msec_turn == msec_now)
		return;
	user->msec_turn = msec_now;
	user->nsec_turn = 0;
	while (has_time(user) && (client = TAILQ_FIRST(&user->unheard))) {
		psid_client_unqueue(client);
		attend(client);
	}
}

/* Something has come from it, or it takes something. A turn of the loop has one time of it. */
static void attend_in_turn(struct psid_client *client)
{
	struct psid_user *user = client->user;

	begin_turn(user);
	if (client->queued || psid_is_doomed(client))
		return;
	if (has_time(user)) {
		attend(client);
		return;
	}
	client->queued = true;
	TAILQ_INSERT_TAIL(&user->unheard, client, unheard_link);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
	struct psid_client *client = CONTAINER_OF(poll, struct psid_client, poll);
	int r = 0;

	if (status == 0 && (events & UV_WRITABLE)) {
		struct psid_outbox before = client->outbox;

		r = psid_outbox_flush(&client->outbox, client->fd);
		count_kept(client, &before);
		if (r == -ETOOMANYREFS) {
			psid_deadline_set(&client->psid->agains, &client->again);
			r = 0;
		}
		if (r == 0 && psid_outbox_is_empty(&client->outbox))
			psid_links_catch_up(client);
		if (r == 0)
			psid_client_listen(client);
		else if (r == -EPIPE)
			r = 0; /* read what it has said; the end comes behind it */
	}
	if (r == 0)
		attend_in_turn(client);
	else if (r != -EAGAIN)
		psid_doom(client);
}

void psid_client_resume(struct psid_client *client, const struct psid_user *user)
{
	if (client->user != user || !client->paused)
		return;
	client->paused = false;
	psid_client_listen(client);
}
