/* Lines that this process and another one of its user both write, one for each link between them
 * (shm/exchange.h). */
#ifndef PULC_LIB_LINES_H
#define PULC_LIB_LINES_H

#include "shm.h"

/* For a new link to that client: a line of ours, or word that the client is to make one. Takes the
 * client lock. */
struct hal_shm_line lines_for(uint32_t client);
/* For hal_shm_find_line and hal_shm_return_line: takes the client lock. */
struct shm_exchange *lines_find(uint32_t client, uint64_t name);
void lines_return(const struct hal_shm_line *line, bool peer_is_done);

#endif
