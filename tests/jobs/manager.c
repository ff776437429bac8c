/*
 * As much of systemd's manager as psid asks: scopes, which are folders of a cgroup.
 *
 * 	manager FOLDER [refuse|silent]
 *
 * Each question is a line on standard output; the first one says that the manager is there. refuse:
 * says no; silent: answers, but never says that the scope is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <systemd/sd-bus.h>

#define MANAGER "org.freedesktop.systemd1.Manager"
#define NAME "org.freedesktop.systemd1"
#define OBJECT "/org/freedesktop/systemd1"

static const char *folder, *mood;

static int put(const char *unit, uint32_t pid)
{
	char path[600], text[16];
	int n = snprintf(text, sizeof(text), "%u", pid), fd, r;

	(void)snprintf(path, sizeof(path), "%s/%s/cgroup.procs", folder, unit);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	r = fd < 0 || write(fd, text, (size_t)n) != n ? -errno : 0;
	if (fd >= 0)
		(void)close(fd);
	return r;
}

static int read_pids(sd_bus_message *m, uint32_t *ret_pid)
{
	const void *pids;
	size_t size;
	int r = sd_bus_message_read_array(m, 'u', &pids, &size);

	if (r < 0 || size != sizeof(*ret_pid))
		return -EINVAL;
	(void)memcpy(ret_pid, pids, size);
	return 0;
}

/* One of a(sv): what is wanted of a scope. */
static int read_property(sd_bus_message *m, bool *delegate, uint32_t *pid)
{
	const char *name, *type;
	int r = sd_bus_message_read(m, "s", &name), value = 0;

	if (r >= 0)
		r = sd_bus_message_peek_type(m, NULL, &type);
	if (r >= 0 && strcmp(name, "PIDs") == 0)
		r = sd_bus_message_enter_container(m, 'v', type) < 0 || read_pids(m, pid) < 0
			    ? -EINVAL
			    : sd_bus_message_exit_container(m);
	else if (r >= 0 && strcmp(name, "Delegate") == 0)
		r = sd_bus_message_read(m, "v", "b", &value);
	else if (r >= 0)
		r = sd_bus_message_skip(m, "v");
	*delegate |= value;
	return r;
}

static int read_properties(sd_bus_message *m, bool *delegate, uint32_t *pid)
{
	int r = sd_bus_message_enter_container(m, 'a', "(sv)");

	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'r', "sv")) > 0) {
		r = read_property(m, delegate, pid);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r;
}

static int start_unit(sd_bus_message *m, void *data, sd_bus_error *error)
{
	sd_bus *bus = sd_bus_message_get_bus(m);
	const char *unit, *mode;
	bool delegate = false;
	char path[600];
	uint32_t pid = 0;

	(void)data;
	if (sd_bus_message_read(m, "ss", &unit, &mode) < 0 ||
	    read_properties(m, &delegate, &pid) < 0)
		return -EINVAL;
	(void)printf("start %s%s\n", mode, delegate ? " delegated" : "");
	if (strcmp(mood, "refuse") == 0)
		return sd_bus_error_set(error, SD_BUS_ERROR_ACCESS_DENIED, "not for you");
	(void)snprintf(path, sizeof(path), "%s/%s", folder, unit);
	if (mkdir(path, 0755) < 0)
		return sd_bus_error_set(error, NAME ".UnitExists", "it is there");
	if (strcmp(mood, "silent") != 0 &&
	    (put(unit, pid) < 0 || sd_bus_emit_signal(bus, OBJECT, MANAGER, "JobRemoved", "uoss", 1,
						      OBJECT "/job/1", unit, "done") < 0))
		return -EIO;
	return sd_bus_reply_method_return(m, "o", OBJECT "/job/1");
}

static int attach(sd_bus_message *m, void *data, sd_bus_error *error)
{
	const char *unit, *below;
	uint32_t pid;
	int r;

	(void)data;
	(void)error;
	if (sd_bus_message_read(m, "ss", &unit, &below) < 0 || read_pids(m, &pid) < 0)
		return -EINVAL;
	(void)printf("attach %s\n", below);
	r = put(unit, pid);
	return r < 0 ? r : sd_bus_reply_method_return(m, "");
}

static const sd_bus_vtable methods[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD("StartTransientUnit", "ssa(sv)a(sa(sv))", "o", start_unit,
		      SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD("AttachProcessesToUnit", "ssau", "", attach, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_SIGNAL("JobRemoved", "uoss", 0),
	SD_BUS_VTABLE_END,
};

int main(int argc, char **argv)
{
	sd_bus *bus = NULL;
	int r;

	if (argc < 2)
		return 2;
	folder = argv[1];
	mood = argc > 2 ? argv[2] : "";
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	r = sd_bus_open_system(&bus);
	if (r >= 0)
		r = sd_bus_add_object_vtable(bus, NULL, OBJECT, MANAGER, methods, NULL);
	if (r >= 0)
		r = sd_bus_request_name(bus, NAME, 0);
	if (r >= 0)
		(void)puts("here");
	while (r >= 0) {
		r = sd_bus_process(bus, NULL);
		if (r == 0)
			r = sd_bus_wait(bus, UINT64_MAX);
	}
	(void)fprintf(stderr, "manager: %s\n", strerror(-r));
	return 1;
}
