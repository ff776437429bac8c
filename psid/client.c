/*
 * The life of a client.
 *
 * accept -> NEW -> Hello -> ATTACHED -> ... -> doomed -> freed. A client that is not wanted is
 * REFUSED: it gets one line and some time to close. Two things tell of its end: its socket (every
 * process that holds it has closed it) and its pidfd (its process is gone). The reaper acts on
 * them.
 *
 * Everything a client has hangs on its struct: hints, connections, pairs, boards, bells, credit.
 * psid_client_free takes it all back, whatever state it is in.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admit.h"
#include "bells.h"
#include "cleanup.h"
#include "clock.h"
#include "conn.h"
#include "hint.h"
#include "jobs.h"
#include "lifecycle.h"
#include "macros.h"
#include "message_area.h"
#include "pair.h"
#include "ports.h"
#include "partitions.h"
#include "psid.h"
#include "reaper.h"
#include "remote.h"
#include "sems.h"
#include "unread.h"
#include "user.h"

#define N_DESCRIPTORS 2u /* its channel and its process */

struct psid_client *psid_client_find(struct psid *psid, uint32_t id)
{
	struct psid_map_node *node = psid_map_find(&psid->clients, id);

	return node ? CONTAINER_OF(node, struct psid_client, node) : NULL;
}

