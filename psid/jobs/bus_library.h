/* The part of libsystemd's D-Bus that psid uses, loaded when it is first wanted. */
#ifndef PULC_PSID_BUS_LIBRARY_H
#define PULC_PSID_BUS_LIBRARY_H

#include <systemd/sd-bus.h>

struct psid_bus {
	__typeof__(sd_bus_open_system) *open_system;
	__typeof__(sd_bus_open_user) *open_user;
	__typeof__(sd_bus_close_unref) *close_unref;
	__typeof__(sd_bus_set_method_call_timeout) *set_method_call_timeout;
	__typeof__(sd_bus_match_signal) *match_signal;
	__typeof__(sd_bus_process) *process;
	__typeof__(sd_bus_wait) *wait;
	__typeof__(sd_bus_call) *call;
	__typeof__(sd_bus_call_method) *call_method;
	__typeof__(sd_bus_slot_unref) *slot_unref;
	__typeof__(sd_bus_message_new_method_call) *message_new_method_call;
	__typeof__(sd_bus_message_open_container) *message_open_container;
	__typeof__(sd_bus_message_close_container) *message_close_container;
	__typeof__(sd_bus_message_append) *message_append;
	__typeof__(sd_bus_message_read) *message_read;
	__typeof__(sd_bus_message_unref) *message_unref;
	__typeof__(sd_bus_error_has_name) *error_has_name;
	__typeof__(sd_bus_error_free) *error_free;
};

/* NULL: the library is not installed. It stays loaded. */
const struct psid_bus *psid_bus_library(void);

#endif
