/* The file with the keys that all nodes of a cluster share: one, or several while they are
 * changed. */
#ifndef PULC_WIRE_KEY_H
#define PULC_WIRE_KEY_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_SIZE_KEY 32u
#define WIRE_N_KEYS 4u /* two are enough for a change of keys */

/* The first is the one that is used, the others are accepted. */
struct wire_keys {
	uint8_t keys[WIRE_N_KEYS][WIRE_SIZE_KEY];
	size_t n;
};

/* A new one. Returns 0, -EIO: no random numbers. */
int wire_key_draw(uint8_t ret_key[WIRE_SIZE_KEY]);

/*
 * Makes a new key and writes it into a new file that only its owner can read; folders are not made.
 * Returns 0; -EEXIST: there is such a file, which stays as it was; other negative errno.
 */
int wire_key_make(const char *path);

/*
 * Reads the keys, at least one, each once. Returns 0; -EPERM: others could read the file, or it
 * belongs to somebody else; -EBADMSG: it is no such file; other negative errno; why says what, with
 * file and line, for people.
 */
int wire_keys_read(const char *path, struct wire_keys *ret_keys, char *why, size_t size);

/*
 * Puts the keys into an existing file, all of them or, when it fails, none: readers see the old
 * file or the new one. Returns 0, negative errno.
 */
int wire_keys_write(const char *path, const struct wire_keys *keys);

#endif
