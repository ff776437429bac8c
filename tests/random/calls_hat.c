/*
 * Descriptors that go from process to process through the hat (world.h), by SCM_RIGHTS: given,
 * taken, looked at, and lost.
 *
 * What lies in a queue when its socket goes comes with its sender's next datagram (docs/udp.md): it
 * is received before. A message has a byte for each descriptor, its kind.
 */
#include "call.h"

#include <string.h>
#include <unistd.h>

#define N_GIVEN_MAX 2

union room {
	char bytes[CMSG_SPACE(N_GIVEN_MAX * sizeof(int))];
	struct cmsghdr header;
};

struct parcel {
	char kinds[N_GIVEN_MAX];
	int fds[N_GIVEN_MAX];
	unsigned n;
};

static void add(struct call *call, struct parcel *parcel, const char *word)
{
	int slot = slot_of(word);
	char kind = slot < 0 ? KIND_NONE : call->table->kinds[slot];

	if (kind == KIND_DATAGRAM)
		empty(call->table->fds[slot]);
	parcel->kinds[parcel->n] = kind;
	parcel->fds[parcel->n++] = fd_of(call, word);
}

static void give(struct call *call, struct parcel *parcel)
{
	struct iovec vector = { parcel->kinds, parcel->n };
	size_t n_bytes = parcel->n * sizeof(int);
	union room room = { 0 };
	struct msghdr msg = { .msg_iov = &vector,
			      .msg_iovlen = 1,
			      .msg_control = &room,
			      .msg_controllen = CMSG_SPACE(n_bytes) };

	room.header = (struct cmsghdr){ CMSG_LEN(n_bytes), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(&room.header), parcel->fds, n_bytes);
	call->world->has_shared = true;
	RESULT(call, sendmsg(FD_HAT_IN, &msg, MSG_DONTWAIT));
}

/* give slot: its kind goes with it */
static void call_give(struct call *call)
{
	struct parcel parcel = { 0 };

	add(call, &parcel, call->words[1]);
	give(call, &parcel);
}

/* give_both slot slot: in one message */
static void call_give_both(struct call *call)
{
	struct parcel parcel = { 0 };

	add(call, &parcel, call->words[1]);
	add(call, &parcel, call->words[2]);
	give(call, &parcel);
}

static struct parcel take(struct call *call, int flags, size_t n_room)
{
	struct parcel parcel = { 0 };
	struct iovec vector = { parcel.kinds, sizeof(parcel.kinds) };
	union room room = { 0 };
	struct msghdr msg = { .msg_iov = &vector,
			      .msg_iovlen = 1,
			      .msg_control = n_room ? &room : NULL,
			      .msg_controllen = n_room };
	long got = RESULT(call, recvmsg(FD_HAT_OUT, &msg, MSG_DONTWAIT | flags));
	struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	if (got > 0 && msg.msg_flags & MSG_CTRUNC)
		answer(call, ", cut");
	if (!header || header->cmsg_type != SCM_RIGHTS)
		return parcel;
	parcel.n = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(parcel.fds, CMSG_DATA(header), parcel.n * sizeof(int));
	return parcel;
}

static int empty_slot(const struct table *table)
{
	for (int i = 0; i < N_SLOTS; i++)
		if (table->fds[i] < 0 && i != 'l' - 'a')
			return i;
	return -1;
}

/* take slot: what is next in the hat; a second descriptor goes where there is room */
static void call_take(struct call *call)
{
	struct parcel parcel = take(call, 0, sizeof(union room));

	for (unsigned i = 0; i < parcel.n; i++) {
		int slot = i ? empty_slot(call->table) : call->slot;

		if (slot < 0)
			close(parcel.fds[i]);
		slot_put(call, slot, parcel.fds[i], (enum kind)parcel.kinds[i]);
	}
}

/* peer_in 0 or 1: takes a copy of what is next, asks something of it, and closes it */
static void call_peer_in(struct call *call)
{
	struct parcel parcel = take(call, MSG_PEEK | MSG_CMSG_CLOEXEC, sizeof(union room));

	for (unsigned i = 0; i < parcel.n; i++) {
		char byte;

		if (number_of(call->words[1]))
			RESULT(call, recv(parcel.fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT));
		close(parcel.fds[i]);
	}
}

/* spill 0 or 1: receives what is next without room for its descriptor; or with room for less */
static void call_spill(struct call *call)
{
	(void)take(call, 0, number_of(call->words[1]) ? sizeof(struct cmsghdr) : 0);
}

const struct verb verbs_hat[] = {
	{ "give", call_give },	     { "give_both", call_give_both }, { "take", call_take },
	{ "peer_in", call_peer_in }, { "spill", call_spill },	      { NULL, NULL },
};
