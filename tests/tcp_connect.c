/* Real TCP connections over the loopback, for tests that need nothing else of a network. */
#include "tcp_connect.h"

#include <netinet/in.h>
#include <unistd.h>

#include "harness.h"

void tcp_connect_pair(int fds[2], int family)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	int listener = socket(family == AF_INET ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC,
			      0);
	socklen_t len = sizeof(in6);

	if (family == AF_INET6)
		in6.sin6_addr = in6addr_loopback;
	if (family == AF_INET)
		REQUIRE(bind(listener, (struct sockaddr *)&in, sizeof(in)) == 0);
	else
		REQUIRE(bind(listener, (struct sockaddr *)&in6, sizeof(in6)) == 0);
	REQUIRE(listen(listener, 1) == 0);
	REQUIRE(getsockname(listener, (struct sockaddr *)&in6, &len) == 0);
	in.sin_port = in6.sin6_port;
	fds[0] = socket(family == AF_INET6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (family == AF_INET6)
		REQUIRE(connect(fds[0], (struct sockaddr *)&in6, sizeof(in6)) == 0);
	else
		REQUIRE(connect(fds[0], (struct sockaddr *)&in, sizeof(in)) == 0);
	fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	REQUIRE(fds[1] >= 0);
	(void)close(listener);
}

void tcp_close_pair(const int fds[2])
{
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int tcp_connect_lingering(int *ret_peer)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 60 };
	static char block[65536];
	int fds[2], size = 1 << 20; /* more than the peer takes unread */

	tcp_connect_pair(fds, AF_INET);
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
	while (send(fds[0], block, sizeof(block), MSG_DONTWAIT) > 0)
		;
	REQUIRE(setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	*ret_peer = fds[1];
	return fds[0];
}
