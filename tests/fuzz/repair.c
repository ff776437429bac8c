/*
 * The repair layer against any peer: the input is what the HAL below shows, between the steps of a
 * program that sends, takes and lets time pass. A frame that is shown is never larger than was
 * agreed, and no more than it is copied.
 *
 * Each step takes 4 bytes: what to do, how much, flags of the packet; and those that bring a packet
 * take its head and data besides.
 */
#include <stdlib.h>
#include <string.h>

#include "macros.h"
#include "repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_FRAME 128u

static struct hal_frame front;
static unsigned char payload[SIZE_FRAME];
static bool is_there, is_full, is_closed;
static uint64_t nsec;

static int below_send(struct hal_link *link, const struct hal_frame *f, const struct iovec *iov,
		      unsigned n)
{
	if (n > 1 || f->len > link->caps.frame_max || hal_iov_size(iov, n) < f->len)
		abort();
	return is_full ? -EAGAIN : 0;
}

static int below_next(struct hal_link *link, struct hal_frame *ret_f)
{
	(void)link;
	if (!is_there)
		return is_closed ? -EPIPE : 0;
	*ret_f = front;
	return 1;
}

static size_t below_copy(struct hal_link *link, const struct iovec *iov, unsigned n)
{
	size_t done = 0, len;

	(void)link;
	for (unsigned i = 0; i < n; i++, done += len) {
		len = MIN(iov[i].iov_len, front.len - done);
		memcpy(iov[i].iov_base, payload + done, len);
	}
	return done;
}

static void below_drop(struct hal_link *link)
{
	(void)link;
	is_there = false;
}

static bool below_pending(const struct hal_link *link)
{
	(void)link;
	return is_there;
}

static void below_close(struct hal_link *link)
{
	(void)link;
}

static const struct hal_ops below_ops = {
	.send = below_send,
	.next = below_next,
	.copy = below_copy,
	.drop = below_drop,
	.put = hal_any_put,
	.take = hal_any_take,
	.progress = hal_no_progress,
	.pending = below_pending,
	.room = below_pending,
	.backlog = hal_no_backlog,
	.flush = hal_no_flush,
	.close = below_close,
};

static uint64_t now(void *arg)
{
	(void)arg;
	return nsec;
}

static void take(struct hal_link *link, unsigned char *room, size_t len)
{
	size_t most = MIN(len, link->caps.frame_max);
	struct iovec iov = { room, most };
	struct hal_frame f;

	if (link->ops->next(link, &f) != 1)
		return;
	if (f.len > link->caps.frame_max ||
	    link->ops->copy(link, &iov, 1) != MIN(iov.iov_len, (size_t)f.len))
		abort();
	link->ops->drop(link);
}

static void step(struct hal_link *link, uint8_t what, size_t len, unsigned char *room)
{
	struct hal_frame f = { .len = (uint32_t)len };
	struct iovec iov = { room, len };

	nsec += 1ull << (what >> 3);
	switch (what & 7) {
	case 0:
	case 1:
		take(link, room, len);
		break;
	case 2:
		(void)link->ops->send(link, &f, &iov, 1);
		break;
	case 3:
		is_full = len & 1;
		break;
	case 4:
		is_closed = len == 255;
		break;
	default:
		(void)link->ops->progress(link);
		(void)link->ops->pending(link);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hal_repair_config config = { .nsec_now = now,
						  .n_slots = 16,
						  .nsec_dead = 1u << 30 };
	struct hal_link below = { .ops = &below_ops }, *link;
	unsigned char *room = calloc(1, 4096);
	uint32_t len;

	is_there = is_full = is_closed = false;
	nsec = 1;
	below.caps = (struct hal_caps){ .frame_max = SIZE_FRAME, .n_gather = 1, .alignment = 1 };
	if (size > 0 && (data[0] & 1))
		below.caps.flags = HAL_ORDERED | HAL_RELIABLE;
	if (!room || hal_repair_open(&below, &config, &link) < 0)
		abort();
	for (; size >= 4; data += 4, size -= 4) {
		step(link, data[0], data[1], room);
		if (is_there || data[2] == 0)
			continue;
		len = MIN(data[2] % (SIZE_FRAME + 1), (uint32_t)(size - 4));
		front = (struct hal_frame){ .len = len };
		memcpy(payload, data + 4, front.len);
		is_there = true;
		data += front.len;
		size -= front.len;
	}
	link->ops->close(link);
	free(room);
	return 0;
}
