/*
 * TLS 1.3 with a key that both sides were given (external PSK, RFC 8446 section 2.2), by OpenSSL.
 * No certificate, no name: whoever has the key of the job is a keeper of the job, for psid gave it
 * the key over the cluster's own TLS.
 */
#include "keeper_tls.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "macros.h"

#define IDENTITY "keeper"
#define CIPHERS "TLS_AES_128_GCM_SHA256" /* the hash that a PSK without a name of one goes with */

struct tls {
	SSL *ssl;
	uint8_t key[TLS_SIZE_KEY];
};

static SSL_CTX *common; /* of all connections, for it takes long to make; NULL: not yet */

static unsigned give_key(SSL *ssl, unsigned char *key, unsigned size)
{
	const struct tls *tls = SSL_get_app_data(ssl);

	if (size < TLS_SIZE_KEY)
		return 0;
	memcpy(key, tls->key, TLS_SIZE_KEY);
	return TLS_SIZE_KEY;
}

static unsigned as_server(SSL *ssl, const char *identity, unsigned char *key, unsigned size)
{
	return strcmp(identity, IDENTITY) == 0 ? give_key(ssl, key, size) : 0;
}

static unsigned as_client(SSL *ssl, const char *hint, char *identity, unsigned size_identity,
			  unsigned char *key, unsigned size)
{
	(void)hint;
	if (size_identity < sizeof(IDENTITY))
		return 0;
	memcpy(identity, IDENTITY, sizeof(IDENTITY));
	return give_key(ssl, key, size);
}

static void tls_close(struct tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	OPENSSL_cleanse(tls->key, sizeof(tls->key));
	free(tls);
}

/* At our end nothing is taken apart: the kernel does it in a moment, and whoever is a copy pays for
 * each page. */
static int make_common(void)
{
	SSL_CTX *made;

	if (common)
		return 0;
	(void)OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
	made = SSL_CTX_new(TLS_method());
	if (!made || SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_ciphersuites(made, CIPHERS) != 1) {
		SSL_CTX_free(made);
		return -EPROTO;
	}
	(void)SSL_CTX_set_num_tickets(made, 0);
	/* None is taken either: the key that such are sealed with is the same in all copies, other
	 * users' keepers among them. */
	(void)SSL_CTX_set_options(made, SSL_OP_NO_TICKET);
	(void)SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_psk_server_callback(made, as_server);
	SSL_CTX_set_psk_client_callback(made, as_client);
	common = made;
	return 0;
}

static struct tls *tls_new(const uint8_t *key, bool is_server)
{
	struct tls *tls = make_common() == 0 ? calloc(1, sizeof(*tls)) : NULL;

	if (!tls)
		return NULL;
	memcpy(tls->key, key, TLS_SIZE_KEY);
	tls->ssl = SSL_new(common);
	if (!tls->ssl) {
		tls_close(tls);
		return NULL;
	}
	(void)SSL_set_app_data(tls->ssl, tls);
	if (is_server)
		SSL_set_accept_state(tls->ssl);
	else
		SSL_set_connect_state(tls->ssl);
	return tls;
}

/* OpenSSL looks for each of its parts when it is first used: a connection with ourselves uses
 * them. */
static void tls_prepare(void)
{
	static const uint8_t nobodys_key[TLS_SIZE_KEY];
	struct tls *server = tls_new(nobodys_key, true), *client = tls_new(nobodys_key, false);
	BIO *one = NULL, *other = NULL;
	char byte = 0;

	if (server && client && BIO_new_bio_pair(&one, 0, &other, 0) == 1) {
		SSL_set_bio(server->ssl, one, one);
		SSL_set_bio(client->ssl, other, other);
		for (int i = 0; i < 4; i++) {
			(void)SSL_do_handshake(client->ssl);
			(void)SSL_do_handshake(server->ssl);
		}
		(void)SSL_write(client->ssl, &byte, 1);
		(void)SSL_read(server->ssl, &byte, 1);
	}
	ERR_clear_error();
	tls_close(server);
	tls_close(client);
}

static struct tls *tls_open(int fd, const uint8_t *key, bool is_server)
{
	struct tls *tls = tls_new(key, is_server);

	if (!tls || SSL_set_fd(tls->ssl, fd) == 1)
		return tls;
	tls_close(tls);
	return NULL;
}

/* What a call that did not work means. */
static ssize_t result_of(const struct tls *tls, int r, int wanted)
{
	int error = SSL_get_error(tls->ssl, r);

	ERR_clear_error();
	switch (error) {
	case SSL_ERROR_WANT_READ:
		return wanted == SSL_ERROR_WANT_READ ? -EAGAIN : -EINPROGRESS;
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return -EPIPE;
	default:
		return -EPROTO;
	}
}

static ssize_t tls_read(void *context, void *buf, size_t len)
{
	struct tls *tls = context;
	int r = SSL_read(tls->ssl, buf, (int)MIN(len, (size_t)INT_MAX));

	return r > 0 ? r : result_of(tls, r, SSL_ERROR_WANT_READ);
}

static ssize_t tls_write(void *context, const struct iovec *iov, int n)
{
	struct tls *tls = context;
	ssize_t done = 0;

	for (int i = 0; i < n; i++) {
		int r = SSL_write(tls->ssl, iov[i].iov_base,
				  (int)MIN(iov[i].iov_len, (size_t)INT_MAX));

		if (r <= 0)
			return done > 0 ? done : result_of(tls, r, SSL_ERROR_WANT_WRITE);
		done += r;
		if ((size_t)r < iov[i].iov_len)
			break;
	}
	return done;
}

PULC_EXPORT extern const struct keeper_tls keeper_tls;
const struct keeper_tls keeper_tls = {
	.prepare = tls_prepare,
	.open = tls_open,
	.io = { .read = tls_read, .write = tls_write },
	.close = tls_close,
};
