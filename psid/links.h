/* Links: two processes that use ports, joined by memory without a socket. */
#ifndef PULC_PSID_LINKS_H
#define PULC_PSID_LINKS_H

#include "client.h"

struct psid_conn;

/* Message PortLink. Returns 0; -EBADMSG. */
int psid_link(struct psid_client *client, const Pulc__Wire__PortLink *msg);
/* Tells everybody whom the client is joined with that it has opened, or closed, this port. */
void psid_links_tell(struct psid_client *client, uint32_t port, bool opened);
/* So much is kept for the client that it is told of no more ports for now. */
bool psid_links_is_behind(const struct psid_client *client);
/* Tells the client of ports what it has missed. */
void psid_links_catch_up(struct psid_client *client);
/* Has each the memory of a link to the other? */
bool psid_links_joined(const struct psid_client *a, const struct psid_client *b);
/* Joins two clients that are not joined. Returns 0, a Reason or a negative errno: neither hears of
 * it. */
int psid_links_join(struct psid_client *a, struct psid_client *b);
/* For upgrade.c: both hear of each other's ports, before they get the link's memory. */
void psid_links_acquaint(struct psid_client *a, struct psid_client *b);
/* What is answered when memory could not be made: 0, a Reason or a negative errno. */
Pulc__Wire__PortError psid_links_error(int r);
/* The client's end of a link that comes after this one (NULL: the first). NULL: there is none. */
struct psid_holder *psid_link_next(const struct psid_client *client,
				   const struct psid_holder *after);
bool psid_is_link(const struct psid_conn *conn);

/* Upgrade.token of a link, for the program. */
#define PSID_TOKEN_LINK (1ull << 61)

#endif
