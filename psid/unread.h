/* What clients that are gone have not read. */
#ifndef PULC_PSID_UNREAD_H
#define PULC_PSID_UNREAD_H

struct psid;
struct psid_user;

void psid_unread_start(struct psid *psid);
/*
 * Ends a client's channel, which was promised to be closed and is on the user's account as a socket
 * and a descriptor: it stays there while somebody has the other end and messages unread in it.
 * Takes fd.
 */
void psid_unread_end(struct psid_user *user, int fd);
/* Closes all. */
void psid_unread_close(struct psid *psid);

#endif
