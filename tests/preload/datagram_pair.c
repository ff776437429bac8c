/*
 * Pairs of UDP sockets and their warm-up.
 *
 * Which way a datagram went is seen from outside of PULC: one that the kernel has can be peeked at
 * past any interposed call as soon as it was sent, over the loopback device.
 */
#include "rawsys.h"
#include "stage.h"

#include <arpa/inet.h>

bool is_in_kernel(int fd)
{
	return raw_recv(fd, NULL, 0, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) >= 0;
}

int bound_on(const char *host, struct address *ret_address)
{
	int fd;

	address_of(host, 0, ret_address);
	fd = socket(ret_address->storage.ss_family, SOCK_DGRAM, 0);
	if (bind(fd, (struct sockaddr *)&ret_address->storage, ret_address->size) < 0)
		return -1;
	ret_address->size = sizeof(ret_address->storage);
	getsockname(fd, (struct sockaddr *)&ret_address->storage, &ret_address->size);
	return fd;
}

static int connect_end(int fd, const struct address *to)
{
	return connect(fd, (const struct sockaddr *)&to->storage, to->size);
}

void pair_datagrams(const char *host, int fds[2], struct address addresses[2])
{
	for (int i = 0; i < 2; i++) fds[i] = bound_on(host, &addresses[i]);
	for (int i = 0; i < 2; i++) connect_end(fds[i], &addresses[!i]);
}

/* Both bind and tell each other; who is no server connects. */
void play_open_datagrams(struct play *p)
{
	const char *host = getenv("CASE_HOST");
	struct stage *stage = p->stage;

	EACH { p->fds[p->side] = bound_on(host ? host : "127.0.0.1", &stage->addresses[p->side]); }
	EACH {
		memcpy(p->addresses, stage->addresses, sizeof(p->addresses));
		if (p->side == SIDE_A || !(p->tcase->traits & SERVER))
			connect_end(p->fds[p->side], &p->addresses[!p->side]);
	}
	EACH { p->fd = p->fds[p->side]; }
}

/* ---- warming up ------------------------------------------------------------------------------ */

static void give(int fd, const struct address *to)
{
	char byte = 'w';

	while (sendto(fd, &byte, 1, 0, (const struct sockaddr *)&to->storage, to->size) < 0 &&
	       (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED))
		;
}

/* True: the byte did not come by the kernel. */
static bool take(int fd)
{
	bool on_ring = !is_in_kernel(fd);
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	char byte;

	while (recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &size) < 0 &&
	       (errno == EAGAIN || errno == EINTR))
		poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 1000);
	return on_ring;
}

static void note(struct stage *stage, int side, bool on_ring)
{
	stage->on_rings[side] = on_ring ? stage->on_rings[side] + 1 : 0;
}

void play_warm_datagrams(struct play *p)
{
	struct stage *stage = p->stage;
	uint64_t usec_start = usec_clock();
	bool go_on = true;

	for (unsigned n = 0; go_on; n++) {
		A { stage->words[0] = warm_goes_on(stage, n, usec_start); }
		B { go_on = stage->words[0]; }
		A { go_on = stage->words[0]; }
		if (!go_on)
			break;
		A { give(FD, &p->addresses[SIDE_B]); }
		B { note(stage, SIDE_A, take(FD)); }
		B { give(FD, &p->addresses[SIDE_A]); }
		A { note(stage, SIDE_B, take(FD)); }
	}
	A {
		stage->words[0] = 0;
		warm_conclude(stage);
	}
}

void warm_datagrams(struct play *p, int fds[2], const struct address addresses[2])
{
	struct stage *stage = p->stage;
	uint64_t usec_start = usec_clock();

	note(stage, SIDE_A, false);
	note(stage, SIDE_B, false);
	for (unsigned n = 0; warm_goes_on(stage, n, usec_start); n++) {
		for (int side = SIDE_A; side <= SIDE_B; side++) {
			give(fds[side], &addresses[!side]);
			note(stage, side, take(fds[!side]));
		}
	}
	warm_conclude(stage);
	if (p->tcase->traits & OWN_PAIR)
		play_gate(p);
}
