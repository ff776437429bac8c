/* A queue of frames: each a length of four bytes and a packed message. */
#ifndef PULC_PSID_FRAMES_H
#define PULC_PSID_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "peer.pb-c.h"

#define PSID_SIZE_FRAME_HEAD 4u

struct psid_chunk;

struct psid_queue {
	TAILQ_HEAD(psid_chunks, psid_chunk) chunks;
	size_t size; /* bytes that are queued */
};

void psid_queue_init(struct psid_queue *queue);
void psid_queue_deinit(struct psid_queue *queue);
static inline bool psid_queue_is_empty(const struct psid_queue *queue)
{
	return queue->size == 0;
}
/* Returns 0, -ENOMEM. */
int psid_queue_add(struct psid_queue *queue, const Pulc__Peer__Message *msg);
/* The first bytes that lie together, or NULL; they may begin within a frame. */
const uint8_t *psid_queue_front(const struct psid_queue *queue, size_t *ret_len);
/* The first len bytes, that psid_queue_front has shown, are done with. */
void psid_queue_drop(struct psid_queue *queue, size_t len);
/* Everything of from behind everything of to. */
void psid_queue_append(struct psid_queue *to, struct psid_queue *from);

void psid_frame_head(uint8_t head[PSID_SIZE_FRAME_HEAD], size_t len);
size_t psid_frame_size(const uint8_t head[PSID_SIZE_FRAME_HEAD]);

#endif
