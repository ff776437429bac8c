/*
 * Sockets that came too late, or that nobody asked for. They are closed like the others, and the
 * client is told when that is done: until then its connection can't end, and it may wait for that.
 * Without memory it is told at once.
 */
#include "stray.h"

#include <errno.h>
#include <stdlib.h>

#include "cleanup.h"
#include "hint.h"
#include "psid.h"

struct stray {
	struct psid *psid;
	uint32_t client;
	uint64_t token;
	Pulc__Wire__Reason reason;
};

static void on_stray_closed(void *arg)
{
	struct stray *stray = arg;
	struct psid_client *client = psid_client_find(stray->psid, stray->client);

	if (client)
		psid_deny(client, stray->token, stray->reason);
	free(stray);
}

int psid_return_stray(struct psid_client *client, uint64_t token, int *fd,
		      Pulc__Wire__Reason reason)
{
	struct stray *stray = malloc(sizeof(*stray));

	if (!stray) {
		psid_deny(client, token, reason);
		return 0;
	}
	*stray = (struct stray){
		.psid = client->psid, .client = client->id, .token = token, .reason = reason
	};
	psid_close_foreign(client->psid, client->user, TAKE_FD(*fd), on_stray_closed, stray);
	return 0;
}
