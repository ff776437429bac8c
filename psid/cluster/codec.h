/* Bytes of the gossip's datagrams, written and read within bounds. */
#ifndef PULC_PSID_CODEC_H
#define PULC_PSID_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node.h"

/* Once something did not fit, `full` is set and nothing more is written. */
struct psid_writer {
	uint8_t *at, *end;
	bool full;
};

/* Once something was missing or made no sense, `bad` is set and every value is 0. */
struct psid_reader {
	const uint8_t *at, *end;
	bool bad;
};

/* The n lowest bytes, the most significant first; n is 8 at most. */
void psid_put(struct psid_writer *w, uint64_t value, size_t n);
uint64_t psid_get(struct psid_reader *r, size_t n);

/* What is said about a node. */
enum psid_news_kind {
	PSID_NEWS_LOAD = 1,  /* its load */
	PSID_NEWS_STATE = 2, /* its state, for those who know the node */
	PSID_NEWS_NODE = 3,  /* everything */
};

struct psid_news {
	enum psid_news_kind kind;
	uint64_t id;
	/* of STATE and NODE */
	uint64_t life;
	uint32_t incarnation;
	enum psid_node_state state;
	uint64_t by; /* who says SUSPECT or DEAD; 0: not said */
	/* of NODE */
	bool drained;
	char name[PSID_SIZE_NAME];
	struct psid_address address;
	struct psid_version version;
	uint16_t n_cores;
	uint32_t mib_memory;
	uint32_t keys[WIRE_N_KEYS];
	uint8_t n_keys;
	uint32_t sec_state; /* for how long it has been in this state */
	/* of LOAD and NODE */
	struct psid_load load;
	uint32_t msec_load; /* how old that is */
};

#define PSID_SIZE_NEWS_MAX 160u

void psid_put_load(struct psid_writer *w, const struct psid_load *load);
void psid_get_load(struct psid_reader *r, struct psid_load *ret_load);
/* One piece of news; all of it, or nothing and `full`. */
void psid_put_news(struct psid_writer *w, const struct psid_news *news);
/* The next one. Returns false at the end, and when r is bad. */
bool psid_get_news(struct psid_reader *r, struct psid_news *ret_news);

#endif
