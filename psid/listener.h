/* The socket at which clients knock. */
#ifndef PULC_PSID_LISTENER_H
#define PULC_PSID_LISTENER_H

struct psid;

/*
 * Takes the lock, makes the socket. Returns 0; -EBUSY: another psid lives there; negative
 * errno. Logs why.
 */
int psid_listener_open(struct psid *psid);
/* Begins to accept. Returns 0; negative errno. */
int psid_listener_start(struct psid *psid);
/* Stops accepting; socket and lock go away. */
void psid_listener_stop(struct psid *psid);
/* The same for one that was opened and not started. Harmless when it was not. */
void psid_listener_drop(struct psid *psid);

#endif
