/* Things that must happen within one and the same time: a queue and a timer. */
#ifndef PULC_PSID_DEADLINE_H
#define PULC_PSID_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "loop.h"

struct psid_deadline {
	TAILQ_ENTRY(psid_deadline) link;
	uint64_t msec_due;
	bool set;
};

struct psid_deadlines {
	uv_timer_t timer;
	uint64_t msec;
	void (*expired)(struct psid_deadline *d);
	TAILQ_HEAD(, psid_deadline) queue;
};

/* expired() is called with the deadline cleared. */
void psid_deadlines_init(struct psid_deadlines *ds, uv_loop_t *loop, uint64_t msec,
			 void (*expired)(struct psid_deadline *d));
void psid_deadlines_close(struct psid_deadlines *ds);
/* Due in ds->msec from now. */
void psid_deadline_set(struct psid_deadlines *ds, struct psid_deadline *d);
/* Harmless when not set. */
void psid_deadline_clear(struct psid_deadlines *ds, struct psid_deadline *d);

#endif
