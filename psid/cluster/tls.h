/* TLS 1.3 between psids, by the cluster's key or by certificates. */
#ifndef PULC_PSID_TLS_H
#define PULC_PSID_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "keys.h"
#include "settings.h"

struct psid_tls {
	SSL_CTX *server, *client;
	const struct psid_keyring *ring;
	bool by_certificate;
};

/* One line for people: which file is wrong, and how. */
struct psid_tls_error {
	char text[PSID_SIZE_CLUSTER_PATH + 128];
};

/* ring must outlive it, and may change. Returns 0; negative errno, with the error. Any thread. */
int psid_tls_init(struct psid_tls *tls, const struct psid_cluster_config *config,
		  const struct psid_keyring *ring, struct psid_tls_error *ret_error);
/* Takes what next has for connections from now on; the ring stays. next is all zero then. */
void psid_tls_renew(struct psid_tls *tls, struct psid_tls *next);
/* Harmless on all zero. */
void psid_tls_deinit(struct psid_tls *tls);
/* On a connected socket, which stays the caller's. Returns NULL: no memory. */
SSL *psid_tls_new(struct psid_tls *tls, int fd, bool is_server);
/* The common name of the peer's certificate; empty if there is none. */
void psid_tls_peer_name(SSL *ssl, char name[PSID_SIZE_NAME]);
/* What OpenSSL says of the last failure; forgets it. Valid until the next call. */
const char *psid_tls_why(void);

#endif
