/* Both ends of a new connection show that they hold the key that was made for it. */
#ifndef PULC_BASE_HANDSHAKE_H
#define PULC_BASE_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#define HANDSHAKE_KEY 16u   /* bytes; made for one connection, by someone both ends trust */
#define HANDSHAKE_HELLO 24u /* bytes of each greeting; for handshake.c's own use */

/* One end's share. */
struct handshake {
	uint8_t key[HANDSHAKE_KEY];
	bool connects; /* the end that connected, not the one that accepted */
	uint8_t ours[HANDSHAKE_HELLO], theirs[HANDSHAKE_HELLO];
	uint32_t size_sent, size_got; /* of both greetings and both proofs */
	uint64_t proof_ours, proof_theirs;
};

/* 0; a negative errno: the kernel has no random numbers. */
int handshake_init(struct handshake *h, const uint8_t key[HANDSHAKE_KEY], bool connects);
/*
 * Goes on with it as far as the socket lets it, without blocking and without reading what comes
 * behind it. 0: it is the other holder of the key. -EAGAIN: again when the socket is readable (or
 * writable); how long is the caller's to decide. -EACCES: another key, or the caller's own words
 * sent back. -EBADMSG: no such greeting. -EPIPE. The key is used up, whatever the result.
 */
int handshake_step(struct handshake *h, int fd);

#endif
