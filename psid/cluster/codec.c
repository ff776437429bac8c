/*
 * How the gossip's datagrams are written. By hand and not by protobuf: every node sends and gets
 * several of these a second as long as it lives, and each byte of them is one of the kilobyte that
 * an idle node may cost. docs/cluster.md has the tables.
 *
 * News ends where the datagram ends. A kind that is not known makes the rest unreadable; new kinds
 * need a new version of the gossip.
 */
#include "codec.h"

#include <string.h>

#include "macros.h"

#define SIZE_ID 6u
#define SIZE_LIFE 6u
#define FLAG_DRAINED 0x10u
#define FLAG_IPV4 0x20u
#define MASK_STATE 0x0fu

void psid_put(struct psid_writer *w, uint64_t value, size_t n)
{
	if (w->full || (size_t)(w->end - w->at) < n) {
		w->full = true;
		return;
	}
	while (n-- > 0)
		*w->at++ = (uint8_t)(value >> 8 * n);
}

static void put_bytes(struct psid_writer *w, const void *bytes, size_t n)
{
	if (w->full || (size_t)(w->end - w->at) < n) {
		w->full = true;
		return;
	}
	memcpy(w->at, bytes, n);
	w->at += n;
}

uint64_t psid_get(struct psid_reader *r, size_t n)
{
	uint64_t value = 0;

	if (r->bad || (size_t)(r->end - r->at) < n) {
		r->bad = true;
		return 0;
	}
	while (n-- > 0)
		value = value << 8 | *r->at++;
	return value;
}

static void get_bytes(struct psid_reader *r, void *ret_bytes, size_t n)
{
	if (r->bad || (size_t)(r->end - r->at) < n) {
		r->bad = true;
		memset(ret_bytes, 0, n);
		return;
	}
	memcpy(ret_bytes, r->at, n);
	r->at += n;
}

/* ---- load ------------------------------------------------------------------------------------ */

void psid_put_load(struct psid_writer *w, const struct psid_load *load)
{
	psid_put(w, load->number, 2);
	psid_put(w, load->centi_foreign, 2);
	psid_put(w, load->n_tasks, 2);
	psid_put(w, load->n_cpus, 2);
	psid_put(w, load->percent_memory, 1);
	put_bytes(w, load->percent_stall, sizeof(load->percent_stall));
	psid_put(w, load->rate, 1);
}

void psid_get_load(struct psid_reader *r, struct psid_load *ret_load)
{
	ret_load->number = (uint16_t)psid_get(r, 2);
	ret_load->centi_foreign = (uint16_t)psid_get(r, 2);
	ret_load->n_tasks = (uint16_t)psid_get(r, 2);
	ret_load->n_cpus = (uint16_t)psid_get(r, 2);
	ret_load->percent_memory = (uint8_t)psid_get(r, 1);
	get_bytes(r, ret_load->percent_stall, sizeof(ret_load->percent_stall));
	ret_load->rate = (uint8_t)psid_get(r, 1);
}

/* In units of 16 ms: a quarter of an hour fits, what is older is that old. */
static void put_aged_load(struct psid_writer *w, const struct psid_news *news)
{
	psid_put_load(w, &news->load);
	psid_put(w, MIN(news->msec_load / 16, 0xffffu), 2);
}

static void get_aged_load(struct psid_reader *r, struct psid_news *ret_news)
{
	psid_get_load(r, &ret_news->load);
	ret_news->msec_load = (uint32_t)psid_get(r, 2) * 16;
}

/* ---- a node ---------------------------------------------------------------------------------- */

static bool is_ipv4(const struct psid_address *address)
{
	static const uint8_t v4_mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(address->ip, v4_mapped, sizeof(v4_mapped)) == 0;
}

static void put_address(struct psid_writer *w, const struct psid_address *address)
{
	if (is_ipv4(address))
		put_bytes(w, address->ip + 12, 4);
	else
		put_bytes(w, address->ip, 16);
	psid_put(w, address->port, 2);
}

static void get_address(struct psid_reader *r, bool ipv4, struct psid_address *ret_address)
{
	if (ipv4) {
		memset(ret_address->ip, 0, 10);
		memset(ret_address->ip + 10, 0xff, 2);
		get_bytes(r, ret_address->ip + 12, 4);
	} else {
		get_bytes(r, ret_address->ip, 16);
	}
	ret_address->port = (uint16_t)psid_get(r, 2);
}

static void put_version(struct psid_writer *w, const struct psid_version *version)
{
	psid_put(w, version->major, 1);
	psid_put(w, version->minor, 1);
	psid_put(w, version->patch, 1);
}

static void get_version(struct psid_reader *r, struct psid_version *ret_version)
{
	ret_version->major = (uint8_t)psid_get(r, 1);
	ret_version->minor = (uint8_t)psid_get(r, 1);
	ret_version->patch = (uint8_t)psid_get(r, 1);
}

static void put_name(struct psid_writer *w, const char *name)
{
	size_t len = strlen(name);

	psid_put(w, len, 1);
	put_bytes(w, name, len);
}

