/* What the files of the repair layer share. */
#ifndef PULC_HAL_REPAIR_PRIVATE_H
#define PULC_HAL_REPAIR_PRIVATE_H

#include <stdatomic.h>

#include "repair.h"

/* Before the data of every packet; little-endian. */
struct repair_head {
	uint32_t seq;	/* this packet's number; without REPAIR_DATA it means nothing */
	uint32_t ack;	/* all before this one have come */
	uint32_t limit; /* the first that there is no room for yet */
	uint32_t flags;
	uint64_t sack; /* bit i: ack + 1 + i has come too */
};
_Static_assert(sizeof(struct repair_head) == 24, "what travels has no holes");

#define REPAIR_DATA 1u
#define REPAIR_FIRST 2u /* the first packet of a frame: word, protocol and kind are its own */
#define REPAIR_LAST 4u
#define REPAIR_ASK 8u /* answer at once */
#define REPAIR_FLAGS 15u

#define REPAIR_SLOTS_LEAST 8u /* also what a sender may assume before the first answer */
#define REPAIR_SLOTS_MOST 4096u

struct repair_slot {
	uint64_t word;
	uint64_t nsec_sent;
	uint32_t len;
	uint32_t n_sent;
	uint16_t protocol, kind;
	uint8_t flags;
	bool full; /* sending: it has arrived there; receiving: it has arrived here */
};

/* Numbers are 64 bits inside, of which the lower half travels. Slot of a number: number & mask. */
struct hal_repair {
	struct hal_link link;
	struct hal_link *below;
	struct hal_repair_config config;
	bool reliable; /* and in order: packets need neither numbers nor answers */
	uint32_t mask;
	uint32_t size_data; /* of a packet at most */

	struct repair_slot *tx;
	unsigned char *tx_packets; /* head and data of each slot */
	uint64_t tx_first;	   /* the oldest that is not acknowledged */
	uint64_t tx_next;	   /* the next to be sent for the first time */
	uint64_t tx_end;	   /* behind the last */
	uint64_t tx_limit;	   /* the first that the peer has no room for */
	int tx_error;

	uint64_t nsec_smooth, nsec_varies, nsec_timeout; /* of answers */
	uint64_t nsec_asked;				 /* the last time without data in flight */
	uint64_t nsec_heard; /* the last sign of life, or when we began to wait for one */
	unsigned n_unheard;  /* repeats since then */
	unsigned n_doubled;  /* times the timeout, until an answer is measured */
	bool any_lost;	     /* look for packets that later ones have overtaken */

	struct repair_slot *rx;
	unsigned char *rx_data;
	uint64_t rx_first; /* the first that is not dropped: a frame begins with it */
	uint64_t rx_next;  /* the first that is missing */
	uint64_t rx_top;   /* behind the last that has come */
	uint64_t rx_scan;  /* as far as the frame at rx_first is known */
	uint32_t size_frame;
	bool ready; /* [rx_first, rx_scan) is a whole frame */
	int rx_error;
	uint64_t limit_told;
	bool ack_due, ack_urgent;

	/* For pending(), which is asked without the lock. */
	_Atomic bool hint;
	_Atomic uint64_t nsec_deadline;
	struct hal_repair_counts counts;
};

static inline uint64_t repair_now(const struct hal_repair *h)
{
	return h->config.nsec_now(h->config.arg);
}

static inline uint32_t repair_n_slots(const struct hal_repair *h)
{
	return h->mask + 1;
}

static inline unsigned char *repair_packet(const struct hal_repair *h, uint64_t seq)
{
	return h->tx_packets + (seq & h->mask) * (sizeof(struct repair_head) + h->size_data);
}

static inline unsigned char *repair_data(const struct hal_repair *h, uint64_t seq)
{
	return h->rx_data + (seq & h->mask) * h->size_data;
}

/* The first packet of all. High enough that no number of before it is negative. */
static inline uint64_t repair_begin(const struct hal_repair *h)
{
	return (1ull << 32) + h->config.seq_first;
}

/* What pending() answers until the next change. */
static inline void repair_hint(struct hal_repair *h)
{
	atomic_store_explicit(&h->hint, h->ready || h->rx_error || h->ack_due || h->any_lost,
			      memory_order_relaxed);
}

/* The number nearest to `near` whose lower half this is. */
static inline uint64_t repair_expand(uint64_t near, uint32_t low)
{
	return near + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)near);
}

/* repair_send.c. Puts a frame into the window. -EAGAIN: no room. */
int repair_queue(struct hal_repair *h, const struct hal_frame *f, const struct iovec *iov,
		 unsigned n);
/* Sends what has not been sent, as far as the peer has room and the HAL takes it. */
void repair_transmit(struct hal_repair *h);
/* Repeats what is lost, asks a silent peer, answers one that waits for it. */
void repair_maintain(struct hal_repair *h);
/* Everything unanswered once more, as far as the peer has room. */
void repair_last_words(struct hal_repair *h);
/* An answer, its fields in this machine's order. 0, -EBADMSG. */
int repair_take_ack(struct hal_repair *h, const struct repair_head *head);

/* repair_receive.c. Takes all that has come below; errors become rx_error. */
void repair_pull(struct hal_repair *h);
void repair_drop(struct hal_repair *h);
size_t repair_copy(const struct hal_repair *h, const struct iovec *iov, unsigned n);

#endif
