/*
 * Decoding in either direction with memory from the fixed arena: whatever the bytes, it fits or
 * it fails.
 */
#include <stdint.h>
#include <stdlib.h>

#include "channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wire_arena arena;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Pulc__Wire__FromClient *from;
	Pulc__Wire__ToClient *to;
	uint8_t *again;

	if (size > WIRE_SIZE_MAX)
		return 0;
	wire_arena_init(&arena);
	from = pulc__wire__from_client__unpack(&arena.allocator, size, data);
	if (from) { /* what was understood can be said */
		again = malloc(pulc__wire__from_client__get_packed_size(from) + 1);
		(void)pulc__wire__from_client__pack(from, again);
		free(again);
	}
	wire_arena_init(&arena);
	to = pulc__wire__to_client__unpack(&arena.allocator, size, data);
	if (to) {
		again = malloc(pulc__wire__to_client__get_packed_size(to) + 1);
		(void)pulc__wire__to_client__pack(to, again);
		free(again);
	}
	return 0;
}
