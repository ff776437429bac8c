/* The last bytes of senders that have gone. */
#ifndef PULC_PSID_DELIVER_H
#define PULC_PSID_DELIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "client.pb-c.h"
#include "loop.h"

struct psid_client;
struct psid_delivery;

struct psid_deliveries {
	pthread_mutex_t lock;
	TAILQ_HEAD(, psid_delivery) done; /* under the lock */
	uv_async_t finished;
	unsigned n; /* the loop's: those not yet reported done */
};

/* Returns 0; negative errno. */
int psid_deliveries_start(struct psid_deliveries *deliveries, uv_loop_t *loop);
/* False: some are under way, and would touch what is taken down; leave without tidying up: their
 * connections are reset. */
bool psid_deliveries_stop(struct psid_deliveries *deliveries);
/*
 * A message, with a socket and the bytes that it is to send before its connection ends. Takes the
 * descriptors that it keeps. Returns 0 also if it does not deliver, which it answers; -EBADMSG.
 */
int psid_deliver(struct psid_client *client, const Pulc__Wire__Deliver *msg, int *fds);

#endif
