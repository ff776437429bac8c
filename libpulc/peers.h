/* Other clients' wait sets: their boards and bells, so that we can wake them without psid. */
#ifndef PULC_LIB_PEERS_H
#define PULC_LIB_PEERS_H

#include <stdint.h>

struct shm_boards;
struct shm_exchange;

/* Under the client lock. Ownership: boards and bell move here. boards may be NULL when known
 * already. */
void peers_introduce(uint32_t client, uint32_t board, struct shm_boards *boards, int bell);
void peers_gone(uint32_t client);
/* Line i of its area, which stays mapped until it is let go; NULL: we have not been introduced. */
struct shm_exchange *peers_hold_line(uint32_t client, uint32_t i);
void peers_let_line_go(uint32_t client, const struct shm_exchange *line);
/* Closes and unmaps what was of those that have gone some time ago. To be called now and then. */
void peers_bury(void);
/* Forgets those that a psid before the last one has introduced: nobody sleeps under these numbers
 * any more. */
void peers_age(uint32_t n_psids);

/* Sets the watch's bit and, if its owner sleeps, rings; by psid where we lack board or bell. No
 * lock held. */
void peers_tell(uint64_t watch);

#endif
