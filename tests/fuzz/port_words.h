/* What is said of ways between ports: by the peers of port_frames.c, and by ours to them. */
#ifndef PULC_TESTS_FUZZ_PORT_WORDS_H
#define PULC_TESTS_FUZZ_PORT_WORDS_H

#include "fuzz_link.h"
#include "port.h"

/* Has struct port_about. */
static inline bool is_about(unsigned kind)
{
	return kind == PORT_BEGIN || kind == PORT_CREDIT || kind == PORT_REFUSED ||
	       kind == PORT_HOLD || kind == PORT_GO || kind == PORT_WANTS || kind == PORT_MAY;
}

/* What leaves makes sense. */
static inline void sent(struct fuzz_link *link, const struct hal_frame *f, const struct iovec *iov)
{
	(void)link;
	fuzz_must(f->protocol == PROTOCOL_PORT && f->kind <= PORT_MAY);
	if (f->kind == PORT_CLOSED)
		fuzz_must(f->len == 0);
	if (is_about(f->kind))
		fuzz_must(f->len == sizeof(struct port_about) && iov[0].iov_len == f->len &&
			  ((const struct port_about *)iov[0].iov_base)->life);
}

static inline struct fuzz_frame *say_about(struct fuzz_link *link, unsigned kind, uint64_t word,
					   struct port_about about)
{
	struct fuzz_frame *f = fuzz_say(link, word, PROTOCOL_PORT, kind, sizeof(about));

	f->n_head = sizeof(about);
	memcpy(f->head, &about, sizeof(about));
	return f;
}

#endif
