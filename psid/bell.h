/* Ringing an eventfd that somebody else made. */
#ifndef PULC_PSID_BELL_H
#define PULC_PSID_BELL_H

#include <stdbool.h>

struct psid;

/* Returns 0; negative errno. */
int psid_bell_start(struct psid *psid);
void psid_bell_stop(struct psid *psid);
/* Adds one to the eventfd. Never blocks, whatever state it is in. */
void psid_bell_strike(struct psid *psid, int bell);
/* Is fd an eventfd? */
bool psid_bell_is(int fd);

#endif
