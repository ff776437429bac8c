/*
 * Keys and values in a hash table, and beside it, as pairs of strings each ended by 0, the news:
 * what was put here since the last collective, which is what the other nodes have not seen yet.
 */
#include "kvs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"

#define N_BUCKETS 1024u /* a few keys for each rank */

struct pair {
	struct pair *next;
	char *value;
	char key[];
};

struct kvs {
	struct pair *buckets[N_BUCKETS];
	char *news;
	size_t size_news, len_news;
};

/* FNV-1a. */
static size_t bucket_of(const char *key)
{
	uint32_t hash = 2166136261u;

	for (; *key; key++)
		hash = (hash ^ (unsigned char)*key) * 16777619u;
	return hash % N_BUCKETS;
}

struct kvs *kvs_new(void)
{
	return calloc(1, sizeof(struct kvs));
}

void kvs_free(struct kvs *kvs)
{
	struct pair *pair;

	if (!kvs)
		return;
	for (size_t i = 0; i < N_BUCKETS; i++)
		while ((pair = kvs->buckets[i])) {
			kvs->buckets[i] = pair->next;
			free(pair->value);
			free(pair);
		}
	free(kvs->news);
	free(kvs);
}

static struct pair *find(const struct kvs *kvs, const char *key)
{
	struct pair *pair = kvs->buckets[bucket_of(key)];

	while (pair && strcmp(pair->key, key) != 0)
		pair = pair->next;
	return pair;
}

static int store(struct kvs *kvs, const char *key, const char *value)
{
	struct pair *pair = find(kvs, key);
	char *copy = strdup(value);
	size_t len = strlen(key);

	if (!copy)
		return -ENOMEM;
	if (!pair) {
		struct pair **bucket = &kvs->buckets[bucket_of(key)];

		pair = malloc(sizeof(*pair) + len + 1);
		if (!pair) {
			free(copy);
			return -ENOMEM;
		}
		memcpy(pair->key, key, len + 1);
		pair->value = NULL;
		pair->next = *bucket;
		*bucket = pair;
	}
	free(pair->value);
	pair->value = copy;
	return 0;
}

static int append(struct kvs *kvs, const char *text)
{
	size_t len = strlen(text) + 1;

	if (kvs->size_news - kvs->len_news < len) {
		size_t size = 2 * kvs->size_news + len + 4096;
		char *news = realloc(kvs->news, size);

		if (!news)
			return -ENOMEM;
		kvs->news = news;
		kvs->size_news = size;
	}
	memcpy(kvs->news + kvs->len_news, text, len);
	kvs->len_news += len;
	return 0;
}

int kvs_put(struct kvs *kvs, const char *key, const char *value)
{
	int r;

	if (strlen(key) >= KVS_SIZE_KEY || strlen(value) >= KVS_SIZE_VALUE)
		return -EMSGSIZE;
	r = store(kvs, key, value);
	if (r == 0)
		r = append(kvs, key);
	if (r == 0)
		r = append(kvs, value);
	return r;
}

const char *kvs_get(const struct kvs *kvs, const char *key)
{
	const struct pair *pair = find(kvs, key);

	return pair ? pair->value : NULL;
}

const void *kvs_news(const struct kvs *kvs, size_t *ret_len)
{
	*ret_len = kvs->len_news;
	return kvs->news;
}

void kvs_flush(struct kvs *kvs)
{
	kvs->len_news = 0;
}

/* The string at *at, which moves behind it; NULL: it does not end. */
static const char *next_string(const char *bytes, size_t len, size_t *at)
{
	const char *text = bytes + *at, *end = memchr(text, '\0', len - *at);

	if (!end)
		return NULL;
	*at = (size_t)(end - bytes) + 1;
	return text;
}

int kvs_merge(struct kvs *kvs, const void *bytes, size_t len)
{
	size_t at = 0;

	while (at < len) {
		const char *key = next_string(bytes, len, &at);
		const char *value = key && at < len ? next_string(bytes, len, &at) : NULL;
		int r;

		if (!value || strlen(key) >= KVS_SIZE_KEY || strlen(value) >= KVS_SIZE_VALUE)
			return -EBADMSG;
		r = store(kvs, key, value);
		if (r < 0)
			return r;
	}
	return 0;
}
