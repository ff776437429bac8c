/* Where a psid of this node is found. */
#ifndef PULC_WIRE_PATHS_H
#define PULC_WIRE_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WIRE_SOCKET_NAME "psid.sock"
#define WIRE_SYSTEM_DIR "/run/pulc"
#define WIRE_N_CANDIDATES 5

/*
 * The run directory where a psid of the caller would live (system: /run/pulc), without creating it.
 * PULC_RUNTIME_DIR wins over all; XDG_RUNTIME_DIR counts if it is a folder of the caller's. Returns
 * 0, -ENAMETOOLONG.
 */
int wire_runtime_dir(bool system, char *buf, size_t size);

/*
 * Creates (mode 0700; 0755 for the system's) and verifies dir: a directory, no symlink, owned by
 * the caller, not writable by others. Returns 0; -EPERM: it is somebody else's; -ENOTDIR; other
 * negative errno.
 */
int wire_runtime_dir_make(const char *dir, bool system);

/* Reads the environment now; wire_candidate goes by that from then on. */
void wire_remember(void);

/*
 * The i-th place to look for a psid's socket, in order; -ENOENT: no such candidate in this
 * environment.
 */
int wire_candidate(unsigned i, char *buf, size_t size);

/*
 * Whoever named a place in PULC_SOCKET or PULC_RUNTIME_DIR that can be none must not be given
 * another one. Returns 0; -EINVAL: *ret_name is no absolute path; -ENAMETOOLONG: it is too long for
 * a socket. What is empty names nothing.
 */
int wire_places_check(const char **ret_name);

/*
 * Connects the given unconnected SOCK_SEQPACKET socket to the first psid found whose SO_PEERCRED
 * uid is the caller's or 0. Never blocks, and leaves fd non-blocking. Returns 0; -ENOENT: no
 * psid; -EPERM: only psids of other users; -EAGAIN: a psid there does not accept now. buf (may be
 * NULL) gets the path connected to.
 */
int wire_connect(int fd, char *buf, size_t size);

#endif
