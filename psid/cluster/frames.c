/*
 * What waits to be sent. Frames are packed one behind the other into chunks of memory, so that many
 * small messages cost few allocations and go out in few records; a message that is larger than
 * a chunk has one to itself.
 */
#include "frames.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "macros.h"

#define SIZE_CHUNK 16384u /* what one record of TLS holds */

struct psid_chunk {
	TAILQ_ENTRY(psid_chunk) link;
	size_t begin, end, room;
	uint8_t bytes[];
};

void psid_queue_init(struct psid_queue *queue)
{
	TAILQ_INIT(&queue->chunks);
	queue->size = 0;
}

static void drop_chunk(struct psid_queue *queue)
{
	struct psid_chunk *chunk = TAILQ_FIRST(&queue->chunks);

	TAILQ_REMOVE(&queue->chunks, chunk, link);
	free(chunk);
}

void psid_queue_deinit(struct psid_queue *queue)
{
	while (!TAILQ_EMPTY(&queue->chunks))
		drop_chunk(queue);
	queue->size = 0;
}

void psid_frame_head(uint8_t head[PSID_SIZE_FRAME_HEAD], size_t len)
{
	head[0] = (uint8_t)(len >> 24);
	head[1] = (uint8_t)(len >> 16);
	head[2] = (uint8_t)(len >> 8);
	head[3] = (uint8_t)len;
}

size_t psid_frame_size(const uint8_t head[PSID_SIZE_FRAME_HEAD])
{
	return (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
}

/* The last chunk if it has room for so much, else a new one. */
static struct psid_chunk *chunk_for(struct psid_queue *queue, size_t len)
{
	struct psid_chunk *chunk = TAILQ_LAST(&queue->chunks, psid_chunks);
	size_t room = MAX(len, (size_t)SIZE_CHUNK);

	if (chunk && chunk->room - chunk->end >= len)
		return chunk;
	if (!chunk && len < SIZE_CHUNK / 16)
		room = SIZE_CHUNK / 16; /* a message on its own, as most are */
	chunk = malloc(sizeof(*chunk) + room);
	if (!chunk)
		return NULL;
	chunk->begin = chunk->end = 0;
	chunk->room = room;
	TAILQ_INSERT_TAIL(&queue->chunks, chunk, link);
	return chunk;
}

int psid_queue_add(struct psid_queue *queue, const Pulc__Peer__Message *msg)
{
	size_t len = pulc__peer__message__get_packed_size(msg);
	struct psid_chunk *chunk = chunk_for(queue, PSID_SIZE_FRAME_HEAD + len);

	if (!chunk)
		return -ENOMEM;
	psid_frame_head(chunk->bytes + chunk->end, len);
	(void)pulc__peer__message__pack(msg, chunk->bytes + chunk->end + PSID_SIZE_FRAME_HEAD);
	chunk->end += PSID_SIZE_FRAME_HEAD + len;
	queue->size += PSID_SIZE_FRAME_HEAD + len;
	return 0;
}

const uint8_t *psid_queue_front(const struct psid_queue *queue, size_t *ret_len)
{
	const struct psid_chunk *chunk = TAILQ_FIRST(&queue->chunks);

	if (!chunk)
		return NULL;
	*ret_len = chunk->end - chunk->begin;
	return chunk->bytes + chunk->begin;
}

void psid_queue_drop(struct psid_queue *queue, size_t len)
{
	struct psid_chunk *chunk = TAILQ_FIRST(&queue->chunks);

	assert(chunk && len <= chunk->end - chunk->begin);
	chunk->begin += len;
	queue->size -= len;
	if (chunk->begin == chunk->end)
		drop_chunk(queue);
}

void psid_queue_append(struct psid_queue *to, struct psid_queue *from)
{
	TAILQ_CONCAT(&to->chunks, &from->chunks, link);
	to->size += from->size;
	from->size = 0;
}
