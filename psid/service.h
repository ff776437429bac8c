/* What the service manager says to a service, and is told by it. */
#ifndef PULC_PSID_SERVICE_H
#define PULC_PSID_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Is there a manager that wants to be told? */
bool psid_service_is_heard(void);
/* Tells it: lines of sd_notify(3). Nothing happens where nobody wants to know. */
__attribute__((format(printf, 1, 2))) void psid_service_tell(const char *format, ...);
/* How long it waits for WATCHDOG=1 before it ends us; 0: it does not. */
uint64_t psid_service_usec_watchdog(void);
/*
 * The socket that it has made and keeps, bound to path; NULL: anywhere. The environment that says
 * so is gone afterwards. Closes on exec. Returns 1; 0: there is none; -EPROTOTYPE: another one, or
 * several.
 */
int psid_service_socket(const char *path, int *ret_fd);

#endif
