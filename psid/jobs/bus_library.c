/*
 * libsystemd, loaded only by a psid that asks for a scope of its own: with the libraries that it
 * brings along it is a megabyte of every psid that the system has started, or that runs where there
 * is no systemd.
 */
#include "bus_library.h"

#include "library.h"
#include "macros.h"

#define LIBRARY "libsystemd.so.0"

static struct psid_bus functions;

static const struct psid_symbol symbols[] = {
	{ (void **)&functions.open_system, "sd_bus_open_system" },
	{ (void **)&functions.open_user, "sd_bus_open_user" },
	{ (void **)&functions.close_unref, "sd_bus_close_unref" },
	{ (void **)&functions.set_method_call_timeout, "sd_bus_set_method_call_timeout" },
	{ (void **)&functions.match_signal, "sd_bus_match_signal" },
	{ (void **)&functions.process, "sd_bus_process" },
	{ (void **)&functions.wait, "sd_bus_wait" },
	{ (void **)&functions.call, "sd_bus_call" },
	{ (void **)&functions.call_method, "sd_bus_call_method" },
	{ (void **)&functions.slot_unref, "sd_bus_slot_unref" },
	{ (void **)&functions.message_new_method_call, "sd_bus_message_new_method_call" },
	{ (void **)&functions.message_open_container, "sd_bus_message_open_container" },
	{ (void **)&functions.message_close_container, "sd_bus_message_close_container" },
	{ (void **)&functions.message_append, "sd_bus_message_append" },
	{ (void **)&functions.message_read, "sd_bus_message_read" },
	{ (void **)&functions.message_unref, "sd_bus_message_unref" },
	{ (void **)&functions.error_has_name, "sd_bus_error_has_name" },
	{ (void **)&functions.error_free, "sd_bus_error_free" },
};

const struct psid_bus *psid_bus_library(void)
{
	void *library = psid_library_load(LIBRARY, symbols, ARRAY_SIZE(symbols));

	return library ? &functions : NULL;
}
