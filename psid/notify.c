/*
 * Type=notify: READY when the socket accepts, STOPPING when we go. Without NOTIFY_SOCKET nothing
 * happens.
 */
#include "notify.h"

#include <systemd/sd-daemon.h>

#include "psid.h"

void psid_notify_ready(const struct psid *psid)
{
	(void)sd_notifyf(0, "READY=1\nSTATUS=Serving clients at %s", psid->config->socket);
}

void psid_notify_stopping(void)
{
	(void)sd_notify(0, "STOPPING=1");
}
