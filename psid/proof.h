/* Is the descriptor that a client sent the socket that it hinted? */
#ifndef PULC_PSID_PROOF_H
#define PULC_PSID_PROOF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "diag.h"

struct psid;
struct psid_hint;

/* Prepares; Returns 0; negative errno: sockets can't be checked here. */
int psid_proof_start(struct psid *psid);
void psid_proof_stop(struct psid *psid);
/* Is there a socket of this tuple and cookie that this user made? */
bool psid_proof_made_by(const struct psid *psid, const struct psid_tuple *tuple, uint64_t cookie,
			uid_t uid);
/* Does anybody have a descriptor of the socket of this tuple and cookie (or PSID_ANY_COOKIE)? */
bool psid_proof_is_held(const struct psid *psid, const struct psid_tuple *tuple, uint64_t cookie);
/* Does the kernel not know such a socket at all? Of one that was reset it does not, though somebody
 * may have a descriptor. */
bool psid_proof_is_unknown(const struct psid *psid, const struct psid_tuple *tuple,
			   uint64_t cookie);
/*
 * The cookie of a TCP socket of our network namespace. Returns 0, or the Reason (positive) why fd
 * is none. Never blocks, whatever fd is.
 */
int psid_proof_cookie(const struct psid *psid, int fd, uint64_t *ret_cookie);
/* Could this hint be true? Returns 0, or the Reason (positive) why not. */
int psid_proof_hint(const struct psid_hint *hint);
/*
 * Is fd the socket of this hint? Returns 0, or the Reason (positive) why not. Never blocks,
 * whatever fd is.
 */
int psid_proof_socket(const struct psid_hint *hint, int fd);

#endif
