/* Where a psid is found: an IP address, IPv4 as v4-mapped, and one port for UDP and TCP. */
#ifndef PULC_PSID_ADDRESS_H
#define PULC_PSID_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSID_PORT 7852u /* the letters of PULC on a telephone */
#define PSID_SIZE_ADDRESS_TEXT 56u

struct psid_address {
	uint8_t ip[16];
	uint16_t port;
};

/* "10.0.0.1", "10.0.0.1:7852", "fe80::1", "[fe80::1]:7852". Returns 0, -EINVAL. */
int psid_address_parse(const char *text, uint16_t port, struct psid_address *ret_address);
/*
 * Cuts "host", "host:port", "[host]:port" into its parts; *ret_port stays as it was if text names
 * none. Returns 0, -EINVAL.
 */
int psid_address_split(const char *text, char *ret_host, size_t size, uint16_t *ret_port);
/* The same back, the port always; returns buf, of PSID_SIZE_ADDRESS_TEXT. */
char *psid_address_text(const struct psid_address *address, char *buf);
/* For a socket of this family: AF_INET, or AF_INET6 that takes IPv4 too. Returns the size; 0: no
 * such address there. */
socklen_t psid_address_to_socket(const struct psid_address *address, int family,
				 struct sockaddr_storage *ret_sa);
/* From AF_INET6 or AF_INET. Returns 0, -EAFNOSUPPORT. */
int psid_address_from_socket(const struct sockaddr *sa, struct psid_address *ret_address);
/*
 * Opens a non-blocking socket of this family and type, bound to it; a stream's also beside
 * connections that were of another one. Returns 0 with it; -EAFNOSUPPORT, -EADDRNOTAVAIL: no such
 * family, or no such address there; other negative errno.
 */
int psid_address_open(const struct psid_address *address, int family, int type, int *ret_fd);
/* The port that a socket is bound to. Returns 0, negative errno. */
int psid_address_port(int fd, uint16_t *ret_port);
bool psid_address_equal(const struct psid_address *a, const struct psid_address *b);
/* :: or 0.0.0.0 */
bool psid_address_is_any(const struct psid_address *address);

#endif
