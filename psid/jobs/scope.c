/*
 * A scope of systemd for the jobs of this psid.
 *
 * Where systemd runs every cgroup is its own, and who makes folders in one that was not delegated
 * may lose them, or does not even have the right. A psid that is a unit's main process has its
 * unit's (Delegate=yes). Any other one, started from a terminal or by the first program that needed
 * it, asks by D-Bus for a scope, moves into it, and has the cgroup delegated: the system's manager
 * for root, the user's for others. One scope for all jobs, asked for once: 8 ms, where a unit for
 * each task would cost 22.
 *
 * The scope lives as long as a process is in it. So it survives psid while jobs run, and the next
 * psid of the same socket, which finds that the name is taken, has itself attached to it.
 *
 * All of this happens before the first client is served, and takes USEC_ANSWER at most for each
 * question. Without an answer psid makes do with the cgroup that it is in, if it may (cgroup.c), or
 * with the process tree.
 */
#include "scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bus_library.h"
#include "cgroup_own.h"
#include "clock.h"
#include "config.h"
#include "log.h"
#include "macros.h"

#define USEC_ANSWER 10000000u
#define SIZE_UNIT 64u
#define MANAGER                                                                                    \
	"org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"

static const struct psid_bus *dbus; /* not NULL once a bus is open */

/* Ours is done when systemd says that it removes the job which it has made of our question. */
struct waiting {
	const char *unit;
	bool done;
	int result; /* 0; -ECANCELED: it did not become what was asked for */
};

static int on_job_removed(sd_bus_message *m, void *data, sd_bus_error *error)
{
	struct waiting *waiting = data;
	const char *unit, *result;

	(void)error;
	if (dbus->message_read(m, "uoss", NULL, NULL, &unit, &result) < 0 ||
	    strcmp(unit, waiting->unit) != 0)
		return 0;
	waiting->done = true;
	waiting->result = strcmp(result, "done") == 0 ? 0 : -ECANCELED;
	return 0;
}

static int await_job(sd_bus *bus, struct waiting *waiting)
{
	uint64_t nsec_end = nsec_now() + USEC_ANSWER * 1000ull, nsec = 0;
	int r = 0;

	while (r >= 0 && !waiting->done && (nsec = nsec_now()) < nsec_end) {
		r = dbus->process(bus, NULL);
		if (r == 0)
			r = dbus->wait(bus, (nsec_end - nsec) / 1000);
	}
	if (r < 0)
		return r;
	return waiting->done ? waiting->result : -ETIMEDOUT;
}

static int append_properties(sd_bus_message *m)
{
	int r = dbus->message_open_container(m, 'a', "(sv)");

	if (r >= 0)
		r = dbus->message_append(m, "(sv)", "Description", "s", "Jobs of PULC");
	if (r >= 0)
		r = dbus->message_append(m, "(sv)", "Delegate", "b", 1);
	if (r >= 0)
		r = dbus->message_append(m, "(sv)", "CollectMode", "s", "inactive-or-failed");
	if (r >= 0)
		r = dbus->message_append(m, "(sv)", "PIDs", "au", 1, (uint32_t)getpid());
	return r < 0 ? r : dbus->message_close_container(m);
}

/* A new scope with us in it. */
static int start(sd_bus *bus, const char *unit, sd_bus_error *error)
{
	struct waiting waiting = { .unit = unit };
	sd_bus_message *m = NULL;
	sd_bus_slot *slot = NULL;
	int r;

	r = dbus->match_signal(bus, &slot, MANAGER, "JobRemoved", on_job_removed, &waiting);
	if (r >= 0)
		r = dbus->message_new_method_call(bus, &m, MANAGER, "StartTransientUnit");
	if (r >= 0)
		r = dbus->message_append(m, "ss", unit, "fail");
	if (r >= 0)
		r = append_properties(m);
	if (r >= 0)
		r = dbus->message_append(m, "a(sa(sv))", 0);
	if (r >= 0)
		r = dbus->call(bus, m, USEC_ANSWER, error, NULL);
	if (r >= 0)
		r = await_job(bus, &waiting);
	dbus->message_unref(m);
	dbus->slot_unref(slot);
	return r;
}

static int join(sd_bus *bus, const char *unit, sd_bus_error *error)
{
	dbus->error_free(error);
	return dbus->call_method(bus, MANAGER, "AttachProcessesToUnit", error, NULL, "ssau", unit,
				 "/", 1, (uint32_t)getpid());
}

/* It is the kernel that says where we are. */
static int is_inside(const char *unit)
{
	char own[512];
	const char *last;
	int r = psid_cgroup_own(own, sizeof(own));

	if (r < 0)
		return r;
	last = strrchr(own, '/');
	return last && strcmp(last + 1, unit) == 0 ? 0 : -ECANCELED;
}

static int enter(const char *unit, sd_bus_error *error)
{
	sd_bus *bus = NULL;
	int r;

	dbus = psid_bus_library();
	if (!dbus)
		return -ELIBACC;
	r = geteuid() == 0 ? dbus->open_system(&bus) : dbus->open_user(&bus);
	if (r >= 0)
		r = dbus->set_method_call_timeout(bus, USEC_ANSWER);
	if (r >= 0)
		r = start(bus, unit, error);
	if (r < 0 && dbus->error_has_name(error, "org.freedesktop.systemd1.UnitExists"))
		r = join(bus, unit, error);
	if (r >= 0)
		r = is_inside(unit);
	dbus->close_unref(bus);
	return r;
}

/* By systemd, as sd_booted(3) finds out. */
static bool is_booted(void)
{
	return access("/run/systemd/system/", F_OK) == 0;
}

/* systemd has started us, and not somebody whom systemd has started. */
static bool has_unit(void)
{
	const char *pid = getenv("SYSTEMD_EXEC_PID");

	return pid && strtol(pid, NULL, 10) == getpid();
}

void psid_scope_enter(const struct psid_config *config, unsigned number)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	char unit[SIZE_UNIT];
	int r;

	if (config->job_scope == PSID_SCOPE_NO ||
	    (config->job_scope == PSID_SCOPE_AUTO && (!is_booted() || has_unit())))
		return;
	(void)snprintf(unit, sizeof(unit), "pulc-%08x.scope", number);
	r = is_inside(unit) == 0 ? 0 : enter(unit, &error);
	if (r < 0)
		psid_log(PSID_INFO, "no scope of systemd for jobs: %s",
			 error.message ? error.message : strerror(-r));
	else
		psid_log(PSID_DEBUG, "jobs run in %s", unit);
	if (dbus)
		dbus->error_free(&error);
}
