/*
 * Who in libpmix waits for what another node, or the head keeper, is to answer. A question carries
 * a token, which its answer brings back.
 */
#include "waiter.h"

#include <pthread.h>
#include <stdlib.h>

static TAILQ_HEAD(, waiter) waiters = TAILQ_HEAD_INITIALIZER(waiters);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t waiter_add(const struct waiter *waiter)
{
	static uint64_t last_token;
	struct waiter *copy = malloc(sizeof(*copy));
	uint64_t token;

	if (!copy)
		return 0;
	*copy = *waiter;
	(void)pthread_mutex_lock(&lock);
	token = copy->token = ++last_token;
	TAILQ_INSERT_TAIL(&waiters, copy, link);
	(void)pthread_mutex_unlock(&lock);
	return token;
}

struct waiter *waiter_take(uint64_t token)
{
	struct waiter *waiter;

	(void)pthread_mutex_lock(&lock);
	waiter = TAILQ_FIRST(&waiters);
	while (waiter && waiter->token != token)
		waiter = TAILQ_NEXT(waiter, link);
	if (waiter)
		TAILQ_REMOVE(&waiters, waiter, link);
	(void)pthread_mutex_unlock(&lock);
	return waiter;
}
