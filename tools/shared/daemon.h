/* Making sure that a psid can be reached. */
#ifndef PULC_TOOLS_DAEMON_H
#define PULC_TOOLS_DAEMON_H

/*
 * If no psid can be reached, starts a private one and waits until it is ready. However many
 * callers do so at once, one psid is started. Returns 0; a negative errno after saying on
 * stderr what failed.
 */
int run_ensure_psid(void);

#endif
