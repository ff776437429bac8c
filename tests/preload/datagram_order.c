/* The order of datagrams: of one sender by several ways, of several senders, of more than fit. */
#include "case.h"

#include <netinet/ip.h>
#include <stdio.h>
#include <sys/uio.h>

static void send_text(int fd, const char *text, const struct address *to)
{
	sendto(fd, text, strlen(text), 0, (const struct sockaddr *)&to->storage, to->size);
}

/* With something that only the kernel can do. */
static void send_with_control(int fd, const char *text)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { (char *)text, strlen(text) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = IPPROTO_IP;
	cmsg->cmsg_type = IP_TTL;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)(void *)CMSG_DATA(cmsg) = 64;
	if (sendmsg(fd, &msg, 0) < 0 && errno == EINVAL) { /* an IPv6 socket */
		msg.msg_control = NULL;
		msg.msg_controllen = 0;
		sendmsg(fd, &msg, 0);
	}
}

static void receive_all(struct play *p, int fd)
{
	while (say_recv(p, fd, 32, MSG_DONTWAIT) >= 0)
		;
}

/* ---- one sender ------------------------------------------------------------------------------ */

CASE_TRAITS(datagram_order_of_two_ways, ANY, DATAGRAMS)
{
	char text[16];

	for (int round = 0; round < 3; round++) {
		A {
			for (int i = 0; i < 12; i++) {
				snprintf(text, sizeof(text), "%d.%d", round, i);
				if (i % 4 == 1)
					send_with_control(FD, text);
				else
					SEND(text);
			}
		}
		B {
			for (int i = 0; i < 12; i++) RECV(16);
		}
	}
}

/* By turns, each taken at once, and then two by two. */
CASE_TRAITS(datagram_order_of_turns, ANY, DATAGRAMS)
{
	for (int i = 0; i < 6; i++) {
		A {
			send_with_control(FD, "kernel");
			SEND("queue");
		}
		B {
			RECV(16);
			RECV(16);
		}
		A {
			SEND("queue");
			send_with_control(FD, "kernel");
		}
		B {
			RECV_FLAGS(16, MSG_PEEK);
			RECV(16);
			RECV_FLAGS(16, MSG_PEEK);
			RECV(16);
		}
	}
}

/* Those that fit nowhere else go by the kernel. */
CASE_TRAITS(datagram_order_of_sizes, DUO, DATAGRAMS)
{
	static char buf[65507];

	for (size_t round = 0; round < 4; round++) {
		A {
			for (size_t i = 0; i < 3; i++) {
				SEND("small");
				memset(buf, (int)('a' + i), sizeof(buf));
				R(send(FD, buf, 20000 + i * 15000, 0));
			}
		}
		B {
			for (size_t i = 0; i < 3; i++) {
				RECV(16);
				R(recv(FD, buf, sizeof(buf), 0));
				say(p, "%c", buf[10000]);
			}
		}
	}
}

/* More than any buffer holds, with nobody who takes them: some are lost, none is doubled, and the
 * rest is in order. */
static bool is_rising(struct play *p, int fd, unsigned *ret_n)
{
	unsigned number, last = 0;

	for (*ret_n = 0; recv(fd, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number);
	     ++*ret_n) {
		if (*ret_n > 0 && number <= last) {
			say(p, "%u after %u", number, last);
			return false;
		}
		last = number;
	}
	return true;
}

CASE_TRAITS(datagram_order_when_too_many, ANY, DATAGRAMS)
{
	unsigned n;

	A {
		for (unsigned i = 0; i < 60000; i++)
			if (send(FD, &i, sizeof(i), 0) != sizeof(i))
				say(p, "not sent");
	}
	B {
		T(is_rising(p, FD, &n));
		T(n >= 200);
	}
	A { SEND("again"); }
	B { RECV(8); }
}

