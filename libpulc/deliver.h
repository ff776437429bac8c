/* The last bytes of a stream, left to psid. */
#ifndef PULC_LIBPULC_DELIVER_H
#define PULC_LIBPULC_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

/* As tcp_pass_on (protocols/tcp.h). Takes no lock. */
bool deliver_rest(int fd, int memory, uint64_t size, bool shut);

#endif
