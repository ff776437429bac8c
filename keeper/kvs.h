/* A space of keys and values, as PMI-1 has one for each job. */
#ifndef PULC_KEEPER_KVS_H
#define PULC_KEEPER_KVS_H

#include <stddef.h>
#include <stdint.h>

#define KVS_SIZE_KEY 64u
#define KVS_SIZE_VALUE 1024u

struct kvs;

/* NULL: no memory. */
struct kvs *kvs_new(void);
void kvs_free(struct kvs *kvs);
/* Replaces what was there. Returns 0, -ENOMEM, -EMSGSIZE: key or value too long. */
int kvs_put(struct kvs *kvs, const char *key, const char *value);
/* NULL: no such key. */
const char *kvs_get(const struct kvs *kvs, const char *key);

/* What was put since the last kvs_flush, encoded for others; the bytes are the kvs's until the next
 * put. */
const void *kvs_news(const struct kvs *kvs, size_t *ret_len);
void kvs_flush(struct kvs *kvs);
/* Puts what another kvs had as news, without it being news here. Returns 0, -ENOMEM, -EBADMSG. */
int kvs_merge(struct kvs *kvs, const void *bytes, size_t len);

#endif
