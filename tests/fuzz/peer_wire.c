/*
 * What a peer may send over its connection: the greeting that anybody can write, and messages,
 * decoded with no more memory than a multiple of their size.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "greeting.h"
#include "peer.pb-c.h"
#include "frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void greet(const uint8_t *data)
{
	static const struct psid_greeting ours = { .version_min = 1,
						   .version_max = 3,
						   .cluster = "lab" };
	static const struct psid_keyring ring = { .n = 2 };
	uint8_t again[PSID_SIZE_GREETING];
	struct psid_greeting theirs, back;
	char why[192];

	if (psid_greeting_unpack(data, &theirs) < 0)
		return;
	(void)psid_greeting_compare(&ours, &ring, &theirs, why, sizeof(why));
	psid_greeting_pack(&theirs, again);
	if (psid_greeting_unpack(again, &back) < 0 || strcmp(back.cluster, theirs.cluster) != 0)
		abort();
}

/* What was understood can be queued, and lies there in one piece. */
static void decode(const uint8_t *data, size_t size)
{
	Pulc__Peer__Message *msg = pulc__peer__message__unpack(NULL, size, data);
	struct psid_queue queue;
	const uint8_t *front;
	size_t len;

	if (!msg)
		return;
	psid_queue_init(&queue);
	if (psid_queue_add(&queue, msg) == 0) {
		front = psid_queue_front(&queue, &len);
		if (!front || psid_frame_size(front) + PSID_SIZE_FRAME_HEAD != len)
			abort();
	}
	psid_queue_deinit(&queue);
	pulc__peer__message__free_unpacked(msg, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= PSID_SIZE_GREETING)
		greet(data);
	decode(data, size);
	return 0;
}