static void get_name(struct psid_reader *r, char ret_name[PSID_SIZE_NAME])
{
	size_t len = (size_t)psid_get(r, 1);

	if (len >= PSID_SIZE_NAME) {
		r->bad = true;
		return;
	}
	get_bytes(r, ret_name, len);
	ret_name[len] = '\0';
	if (!psid_node_name_ok(ret_name, len))
		r->bad = true;
}

static void put_keys(struct psid_writer *w, const struct psid_news *news)
{
	psid_put(w, news->n_keys, 1);
	for (size_t i = 0; i < news->n_keys; i++)
		psid_put(w, news->keys[i], 4);
}

static void get_keys(struct psid_reader *r, struct psid_news *ret_news)
{
	size_t n = (size_t)psid_get(r, 1);

	if (n > WIRE_N_KEYS) {
		r->bad = true;
		return;
	}
	ret_news->n_keys = (uint8_t)n;
	for (size_t i = 0; i < n; i++)
		ret_news->keys[i] = (uint32_t)psid_get(r, 4);
}

static void put_node(struct psid_writer *w, const struct psid_news *news)
{
	unsigned flags = (news->drained ? FLAG_DRAINED : 0) |
			 (is_ipv4(&news->address) ? FLAG_IPV4 : 0);

	psid_put(w, flags | news->state, 1);
	put_name(w, news->name);
	psid_put(w, news->life, SIZE_LIFE);
	psid_put(w, news->incarnation, 4);
	put_address(w, &news->address);
	put_version(w, &news->version);
	put_keys(w, news);
	psid_put(w, news->n_cores, 2);
	psid_put(w, news->mib_memory, 4);
	psid_put(w, MIN(news->sec_state, 0xffffu), 2);
	put_aged_load(w, news);
}

static void get_node(struct psid_reader *r, struct psid_news *ret_news)
{
	unsigned flags = (unsigned)psid_get(r, 1);

	ret_news->state = (enum psid_node_state)(flags & MASK_STATE);
	ret_news->drained = flags & FLAG_DRAINED;
	get_name(r, ret_news->name);
	ret_news->life = psid_get(r, SIZE_LIFE);
	ret_news->incarnation = (uint32_t)psid_get(r, 4);
	get_address(r, flags & FLAG_IPV4, &ret_news->address);
	get_version(r, &ret_news->version);
	get_keys(r, ret_news);
	ret_news->n_cores = (uint16_t)psid_get(r, 2);
	ret_news->mib_memory = (uint32_t)psid_get(r, 4);
	ret_news->sec_state = (uint32_t)psid_get(r, 2);
	get_aged_load(r, ret_news);
	ret_news->id = r->bad ? 0 : psid_node_id(ret_news->name);
}

/* ---- news ------------------------------------------------------------------------------------ */

static void put_state(struct psid_writer *w, const struct psid_news *news)
{
	psid_put(w, news->state, 1);
	psid_put(w, news->id, SIZE_ID);
	psid_put(w, news->life, SIZE_LIFE);
	psid_put(w, news->incarnation, 4);
	psid_put(w, news->by, SIZE_ID);
}

static void get_state(struct psid_reader *r, struct psid_news *ret_news)
{
	ret_news->state = (enum psid_node_state)psid_get(r, 1);
	ret_news->id = psid_get(r, SIZE_ID);
	ret_news->life = psid_get(r, SIZE_LIFE);
	ret_news->incarnation = (uint32_t)psid_get(r, 4);
	ret_news->by = psid_get(r, SIZE_ID);
}

void psid_put_news(struct psid_writer *w, const struct psid_news *news)
{
	uint8_t *begin = w->at;

	if (w->full)
		return;
	psid_put(w, news->kind, 1);
	switch (news->kind) {
	case PSID_NEWS_LOAD:
		psid_put(w, news->id, SIZE_ID);
		put_aged_load(w, news);
		break;
	case PSID_NEWS_STATE:
		put_state(w, news);
		break;
	case PSID_NEWS_NODE:
		put_node(w, news);
		break;
	}
	if (w->full)
		w->at = begin;
}

bool psid_get_news(struct psid_reader *r, struct psid_news *ret_news)
{
	if (r->bad || r->at == r->end)
		return false;
	*ret_news = (struct psid_news){ .kind = (enum psid_news_kind)psid_get(r, 1) };
	switch (ret_news->kind) {
	case PSID_NEWS_LOAD:
		ret_news->id = psid_get(r, SIZE_ID);
		get_aged_load(r, ret_news);
		break;
	case PSID_NEWS_STATE:
		get_state(r, ret_news);
		break;
	case PSID_NEWS_NODE:
		get_node(r, ret_news);
		break;
	default:
		r->bad = true;
	}
	if (ret_news->kind != PSID_NEWS_LOAD &&
	    (ret_news->state < PSID_NODE_ALIVE || ret_news->state > PSID_NODE_LEFT))
		r->bad = true;
	return !r->bad;
}
