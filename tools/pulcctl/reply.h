/* What all replies that are lists have in common. */
#ifndef PULCCTL_REPLY_H
#define PULCCTL_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "client.pb-c.h"

/* Does another reply to the same question follow? */
bool ctl_reply_has_more(const Pulc__Wire__ToClient *reply);
/* What is listed, and the names of nodes that did not answer in time; none if the reply has no such
 * list. */
ProtobufCMessage *const *ctl_reply_entries(const Pulc__Wire__ToClient *reply, size_t *ret_n);
char *const *ctl_reply_silent(const Pulc__Wire__ToClient *reply, size_t *ret_n);

#endif
