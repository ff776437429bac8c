/*
 * Tokens: the names under which this process's streams are known to psid. Numbers, given in order
 * and never twice, so that an answer that comes late finds its stream or nobody.
 */
#include "token.h"

#define N_BUCKETS 4096u
static LARGE struct pulc_stream *by_token[N_BUCKETS];

static struct pulc_stream **bucket_of(uint64_t token)
{
	return &by_token[token % N_BUCKETS];
}

struct pulc_stream *token_find(uint64_t token)
{
	struct pulc_stream *s = *bucket_of(token);

	while (s && s->token != token)
		s = s->hash_next;
	return s;
}

void token_register(struct pulc_stream *s)
{
	static uint64_t last;

	if (s->token)
		return;
	s->token = ++last;
	s->hash_next = *bucket_of(s->token);
	*bucket_of(s->token) = s;
}

USUAL void token_unregister(struct pulc_stream *s)
{
	struct pulc_stream **p = bucket_of(s->token);

	while (s->token && *p && *p != s)
		p = &(*p)->hash_next;
	if (s->token && *p)
		*p = s->hash_next;
	s->token = 0;
}
