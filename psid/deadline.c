/*
 * Deadlines of one length expire in the order they were set, so a queue is sorted by itself:
 * setting and clearing cost nothing, and one timer serves them all. The timer is never stopped
 * when its deadline is cleared; it wakes up once for nothing and looks at the head of the queue.
 */
#include "deadline.h"

#include "macros.h"

static void on_timer(uv_timer_t *timer)
{
	struct psid_deadlines *ds = CONTAINER_OF(timer, struct psid_deadlines, timer);
	uint64_t now = uv_now(timer->loop);
	struct psid_deadline *d;

	while ((d = TAILQ_FIRST(&ds->queue)) && d->msec_due <= now) {
		psid_deadline_clear(ds, d);
		ds->expired(d);
	}
	if (d)
		(void)uv_timer_start(timer, on_timer, d->msec_due - now, 0);
}

void psid_deadlines_init(struct psid_deadlines *ds, uv_loop_t *loop, uint64_t msec,
			 void (*expired)(struct psid_deadline *d))
{
	ds->msec = msec;
	ds->expired = expired;
	TAILQ_INIT(&ds->queue);
	(void)uv_timer_init(loop, &ds->timer);
}

void psid_deadlines_close(struct psid_deadlines *ds)
{
	uv_close((uv_handle_t *)&ds->timer, NULL);
}

void psid_deadline_set(struct psid_deadlines *ds, struct psid_deadline *d)
{
	psid_deadline_clear(ds, d);
	d->msec_due = uv_now(ds->timer.loop) + ds->msec;
	d->set = true;
	TAILQ_INSERT_TAIL(&ds->queue, d, link);
	if (!uv_is_active((uv_handle_t *)&ds->timer))
		(void)uv_timer_start(&ds->timer, on_timer, ds->msec, 0);
}

void psid_deadline_clear(struct psid_deadlines *ds, struct psid_deadline *d)
{
	if (!d->set)
		return;
	d->set = false;
	TAILQ_REMOVE(&ds->queue, d, link);
}
