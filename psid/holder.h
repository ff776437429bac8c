/* A process that holds one end of an upgraded connection. */
#ifndef PULC_PSID_HOLDER_H
#define PULC_PSID_HOLDER_H

#include <stdbool.h>
#include <sys/queue.h>

struct psid_client;
struct psid_side;

struct psid_holder {
	TAILQ_ENTRY(psid_holder) by_client;
	LIST_ENTRY(psid_holder) by_side;
	struct psid_client *client;
	struct psid_side *side;
	bool misses_news; /* links.c: of the ports of who holds the other side */
};

struct psid_holder *psid_holder_find(struct psid_side *side, const struct psid_client *client);
/* The client holds this side from now on. Returns 0; -ENOMEM; -EMLINK: too many do. */
int psid_holder_new(struct psid_side *side, struct psid_client *client);
void psid_holder_free(struct psid_holder *holder);

#endif
