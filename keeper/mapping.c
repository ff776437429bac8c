/*
 * The process mapping of PMI: blocks (first node, number of nodes, ranks on each), in the order of
 * ranks. Neighbouring ranks on one node make a run; runs of the same length on consecutive nodes
 * make a block. So a job placed in blocks needs one, and one dealt out in turn one for each round.
 */
#include "mapping.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cleanup.h"

#define NOWHERE UINT32_MAX

struct block {
	uint32_t node, n_nodes, n_ranks;
};

struct text {
	char *buf;
	size_t size, len;
};

static int print_block(struct text *text, const struct block *block)
{
	int n = snprintf(text->buf + text->len, text->size - text->len, ",(%u,%u,%u)", block->node,
			 block->n_nodes, block->n_ranks);

	if (n < 0 || (size_t)n >= text->size - text->len)
		return -EMSGSIZE;
	text->len += (size_t)n;
	return 0;
}

static int print_blocks(struct text *text, const uint32_t *nodes, uint32_t n)
{
	struct block block = { 0 };
	uint32_t length;
	int r;

	for (uint32_t rank = 0; rank < n; rank += length) {
		for (length = 1; rank + length < n && nodes[rank + length] == nodes[rank];)
			length++;
		if (block.n_nodes && length == block.n_ranks &&
		    nodes[rank] == block.node + block.n_nodes) {
			block.n_nodes++;
			continue;
		}
		r = block.n_nodes ? print_block(text, &block) : 0;
		if (r < 0)
			return r;
		block = (struct block){ nodes[rank], 1, length };
	}
	return print_block(text, &block);
}

int mapping_of_places(const Pulc__Job__Start *start, char *buf, size_t size)
{
	struct text text = { .buf = buf, .size = size };
	CLEANUP_FREE uint32_t *nodes = NULL;
	uint32_t n = 0;
	int r;

	for (size_t i = 0; i < start->n_places; i++)
		n += (uint32_t)start->places[i]->n_ranks;
	nodes = calloc(n + 1, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		nodes[i] = NOWHERE;
	for (size_t i = 0; i < start->n_places; i++)
		for (size_t j = 0; j < start->places[i]->n_ranks; j++)
			if (start->places[i]->ranks[j] < n)
				nodes[start->places[i]->ranks[j]] = (uint32_t)i;
	for (uint32_t i = 0; i < n; i++)
		if (nodes[i] == NOWHERE)
			return -EBADMSG;
	r = snprintf(buf, size, "(vector");
	text.len = (size_t)r;
	if ((size_t)r >= size || n == 0)
		return -EMSGSIZE;
	r = print_blocks(&text, nodes, n);
	if (r < 0)
		return r;
	if (text.len + 1 >= size)
		return -EMSGSIZE;
	buf[text.len] = ')';
	buf[text.len + 1] = '\0';
	return 0;
}
