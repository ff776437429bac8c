/*
 * "This connection is upgraded", said by the socket itself.
 *
 * Whoever gets a socket by exec or from another process must know whether the kernel has all of its
 * bytes. psid would have to be asked about every socket, and waited for; so the first holder leaves
 * a mark that the kernel keeps with the socket, for whoever holds it. The mark is an option that
 * means nothing to a TCP socket and that no program sets on one: IP_RECVORIGDSTADDR, which asks for
 * an address with each datagram.
 *
 * It is set before either side may use its ring, and cleared when a side has left and knows nothing
 * that the kernel does not.
 */
#include "label.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <pulc/process.h>

#include "macros.h"
#include "rawsys.h"

static int set(int fd, int value)
{
	return (int)raw_syscall(SYS_setsockopt, fd, SOL_IP, IP_RECVORIGDSTADDR, &value,
				sizeof(value), 0);
}

int label_set(int fd)
{
	return set(fd, 1);
}

void label_clear(int fd)
{
	(void)set(fd, 0);
}

static int get(int fd, int level, int option)
{
	int value = 0;
	socklen_t len = sizeof(value);
	int e = raw_getsockopt(fd, level, option, &value, &len);

	return e < 0 ? e : value;
}

PULC_EXPORT bool pulc_socket_is_upgraded(int fd)
{
	return get(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP &&
	       get(fd, SOL_IP, IP_RECVORIGDSTADDR) == 1;
}
