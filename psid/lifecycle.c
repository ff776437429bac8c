/*
 * A private psid was started because somebody ran a program; when no process has been attached
 * for IdleExitSec it goes, and the next `pulc` starts another. Tools that only look don't keep it;
 * a cluster does.
 */
#include "lifecycle.h"

#include <signal.h>

#include "cluster.h"
#include "log.h"
#include "macros.h"
#include "psid.h"
#include "reload.h"

#define MSEC_PER_SEC 1000ull

static void on_idle_exit(uv_timer_t *timer)
{
	struct psid *psid = CONTAINER_OF(timer, struct psid, idle_exit);

	psid_log(PSID_INFO, "no process for %u s: good-bye", psid->config->sec_idle_exit);
	psid_stop(psid);
}

static void on_signal(uv_signal_t *signal, int number)
{
	if (number == SIGHUP)
		psid_reload(signal->data, NULL);
	else
		psid_stop(signal->data);
}

static int catch_signal(struct psid *psid, uv_signal_t *signal, int number)
{
	int r = uv_signal_init(&psid->loop, signal);

	if (r < 0)
		return r;
	signal->data = psid;
	return uv_signal_start(signal, on_signal, number);
}

int psid_lifecycle_start(struct psid *psid)
{
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGUSR1, SIG_IGN); /* a scheduler sends them to all that it knows of */
	(void)signal(SIGUSR2, SIG_IGN);
	r = catch_signal(psid, &psid->sigint, SIGINT);
	if (r == 0)
		r = catch_signal(psid, &psid->sigterm, SIGTERM);
	if (r == 0)
		r = catch_signal(psid, &psid->sighup, SIGHUP);
	if (r == 0)
		r = uv_timer_init(&psid->loop, &psid->idle_exit);
	if (r == 0)
		psid_lifecycle_idle(psid);
	return r;
}

void psid_lifecycle_close(struct psid *psid)
{
	uv_close((uv_handle_t *)&psid->sigint, NULL);
	uv_close((uv_handle_t *)&psid->sigterm, NULL);
	uv_close((uv_handle_t *)&psid->sighup, NULL);
	uv_close((uv_handle_t *)&psid->idle_exit, NULL);
}

void psid_lifecycle_busy(struct psid *psid)
{
	(void)uv_timer_stop(&psid->idle_exit);
}

void psid_lifecycle_idle(struct psid *psid)
{
	if (psid->n_processes > 0 || psid->deliveries.n > 0 || psid->config->sec_idle_exit == 0 ||
	    psid->stopping || psid_cluster_is_on(psid->cluster))
		return;
	(void)uv_timer_start(&psid->idle_exit, on_idle_exit,
			     psid->config->sec_idle_exit * MSEC_PER_SEC, 0);
}
