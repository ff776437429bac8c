/*
 * What a peer may write to the socket of HAL tcp, in pieces of any size, beside the plainest
 * decoder there can be: the link shows just the frames that are there, whole and in order; says
 * -EBADMSG where a length is beyond frame_max, and -EPIPE behind the last whole frame of a peer
 * that has closed, and neither anywhere else. What the link is given to send meanwhile comes out at
 * the peer's end as it went in.
 *
 * The first byte chooses io_uring, if it is 1. Each step is a byte, and those that need one have a
 * number of 2 bytes behind it, or bytes of the input.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "macros.h"
#include "tcp_link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_HEAD 16u
#define SIZE_FRAME 65536u
#define SIZE_MOST (1u << 20) /* of what either end says */
#define N_TRIES 4u	     /* looks that a frame may take which is there */
#define N_TRIES_URING 100000u

struct input {
	const uint8_t *at;
	size_t left;
};

static struct hal_link *hal;
static bool is_uring, is_closed;
static int peer;
static struct {
	unsigned char bytes[SIZE_MOST];
	size_t end, at; /* said; and written to the socket, or read from it */
} said, heard;
static size_t n_shown; /* bytes of `said` that the link is done with */

static void must(bool is)
{
	if (!is)
		abort();
}

static size_t take(struct input *in, size_t n, const uint8_t **ret_at)
{
	n = MIN(n, in->left);
	*ret_at = in->at;
	in->at += n;
	in->left -= n;
	return n;
}

static uint16_t number(struct input *in)
{
	uint16_t n = 0;
	const uint8_t *at;
	size_t len = take(in, sizeof(n), &at);

	memcpy(&n, at, len);
	return n;
}

/* ---- the peer's end -------------------------------------------------------------------------- */

