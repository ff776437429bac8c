/*
 * Holders: which process holds which end of which connection. Two processes that hold opposite
 * ends of one share it, and count as acquainted for as long as they share any.
 */
#include "holder.h"

#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "pair.h"

/*
 * Of one side. More are possible, in a family of many processes, but not known to us: the side's
 * own count then tells that it is still held (conn.c).
 */
#define N_HOLDERS_MAX 256u

struct psid_holder *psid_holder_find(struct psid_side *side, const struct psid_client *client)
{
	struct psid_holder *holder;

	LIST_FOREACH(holder, &side->holders, by_side)
		if (holder->client == client)
			return holder;
	return NULL;
}

static void unshare_all(struct psid_holder *holder, const struct psid_holder *until)
{
	struct psid_holder *other;

	LIST_FOREACH(other, &psid_side_other(holder->side)->holders, by_side) {
		if (other == until)
			return;
		psid_pair_unshare(holder->client, other->client);
	}
}

int psid_holder_new(struct psid_side *side, struct psid_client *client)
{
	struct psid_holder *holder, *other;

	if (side->n_holders >= N_HOLDERS_MAX)
		return -EMLINK;
	holder = malloc(sizeof(*holder));
	if (!holder)
		return -ENOMEM;
	*holder = (struct psid_holder){ .client = client, .side = side };
	LIST_FOREACH(other, &psid_side_other(side)->holders, by_side)
		if (psid_pair_share(client, other->client) < 0) {
			unshare_all(holder, other);
			free(holder);
			return -ENOMEM;
		}
	if (side->transport == PULC__WIRE__TRANSPORT__TRANSPORT_LINK)
		TAILQ_INSERT_HEAD(&client->holdings, holder, by_client);
	else
		TAILQ_INSERT_TAIL(&client->holdings, holder, by_client);
	LIST_INSERT_HEAD(&side->holders, holder, by_side);
	client->n_holdings++;
	side->n_holders++;
	return 0;
}

void psid_holder_free(struct psid_holder *holder)
{
	unshare_all(holder, NULL);
	TAILQ_REMOVE(&holder->client->holdings, holder, by_client);
	LIST_REMOVE(holder, by_side);
	holder->client->n_holdings--;
	holder->side->n_holders--;
	free(holder);
}
