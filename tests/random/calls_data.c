/*
 * The calls that move bytes of a stream or datagrams: send, recv and their families.
 *
 * Where a call has a vector, the bytes are split into two parts of unequal length; what came is put
 * together again before it is shown, so that all calls of a family are answered alike. What may be
 * short for reasons of timing is not drawn: a sequence never has more under way than the smallest
 * buffer takes.
 */
#include "call.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static __thread char buffer[SIZE_CALL_MAX];

static int flags_word(const struct call *call, unsigned i)
{
	return (int)bits_of(WORDS_MSG, call->words[i]);
}

/* Two parts, the first the smaller one. */
static void split(struct iovec vector[2], size_t n)
{
	vector[0] = (struct iovec){ buffer, n / 3 };
	vector[1] = (struct iovec){ buffer + n / 3, n - n / 3 };
}

/* ---- sending: VERB slot size flags ----------------------------------------------------------- */

static void call_send(struct call *call)
{
	size_t n = size_word(call, 2);

	fill_step(call, buffer, n);
	RESULT(call, send(call->fd, buffer, n, flags_word(call, 3)));
}

static void call_write(struct call *call)
{
	size_t n = size_word(call, 2);

	fill_step(call, buffer, n);
	RESULT(call, write(call->fd, buffer, n));
}

static void call_writev(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[2];

	fill_step(call, buffer, n);
	split(vector, n);
	RESULT(call, writev(call->fd, vector, 2));
}

static void call_sendmsg(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[2];
	struct msghdr msg = { .msg_iov = vector, .msg_iovlen = 2 };

	fill_step(call, buffer, n);
	split(vector, n);
	RESULT(call, sendmsg(call->fd, &msg, flags_word(call, 3)));
}

/* Three messages of that size, the second of half of it. */
static void call_sendmmsg(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[3] = { { buffer, n }, { buffer, n / 2 }, { buffer, n } };
	struct mmsghdr msgs[3] = { 0 };
	long sent;

	fill_step(call, buffer, n);
	for (unsigned i = 0; i < 3; i++)
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &vector[i], .msg_iovlen = 1 };
	sent = RESULT(call, sendmmsg(call->fd, msgs, 3, flags_word(call, 3)));
	for (long i = 0; i < sent; i++)
		answer(call, " %u", msgs[i].msg_len);
}

static void call_send_null(struct call *call)
{
	RESULT(call, send(call->fd, NULL, size_word(call, 2), flags_word(call, 3)));
}

/* ---- receiving: VERB slot size flags --------------------------------------------------------- */

/* What a call has put into the buffer: with MSG_TRUNC a stream's bytes are dropped, and a
 * datagram's length may be more than came. */
static void answer_received(struct call *call, long got, size_t n, int flags)
{
	if (got > 0 && !(flags & MSG_TRUNC && call->table->kinds[call->slot] == KIND_STREAM))
		answer_bytes(call, buffer, (size_t)got < n ? (size_t)got : n);
}

static void call_recv(struct call *call)
{
	size_t n = size_word(call, 2);
	int flags = flags_word(call, 3);

	note_patience(call, call->fd);
	answer_received(call, RESULT(call, recv(call->fd, buffer, n, flags)), n, flags);
}

static void call_recvfrom(struct call *call)
{
	struct sockaddr_storage from = { 0 };
	socklen_t size = sizeof(from);
	size_t n = size_word(call, 2);
	int flags = flags_word(call, 3);
	long got;

	note_patience(call, call->fd);
	got = RESULT(call, recvfrom(call->fd, buffer, n, flags, (struct sockaddr *)&from, &size));
	answer_received(call, got, n, flags);
	if (got >= 0)
		answer_address(call, &from, size);
}

static void call_read(struct call *call)
{
	size_t n = size_word(call, 2);

	note_patience(call, call->fd);
	answer_received(call, RESULT(call, read(call->fd, buffer, n)), n, 0);
}

static void call_readv(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector[2];

	split(vector, n);
	note_patience(call, call->fd);
	answer_received(call, RESULT(call, readv(call->fd, vector, 2)), n, 0);
}

