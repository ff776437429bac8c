/*
 * Is a peer on this node? Loopback addresses and our own end's address are; for the rest the kernel
 * is asked whether one could bind there: the answer needs no list of interfaces that may be out of
 * date, and comes from the network namespace that the program is in. psid checks again with better
 * means; this only saves hints that can come to nothing.
 */
#include "local_addresses.h"

#include <netinet/in.h>
#include <string.h>

#include "rawsys.h"

static bool is_mapped(const uint8_t a[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a, prefix, sizeof(prefix)) == 0;
}

static bool can_bind(const uint8_t addr[16])
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in4 = { .sin_family = AF_INET };
	bool mapped = is_mapped(addr);
	long e;
	int fd;

	fd = (int)raw_syscall(SYS_socket, mapped ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0,
			      0, 0, 0);
	if (fd < 0)
		return false;
	memcpy(&in4.sin_addr, addr + 12, 4);
	memcpy(&in6.sin6_addr, addr, 16);
	if (mapped)
		e = raw_syscall(SYS_bind, fd, &in4, sizeof(in4), 0, 0, 0);
	else
		e = raw_syscall(SYS_bind, fd, &in6, sizeof(in6), 0, 0, 0);
	(void)raw_close(fd);
	return e == 0;
}

bool is_local_address(const uint8_t remote[16], const uint8_t local[16])
{
	static const uint8_t loopback6[16] = { [15] = 1 };

	if (memcmp(remote, local, 16) == 0 || memcmp(remote, loopback6, 16) == 0)
		return true;
	if (is_mapped(remote) && remote[12] == 127)
		return true;
	if (remote[0] == 0xfe && (remote[1] & 0xc0) == 0x80)
		return false;
	return can_bind(remote);
}
