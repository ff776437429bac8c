/* What most tests of psid begin and end with: a psid, and two honest clients that can have a
 * connection. */
#ifndef PULC_TESTS_PSID_SCENE_H
#define PULC_TESTS_PSID_SCENE_H

#include "psid/fake_client.h"

extern struct daemon psid;
extern struct fake_client a, b;

/* Starts psid (daemon_start) and attaches a and b, processes of our own user. */
void scene_begin(bool system, const char *const settings[]);
/* psid is killed and another one begins in its place; a and b are attached to it, as new
 * processes. */
void scene_restart(bool system, const char *const settings[]);
/* a and b leave, and scene_close. */
void scene_end(void);
/* Whoever was there has left: psid has nobody and no connection, and ends well. */
void scene_close(void);

/* a and b get a connection, whatever somebody else does. */
void scene_check_upgrade(uint64_t token);
/* A new process of that user is refused, for this reason. */
void scene_check_refusal(uid_t uid, Pulc__Wire__Reason reason);

#endif
