/* Into the background, and back to whoever waits for us to be there. */
#ifndef PULC_PSID_DAEMONIZE_H
#define PULC_PSID_DAEMONIZE_H

#include "config.h"

/*
 * Forks. In the daemon returns 0. In the parent returns 1 as soon as a psid, this or another,
 * accepts at the socket; negative errno if none does.
 */
int psid_daemonize(const struct psid_config *config);
/* The daemon's socket accepts. Harmless in the foreground. */
void psid_daemon_ready(void);
/*
 * The exit status for a result of psid_start; a daemon that found another psid tells its parent
 * so.
 */
int psid_daemon_status(int r);

#endif