static void on_exit_of_process(uv_poll_t *poll, int status, int events)
{
	struct psid_client *client = CONTAINER_OF(poll, struct psid_client, exit_poll);

	(void)status;
	(void)events;
	(void)uv_poll_stop(poll);
	client->exited = true;
	if (client->fd < 0) /* else a child may still hold the socket: its end will tell */
		psid_doom(client);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static int start_handles(struct psid_client *client)
{
	uv_loop_t *loop = &client->psid->loop;
	int r;

	r = uv_poll_init(loop, &client->poll, client->fd);
	if (r < 0)
		return r;
	client->n_handles++;
	r = uv_poll_init(loop, &client->exit_poll, client->pidfd);
	if (r < 0)
		return r;
	client->n_handles++;
	psid_client_listen(client);
	return uv_poll_start(&client->exit_poll, UV_READABLE, on_exit_of_process);
}

static int enter(struct psid_client *client)
{
	struct psid *psid = client->psid;

	if (psid_map_insert(&psid->clients, &client->node, client->id) < 0)
		return -ENOMEM;
	if (psid_map_insert(&psid->processes, &client->by_process, (uint32_t)client->pid) == 0)
		return 0;
	psid_map_remove(&psid->clients, &client->node);
	return -ENOMEM;
}

static struct psid_client *client_make(struct psid *psid, struct psid_user *user, pid_t pid)
{
	struct psid_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->psid = psid;
	client->user = psid_user_ref(user);
	client->pid = pid;
	client->fd = client->pidfd = client->boards_fd = client->messages_fd = -EBADF;
	client->role = PULC__WIRE__ROLE__ROLE_CONTROL; /* owns nothing until Hello says more */
	client->usec_attached = nsec_now() / NSEC_PER_USEC;
	for (size_t i = 0; i < SHM_N_BOARDS; i++)
		client->bells[i] = -EBADF;
	psid_outbox_init(&client->outbox, user);
	psid_hints_init(client);
	TAILQ_INIT(&client->holdings);
	LIST_INIT(&client->ports);
	LIST_INIT(&client->sems);
	LIST_INIT(&client->joints);
	(void)snprintf(client->program, sizeof(client->program), "?");
	user->n_sockets++;
	user->n_descriptors += N_DESCRIPTORS;
	do
		client->id = psid->last_client = (psid->last_client + 1) & 0x7fffffffu;
	while (client->id == 0 || psid_client_find(psid, client->id));
	if (enter(client) < 0) {
		user->n_sockets--;
		psid_user_give_descriptors(user, N_DESCRIPTORS);
		(void)psid_user_unref(user);
		free(client);
		return NULL;
	}
	return client;
}

void psid_client_new(struct psid *psid, int fd)
{
	CLEANUP_FD int pidfd = -EBADF;
	struct psid_client *client;
	struct psid_user *user;
	struct ucred cred = { .uid = geteuid() };
	int r = psid_identify(fd, &cred, &pidfd);

	user = psid_user_get(psid, cred.uid);
	if (r == 0)
		r = psid_closer_promise(&psid->closer);
	client = r < 0 || !user ? NULL : client_make(psid, user, cred.pid);
	if (!client) /* what it has sent may hold descriptors, whose last close is this one */
		(r < 0 ? psid_close_foreign : psid_close_promised)(psid, user, fd, NULL, NULL);
	(void)psid_user_unref(user);
	if (!client)
		return;
	client->fd = fd;
	client->pidfd = TAKE_FD(pidfd);
	if (start_handles(client) < 0)
		psid_client_free(client);
	else
		psid_admit(client);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void release(struct psid_client *client)
{
	(void)close_own(client->pidfd);
	psid_user_give_descriptors(client->user, 1);
	(void)psid_user_unref(client->user);
	free(client);
}

static void on_closed(uv_handle_t *handle)
{
	struct psid_client *client = handle->data;

	if (--client->n_handles == 0 && client->released)
		release(client);
}

static void close_handle(struct psid_client *client, uv_handle_t *handle)
{
	if (handle->type == UV_UNKNOWN_HANDLE || uv_is_closing(handle))
		return;
	handle->data = client;
	uv_close(handle, on_closed);
}

static void clear_deadline(struct psid_client *client)
{
	struct psid *psid = client->psid;

	psid_deadline_clear(client->state == PSID_CLIENT_REFUSED ? &psid->farewells : &psid->hellos,
			    &client->deadline);
}

void psid_client_detach(struct psid_client *client)
{
	if (client->fd < 0)
		return;
	clear_deadline(client);
	psid_client_unqueue(client);
	psid_deadline_clear(&client->psid->agains, &client->again);
	psid_hints_deinit(client);
	psid_port_moves_forget(client);
	psid_ports_forget(client);
	psid_sems_forget(client);
	psid_remote_forget(client);
	client->user->size_kept -= client->outbox.size;
	psid_user_give_descriptors(client->user, client->outbox.n_fds);
	psid_outbox_deinit(&client->outbox);
	free(TAKE_PTR(client->listing));
	close_handle(client, (uv_handle_t *)&client->poll);
	psid_unread_end(client->user, TAKE_FD(client->fd));
	client->state = PSID_CLIENT_DETACHED;
	psid_conns_doubt(client);
}

static void uncount(struct psid_client *client)
{
	if (!client->counted)
		return;
	if (client->role == PULC__WIRE__ROLE__ROLE_CONTROL) {
		client->user->n_controls--;
		return;
	}
	client->user->n_clients--;
	client->psid->n_processes--;
	psid_user_give_bytes(client->user, client->size_credit);
	psid_lifecycle_idle(client->psid);
}

void psid_client_free(struct psid_client *client)
{
	if (psid_is_doomed(client))
		TAILQ_REMOVE(&client->psid->doomed, client, doomed_link);
	psid_client_detach(client);
	psid_jobs_forget(client);
	psid_partitions_forget(client);
	(void)psid_conns_forget(client, UINT64_MAX);
	(void)psid_pairs_forget(client, UINT64_MAX);
	psid_boards_drop(client);
	psid_message_area_drop(client);
	uncount(client);
	psid_map_remove(&client->psid->clients, &client->node);
	psid_map_remove(&client->psid->processes, &client->by_process);
	psid_map_deinit(&client->hints);
	psid_map_deinit(&client->pairs);
	close_handle(client, (uv_handle_t *)&client->exit_poll);
	client->released = true;
	if (client->n_handles == 0)
		release(client);
}
