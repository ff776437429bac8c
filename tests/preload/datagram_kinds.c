/*
 * Kinds of addresses and sockets: IPv6, v4-mapped, wildcards, connected servers, several sources;
 * and those that stay with the kernel: broadcast, multicast, groups of SO_REUSEPORT.
 */
#include "stage.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>

static void send_text(struct play *p, int fd, const char *text, const struct address *to)
{
	R(sendto(fd, text, strlen(text), 0, (const struct sockaddr *)&to->storage, to->size));
}

static void receive_all(struct play *p, int fd)
{
	while (say_recv(p, fd, 32, MSG_DONTWAIT) >= 0)
		;
}

/* Receives one, and says whose it is. */
static void receive_from(struct play *p, int fd, const struct address *whose)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	char buf[32];

	memset(&from, 0, sizeof(from));
	R(recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &size));
	T(size == whose->size);
	T(memcmp(&from, &whose->storage, whose->size) == 0);
}

static void close_both(const int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

/* ---- families -------------------------------------------------------------------------------- */

static void both_ways_on(struct play *p, const char *host)
{
	struct address addresses[2];
	int fds[2];

	for (int i = 0; i < 2; i++) fds[i] = bound_on(host, &addresses[i]);
	warm_datagrams(p, fds, addresses);
	for (int i = 0; i < 2; i++) {
		send_text(p, fds[i], "by name", &addresses[!i]);
		receive_from(p, fds[!i], &addresses[i]);
	}
	close_both(fds);
}

CASE_TRAITS(datagram_ipv6, SELF, OWN_PAIR)
{
	A { both_ways_on(p, "::1"); }
}

CASE_TRAITS(datagram_v4_mapped, SELF, OWN_PAIR)
{
	A { both_ways_on(p, "::ffff:127.0.0.1"); }
}

CASE_TRAITS(datagram_other_loopback, SELF, OWN_PAIR)
{
	A { both_ways_on(p, "127.3.2.1"); }
}

/* An IPv6 socket of all addresses, and an IPv4 one that talks to it. */
CASE_TRAITS(datagram_v4_to_v6_wildcard, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2], mapped;
		int fds[2];

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("::", &mapped);
		address_of("127.0.0.1", ntohs(((struct sockaddr_in6 *)&mapped.storage)->sin6_port),
			   &addresses[1]);
		address_of("::ffff:127.0.0.1",
			   ntohs(((struct sockaddr_in *)&addresses[0].storage)->sin_port), &mapped);
		addresses[0] = mapped;
		warm_datagrams(p, fds, addresses);
		send_text(p, fds[0], "to all", &addresses[1]);
		receive_from(p, fds[1], &mapped);
		send_text(p, fds[1], "back", &mapped);
		receive_from(p, fds[0], &addresses[1]);
		close_both(fds);
	}
}

/* A server of all addresses answers from the one that the kernel chooses. */
CASE_TRAITS(datagram_wildcard_source, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2], any, other;
		uint16_t port;
		int fds[2];

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("0.0.0.0", &any);
		port = ntohs(((struct sockaddr_in *)&any.storage)->sin_port);
		address_of("127.0.0.1", port, &addresses[1]);
		address_of("127.0.0.9", port, &other);
		warm_datagrams(p, fds, addresses);
		send_text(p, fds[0], "to one address", &addresses[1]);
		receive_from(p, fds[1], &addresses[0]);
		send_text(p, fds[0], "to another one", &other);
		receive_from(p, fds[1], &addresses[0]);
		send_text(p, fds[1], "answer", &addresses[0]);
		receive_from(p, fds[0], &addresses[1]);
		close_both(fds);
	}
}

/* A socket that binds itself by sending. */
CASE_TRAITS(datagram_unbound_sender, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2];

		fds[1] = bound_on("127.0.0.1", &addresses[1]);
		fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
		send_text(p, fds[0], "first", &addresses[1]);
		receive_all(p, fds[1]);
		addresses[0].size = sizeof(addresses[0].storage);
		getsockname(fds[0], (struct sockaddr *)&addresses[0].storage, &addresses[0].size);
		address_of("127.0.0.1",
			   ntohs(((struct sockaddr_in *)&addresses[0].storage)->sin_port),
			   &addresses[0]);
		warm_datagrams(p, fds, addresses);
		send_text(p, fds[0], "more", &addresses[1]);
		receive_from(p, fds[1], &addresses[0]);
		close_both(fds);
	}
}

