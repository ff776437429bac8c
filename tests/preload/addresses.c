/* Which addresses and families; what the calls about addresses say. */
#include "case.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>

static void say_address(struct play *p, const char *text, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	char name[INET6_ADDRSTRLEN] = "?";

	if (address->ss_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, name, sizeof(name));
	else
		inet_ntop(AF_INET6, &in6->sin6_addr, name, sizeof(name));
	say(p, "%s: family %d %s", text, address->ss_family, name);
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
					     : ((const struct sockaddr_in6 *)address)->sin6_port;
}

/* Names of both ends, and that they mirror each other. */
static void say_names(struct play *p, int fds[2])
{
	struct sockaddr_storage local[2], remote[2];

	for (int i = 0; i < 2; i++) {
		socklen_t size = sizeof(local[i]);

		R(getsockname(fds[i], (struct sockaddr *)&local[i], &size));
		say(p, "size %u", size);
		size = sizeof(remote[i]);
		R(getpeername(fds[i], (struct sockaddr *)&remote[i], &size));
		say_address(p, "local", &local[i]);
		say_address(p, "remote", &remote[i]);
	}
	T(port_of(&local[0]) == port_of(&remote[1]));
	T(port_of(&local[1]) == port_of(&remote[0]));
}

static void talk(struct play *p, int fds[2])
{
	for (int i = 0; i < 2; i++) {
		R(send(fds[i], "talk", 4, 0));
		say_recv(p, fds[!i], 4, MSG_WAITALL);
	}
	close(fds[0]);
	say_recv(p, fds[1], 1, 0);
	close(fds[1]);
}

static void pair_between(const char *listen_host, const char *connect_host, int fds[2])
{
	struct address address, target;
	int listener = listen_on(listen_host, &address), other = listen_on(connect_host, &target);

	close(other);
	if (target.storage.ss_family == AF_INET)
		((struct sockaddr_in *)&target.storage)->sin_port = port_of(&address.storage);
	else
		((struct sockaddr_in6 *)&target.storage)->sin6_port = port_of(&address.storage);
	fds[0] = connect_to(&target, 0);
	fds[1] = accept(listener, NULL, NULL);
	close(listener);
	nodelay(fds[0]);
	nodelay(fds[1]);
}

#define BETWEEN(name, listen_host, connect_host)                                                   \
	CASE_TRAITS(name, SELF, OWN_PAIR)                                                          \
	{                                                                                          \
		A {                                                                                \
			int fds[2];                                                                \
                                                                                                   \
			pair_between(listen_host, connect_host, fds);                              \
			say_names(p, fds);                                                         \
			warm(p, fds);                                                              \
			talk(p, fds);                                                              \
		}                                                                                  \
	}

BETWEEN(addresses_ipv4, "127.0.0.1", "127.0.0.1")
BETWEEN(addresses_ipv6, "::1", "::1")
BETWEEN(addresses_mapped_both, "::ffff:127.0.0.1", "::ffff:127.0.0.1")
BETWEEN(addresses_mapped_to_plain, "127.0.0.1", "::ffff:127.0.0.1")
BETWEEN(addresses_plain_to_mapped, "::ffff:127.0.0.1", "127.0.0.1")
BETWEEN(addresses_any_ipv4, "0.0.0.0", "127.0.0.1")
BETWEEN(addresses_any_both_by_ipv4, "::", "127.0.0.1")
BETWEEN(addresses_any_both_by_ipv6, "::", "::1")
BETWEEN(addresses_connect_to_any, "0.0.0.0", "0.0.0.0")
BETWEEN(addresses_other_loopback, "127.9.8.7", "127.9.8.7")

CASE_TRAITS(addresses_chosen_source, SELF, OWN_PAIR)
{
	struct sockaddr_in source = { .sin_family = AF_INET };
	struct address address;
	int fds[2], listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		inet_pton(AF_INET, "127.0.0.77", &source.sin_addr);
		fds[0] = socket(AF_INET, SOCK_STREAM, 0);
		R(bind(fds[0], (struct sockaddr *)&source, sizeof(source)));
		R(connect(fds[0], (struct sockaddr *)&address.storage, address.size));
		fds[1] = accept(listener, NULL, NULL);
		say_names(p, fds);
		warm(p, fds);
		talk(p, fds);
	}
}

/* The machine's own address that is no loopback one, where it has any. */
CASE_TRAITS(addresses_of_an_interface, SELF, OWN_PAIR)
{
	struct ifaddrs *list = NULL;
	char host[INET_ADDRSTRLEN] = "127.0.0.1";
	int fds[2];

	A {
		getifaddrs(&list);
		for (struct ifaddrs *i = list; i; i = i->ifa_next) {
			const struct sockaddr_in *in = (const struct sockaddr_in *)i->ifa_addr;

			if (in && in->sin_family == AF_INET &&
			    ntohl(in->sin_addr.s_addr) >> 24 != 127)
				inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		}
		freeifaddrs(list);
		pair_between(host, host, fds);
		warm(p, fds);
		talk(p, fds);
	}
}

CASE_TRAITS(addresses_by_name, SELF, OWN_PAIR)
{
	struct addrinfo *info = NULL, hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET };
	struct address address;
	int fds[2], listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		R(getaddrinfo("localhost", "1", &hints, &info));
		((struct sockaddr_in *)info->ai_addr)->sin_port = port_of(&address.storage);
		fds[0] = socket(info->ai_family, info->ai_socktype, info->ai_protocol);
		R(connect(fds[0], info->ai_addr, info->ai_addrlen));
		fds[1] = accept(listener, NULL, NULL);
		freeaddrinfo(info);
		warm(p, fds);
		talk(p, fds);
	}
}

CASE_TRAITS(addresses_accept_tells_the_peer, SELF, OWN_PAIR)
{
	struct sockaddr_storage peer, own;
	socklen_t size = sizeof(peer), size_own = sizeof(own), tiny = 4;
	struct address address;
	int fds[2], more[2], listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		fds[0] = connect_to(&address, 0);
		fds[1] = accept(listener, (struct sockaddr *)&peer, &size);
		say_address(p, "peer", &peer);
		say(p, "size %u", size);
		getsockname(fds[0], (struct sockaddr *)&own, &size_own);
		T(port_of(&own) == port_of(&peer));
		more[0] = connect_to(&address, 0);
		more[1] = accept4(listener, (struct sockaddr *)&peer, &tiny, 0);
		say(p, "size %u", tiny);
		warm(p, fds);
		talk(p, fds);
		talk(p, more);
	}
}

CASE_TRAITS(addresses_self_connected_socket, SELF, NO_PAIR | STAYS_KERNEL)
{
	struct address address;
	int fd, listener;

	A {
		listener = listen_on("127.0.0.1", &address);
		close(listener);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
		R(bind(fd, (struct sockaddr *)&address.storage, address.size));
		R(connect(fd, (struct sockaddr *)&address.storage, address.size));
		for (int i = 0; i < 40; i++) {
			T(send(fd, "me", 2, 0) == 2);
			say_recv(p, fd, 2, MSG_WAITALL);
		}
		R(shutdown(fd, SHUT_WR));
		say_recv(p, fd, 2, 0);
	}
}

CASE(addresses_names_after_bytes, ANY)
{
	struct sockaddr_storage name;
	socklen_t size = 4;

	A {
		SEND("x");
		R(getpeername(FD, (struct sockaddr *)&name, &size));
		say(p, "%u", size);
	}
	B {
		RECV(1);
		R(getpeername(-1, (struct sockaddr *)&name, &size));
	}
}
