/*
 * What a warm-up is made of, and the look that everyone takes after a descriptor was passed. None
 * of it is compared.
 *
 * Whether a byte went through a ring is seen from outside of PULC: the kernel has not counted it (a
 * stream), or does not have it when it has arrived (a datagram).
 */
#include "call.h"

#include <poll.h>
#include <sys/ioctl.h>

#include "preload/kernel_count.h"

/* warm_put slot ADDRESS */
static void call_warm_put(struct call *call)
{
	const struct address *to = address_of_word(call, call->words[2]);
	bool is_stream = call->table->kinds[call->slot] == KIND_STREAM;
	uint64_t before = is_stream ? kernel_count_written(call->fd) : 0;

	sendto(call->fd, "w", 1, MSG_NOSIGNAL | MSG_DONTWAIT,
	       to ? (const struct sockaddr *)&to->storage : NULL, to ? to->size : 0);
	call->player->on_rings = is_stream && kernel_count_written(call->fd) == before;
}

/* warm_take slot */
static void call_warm_take(struct call *call)
{
	char byte;

	if (call->table->kinds[call->slot] == KIND_DATAGRAM)
		call->player->on_rings = raw_recv(call->fd, NULL, 0,
						  MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) < 0;
	recv(call->fd, &byte, 1, MSG_DONTWAIT);
}

/* look: at every socket, so that what its peer waits for is done. */
static void call_look(struct call *call)
{
	for (int i = 0; i < N_SLOTS; i++) {
		struct pollfd pfd = { .fd = call->table->fds[i], .events = POLLIN };
		int n;

		if (call->table->kinds[i] != KIND_STREAM && call->table->kinds[i] != KIND_DATAGRAM)
			continue;
		ioctl(pfd.fd, FIONREAD, &n);
		poll(&pfd, 1, 1); /* a sender of datagrams pays before it sleeps */
	}
}

const struct verb verbs_warm[] = {
	{ "warm_put", call_warm_put },
	{ "warm_take", call_warm_take },
	{ "look", call_look },
	{ NULL, NULL },
};
