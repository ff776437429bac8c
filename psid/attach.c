/*
 * exec leaves a program its sockets and none of its memory; a socket received from another process
 * comes without any. Its new holder sends the socket, which proves that it has it; its cookie,
 * which the kernel tells without the socket's lock, names the side. The same user gets the side's
 * memory: its own slab for writing, the other one for reading.
 *
 * Like any foreign descriptor the socket is closed by a helper, and answered for only then. Much
 * may happen meanwhile, so the side is looked up again.
 *
 * How many processes hold the side is counted in its own memory, by those who pass it on.
 */
#include "attach.h"

#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "conn.h"
#include "hint.h"
#include "proof.h"
#include "psid.h"
#include "stray.h"
#include "upgrade.h"
#include "user.h"

struct request {
	struct psid *psid;
	uint32_t client;
	uint64_t token, cookie;
};

/* Returns the side, or NULL and why not. */
static struct psid_side *find(const struct psid_client *client, uint64_t cookie,
			      Pulc__Wire__Reason *ret_reason)
{
	struct psid_side *side = psid_side_find(client->psid, cookie, client->user);

	*ret_reason = psid_ended_is(&client->psid->ended, client->user->uid, cookie)
			      ? PULC__WIRE__REASON__REASON_OVER
			      : PULC__WIRE__REASON__REASON_STALE;
	if (!side)
		return NULL;
	*ret_reason = PULC__WIRE__REASON__REASON_USER;
	if (side->user != client->user)
		return NULL;
	*ret_reason = PULC__WIRE__REASON__REASON_WAITING_PEER;
	return psid_conn_is_half(side->conn) ? NULL : side;
}

/* Returns 0; the Reason (positive) why not. */
static int claim_and_send(struct psid_side *side, struct psid_client *client, uint64_t token)
{
	bool held = psid_holder_find(side, client) != NULL;
	int r;

	if (psid_side_claim(side, client) < 0)
		return PULC__WIRE__REASON__REASON_NO_MEMORY;
	r = psid_upgrade_send_again(side, client, token);
	/* It has not got the memory: as if it had closed. */
	if (r != 0 && !held)
		psid_side_disclaim(side, client);
	return r;
}

static void serve(struct psid_client *client, const struct request *request)
{
	Pulc__Wire__Reason reason;
	struct psid_side *side = find(client, request->cookie, &reason);
	int r;

	if (side) {
		r = claim_and_send(side, client, request->token);
		if (r == 0)
			return;
		reason = (Pulc__Wire__Reason)r;
	}
	psid_deny(client, request->token, reason);
}

static void on_closed(void *arg)
{
	struct request *request = arg;
	struct psid_client *client = psid_client_find(request->psid, request->client);

	if (client)
		serve(client, request);
	free(request);
}

int psid_attach(struct psid_client *client, uint64_t token, int *fd)
{
	struct request *request;
	uint64_t cookie;
	int reason = psid_proof_cookie(client->psid, *fd, &cookie);

	if (reason != 0)
		return psid_return_stray(client, token, fd, (Pulc__Wire__Reason)reason);
	request = malloc(sizeof(*request));
	if (!request)
		return psid_return_stray(client, token, fd, PULC__WIRE__REASON__REASON_NO_MEMORY);
	*request = (struct request){
		.psid = client->psid, .client = client->id, .token = token, .cookie = cookie
	};
	psid_close_foreign(client->psid, client->user, TAKE_FD(*fd), on_closed, request);
	return 0;
}
