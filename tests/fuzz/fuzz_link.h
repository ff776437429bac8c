/*
 * A link of a made-up transport, for targets that fuzz what a peer may say to a protocol: frames
 * stand in a row until they are dropped, and their payload is a head, then bytes that count up.
 * Only one thing is asked of who uses it: to keep hal.h's contract.
 */
#ifndef PULC_TESTS_FUZZ_FUZZ_LINK_H
#define PULC_TESTS_FUZZ_FUZZ_LINK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "protocol.h"

#define FUZZ_N_FRAMES 8u
#define FUZZ_SIZE_HEAD 64u
#define FUZZ_FRAME_MAX 65536u

struct fuzz_frame {
	struct hal_frame f;
	unsigned char head[FUZZ_SIZE_HEAD];
	uint32_t n_head;
	uint8_t first; /* of the bytes behind the head */
};

struct fuzz_link {
	struct hal_link hal;
	struct peer *peer;
	struct fuzz_frame frames[FUZZ_N_FRAMES];
	unsigned n;
	bool is_full, is_closed;
	void (*sent)(struct fuzz_link *link, const struct hal_frame *f, const struct iovec *iov);
};

struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline void fuzz_must_be(bool is, const char *what, int line)
{
	if (is)
		return;
	(void)fprintf(stderr, "line %d: not %s\n", line, what);
	abort();
}
#define fuzz_must(is) fuzz_must_be(is, #is, __LINE__)

/* 8 raw bytes of the input, as far as there are so many. */
static inline uint64_t fuzz_value(struct fuzz_input *in)
{
	uint64_t v = 0;
	size_t len = MIN(in->left, sizeof(v));

	memcpy(&v, in->at, len);
	in->at += len;
	in->left -= len;
	return v;
}

static inline struct fuzz_link *fuzz_of(const struct hal_link *link)
{
	return CONTAINER_OF(link, struct fuzz_link, hal);
}

static int fuzz_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		     unsigned n)
{
	struct fuzz_link *l = fuzz_of(link);

	fuzz_must(n <= link->caps.n_gather && f->len <= link->caps.frame_max);
	fuzz_must(hal_iov_size(iov, n) >= f->len);
	if (l->is_closed)
		return -EPIPE;
	if (l->is_full)
		return -EAGAIN;
	l->sent(l, f, iov);
	return 0;
}

static int fuzz_next(struct hal_link *link, struct hal_frame *ret_f)
{
	struct fuzz_link *l = fuzz_of(link);

	if (l->n == 0)
		return l->is_closed ? -EPIPE : 0;
	*ret_f = l->frames[0].f;
	return 1;
}

static unsigned char fuzz_byte(const struct fuzz_frame *f, size_t at)
{
	return at < f->n_head ? f->head[at] : (unsigned char)(f->first + at - f->n_head);
}

static size_t fuzz_copy(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	const struct fuzz_frame *f = &fuzz_of(link)->frames[0];
	size_t done = 0;

	fuzz_must(fuzz_of(link)->n > 0);
	for (unsigned i = 0; i < n; i++)
		for (size_t k = 0; k < iov[i].iov_len && done < f->f.len; k++)
			((unsigned char *)iov[i].iov_base)[k] = fuzz_byte(f, done++);
	return done;
}

static void fuzz_drop(struct hal_link *link)
{
	struct fuzz_link *l = fuzz_of(link);

	fuzz_must(l->n > 0);
	memmove(l->frames, l->frames + 1, --l->n * sizeof(l->frames[0]));
}

static bool fuzz_pending(const struct hal_link *link)
{
	return fuzz_of(link)->n > 0;
}

static bool fuzz_room(const struct hal_link *link)
{
	return !fuzz_of(link)->is_full;
}

static void fuzz_tell(struct hal_link *link, unsigned did)
{
	(void)link, (void)did;
}

static void fuzz_close(struct hal_link *link)
{
	fuzz_of(link)->is_closed = true;
}

static const struct hal_ops fuzz_ops = {
	.name = "fuzz",
	.version = HAL_VERSION,
	.send = fuzz_send,
	.next = fuzz_next,
	.copy = fuzz_copy,
	.drop = fuzz_drop,
	.put = hal_any_put,
	.take = hal_any_take,
	.progress = hal_no_progress,
	.pending = fuzz_pending,
	.room = fuzz_room,
	.backlog = hal_no_backlog,
	.flush = hal_no_flush,
	.tell = fuzz_tell,
	.close = fuzz_close,
};

/* Its peer is a new process, that psid calls so. */
static inline void fuzz_link_open(struct fuzz_link *l, uint32_t client,
				  void (*sent)(struct fuzz_link *, const struct hal_frame *,
					       const struct iovec *))
{
	*l = (struct fuzz_link){ .sent = sent };
	l->hal.ops = &fuzz_ops;
	l->hal.caps = (struct hal_caps){
		.name = "fuzz",
		.flags = HAL_ORDERED | HAL_RELIABLE | (client & 1 ? HAL_PRESENT : 0),
		.frame_max = FUZZ_FRAME_MAX,
		.frame_good = FUZZ_FRAME_MAX / 16,
		.n_gather = 16,
		.alignment = 1,
	};
	l->hal.costs = (struct hal_costs){ .nsec_frame = 100, .psec_in = 100, .psec_out = 100 };
	l->peer = peer_new(&l->hal, client);
	fuzz_must(l->peer != NULL);
}

static inline struct fuzz_frame *fuzz_say(struct fuzz_link *l, uint64_t word, unsigned protocol,
					  unsigned kind, uint32_t len)
{
	struct fuzz_frame *f = &l->frames[l->n++];

	*f = (struct fuzz_frame){
		.f = { .word = word,
		       .len = len,
		       .protocol = (uint16_t)protocol,
		       .kind = (uint16_t)kind },
	};
	return f;
}

/* The bytes count up: they are a piece of what was said, in order. */
static inline void fuzz_check_counting(const unsigned char *bytes, size_t len)
{
	for (size_t i = 1; i < len; i++)
		fuzz_must(bytes[i] == (unsigned char)(bytes[0] + i));
}

#endif