/* ---- several sources ------------------------------------------------------------------------- */

#define N_CLIENTS 5
CASE_TRAITS(datagram_several_clients, SELF, OWN_PAIR)
{
	A {
		struct address addresses[N_CLIENTS], server_address;
		int clients[N_CLIENTS], server = bound_on("127.0.0.1", &server_address);

		for (int i = 0; i < N_CLIENTS; i++) {
			struct address pair[2] = { [1] = server_address };
			int fds[2] = { bound_on("127.0.0.1", &pair[0]), server };

			(void)connect(fds[0], (struct sockaddr *)&server_address.storage,
				      server_address.size);
			warm_datagrams(p, fds, pair);
			clients[i] = fds[0];
			addresses[i] = pair[0];
		}
		for (int i = 0; i < 3 * N_CLIENTS; i++) R(send(clients[i % N_CLIENTS], "x", 1, 0));
		for (int i = 0; i < 3 * N_CLIENTS; i++)
			receive_from(p, server, &addresses[i % N_CLIENTS]);
		for (int i = 0; i < N_CLIENTS; i++) send_text(p, server, "answer", &addresses[i]);
		for (int i = 0; i < N_CLIENTS; i++) receive_from(p, clients[i], &server_address);
		for (int i = 0; i < N_CLIENTS; i++) close(clients[i]);
		receive_all(p, server);
		close(server);
	}
}

/* One that closes and another that takes its port: not the same sender. */
CASE_TRAITS(datagram_port_of_a_former_sender, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2];

		for (int i = 0; i < 2; i++) fds[i] = bound_on("127.0.0.1", &addresses[i]);
		for (int round = 0; round < 3; round++) {
			warm_datagrams(p, fds, addresses);
			send_text(p, fds[0], "unread by its end", &addresses[1]);
			close(fds[0]);
			fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
			R(bind(fds[0], (struct sockaddr *)&addresses[0].storage,
			       addresses[0].size));
			send_text(p, fds[0], "of the new one", &addresses[1]);
			receive_all(p, fds[1]);
			send_text(p, fds[1], "answer", &addresses[0]);
			receive_all(p, fds[0]);
		}
		close_both(fds);
	}
}

/* ---- on the kernel --------------------------------------------------------------------------- */

/* Two sockets of one port: every datagram goes to one of them, the same for one sender. */
CASE_TRAITS(datagram_reuseport_group, SELF, NO_PAIR | STAYS_KERNEL)
{
	A {
		struct address server_address = { .size = 0 }, client_address;
		int servers[2], client = bound_on("127.0.0.1", &client_address), n[2] = { 0 };
		char buf[8];

		address_of("127.0.0.1", 0, &server_address);
		for (int i = 0; i < 2; i++) {
			servers[i] = socket(AF_INET, SOCK_DGRAM, 0);
			R(setsockopt(servers[i], SOL_SOCKET, SO_REUSEPORT, &(int){ 1 },
				     sizeof(int)));
			T(bind(servers[i], (struct sockaddr *)&server_address.storage,
			       server_address.size) == 0);
			server_address.size = sizeof(server_address.storage);
			getsockname(servers[i], (struct sockaddr *)&server_address.storage,
				    &server_address.size);
		}
		for (int i = 0; i < 40; i++) {
			sendto(client, "hello", 5, 0, (struct sockaddr *)&server_address.storage,
			       server_address.size);
			for (int k = 0; k < 2; k++)
				while (recv(servers[k], buf, 8, MSG_DONTWAIT) == 5) {
					n[k]++;
					sendto(servers[k], "back", 4, 0,
					       (struct sockaddr *)&client_address.storage,
					       client_address.size);
					T(recv(client, buf, 8, MSG_DONTWAIT) == 4);
				}
		}
		T(n[0] + n[1] == 40);
		T(n[0] == 40 || n[1] == 40);
		/* The one that is left gets all. */
		close(servers[n[0] ? 0 : 1]);
		sendto(client, "rest", 4, 0, (struct sockaddr *)&server_address.storage,
		       server_address.size);
		receive_all(p, servers[n[0] ? 1 : 0]);
		close(servers[n[0] ? 1 : 0]);
		close(client);
	}
}

