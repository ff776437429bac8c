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

/*
 * Two clients that share a connection get all wait sets of each other that there are by now, and so
 * each other's board areas, which may hold lines of links: one that never sleeps would not be rung,
 * and so never be introduced.
 */
void psid_bell_acquaint(struct psid_client *a, struct psid_client *b);

/* Wakes those of the client's wait sets that watch this side of a connection. */
void psid_bell_wake_watchers(struct psid_client *client, const struct shm_side *side);

#endif
