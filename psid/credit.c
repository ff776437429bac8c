/*
 * A client grows its rings by itself, within the bytes that it was granted; the grant counts as
 * used until it is returned or the client goes. What can't be granted is answered with what can,
 * or with zero.
 */
#include "credit.h"

#include "client.h"
#include "macros.h"
#include "user.h"

int psid_credit_want(struct psid_client *client, uint64_t size)
{
	Pulc__Wire__Credit credit = PULC__WIRE__CREDIT__INIT;
	PSID_MESSAGE(msg, CREDIT, credit) = &credit;

	credit.size = psid_user_take_credit(client->user, size);
	client->size_credit += credit.size;
	(void)psid_client_send(client, &msg, NULL, 0);
	return 0;
}

int psid_credit_return(struct psid_client *client, uint64_t size)
{
	/* A forked child may return what its parent was granted. */
	size = MIN(size, client->size_credit);
	client->size_credit -= size;
	psid_user_give_bytes(client->user, size);
	return 0;
}
