/*
 * Message areas. A client builds long messages in memory that psid made for it, and their receivers
 * read them there: no copy at all.
 *
 * One sparse, sealed memfd for each client that asks, mapped by it read-write; its pages it
 * allocates on credit (credit.c). Another client gets it read-only, once, at its owner's wish, and
 * only if the two are joined by a link and of one user: it sees everything in it, also what is
 * meant for others. psid keeps the descriptor for those who come later, maps nothing and reads
 * nothing.
 *
 * The memory lives as long as anybody maps it, so what a dead process has sent can still be read;
 * the account is closed with the owner.
 */
#include "message_area.h"

#include <errno.h>

#include "cleanup.h"
#include "descriptors.h"
#include "links.h"
#include "memory.h"
#include "pair.h"
#include "ports.h"
#include "psid.h"
#include "user.h"

static int make(struct psid_client *client)
{
	int r = psid_user_take_area(client->user);

	if (r != 0)
		return r;
	r = psid_memory_new("pulc-messages", SHM_SIZE_MESSAGES, NULL, 0, &client->messages_fd);
	if (r < 0)
		psid_user_give_area(client->user, -EBADF);
	return r;
}

static int give(struct psid_client *to, const struct psid_client *owner, int fd)
{
	Pulc__Wire__MessageArea area = PULC__WIRE__MESSAGE_AREA__INIT;
	PSID_MESSAGE(msg, MESSAGE_AREA, message_area) = &area;

	area.client = owner->id;
	area.size = SHM_SIZE_MESSAGES;
	area.own = to == owner;
	return psid_client_send(to, &msg, &fd, 1);
}

static int open_own(struct psid_client *client)
{
	int r = client->messages_fd < 0 ? make(client) : 0;

	return r != 0 ? r : give(client, client, client->messages_fd);
}

static int show(struct psid_client *owner, uint32_t id)
{
	struct psid_client *to = psid_client_find(owner->psid, id);
	struct psid_pair *pair = to ? psid_pair_find(owner, to) : NULL;
	CLEANUP_FD int fd = -EBADF;
	int r;

	if (owner->messages_fd < 0 || !pair || to == owner || to->fd < 0 ||
	    to->user != owner->user || !psid_links_joined(owner, to))
		return -ENOENT;
	if (pair->messages_sent)
		return 0;
	r = psid_memory_readonly(owner->messages_fd, &fd);
	if (r == 0 && psid_descriptor_is_reserve(fd))
		r = -EMFILE;
	if (r == 0)
		r = give(to, owner, fd);
	pair->messages_sent = r == 0;
	return r;
}

int psid_message_area(struct psid_client *client, const Pulc__Wire__MessageArea *msg)
{
	int r = msg->client ? show(client, msg->client) : open_own(client);

	psid_port_reply(client, msg->request,
			r == -ENOENT ? PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT
				     : psid_links_error(r),
			NULL);
	return 0;
}

void psid_message_area_drop(struct psid_client *client)
{
	if (client->messages_fd < 0)
		return;
	psid_user_give_area(client->user, TAKE_FD(client->messages_fd));
}
