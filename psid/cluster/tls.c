/*
 * TLS 1.3 and nothing else, with OpenSSL. By default both sides prove that they have the cluster's
 * key, as an external pre-shared key with an ephemeral Diffie-Hellman exchange: whoever learns the
 * key later can't read what was said before. With certificates both sides show one that the
 * configured authority has signed, with the node's name as common name (peers.c looks at that).
 *
 * The identity that goes with the pre-shared key names it by its fingerprint: the side that
 * connects uses its first key, the other one looks among all it has. A connection that is open does
 * not notice a change of keys, nor of certificates.
 *
 * No tickets, no renegotiation, no compression: connections are few and live long.
 */
#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

#define SIZE_IDENTITY 24u

static const unsigned char suite[] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */

static size_t name_key(const struct psid_keys *keys, char identity[SIZE_IDENTITY])
{
	return (size_t)snprintf(identity, SIZE_IDENTITY, "pulc %016llx",
				(unsigned long long)keys->fingerprint);
}

/* The key as OpenSSL wants it: a session that both sides claim to have had. */
static SSL_SESSION *make_session(SSL *ssl, const struct psid_keys *keys)
{
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && SSL_SESSION_set1_master_key(session, keys->peers, sizeof(keys->peers)) &&
	    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static const struct psid_keyring *ring_of(SSL *ssl)
{
	const struct psid_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

	return tls->ring;
}

/* OpenSSL copies the identity before it calls anything else. */
static int on_use_session(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id, size_t *ret_len,
			  SSL_SESSION **ret_session)
{
	static char identity[SIZE_IDENTITY];
	const struct psid_keys *keys = &ring_of(ssl)->keys[0];

	(void)md;
	*ret_session = make_session(ssl, keys);
	*ret_len = name_key(keys, identity);
	*ret_id = (const unsigned char *)identity;
	return *ret_session != NULL;
}

static int on_find_session(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret_session)
{
	const struct psid_keyring *ring = ring_of(ssl);
	char identity[SIZE_IDENTITY];

	*ret_session = NULL;
	for (size_t i = 0; i < ring->n && !*ret_session; i++)
		if (name_key(&ring->keys[i], identity) == len && memcmp(id, identity, len) == 0)
			*ret_session = make_session(ssl, &ring->keys[i]);
	return 1;
}

const char *psid_tls_why(void)
{
	unsigned long error = ERR_peek_last_error();
	const char *why = error ? ERR_reason_error_string(error) : NULL;

	ERR_clear_error();
	return why ? why : "the other side ended it";
}

static int use_certificates(SSL_CTX *ctx, const struct psid_cluster_config *config,
			    struct psid_tls_error *ret_error)
{
	const char *wrong = NULL;

	if (SSL_CTX_use_certificate_chain_file(ctx, config->certificate) != 1)
		wrong = config->certificate;
	else if (SSL_CTX_use_PrivateKey_file(ctx, config->certificate_key, SSL_FILETYPE_PEM) != 1 ||
		 SSL_CTX_check_private_key(ctx) != 1)
		wrong = config->certificate_key;
	else if (SSL_CTX_load_verify_locations(ctx, config->authority, NULL) != 1)
		wrong = config->authority;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	if (!wrong)
		return 0;
	(void)snprintf(ret_error->text, sizeof(ret_error->text), "%s: %s", wrong, psid_tls_why());
	return -EINVAL;
}

static SSL_CTX *make_context(struct psid_tls *tls, const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (!ctx)
		return NULL;
	SSL_CTX_set_app_data(ctx, tls);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
	    SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1)
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

int psid_tls_init(struct psid_tls *tls, const struct psid_cluster_config *config,
		  const struct psid_keyring *ring, struct psid_tls_error *ret_error)
{
	int r = 0;

	*tls = (struct psid_tls){ .by_certificate = config->certificate[0] != '\0', .ring = ring };
	tls->server = make_context(tls, TLS_server_method());
	tls->client = make_context(tls, TLS_client_method());
	if (!tls->server || !tls->client) {
		(void)snprintf(ret_error->text, sizeof(ret_error->text), "TLS: %s", psid_tls_why());
		r = -ENOMEM;
	} else if (tls->by_certificate) {
		r = use_certificates(tls->server, config, ret_error);
		if (r == 0)
			r = use_certificates(tls->client, config, ret_error);
	} else {
		SSL_CTX_set_psk_find_session_callback(tls->server, on_find_session);
		SSL_CTX_set_psk_use_session_callback(tls->client, on_use_session);
	}
	if (r < 0)
		psid_tls_deinit(tls);
	return r;
}

void psid_tls_deinit(struct psid_tls *tls)
{
	SSL_CTX_free(tls->server);
	SSL_CTX_free(tls->client);
	*tls = (struct psid_tls){ .ring = NULL };
}

void psid_tls_renew(struct psid_tls *tls, struct psid_tls *next)
{
	const struct psid_keyring *ring = tls->ring;

	psid_tls_deinit(tls);
	*tls = *next;
	tls->ring = ring;
	SSL_CTX_set_app_data(tls->server, tls);
	SSL_CTX_set_app_data(tls->client, tls);
	*next = (struct psid_tls){ .ring = NULL };
}

SSL *psid_tls_new(struct psid_tls *tls, int fd, bool is_server)
{
	SSL *ssl = SSL_new(is_server ? tls->server : tls->client);

	if (!ssl)
		return NULL;
	if (SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	if (is_server)
		SSL_set_accept_state(ssl);
	else
		SSL_set_connect_state(ssl);
	return ssl;
}

void psid_tls_peer_name(SSL *ssl, char name[PSID_SIZE_NAME])
{
	const X509 *certificate = SSL_get0_peer_certificate(ssl);

	name[0] = '\0';
	if (certificate)
		(void)X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
						name, PSID_SIZE_NAME);
}
