/*
 * Finding out our own address, for those who have not configured it: what the kernel would send
 * from, towards a seed (connecting a UDP socket sends nothing), else the first interface that is up
 * and no loopback, IPv4 before IPv6.
 */
#include "where.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"

static int towards(const struct psid_address *to, int family, struct psid_address *ret_address)
{
	CLEANUP_FD int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage sa;
	socklen_t size = psid_address_to_socket(to, family, &sa);

	if (fd < 0 || size == 0 || connect(fd, (const struct sockaddr *)&sa, size) < 0)
		return -EHOSTUNREACH;
	size = sizeof(sa);
	if (getsockname(fd, (struct sockaddr *)&sa, &size) < 0)
		return -errno;
	return psid_address_from_socket((const struct sockaddr *)&sa, ret_address);
}

static bool is_usable(const struct ifaddrs *entry, int family)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)entry->ifa_addr;

	return entry->ifa_addr && entry->ifa_addr->sa_family == family &&
	       (entry->ifa_flags & IFF_UP) && !(entry->ifa_flags & IFF_LOOPBACK) &&
	       (family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
}

static int first_of(int family, struct psid_address *ret_address)
{
	struct ifaddrs *entries, *entry;
	int r = -ENOENT;

	if (getifaddrs(&entries) < 0)
		return -errno;
	for (entry = entries; entry && r < 0; entry = entry->ifa_next)
		if (is_usable(entry, family))
			r = psid_address_from_socket(entry->ifa_addr, ret_address);
	freeifaddrs(entries);
	return r;
}

void psid_where(const struct psid_address *to, struct psid_address *address)
{
	struct psid_address found;

	if ((to && (towards(to, AF_INET, &found) == 0 || towards(to, AF_INET6, &found) == 0)) ||
	    first_of(AF_INET, &found) == 0 || first_of(AF_INET6, &found) == 0)
		memcpy(address->ip, found.ip, sizeof(found.ip));
	else
		(void)psid_address_parse("127.0.0.1", address->port, address);
}