#define LAST 1000000u
CASE_TRAITS(datagram_order_of_a_stream, DUO, DATAGRAMS)
{
	unsigned number, last = 0, n = 0;

	B {
		while (recv(FD, &number, sizeof(number), 0) == sizeof(number) && number != LAST) {
			if (number < last)
				say(p, "%u after %u", number, last);
			last = number;
			n++;
		}
		T(n > 100);
	}
	WITH_A {
		for (unsigned i = 0; i < 20000; i++) send(FD, &i, sizeof(i), 0);
		/* The last one may be lost with others. */
		for (unsigned i = 0; i < 50; i++) {
			usleep(1000);
			number = LAST;
			send(FD, &number, sizeof(number), 0);
		}
	}
	B {
		while (recv(FD, &number, sizeof(number), MSG_DONTWAIT) > 0)
			;
	}
}

/* ---- several senders ------------------------------------------------------------------------- */

struct party {
	int server, fds[3];
	struct address to, addresses[3];
};

static void party_open(struct play *p, struct party *party)
{
	struct address addresses[2];
	int fds[2];

	party->server = bound_on("127.0.0.1", &party->to);
	for (int i = 0; i < 3; i++) {
		party->fds[i] = bound_on("127.0.0.1", &party->addresses[i]);
		if (i == 0)
			continue;
		/* The first one stays a stranger, the others have flows. */
		addresses[0] = party->addresses[i];
		addresses[1] = party->to;
		fds[0] = party->fds[i];
		fds[1] = party->server;
		warm_datagrams(p, fds, addresses);
	}
}

static void party_close(const struct party *party)
{
	close(party->server);
	for (int i = 0; i < 3; i++) close(party->fds[i]);
}

CASE_TRAITS(datagram_order_of_senders, SELF, OWN_PAIR)
{
	A {
		struct party party;
		char text[16];

		party_open(p, &party);
		for (int round = 0; round < 4; round++) {
			for (int i = 0; i < 12; i++) {
				snprintf(text, sizeof(text), "%d: %d", i * 7 % 3, i);
				send_text(party.fds[i * 7 % 3], text, &party.to);
			}
			receive_all(p, party.server);
		}
		party_close(&party);
	}
}

CASE_TRAITS(datagram_order_of_two_flows, SELF, OWN_PAIR)
{
	A {
		struct party party;
		char text[16];

		party_open(p, &party);
		for (int i = 0; i < 40; i++) {
			snprintf(text, sizeof(text), "%d: %d", 1 + i / 3 % 2, i);
			send_text(party.fds[1 + i / 3 % 2], text, &party.to);
		}
		receive_all(p, party.server);
		party_close(&party);
	}
}

/* Names and contents belong together, whoever sends. */
CASE_TRAITS(datagram_names_of_senders, SELF, OWN_PAIR)
{
	A {
		struct sockaddr_in from;
		struct party party;
		socklen_t size;
		char text[16];

		party_open(p, &party);
		for (int i = 0; i < 12; i++) {
			snprintf(text, sizeof(text), "%d", i % 3);
			send_text(party.fds[i % 3], text, &party.to);
		}
		for (int i = 0; i < 12; i++) {
			size = sizeof(from);
			R(recvfrom(party.server, text, sizeof(text), 0, (struct sockaddr *)&from,
				   &size));
			T(size == sizeof(from));
			T(memcmp(&from, &party.addresses[text[0] - '0'].storage, 8) == 0);
		}
		party_close(&party);
	}
}

/* Another process, a stranger to PULC or not: what it sent before a word of its own comes first. */
CASE_TRAITS(datagram_order_across_processes, PROCESS, DATAGRAMS | SERVER)
{
	int fd;

	A { SEND("by the flow"); }
	B {
		fd = socket(p->addresses[SIDE_B].storage.ss_family, SOCK_DGRAM, 0);
		send_text(fd, "by the kernel", &p->addresses[SIDE_B]);
		close(fd);
	}
	A { SEND("by the flow again"); }
	B {
		RECV(32);
		RECV(32);
		RECV(32);
	}
}
