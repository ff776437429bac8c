/* Datagrams that only nodes of the cluster can read, and only they can have written. */
#ifndef PULC_PSID_SEAL_H
#define PULC_PSID_SEAL_H

#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"
#include "map.h"
#include "members.h"

#define PSID_GOSSIP_VERSION 3u
#define PSID_SEAL_SIZE_HEAD 24u
#define PSID_SEAL_SIZE (PSID_SEAL_SIZE_HEAD + 16u) /* what a datagram is longer than its body */

struct psid_seal {
	const struct psid_keyring *ring;
	const struct psid_members *members; /* what is known of the senders */
	const struct psid_node *self;
	uint8_t salt[6]; /* of this start */
	uint64_t counter;
	uint64_t life_max; /* the greatest that is remembered; its owner's to set */
	EVP_CIPHER *cipher;
	EVP_CIPHER_CTX *sealing, *opening;
	struct psid_map senders; /* by id */
};

/* For datagrams of the node `self`, in the life that it is in. All must outlive it. Returns 0,
 * -ENOMEM, -EIO: no random numbers. */
int psid_seal_init(struct psid_seal *seal, const struct psid_keyring *ring,
		   const struct psid_members *members, const struct psid_node *self);
/* The ring has other keys now. Returns 0; -ENOMEM: datagrams are sealed as before. */
int psid_seal_rekey(struct psid_seal *seal);
void psid_seal_deinit(struct psid_seal *seal);
/* ret_datagram has room for len + PSID_SEAL_SIZE. Returns its length; 0: it can't be done. */
size_t psid_seal_close(struct psid_seal *seal, const uint8_t *body, size_t len,
		       uint8_t *ret_datagram);
/*
 * ret_body has room for len; ret_by gets id and life. Returns the body's length (positive or 0);
 * -EPROTO: another version of the gossip; -EBADMSG: sealed with none of the keys; -EALREADY: seen
 * before; -ESTALE: in a life that is over, ret_by has the newest one; -ENOMEM.
 */
int psid_seal_open(struct psid_seal *seal, const uint8_t *datagram, size_t len, uint8_t *ret_body,
		   struct psid_origin *ret_by);

#endif
