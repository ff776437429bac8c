/* Messages of one number, which psid must get sooner or later. All under the client lock. */
#ifndef PULC_LIB_UNSENT_H
#define PULC_LIB_UNSENT_H

#include <stdbool.h>
#include <stdint.h>

#include "channel.h"

/* Sends a message of this kind (Closed, Drop, PortClose or SemClose); one that the channel has no
 * room for is sent later. */
void unsent_say(Pulc__Wire__FromClient__BodyCase kind, uint64_t number);
/* No lock. */
bool unsent_any(void);
/* Sends what was kept, in order. 0: nothing is left; else the errno of the first that could not be
 * sent. */
int unsent_send(int channel);
/* The psid that it was for is gone. */
void unsent_forget(void);

#endif
