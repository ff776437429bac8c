/* Making sure that a psid can be reached, and will have us. */
#ifndef PULC_TOOLS_DAEMON_H
#define PULC_TOOLS_DAEMON_H

#include <stddef.h>

/*
 * If no psid can be reached, starts a private one and waits until it is ready. However many
 * callers do so at once, one psid is started. Returns 0; a negative errno after saying on
 * stderr what failed.
 */
int run_ensure_psid(void);

/*
 * Asks the psid that a program of ours will find whether it will have it. Returns 0, also if there
 * is none or it does not answer soon; -EPERM: it will not, and why is in buf.
 */
int run_ask_psid(char *buf, size_t size);

#endif
