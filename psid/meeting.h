/* Where two clients of different nodes get a connection: their psids make it for them. */
#ifndef PULC_PSID_MEETING_H
#define PULC_PSID_MEETING_H

#include "address.h"
#include "handshake.h"
#include "loop.h"

struct psid_meeting;

/*
 * It is over: fd is the connection, the callee's from now on, with both ends sure of each other; or
 * a negative errno. Called from the loop; it may free the meeting.
 */
typedef void psid_meeting_ended(void *data, int fd);

/*
 * Waits for the other side at this address, or where that is none of ours at any; strangers are
 * sent away. Returns 0 with the TCP port; negative errno.
 */
int psid_meeting_listen(uv_loop_t *loop, const struct psid_address *at,
			const uint8_t key[HANDSHAKE_KEY], struct psid_meeting **ret_meeting,
			uint16_t *ret_port);
/* Goes there. Returns 0; negative errno. */
int psid_meeting_connect(uv_loop_t *loop, const struct psid_address *to,
			 const uint8_t key[HANDSHAKE_KEY], struct psid_meeting **ret_meeting);
/* Whom to tell, before the loop turns. */
void psid_meeting_on_end(struct psid_meeting *meeting, psid_meeting_ended *ended, void *data);
/* Ends it without a word, if it is not over; frees it. Harmless with NULL. */
struct psid_meeting *psid_meeting_free(struct psid_meeting *meeting);

#endif
