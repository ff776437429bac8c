/*
 * A message to oneself goes straight to the handler: send() shows the frame, still in the sender's
 * buffers, to the owner (arrived) and is done when that has taken it. Nothing is copied here and
 * nothing is kept.
 *
 * The handler may answer on the same link before it returns. Then the answer lies on top of the
 * frame that it is still about, and is taken first: a stack, linked through the callers' own
 * frames. A frame that is not taken is a send without room (-EAGAIN).
 *
 * Source: pulc-1998, figure 8 (socket to oneself, 3.2 us: no transport is involved).
 */
#include "self.h"

#include <stdlib.h>
#include <string.h>

#include "macros.h"

#define N_DEEP 8u

struct in_flight {
	struct in_flight *below;
	struct hal_frame frame;
	const struct iovec *iov;
	unsigned n;
	bool taken;
};

struct hal_self {
	struct hal_link link;
	struct in_flight *top;
	unsigned n_deep;
};

static struct hal_self *of(const struct hal_link *link)
{
	return CONTAINER_OF(link, struct hal_self, link);
}

static int self_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		     unsigned n)
{
	struct hal_self *h = of(link);
	struct in_flight now = { .below = h->top, .frame = *f, .iov = iov, .n = n };

	if (f->len > link->caps.frame_max)
		return -EMSGSIZE;
	if (h->n_deep == N_DEEP)
		return -EAGAIN;
	h->top = &now;
	h->n_deep++;
	link->arrived(link, link->arg);
	h->n_deep--;
	h->top = now.below;
	return now.taken ? 0 : -EAGAIN;
}

static int self_next(struct hal_link *link, struct hal_frame *ret_f)
{
	const struct hal_self *h = of(link);

	if (!h->top || h->top->taken)
		return 0;
	*ret_f = h->top->frame;
	return 1;
}

static size_t copy_piece(const struct in_flight *from, size_t at, char *to, size_t len)
{
	size_t done = 0, piece;

	for (unsigned i = 0; i < from->n && done < len; i++) {
		if (at >= from->iov[i].iov_len) {
			at -= from->iov[i].iov_len;
			continue;
		}
		piece = MIN(from->iov[i].iov_len - at, len - done);
		memmove(to + done, (const char *)from->iov[i].iov_base + at, piece);
		done += piece;
		at = 0;
	}
	return done;
}

static size_t self_copy(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	const struct in_flight *from = of(link)->top;
	size_t done = 0, len;

	for (unsigned i = 0; i < n; i++) {
		len = MIN(iov[i].iov_len, (size_t)from->frame.len - done);
		done += copy_piece(from, done, iov[i].iov_base, len);
	}
	return done;
}

static void self_drop(struct hal_link *link)
{
	of(link)->top->taken = true;
}

static bool self_pending(const struct hal_link *link)
{
	(void)link;
	return false;
}

static int self_watch(struct hal_link *link, hal_watch watch, unsigned events)
{
	(void)link, (void)watch, (void)events;
	return 0;
}

static void self_unwatch(struct hal_link *link, hal_watch watch)
{
	(void)link, (void)watch;
}

static bool self_is_trusted(const struct hal_link *link, hal_watch watch)
{
	(void)link, (void)watch;
	return true;
}

static void self_tell(struct hal_link *link, unsigned did)
{
	(void)link, (void)did;
}

static bool self_peer_here(struct hal_link *link, uint32_t cpu)
{
	(void)link, (void)cpu;
	return false;
}

static void self_close(struct hal_link *link)
{
	free(of(link));
}

static const struct hal_ops ops = {
	.name = "self",
	.version = HAL_VERSION,
	.send = self_send,
	.reserve = hal_no_reserve,
	.commit = hal_no_commit,
	.cancel = hal_no_cancel,
	.next = self_next,
	.copy = self_copy,
	.drop = self_drop,
	.put = hal_any_put,
	.take = hal_any_take,
	.progress = hal_no_progress,
	.pending = self_pending,
	.room = self_pending,
	.backlog = hal_no_backlog,
	.flush = hal_no_flush,
	.watch = self_watch,
	.unwatch = self_unwatch,
	.is_trusted = self_is_trusted,
	.tell = self_tell,
	.fd = hal_no_fd,
	.peer_here = self_peer_here,
	.expose = hal_no_expose,
	.conceal = hal_no_conceal,
	.write = hal_no_write,
	.close = self_close,
	.forget = self_close,
};

int hal_self_open(struct hal_link **ret_link)
{
	struct hal_self *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->link.ops = &ops;
	h->link.costs = (struct hal_costs){ .nsec_frame = 50, .psec_in = 40, .psec_out = 40 };
	h->link.caps = (struct hal_caps){
		.name = ops.name,
		.flags = HAL_ORDERED | HAL_RELIABLE | HAL_IMMEDIATE | HAL_PRESENT,
		.frame_max = 1u << 20,
		.frame_good = 1u << 20,
		.n_gather = 16,
		.alignment = 1,
	};
	*ret_link = &h->link;
	return 0;
}
