/*
 * Type=notify: READY when the socket accepts, RELOADING while settings are read, STOPPING when we
 * go; a line of status for `systemctl status`; and a sign of life from the loop, three for each
 * period of the service's watchdog, so that a psid that is stopped or hangs is replaced. Without
 * NOTIFY_SOCKET nothing happens and no timer runs.
 */
#include "notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "job.h"
#include "macros.h"
#include "psid.h"
#include "service.h"

#define MSEC_STATUS 5000

static void status_of(const struct psid *psid, char *buf, size_t size)
{
	(void)snprintf(buf, size, "Serving %u processes, %zu connections, %zu jobs",
		       psid->n_processes, psid->conns.n, psid->jobs->by_id.n);
}

static void on_beat(uv_timer_t *timer)
{
	struct psid *psid = CONTAINER_OF(timer, struct psid, beat);
	char status[sizeof(psid->status_told)];

	status_of(psid, status, sizeof(status));
	if (strcmp(status, psid->status_told) == 0) {
		psid_service_tell("WATCHDOG=1");
		return;
	}
	(void)strcpy(psid->status_told, status);
	psid_service_tell("WATCHDOG=1\nSTATUS=%s", status);
}

int psid_notify_start(struct psid *psid)
{
	uint64_t usec_watchdog = psid_service_usec_watchdog(), msec = MSEC_STATUS;
	int r = uv_timer_init(&psid->loop, &psid->beat);

	if (r < 0 || !psid_service_is_heard())
		return r;
	if (usec_watchdog > 0)
		msec = MIN(msec, MAX(usec_watchdog / 3000, 1ull));
	return uv_timer_start(&psid->beat, on_beat, msec, msec);
}

void psid_notify_close(struct psid *psid)
{
	uv_close((uv_handle_t *)&psid->beat, NULL);
}

void psid_notify_ready(const struct psid *psid)
{
	char status[sizeof(psid->status_told)];

	status_of(psid, status, sizeof(status));
	psid_service_tell("READY=1\nSTATUS=%s", status);
}

void psid_notify_reloading(void)
{
	psid_service_tell("RELOADING=1\nMONOTONIC_USEC=%llu",
			  (unsigned long long)(nsec_now() / NSEC_PER_USEC));
}

void psid_notify_stopping(void)
{
	psid_service_tell("STOPPING=1");
}
