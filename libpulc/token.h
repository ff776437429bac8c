/* The names under which this process's streams are known to psid. All under the client lock. */
#ifndef PULC_LIB_TOKEN_H
#define PULC_LIB_TOKEN_H

#include "private.h"

/* Gives s a token, if it has none. */
void token_register(struct pulc_stream *s);
/* s is known by no name any more. */
void token_unregister(struct pulc_stream *s);
/* NULL: nobody has that token, or not any more. */
struct pulc_stream *token_find(uint64_t token);

#endif
