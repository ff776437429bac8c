/*
 * Addresses of nodes: one form inside, 16 bytes with IPv4 as v4-mapped, whatever the form outside.
 * Numbers only: names are the business of seeds.c, and may take time.
 */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cleanup.h"

static const uint8_t v4_mapped[12] = { [10] = 0xff, [11] = 0xff };

static int parse_port(const char *text, uint16_t *ret_port)
{
	char *end;
	unsigned long value;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	value = strtoul(text, &end, 10);
	if (*end || value == 0 || value > UINT16_MAX)
		return -EINVAL;
	*ret_port = (uint16_t)value;
	return 0;
}

static int parse_ip(const char *text, uint8_t ret_ip[16])
{
	uint8_t ip[16];

	memcpy(ip, v4_mapped, sizeof(v4_mapped));
	if (inet_pton(AF_INET, text, ip + 12) != 1 && inet_pton(AF_INET6, text, ip) != 1)
		return -EINVAL;
	memcpy(ret_ip, ip, sizeof(ip));
	return 0;
}

int psid_address_split(const char *text, char *ret_host, size_t size, uint16_t *ret_port)
{
	const char *end = text + strlen(text), *colon = strchr(text, ':'), *port = NULL;
	size_t len;

	if (text[0] == '[') {
		text++;
		colon = NULL;
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		if (end[1])
			port = end + 2;
	} else if (colon && !strchr(colon + 1, ':')) {
		end = colon;
		port = colon + 1;
	}
	len = (size_t)(end - text);
	if (len == 0 || len >= size || (port && parse_port(port, ret_port) < 0))
		return -EINVAL;
	memcpy(ret_host, text, len);
	ret_host[len] = '\0';
	return 0;
}

int psid_address_parse(const char *text, uint16_t port, struct psid_address *ret_address)
{
	struct psid_address address = { .port = port };
	char host[INET6_ADDRSTRLEN];

	if (psid_address_split(text, host, sizeof(host), &address.port) < 0 ||
	    parse_ip(host, address.ip) < 0)
		return -EINVAL;
	*ret_address = address;
	return 0;
}

char *psid_address_text(const struct psid_address *address, char *buf)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (memcmp(address->ip, v4_mapped, sizeof(v4_mapped)) == 0) {
		(void)inet_ntop(AF_INET, address->ip + 12, ip, sizeof(ip));
		(void)snprintf(buf, PSID_SIZE_ADDRESS_TEXT, "%s:%u", ip, address->port);
	} else {
		(void)inet_ntop(AF_INET6, address->ip, ip, sizeof(ip));
		(void)snprintf(buf, PSID_SIZE_ADDRESS_TEXT, "[%s]:%u", ip, address->port);
	}
	return buf;
}

socklen_t psid_address_to_socket(const struct psid_address *address, int family,
				 struct sockaddr_storage *ret_sa)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret_sa;
	struct sockaddr_in *four = (struct sockaddr_in *)ret_sa;

	memset(ret_sa, 0, sizeof(*ret_sa));
	ret_sa->ss_family = (sa_family_t)family;
	if (family == AF_INET6) {
		six->sin6_port = htons(address->port);
		memcpy(&six->sin6_addr, address->ip, sizeof(address->ip));
		return sizeof(*six);
	}
	four->sin_port = htons(address->port);
	memcpy(&four->sin_addr, address->ip + 12, 4);
	return memcmp(address->ip, v4_mapped, 12) == 0 || psid_address_is_any(address)
		       ? sizeof(*four)
		       : 0;
}

int psid_address_open(const struct psid_address *address, int family, int type, int *ret_fd)
{
	CLEANUP_FD int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_storage sa;
	socklen_t size = psid_address_to_socket(address, family, &sa);
	int on = 1, off = 0;

	if (fd < 0)
		return -errno;
	if (size == 0)
		return -EAFNOSUPPORT;
	if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
		return -errno;
	if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&sa, size) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int psid_address_port(int fd, uint16_t *ret_port)
{
	struct sockaddr_storage sa;
	socklen_t size = sizeof(sa);
	struct psid_address address;
	int r;

	if (getsockname(fd, (struct sockaddr *)&sa, &size) < 0)
		return -errno;
	r = psid_address_from_socket((const struct sockaddr *)&sa, &address);
	if (r == 0)
		*ret_port = address.port;
	return r;
}

int psid_address_from_socket(const struct sockaddr *sa, struct psid_address *ret_address)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *four = (const struct sockaddr_in *)sa;

	if (sa->sa_family == AF_INET6) {
		memcpy(ret_address->ip, &six->sin6_addr, sizeof(ret_address->ip));
		ret_address->port = ntohs(six->sin6_port);
		return 0;
	}
	if (sa->sa_family != AF_INET)
		return -EAFNOSUPPORT;
	memcpy(ret_address->ip, v4_mapped, sizeof(v4_mapped));
	memcpy(ret_address->ip + 12, &four->sin_addr, 4);
	ret_address->port = ntohs(four->sin_port);
	return 0;
}

bool psid_address_equal(const struct psid_address *a, const struct psid_address *b)
{
	return a->port == b->port && memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

bool psid_address_is_any(const struct psid_address *address)
{
	static const uint8_t zero[16];

	return memcmp(address->ip, zero, 16) == 0 ||
	       (memcmp(address->ip, v4_mapped, 12) == 0 && memcmp(address->ip + 12, zero, 4) == 0);
}
