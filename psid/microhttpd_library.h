/* The part of libmicrohttpd that psid uses, loaded when it is first wanted. */
#ifndef PULC_PSID_MICROHTTPD_H
#define PULC_PSID_MICROHTTPD_H

#include <microhttpd.h>

struct psid_microhttpd {
	__typeof__(MHD_start_daemon) *start_daemon;
	__typeof__(MHD_stop_daemon) *stop_daemon;
	__typeof__(MHD_run) *run;
	__typeof__(MHD_get_timeout) *get_timeout;
	__typeof__(MHD_get_daemon_info) *get_daemon_info;
	__typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
	__typeof__(MHD_add_response_header) *add_response_header;
	__typeof__(MHD_queue_response) *queue_response;
	__typeof__(MHD_destroy_response) *destroy_response;
};

/* NULL: the library is not installed. It stays loaded. */
const struct psid_microhttpd *psid_microhttpd(void);

#endif
