/* The message that makes a connection an upgraded one. */
#ifndef PULC_PSID_UPGRADE_H
#define PULC_PSID_UPGRADE_H

#include <stdint.h>

struct psid_client;
struct psid_conn;
struct psid_side;

/*
 * Sends Upgrade to both sides, or to none. Returns 0; the Reason (positive) of a refusal;
 * negative errno.
 */
int psid_upgrade_send(struct psid_conn *conn);
/*
 * Sends one side of a whole connection to one more process, with both descriptors. Returns 0; the
 * Reason (positive) of a refusal.
 */
int psid_upgrade_send_again(struct psid_side *side, struct psid_client *client, uint64_t token);

#endif
