/* Asking the kernel about sockets without touching them. */
#ifndef PULC_PSID_DIAG_H
#define PULC_PSID_DIAG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tuple.h"

/* Matches a socket of any cookie: INET_DIAG_NOCOOKIE twice. */
#define PSID_ANY_COOKIE UINT64_MAX

struct psid_diag_socket {
	uint8_t state;	/* TCP_ESTABLISHED ... */
	uid_t uid;	/* who made it */
	uint32_t inode; /* 0: nobody holds it any more */
	uint32_t interface;
	bool has_ulp;
};

/* Returns a descriptor to ask through; negative errno. */
int psid_diag_open(void);
/*
 * The socket of this tuple and cookie in psid's network namespace, whatever its state. Returns 0;
 * -ENOENT: there is none; other negative errno when the kernel does not answer. Takes no socket's
 * lock.
 */
int psid_diag_find(int diag, const struct psid_tuple *tuple, uint64_t cookie,
		   struct psid_diag_socket *ret_socket);
/*
 * Is there, in psid's network namespace, a TCP socket of this tuple and this cookie, established
 * or waiting for us to close, bound to no device, under no upper protocol? Returns 0, or the
 * Reason (positive) why not; negative errno when the kernel does not answer. Takes no socket's
 * lock.
 */
int psid_diag_check(int diag, const struct psid_tuple *tuple, uint64_t cookie);
/* The UDP socket that would receive a datagram from the tuple's local to its remote address over
 * the loopback device. As psid_diag_find. */
int psid_diag_find_receiver(int diag, const struct psid_tuple *tuple, uint64_t cookie,
			    struct psid_diag_socket *ret_socket);
/*
 * Would a UDP datagram from the tuple's local to its remote address, over the loopback device, be
 * received by the socket of this cookie, which is bound to no device? Returns as psid_diag_check.
 * The addresses need not be this node's for that: see route.h.
 */
int psid_diag_receiver(int diag, const struct psid_tuple *tuple, uint64_t cookie);

#endif