static void write_on(void)
{
	ssize_t n = 1;

	while (said.at < said.end && n > 0 && !is_closed) {
		n = send(peer, said.bytes + said.at, said.end - said.at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		said.at += n > 0 ? (size_t)n : 0;
	}
}

static void say(const void *bytes, size_t len)
{
	if (is_closed || len > SIZE_MOST - said.end)
		return;
	memcpy(said.bytes + said.end, bytes, len);
	said.end += len;
	write_on();
}

/* Of the sizes near the largest all are wanted. */
static uint32_t length(uint16_t n)
{
	return n >= 0xff00 ? SIZE_FRAME - 0x80 + (n & 0xff) : n;
}

static void say_frame(struct input *in)
{
	static unsigned char frame[SIZE_HEAD + SIZE_FRAME + 0x100];
	uint16_t n = number(in);
	uint32_t len = length(n), wire = htole32(len);

	memset(frame, n ^ (n >> 8), sizeof(frame));
	memcpy(frame, &wire, sizeof(wire));
	say(frame, SIZE_HEAD + MIN(len, SIZE_FRAME));
}

static void say_raw(struct input *in)
{
	const uint8_t *at;
	size_t len = take(in, number(in) & 0xff, &at);

	say(at, len);
}

static void hear(void)
{
	unsigned char bytes[4096];
	ssize_t n;

	while ((n = recv(peer, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		must((size_t)n <= heard.end - heard.at);
		must(memcmp(bytes, heard.bytes + heard.at, (size_t)n) == 0);
		heard.at += (size_t)n;
	}
}

static void close_peer(void)
{
	if (said.at < said.end)
		return;
	(void)shutdown(peer, SHUT_WR);
	is_closed = true;
}

/* ---- the link, and what it must say ---------------------------------------------------------- */

/* 1, with the frame; 0; -EBADMSG; -EPIPE. */
static int expected(struct hal_frame *ret_f)
{
	const unsigned char *at = said.bytes + n_shown;
	size_t len = said.at - n_shown;

	if (len >= SIZE_HEAD) {
		*ret_f = (struct hal_frame){
			.len = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
			       (uint32_t)at[3] << 24,
			.protocol = (uint16_t)(at[4] | at[5] << 8),
			.kind = (uint16_t)(at[6] | at[7] << 8),
		};
		for (unsigned i = 0; i < 8; i++)
			ret_f->word |= (uint64_t)at[8 + i] << (8 * i);
		if (ret_f->len > SIZE_FRAME)
			return -EBADMSG;
		if (len - SIZE_HEAD >= ret_f->len)
			return 1;
	}
	return is_closed ? -EPIPE : 0;
}

static void check_payload(const struct hal_frame *f)
{
	static unsigned char room[SIZE_FRAME];
	const unsigned char *at = said.bytes + n_shown + SIZE_HEAD;
	struct iovec iov[2] = { { room, f->len / 3 }, { room + f->len / 3, SIZE_FRAME } };

	iov[1].iov_len -= iov[0].iov_len;
	must(hal->ops->copy(hal, iov, 2) == f->len);
	must(memcmp(room, at, f->len) == 0);
}

/* Returns what it said. */
static int look(void)
{
	struct hal_frame want = { 0 }, f;
	unsigned n_tries = is_uring ? N_TRIES_URING : N_TRIES;
	int e = 0, right = expected(&want);

	for (unsigned i = 0; e == 0 && right != 0 && i < n_tries; i++)
		e = hal->ops->next(hal, &f);
	must(e == right);
	if (right == 0) /* and it stays so */
		must(hal->ops->next(hal, &f) == 0);
	if (e != 1)
		return e;
	must(f.len == want.len && f.protocol == want.protocol && f.kind == want.kind &&
	     f.word == want.word);
	check_payload(&f);
	return e;
}

static int look_and_drop(void)
{
	struct hal_frame f = { 0 };
	int e = look();

	if (e == 1) {
		(void)expected(&f);
		hal->ops->drop(hal);
		n_shown += SIZE_HEAD + f.len;
	}
	return e;
}

static void send_frame(struct input *in)
{
	static unsigned char bytes[SIZE_FRAME + 0x100];
	uint16_t n = number(in);
	struct hal_frame f = { .word = n, .len = length(n), .protocol = n, .kind = 7 };
	struct iovec iov[2] = { { bytes, f.len / 2 }, { bytes + f.len / 2, f.len - f.len / 2 } };
	uint32_t len = htole32(f.len);
	const uint16_t numbers[2] = { htole16(n), htole16(7) };
	const uint64_t word = htole64(n);
	int e;

	memset(bytes, n, sizeof(bytes));
	if (SIZE_HEAD + f.len > SIZE_MOST - heard.end)
		return;
	e = hal->ops->send(hal, &f, iov, 2);
	must((e == -EMSGSIZE) == (f.len > SIZE_FRAME));
	if (e != 0)
		return;
	memcpy(heard.bytes + heard.end, &len, sizeof(len));
	memcpy(heard.bytes + heard.end + 4, numbers, sizeof(numbers));
	memcpy(heard.bytes + heard.end + 8, &word, sizeof(word));
	memcpy(heard.bytes + heard.end + SIZE_HEAD, bytes, f.len);
	heard.end += SIZE_HEAD + f.len;
}

static void step(struct input *in, uint8_t what)
{
	switch (what & 7) {
	case 0:
		say_raw(in);
		break;
	case 1:
		say_frame(in);
		break;
	case 2:
		(void)look();
		break;
	case 3:
		(void)look_and_drop();
		break;
	case 4:
		(void)hal->ops->progress(hal);
		(void)hal->ops->pending(hal);
		(void)hal->ops->room(hal);
		break;
	case 5:
		send_frame(in);
		break;
	case 6:
		hear();
		break;
	default:
		close_peer();
	}
	write_on();
}

/* All that was written is taken, to the end. */
static void finish(void)
{
	int e;

	do {
		e = look_and_drop();
		write_on();
		hear();
		close_peer();
	} while (e >= 0);
	hal->ops->close(hal);
	hear();
	(void)close(peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const uint8_t *at = NULL;
	int fds[2];

	is_uring = take(&in, 1, &at) && *at == 1;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	peer = fds[1];
	must(hal_tcp_open(fds[0], is_uring ? HAL_TCP_BEST : HAL_TCP_PLAIN, &hal) == 0);
	is_uring = hal_tcp_is_uring(hal);
	is_closed = false;
	said.end = said.at = heard.end = heard.at = n_shown = 0;
	while (take(&in, 1, &at))
		step(&in, *at);
	finish();
	return 0;
}