/* What was told besides; of times only that they were. */
static void answer_control(struct call *call, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = c->cmsg_len - CMSG_LEN(0);

		answer(call, ", told %d %d:", c->cmsg_level, c->cmsg_type);
		for (size_t i = 0; c->cmsg_level != SOL_SOCKET && i < n; i++)
			answer(call, " %u", CMSG_DATA(c)[i]);
	}
}

static void call_recvmsg(struct call *call)
{
	struct sockaddr_storage from = { 0 };
	size_t n = size_word(call, 2);
	int flags = flags_word(call, 3);
	struct iovec vector[2];
	char control[256] __attribute__((aligned(sizeof(size_t))));
	struct msghdr msg = { .msg_iov = vector,
			      .msg_iovlen = 2,
			      .msg_name = &from,
			      .msg_namelen = sizeof(from),
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	long got;

	split(vector, n);
	note_patience(call, call->fd);
	got = RESULT(call, recvmsg(call->fd, &msg, flags));
	answer_received(call, got, n, flags);
	if (got < 0)
		return;
	answer_bits(call, WORDS_MSG, (unsigned)msg.msg_flags);
	answer_address(call, &from, msg.msg_namelen);
	answer_control(call, &msg);
}

static void call_recvmmsg(struct call *call)
{
	size_t n = size_word(call, 2) / 4;
	int flags = flags_word(call, 3);
	struct mmsghdr msgs[4] = { 0 };
	struct iovec vector[4];
	long got;

	for (unsigned i = 0; i < 4; i++) {
		vector[i] = (struct iovec){ buffer + i * n, n };
		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &vector[i], .msg_iovlen = 1 };
	}
	note_patience(call, call->fd);
	got = RESULT(call, recvmmsg(call->fd, msgs, 4, flags, NULL));
	for (long i = 0; i < got; i++) {
		answer(call, ", %u", msgs[i].msg_len);
		answer_bytes(call, vector[i].iov_base, msgs[i].msg_len < n ? msgs[i].msg_len : n);
		answer_bits(call, WORDS_MSG, (unsigned)msgs[i].msg_hdr.msg_flags);
	}
}

static void call_recv_null(struct call *call)
{
	note_patience(call, call->fd);
	RESULT(call, recv(call->fd, NULL, size_word(call, 2), flags_word(call, 3)));
}

/* ---- datagrams: sendto slot size flags address ----------------------------------------------- */

static void call_sendto(struct call *call)
{
	const struct address *to = address_of_word(call, call->words[4]);
	size_t n = size_word(call, 2);

	fill_step(call, buffer, n);
	RESULT(call, sendto(call->fd, buffer, n, flags_word(call, 3),
			    to ? (const struct sockaddr *)&to->storage : NULL, to ? to->size : 0));
}

/* sendmmsg_to slot size address address: two datagrams to the first, around one to the second */
static void call_sendmmsg_to(struct call *call)
{
	size_t n = size_word(call, 2);
	struct iovec vector = { buffer, n };
	struct mmsghdr msgs[3] = { 0 };
	long sent;

	fill_step(call, buffer, n);
	for (unsigned i = 0; i < 3; i++) {
		struct address *to = address_of_word(call, call->words[3 + i % 2]);

		msgs[i].msg_hdr = (struct msghdr){ .msg_iov = &vector,
						   .msg_iovlen = 1,
						   .msg_name = &to->storage,
						   .msg_namelen = to->size };
	}
	sent = RESULT(call, sendmmsg(call->fd, msgs, 3, MSG_NOSIGNAL));
	for (long i = 0; i < sent; i++)
		answer(call, " %u", msgs[i].msg_len);
}

const struct verb verbs_data[] = {
	{ "send", call_send },
	{ "write", call_write },
	{ "writev", call_writev },
	{ "sendmsg", call_sendmsg },
	{ "sendmmsg", call_sendmmsg },
	{ "send_null", call_send_null },
	{ "recv", call_recv },
	{ "recvfrom", call_recvfrom },
	{ "read", call_read },
	{ "readv", call_readv },
	{ "recvmsg", call_recvmsg },
	{ "recvmmsg", call_recvmmsg },
	{ "recv_null", call_recv_null },
	{ "sendto", call_sendto },
	{ "sendmmsg_to", call_sendmmsg_to },
	{ NULL, NULL },
};
