/* Clients' wait sets: their boards, their bells, and who may ring them. */
#ifndef PULC_PSID_BELLS_H
#define PULC_PSID_BELLS_H

#include "client.h"
#include "layout.h"

/* Makes the client's board area. Returns 0; the Reason (positive) of a refusal; negative errno. */
int psid_boards_make(struct psid_client *client);
/* Gives area and bells back. Harmless when there are none. */
void psid_boards_drop(struct psid_client *client);

/* Messages. Return 0; -EBADMSG. */
int psid_bell_set(struct psid_client *client, uint32_t board, int *fd);
int psid_bell_forward(struct psid_client *client, const Pulc__Wire__Ring *msg);
int psid_bell_announce(struct psid_client *client, uint32_t board);

/* Wakes those of the client's wait sets that watch this side of a connection. */
void psid_bell_wake_watchers(struct psid_client *client, const struct shm_side *side);

#endif