/* A second socket with the port of one that has flows: the kernel decides again. */
CASE_TRAITS(datagram_reuseaddr_late, SELF, OWN_PAIR)
{
	A {
		struct address addresses[2];
		int fds[2], second;

		for (int i = 0; i < 2; i++) fds[i] = bound_on("127.0.0.1", &addresses[i]);
		warm_datagrams(p, fds, addresses);
		send_text(p, fds[0], "to the first", &addresses[1]);
		R(setsockopt(fds[1], SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)));
		second = socket(AF_INET, SOCK_DGRAM, 0);
		R(setsockopt(second, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)));
		R(bind(second, (struct sockaddr *)&addresses[1].storage, addresses[1].size));
		send_text(p, fds[0], "to whom?", &addresses[1]);
		say(p, "first");
		receive_all(p, fds[1]);
		say(p, "second");
		receive_all(p, second);
		close_both(fds);
		close(second);
	}
}

CASE_TRAITS(datagram_broadcast, SELF, NO_PAIR | STAYS_KERNEL)
{
	A {
		struct address addresses[2], to;
		int fds[2];

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("0.0.0.0", &addresses[1]);
		address_of("127.255.255.255",
			   ntohs(((struct sockaddr_in *)&addresses[1].storage)->sin_port), &to);
		send_text(p, fds[0], "not allowed", &to);
		R(setsockopt(fds[0], SOL_SOCKET, SO_BROADCAST, &(int){ 1 }, sizeof(int)));
		for (int i = 0; i < 20; i++) {
			send_text(p, fds[0], "to all", &to);
			receive_from(p, fds[1], &addresses[0]);
		}
		close_both(fds);
	}
}

/* Multicast over the loopback device, beside a flow of the same two sockets. */
CASE_TRAITS(datagram_multicast, SELF, OWN_PAIR)
{
	A {
		struct ip_mreqn group = { .imr_address.s_addr = htonl(INADDR_LOOPBACK) };
		struct timeval patience = { .tv_sec = 2 };
		struct address addresses[2], any, to;
		uint16_t port;
		int fds[2];

		fds[0] = bound_on("127.0.0.1", &addresses[0]);
		fds[1] = bound_on("0.0.0.0", &any);
		port = ntohs(((struct sockaddr_in *)&any.storage)->sin_port);
		address_of("127.0.0.1", port, &addresses[1]);
		address_of("239.77.1.2", port, &to);
		warm_datagrams(p, fds, addresses);
		group.imr_multiaddr = ((struct sockaddr_in *)&to.storage)->sin_addr;
		group.imr_ifindex = (int)if_nametoindex("lo");
		R(setsockopt(fds[1], IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)));
		R(setsockopt(fds[0], IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof(group)));
		/* On a busy machine what went through the kernel may still lie in a processor's
		 * backlog. */
		R(setsockopt(fds[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
		for (int i = 0; i < 12; i++) {
			send_text(p, fds[0], "to the group", &to);
			send_text(p, fds[0], "to one", &addresses[1]);
			say_recv(p, fds[1], 32, 0);
			say_recv(p, fds[1], 32, 0);
		}
		R(setsockopt(fds[1], IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof(group)));
		send_text(p, fds[0], "to one", &addresses[1]);
		say_recv(p, fds[1], 32, 0);
		receive_all(p, fds[1]);
		close_both(fds);
	}
}

/* An unread ICMP error of an unconnected socket, and of one that asked for all. */
CASE_TRAITS(datagram_refused_unconnected, SELF, NO_PAIR | STAYS_KERNEL)
{
	A {
		struct address own, closed;
		int fd = bound_on("127.0.0.1", &own), other = bound_on("127.0.0.1", &closed);

		close(other);
		send_text(p, fd, "nobody", &closed);
		receive_all(p, fd);
		R(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &(int){ 1 }, sizeof(int)));
		send_text(p, fd, "nobody", &closed);
		send_text(p, fd, "error comes first", &closed);
		R(recv(fd, NULL, 0, MSG_DONTWAIT));
		close(fd);
	}
}
