/* The file with the key that all nodes of a cluster share. */
#ifndef PULC_WIRE_KEY_H
#define PULC_WIRE_KEY_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_SIZE_KEY 32u

/*
 * Makes a new key and writes it into a new file that only its owner can read; folders are not made.
 * Returns 0; -EEXIST: there is such a file, which stays as it was; other negative errno.
 */
int wire_key_make(const char *path);

/*
 * Reads the key. Returns 0; -EPERM: others could read it, or it belongs to somebody else; -EBADMSG: it
 * is no such file; other negative errno.
 */
int wire_key_read(const char *path, uint8_t ret_key[WIRE_SIZE_KEY]);

#endif
