/*
 * libmicrohttpd, loaded only where metrics are asked for: it brings a whole TLS library along, two
 * megabytes and two milliseconds of every psid that nobody asks.
 */
#include "microhttpd_library.h"

#include "library.h"
#include "macros.h"

#define LIBRARY "libmicrohttpd.so.12"
_Static_assert(MHD_VERSION >= 0x00097000, "the interface of LIBRARY");

static struct psid_microhttpd functions;

static const struct psid_symbol symbols[] = {
	{ (void **)&functions.start_daemon, "MHD_start_daemon" },
	{ (void **)&functions.stop_daemon, "MHD_stop_daemon" },
	{ (void **)&functions.run, "MHD_run" },
	{ (void **)&functions.get_timeout, "MHD_get_timeout" },
	{ (void **)&functions.get_daemon_info, "MHD_get_daemon_info" },
	{ (void **)&functions.create_response_from_buffer, "MHD_create_response_from_buffer" },
	{ (void **)&functions.add_response_header, "MHD_add_response_header" },
	{ (void **)&functions.queue_response, "MHD_queue_response" },
	{ (void **)&functions.destroy_response, "MHD_destroy_response" },
};

const struct psid_microhttpd *psid_microhttpd(void)
{
	void *library = psid_library_load(LIBRARY, symbols, ARRAY_SIZE(symbols));

	return library ? &functions : NULL;
}
