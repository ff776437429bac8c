/* Somebody in libpmix who waits for an answer. */
#ifndef PULC_KEEPER_WAITER_H
#define PULC_KEEPER_WAITER_H

#include <stdint.h>
#include <sys/queue.h>

#include <pmix_server.h>

/* How it is called back; NULL: not that way. */
struct waiter {
	TAILQ_ENTRY(waiter) link;
	uint64_t token;
	pmix_modex_cbfunc_t modex;
	pmix_op_cbfunc_t op;
	pmix_lookup_cbfunc_t lookup;
	void *data;
};

/* Keeps a copy. Any thread. Returns its token; 0: there is no memory. */
uint64_t waiter_add(const struct waiter *waiter);
/* The one with that token, to free; NULL: there is none. */
struct waiter *waiter_take(uint64_t token);

#endif
