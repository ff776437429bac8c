/*
 * Reports: psid's own state and its clients. The sockets are in report_sockets.c.
 *
 * Operators (operator.c) see everything; other users see the totals, and of clients and
 * sockets their own. A report is as many messages as it takes, all but the last marked `more`,
 * sent as they are read (batch.c): a client that has not read the last answer gets no other.
 */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "batch.h"
#include "cleanup.h"
#include "client.h"
#include "clock.h"
#include "conn.h"
#include "macros.h"
#include "operator.h"
#include "psid.h"
#include "user.h"

bool psid_may_see(const struct psid_client *client, uid_t uid)
{
	return client->user->uid == uid || psid_is_operator(client);
}

/* ---- status ---------------------------------------------------------------------------------- */

static void fill_user(const struct psid_user *user, Pulc__Wire__UserUse *ret_use)
{
	pulc__wire__user_use__init(ret_use);
	ret_use->uid = user->uid;
	ret_use->n_clients = user->n_clients;
	ret_use->n_areas = user->n_areas;
	ret_use->size_bytes = user->size_bytes;
}

/* At most n of them. Returns how many. */
static size_t fill_users(const struct psid_client *client, Pulc__Wire__UserUse *uses,
			 Pulc__Wire__UserUse **pointers, size_t n_max)
{
	struct psid_map_node *node = NULL;
	size_t n = 0;

	while (n < n_max && (node = psid_map_next(&client->psid->users, node))) {
		const struct psid_user *user = CONTAINER_OF(node, struct psid_user, node);

		if (!psid_may_see(client, user->uid))
			continue;
		fill_user(user, &uses[n]);
		pointers[n] = &uses[n];
		n++;
	}
	return n;
}

/* Returns how many reasons there were. */
static size_t fill_refused(const struct psid *psid, Pulc__Wire__Refused *items,
			   Pulc__Wire__Refused **pointers)
{
	size_t n = 0;

	for (unsigned i = 0; i < PSID_N_REASONS; i++) {
		if (psid->counts.n_refused[i] == 0)
			continue;
		pulc__wire__refused__init(&items[n]);
		items[n].reason = (Pulc__Wire__Reason)i;
		items[n].n = psid->counts.n_refused[i];
		pointers[n] = &items[n];
		n++;
	}
	return n;
}

int psid_report_status(struct psid_client *client)
{
	enum { N_USERS_MAX = 256 }; /* one message holds them */
	static Pulc__Wire__UserUse uses[N_USERS_MAX];
	Pulc__Wire__UserUse *pointers[N_USERS_MAX];
	Pulc__Wire__Refused refused[PSID_N_REASONS], *refusals[PSID_N_REASONS];
	const struct psid *psid = client->psid;
	const struct psid_config *config = psid->config;
	Pulc__Wire__StatusReply status = PULC__WIRE__STATUS_REPLY__INIT;
	PSID_MESSAGE(msg, STATUS, status) = &status;

	status.version = PULC_VERSION;
	status.pid = (uint32_t)getpid();
	status.uptime_usec = nsec_now() / NSEC_PER_USEC - psid->usec_started;
	status.n_clients = psid->n_processes;
	status.n_connections = (uint32_t)psid->conns.n;
	status.n_hints = psid->n_hints;
	status.n_areas = psid->n_areas;
	status.size_bytes = psid->size_bytes;
	status.socket_path = (char *)config->socket;
	status.system = config->system;
	status.n_upgrades = psid->counts.n_upgrades;
	status.n_denied = psid->counts.n_denied;
	status.n_malformed = psid->counts.n_malformed;
	status.n_rings_forwarded = psid->counts.n_rings;
	status.size_rings = psid->counts.size_rings;
	status.limit_clients_uid = config->max_clients_user;
	status.limit_areas_uid = config->max_areas_user;
	status.limit_bytes_uid = config->max_bytes_user;
	status.limit_processes = config->max_processes;
	status.users = pointers;
	status.n_users = fill_users(client, uses, pointers, N_USERS_MAX);
	status.refused = refusals;
	status.n_refused = fill_refused(psid, refused, refusals);
	(void)psid_client_send(client, &msg, NULL, 0);
	return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

static void fill_client(const struct psid_client *client, Pulc__Wire__ClientEntry *ret_entry)
{
	pulc__wire__client_entry__init(ret_entry);
	ret_entry->client = client->id;
	ret_entry->pid = (uint32_t)client->pid;
	ret_entry->uid = client->user->uid;
	ret_entry->program = (char *)client->program;
	ret_entry->n_connections = client->n_holdings;
	ret_entry->n_hints = client->n_waiting;
	ret_entry->size_bytes = client->size_credit;
	ret_entry->attached_usec = nsec_now() / NSEC_PER_USEC - client->usec_attached;
}

static void list_clients(struct psid_listing *listing)
{
	const struct psid_item *item;
	struct psid_batch batch;
	Pulc__Wire__ClientsReply reply = PULC__WIRE__CLIENTS_REPLY__INIT;
	PSID_MESSAGE(msg, CLIENTS, clients) = &reply;

	psid_batch_init(&batch, listing->client, &msg, &reply.n_clients, &reply.more);
	reply.clients = (Pulc__Wire__ClientEntry **)batch.pointers;
	while ((item = psid_listing_next(listing))) {
		const struct psid_client *other = psid_client_find(listing->client->psid,
								   (uint32_t)item->key);
		Pulc__Wire__ClientEntry entry;

		if (!other)
			continue;
		fill_client(other, &entry);
		psid_batch_add(&batch, &entry.base, sizeof(entry));
	}
	psid_batch_end(&batch, psid_listing_has_more(listing));
}

int psid_report_clients(struct psid_client *client)
{
	struct psid_map_node *node = NULL;
	struct psid_listing *listing;

	if (!psid_listing_may(client))
		return -EBADMSG;
	listing = psid_listing_new(client, client->psid->clients.n, list_clients);
	if (!listing)
		return 0;
	while ((node = psid_map_next(&client->psid->clients, node))) {
		const struct psid_client *other = CONTAINER_OF(node, struct psid_client, node);

		if (other->counted && other->role == PULC__WIRE__ROLE__ROLE_PROCESS &&
		    psid_may_see(client, other->user->uid))
			psid_listing_add(listing, other->id, 0);
	}
	psid_listing_start(listing);
	return 0;
}

/* ---- stop ------------------------------------------------------------------------------------ */

int psid_report_stop(struct psid_client *client)
{
	Pulc__Wire__StopReply stop = PULC__WIRE__STOP_REPLY__INIT;
	PSID_MESSAGE(msg, STOP, stop) = &stop;

	if (client->user->uid != 0 && client->user->uid != geteuid()) {
		psid_client_refuse(client, PULC__WIRE__REASON__REASON_USER,
				   "only the owner of this psid and root may stop it");
		return 0;
	}
	(void)psid_client_send(client, &msg, NULL, 0);
	psid_stop(client->psid);
	return 0;
}
